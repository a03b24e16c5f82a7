package machine

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/release"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/node"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
	"github.com/kubequorum/terraform-provider-kube/internal/timer"
)

// testID is the cluster of the members in these tests.
const testID = "id-of-prod"

// specAt returns a member at an address.
func specAt(t *testing.T, address string) Spec {
	t.Helper()
	pool, err := host.NewPool(host.Config{})
	if err != nil {
		t.Fatal(err)
	}
	h := pool.Host(host.Target{Address: address})
	return Spec{
		Name: "cp1", Host: h, Version: "3.6.16",
		Bundle: &pki.Bundle{ClusterID: testID, ClusterName: "prod", EtcdCA: pki.KeyPair{Certificate: "the CA"}},
	}
}

func TestRenderUnit(t *testing.T) {
	s := specAt(t, "10.0.0.11")
	s.ExtraArgs = map[string]string{"quota-backend-bytes": "8589934592", "log-format": `odd "100%" $HOME \ value`}
	unit := renderUnit(s)
	for _, want := range []string{
		"\nAssertPathExists=|/var/lib/etcd/member\nAssertPathExists=|/etc/etcd/bootstrap.env\n",
		"\nEnvironmentFile=-/etc/etcd/bootstrap.env\n",
		"\nExecStart=/opt/kube/etcd/3.6.16/etcd \\\n  --advertise-client-urls=https://10.0.0.11:2379 \\\n",
		"\n  --listen-client-urls=https://127.0.0.1:2379,https://10.0.0.11:2379 \\\n",
		"\n  --feature-gates=InitialCorruptCheck=true \\\n",
		"\nReadWritePaths=/var/lib/etcd\n",
	} {
		if !strings.Contains(unit, want) {
			t.Errorf("the unit lacks %q:\n%s", want, unit)
		}
	}
	if strings.Contains(unit, "initial-cluster") {
		t.Error("a flag says how the cluster is formed: a change of peers would restart the member")
	}
	command, _, _ := systemd.ParseUnit(unit)
	if command.Program != "/opt/kube/etcd/3.6.16/etcd" || !maps.Equal(command.Flags, ServerFlags(s)) {
		t.Errorf("read back as %+v", command)
	}
}

func TestFlagsOfVersions(t *testing.T) {
	s := specAt(t, "2001:db8::1")
	s.Version = "3.5.35"
	old := ServerFlags(s)
	if old["experimental-initial-corrupt-check"] != "true" || old["feature-gates"] != "" {
		t.Errorf("flags of 3.5: %v", old)
	}
	if got := old["advertise-client-urls"]; got != "https://[2001:db8::1]:2379" {
		t.Errorf("IPv6 address became %s", got)
	}
}

func TestFlagsAndWhatTheUserSets(t *testing.T) {
	for _, c := range []struct {
		name, version string
		extra, want   map[string]string // want "" is a flag that is not set
	}{
		{"nothing", "3.6.16", nil, map[string]string{
			"feature-gates": "InitialCorruptCheck=true", "quota-backend-bytes": "8589934592",
			"auto-compaction-mode": "periodic", "auto-compaction-retention": "1h",
		}},
		{
			"another gate", "3.6.16",
			map[string]string{"feature-gates": "LeaseCheckpoint=true"},
			map[string]string{"feature-gates": "InitialCorruptCheck=true,LeaseCheckpoint=true"},
		},
		{
			"the same gate", "3.7.3",
			map[string]string{"feature-gates": "LeaseCheckpoint=true, InitialCorruptCheck=false"},
			map[string]string{"feature-gates": "LeaseCheckpoint=true,InitialCorruptCheck=false"},
		},
		{
			"the gate by its old name", "3.6.16",
			map[string]string{"experimental-initial-corrupt-check": "false"},
			map[string]string{"feature-gates": "", "experimental-initial-corrupt-check": "false"},
		},
		{"the old name beside another gate", "3.6.16", map[string]string{
			"experimental-initial-corrupt-check": "false",
			"feature-gates":                      "LeaseCheckpoint=true",
		}, map[string]string{"feature-gates": "LeaseCheckpoint=true"}},
		{
			"a version that knows no gates", "3.5.35",
			map[string]string{"experimental-initial-corrupt-check": "false"},
			map[string]string{"feature-gates": "", "experimental-initial-corrupt-check": "false"},
		},
		{"a quota", "3.5.35", map[string]string{"quota-backend-bytes": "1"}, map[string]string{"quota-backend-bytes": "1"}},
		{
			"a retention alone", "3.6.16",
			map[string]string{"auto-compaction-retention": "5"},
			map[string]string{"auto-compaction-mode": "", "auto-compaction-retention": "5"},
		},
		{
			"a mode alone", "3.6.16",
			map[string]string{"auto-compaction-mode": "revision"},
			map[string]string{"auto-compaction-mode": "revision", "auto-compaction-retention": ""},
		},
	} {
		s := specAt(t, "10.0.0.11")
		s.Version, s.ExtraArgs = c.version, c.extra
		have := ServerFlags(s)
		for flag, want := range c.want {
			if value, there := have[flag]; value != want || there != (want != "") {
				t.Errorf("%s: --%s=%q (%v), want %q", c.name, flag, value, there, want)
			}
		}
	}
}

// TestListeners: probes and API servers on the machine find the member, whatever the user sets.
func TestListeners(t *testing.T) {
	for _, c := range []struct{ address, extra, metrics, clients string }{
		{"10.0.0.11", "", "http://127.0.0.1:2381", "https://127.0.0.1:2379,https://10.0.0.11:2379"},
		{
			"10.0.0.11", "http://10.0.0.11:2381", "http://10.0.0.11:2381,http://127.0.0.1:2381",
			"https://127.0.0.1:2379,https://10.0.0.11:2379",
		},
		{
			"fd00::11", "http://[::]:2381", "http://[::]:2381",
			"https://127.0.0.1:2379,https://[::1]:2379,https://[fd00::11]:2379",
		},
	} {
		s := specAt(t, c.address)
		if c.extra != "" {
			s.ExtraArgs = map[string]string{release.MetricsURLsFlag: c.extra}
		}
		have := ServerFlags(s)
		if have[release.MetricsURLsFlag] != c.metrics || have["listen-client-urls"] != c.clients {
			t.Errorf("%s, %q: listens at %s and %s", c.address, c.extra, have[release.MetricsURLsFlag],
				have["listen-client-urls"])
		}
	}
}

func TestEnvironment(t *testing.T) {
	text := Environment("id", "new", map[string]string{"cp2": "https://b:2380", "cp1": "https://a:2380"})
	want := "ETCD_INITIAL_CLUSTER=cp1=https://a:2380,cp2=https://b:2380\n" +
		"ETCD_INITIAL_CLUSTER_STATE=new\nETCD_INITIAL_CLUSTER_TOKEN=id\n"
	if text != want {
		t.Errorf("environment is %q", text)
	}
	facts := host.Facts{Files: map[string]host.FileState{layout.EnvPath: {Content: text}}}
	f := Interpret("cp1", "a", layout.DefaultDataDir, facts, nil)
	if !f.Pending || !f.New || strings.Join(f.Initial, " ") != "cp1 cp2" {
		t.Errorf("read back as %+v", f)
	}
}

func TestDigestFollowsTheSpec(t *testing.T) {
	s := specAt(t, "10.0.0.11")
	digest := WantedDigest(s)
	s.OnDestroy = Wipe
	if WantedDigest(s) != digest {
		t.Error("the digest depends on what is not on the machine")
	}
	s.ExtraArgs = map[string]string{"max-txn-ops": "256"}
	if WantedDigest(s) == digest {
		t.Error("the digest misses a flag")
	}
}

func TestScripts(t *testing.T) {
	for _, c := range []struct {
		name        string
		action      Action
		want, never []string
	}{
		{"nothing", Action{}, nil, []string{"systemctl"}},
		{"start", Action{Verb: Start}, []string{"\nmember_stop\nmember_start\n"}, []string{
			"\nrm ",
			"timer",
		}},
		{
			"start, with the manifest of kubeadm",
			Action{Verb: Start, Returns: true},
			[]string{"\nmember_stop\nmember_return\n"},
			[]string{"\nmember_start\n"},
		},
		{"pause", Action{Verb: Pause}, []string{"\nmember_pause\n"}, []string{"\nmember_start\n"}},
		{"resume", Action{Verb: Resume}, []string{"\nmember_resume\n"}, []string{"\nmember_return\n"}},
		{
			"start, with a timer",
			Action{Verb: Start, Timers: snapshot.Member{}.Job().Script(timer.On)},
			[]string{"member_start\nsystemctl restart etcd-snapshot.timer\n"},
			[]string{"\nrm "},
		},
		{
			"no timer any more",
			Action{Timers: snapshot.Member{}.Job().Script(timer.Off)},
			[]string{"systemctl stop etcd-snapshot.timer etcd-snapshot.service"},
			[]string{"systemctl stop etcd.service"},
		},
		{
			"retire",
			Action{Verb: Retire, DataDir: "/var/lib/etcd", Member: "cp1", Keep: 7},
			[]string{"data=/var/lib/etcd\nkept=7\nmember=cp1\n", "\narchive\n", "rm -f -- /etc/etcd/bootstrap.env"},
			[]string{"\nwipe\n", "userdel"},
		},
		{"clear, archived", Action{Verb: Clear, DataDir: "/var/lib/etcd", Member: "cp1", Keep: 5}, []string{
			"\narchive\n",
			"for user in etcd;",
		}, []string{"\nwipe\n"}},
		{
			"clear, wiped",
			Action{Verb: Clear, DataDir: "/var/lib/etcd", Member: "cp1", Keep: 5, Wipe: true},
			[]string{"data=/var/lib/etcd\n", "\nwipe\n"},
			[]string{"\narchive\n"},
		},
		{
			"snapshot",
			Action{Verb: SaveSnapshot, Save: snapshot.Save{
				Dir: "/a", File: "x.db", ClientURL: "https://10.0.0.11:2379",
				Tools: "/opt/kube/etcd/3.6.16", Keep: 3,
			}},
			[]string{
				"tools=/opt/kube/etcd/3.6.16\n", "endpoint=https://10.0.0.11:2379\n", "dir=/a\n", "file=x.db\n",
				`snapshot save "$file.part"`, `etcdutl" snapshot status "$file.part"`, "keep=3\n",
				`grep -vxF -- "$file" | sort -r | tail -n "+$keep"`,
			},
			[]string{"systemctl"},
		},
	} {
		script := whole(c.action)
		for _, want := range c.want {
			if !strings.Contains(script, want) {
				t.Errorf("%s lacks %q:\n%s", c.name, want, script)
			}
		}
		for _, never := range c.never {
			if strings.Contains(script, never) {
				t.Errorf("%s has %q:\n%s", c.name, never, script)
			}
		}
	}
	// Older snapshots are removed only after the new one is verified and in place.
	script := string(Action{Verb: SaveSnapshot, Save: snapshot.Save{
		Dir: "/a", File: "x.db", Tools: "/t",
		Keep: 1,
	}}.script())
	if verified, placed, pruned := strings.Index(script, "snapshot status"), strings.Index(script, "mv -fT"),
		strings.Index(script, "sort -r"); verified < 0 || placed < verified || pruned < placed {
		t.Errorf("the order is wrong:\n%s", script)
	}
	if kept := string(
		(Action{Verb: SaveSnapshot, Save: snapshot.Save{Dir: "/a", File: "x.db", Tools: "/t"}}).script()); strings.Contains(
		kept, "sort -r") {
		t.Error("the last snapshot of a cluster removes others")
	}
	// A timer of another party with that name is not changed.
	for _, v := range []Verb{Retire, Clear} {
		script := string(Action{Verb: v, DataDir: "/d"}.script())
		guarded := false
		for line := range strings.Lines(script) {
			guarded = guarded && line != "fi\n" || strings.HasPrefix(line, "if grep -qsxF '"+systemd.Managed+"' "+
				snapshot.TimerPath)
			if !guarded && strings.Contains(line, "etcd-snapshot") {
				t.Errorf("verb %d has without a guard: %s", v, line)
			}
		}
	}
	// Data is removed only after the unit has stopped.
	script = string(Action{Verb: Clear, DataDir: "/d", Wipe: true}.script())
	if strings.Index(script, "\nmember_stop_for_good\n") > strings.Index(script, "\nwipe\n") {
		t.Error("data is removed before the unit is stopped")
	}
}

// whole returns the script of an action as it is sent to the machine.
func whole(a Action) string { return string(host.Assignments(a.vars()) + a.script()) }

func TestQuota(t *testing.T) {
	for text, want := range map[string]int64{"": release.DefaultQuota, "0": release.DefaultQuota, "-1": -1, "4096": 4096} {
		if got := (Spec{ExtraArgs: map[string]string{release.QuotaFlag: text}}).Quota(); got != want {
			t.Errorf("quota %q: %d", text, got)
		}
	}
	if got := (Spec{}).Quota(); got != defaultQuota {
		t.Errorf("without the flag: %d", got)
	}
}

func TestProviderFlagsAreKnownToEveryRelease(t *testing.T) {
	for _, version := range release.ReadFrom {
		s := specAt(t, "10.0.0.11")
		s.Version = version
		flags := ServerFlags(s)
		for _, wrong := range release.ValidateKnown(version, flags) {
			t.Errorf("%s: %v", version, wrong)
		}
		minor, _, err := release.Parse(version)
		if err != nil {
			t.Fatal(err)
		}
		if minor >= 6 && (flags[release.GatesFlag] != strings.Join(release.GatesOf(nil), ",") ||
			flags[release.ProgressFlag] == "") {
			t.Errorf("%s: the provider's own flags are not those that an old name is held against: %v", version, flags)
		}
	}
}

// establishedOn returns a machine with an established member made by a bundle.
func establishedOn(t *testing.T, s Spec) Observed {
	t.Helper()
	f := Observed{Name: s.Name, Address: s.Host.Address()}
	c, err := Certificates(s, f, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	change, _ := NewMemberChange(s, f, c, ID{Member: membership.StaticMemberID(s.PeerURL(), s.Bundle.ClusterID)}, "")
	change.Files = slices.DeleteFunc(change.Files, func(file host.File) bool { return file.Path == layout.EnvPath })
	return f.After(s, change)
}

// TestRecordGoesLast: while a kubelet has to be removed after a member, all of its directory goes but the record.
func TestRecordGoesLast(t *testing.T) {
	unit, pod, installing := specAt(t, "10.0.0.1"), specAt(t, "10.0.0.1"), specAt(t, "10.0.0.1")
	pod.Runtime, installing.Runtime, installing.InstallKubelet = StaticPod, StaticPod, &node.Wanted{}
	for _, s := range []Spec{unit, pod, installing} {
		if q := Query(s); !slices.Contains(slices.Concat(q.Files, q.Contents), node.RecordPath) {
			t.Errorf("%q: the machine is not asked for %s", s.Runtime, node.RecordPath)
		}
		for _, installed := range []bool{true, false} {
			f := Observed{Facts: host.Facts{Files: map[string]host.FileState{}}}
			if installed {
				f.Facts.Files[node.RecordPath] = host.FileState{}
			}
			if a := s.ClearAction(f, false); f.HasNode() != installed || a.KeepRecord != installed {
				t.Errorf("%q, installed %t: the record is kept: %t", s.Runtime, installed, a.KeepRecord)
			}
		}
	}
	if script := whole(Action{Verb: Clear, DataDir: "/d", KeepRecord: true}); strings.Contains(script,
		string(forgetScript())) || !strings.Contains(script, string(keepRecordScript)) {
		t.Errorf("the record does not stay:\n%s", script)
	}
	dir := t.TempDir()
	for _, name := range []string{layout.RecordPath, layout.PodPath, layout.Inherited + "/etcd.yaml"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(dir+name), 0o755), os.WriteFile(dir+name, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		script := strings.ReplaceAll(string(keepRecordScript), layout.ConfigDir, dir+layout.ConfigDir)
		if out, err := exec.CommandContext(t.Context(), "sh", "-euc", script).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		left, err := filepath.Glob(dir + layout.ConfigDir + "/*")
		if err != nil || !slices.Equal(left, []string{dir + layout.RecordPath}) {
			t.Errorf("left: %q, %v", left, err)
		}
	}
}
