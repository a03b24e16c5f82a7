package machine

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/cache"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// lostMember is the data of a member that was stopped, with a snapshot from before its last
// write. (One that is killed may not know any more that its last entries were committed, and
// --force-new-cluster drops those.)
type lostMember struct {
	t                     *testing.T
	tools, data, snapshot string
	log                   string // what the script asked of systemd
}

// pinned returns the version of a set of programs.
func pinned(t *testing.T, set string) string {
	t.Helper()
	version, err := build.Version(set)
	if err != nil {
		t.Fatal(err)
	}
	return version
}

// newLostMember runs etcd of a release that has been built, as one of three members of
// which only it is left. prefix is that of what API servers store.
func newLostMember(t *testing.T, version, prefix string) *lostMember {
	t.Helper()
	cached, err := cache.Dir()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	m := &lostMember{
		t: t, data: filepath.Join(dir, "etcd"), snapshot: filepath.Join(dir, "good.db"), log: filepath.Join(dir, "systemd"),
		tools: filepath.Join(cached, "components", "etcd-v"+version),
	}
	if _, err := os.Stat(filepath.Join(m.tools, "etcd")); err != nil || os.Geteuid() != 0 {
		testrun.Missing(t, "root, and a built etcd ", version)
	}
	out, err := exec.CommandContext(t.Context(), "sh", "-euc", `
cd "$1"
mkdir -p run etcd
cd run
"$2/etcd" --data-dir="$1/etcd" --listen-client-urls=unix://c:1 --advertise-client-urls=http://127.0.0.1:1 \
  --listen-peer-urls=unix://p:1 --log-level=error >log 2>&1 &
tools=$2
c() { "$tools/etcdctl" --endpoints=unix://c:1 "$@" 2>/dev/null; }
until c endpoint health >/dev/null; do sleep 0.1; done
c txn <<EOF

put $3/secrets/a/b k8s:enc:secretbox:v1:key1:abcdefghijklmnopqrstuvwxyz
put $3/secrets/a/c k8s
put $3/secrets/a/d k8s


EOF
c put "$3/configmaps/kube-system/kube-root-ca.crt" 'k8s:enc:secretbox:v1:key2:certificate, of the cluster'
c snapshot save "$1/good.db"
c put /registry/pods/late yes
kill $!
wait
`, "sh", dir, m.tools, prefix).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return m
}

// stage runs the script with more variables.
func (m *lostMember) stage(vars map[string]string) (Staged, error) {
	m.t.Helper()
	all := archiveVars(m.data, "cp1", 3)
	for name, value := range map[string]string{
		"key": "k1", "source": "s1", "snapshot": "", "commands": "", "environment": "", "tools": m.tools, "name": "cp1",
		"peer": "https://10.0.0.11:2380", "token": "prod-1", "bump": "auto", "quota": "8589934592", "reserve": "1000",
	} {
		all[name] = value
	}
	for name, value := range vars {
		all[name] = value
	}
	// Not on this computer: systemd's unit.
	stubs := fmt.Sprintf("systemctl() { echo \"$@\" >>%s; case $1 in show) echo loaded ;; esac; }\n", m.log)
	script := stagingScript(RestoreFunctions, stageScript)
	out, err := exec.CommandContext(m.t.Context(), "sh", "-euc",
		string(host.Assignments(all))+stubs+string(script)).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return Staged{}, errors.New(string(exit.Stderr))
	}
	if err != nil {
		m.t.Fatal(err)
	}
	return ReadStaged(string(out))
}

func (m *lostMember) systemd() string {
	text, _ := os.ReadFile(m.log) // none: it was asked nothing
	_ = os.Remove(m.log)
	return string(text)
}

// serves reads a key from the staged data.
func (m *lostMember) serves(key string) string {
	m.t.Helper()
	out, err := exec.CommandContext(m.t.Context(), "sh", "-euc", `
mkdir "$1/run"
cp -a "$2-archive/restoring" "$1/data"
cd "$1/run"
"$3/etcd" --data-dir="$1/data" --name=cp1 --listen-client-urls=unix://c:1 --advertise-client-urls=http://127.0.0.1:1 \
  --listen-peer-urls=unix://p:1 --log-level=error >log 2>&1 &
tools=$3 key=$4
c() { "$tools/etcdctl" --endpoints=unix://c:1 "$@" 2>/dev/null; }
until c endpoint health >/dev/null; do kill -0 $!; sleep 0.1; done
c get "$key" --print-value-only
c member list --write-out=simple
c endpoint status --write-out=fields | grep -E '"(Revision|ClusterID|MemberID)"'
kill $!
wait
`, "sh", m.t.TempDir(), m.data, m.tools, key).CombinedOutput()
	if err != nil {
		m.t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// TestStage stages the data of each source with each release of etcd, and refuses damaged
// ones without a trace.
func TestStage(t *testing.T) {
	for _, version := range []string{pinned(t, "etcd"), pinned(t, build.MinorBefore("etcd", 1))} {
		t.Run(version, func(t *testing.T) {
			m := newLostMember(t, version, "/registry")
			m.damaged(t)
			m.fromSnapshot(t)
			m.fromSurvivor(t)
		})
	}
}

// TestStageWithoutSpace stages data in which a member has the alarm NOSPACE: etcdctl calls such an etcd unhealthy, and
// it serves reads.
func TestStageWithoutSpace(t *testing.T) {
	for _, version := range []string{pinned(t, "etcd"), pinned(t, build.MinorBefore("etcd", 1))} {
		t.Run(version, func(t *testing.T) {
			m := newLostMember(t, version, "/registry")
			full := filepath.Join(filepath.Dir(m.data), "full.db")
			out, err := exec.CommandContext(t.Context(), "sh", "-euc", `
mkdir "$1/full"
cd "$1/full"
"$2/etcd" --data-dir="$3" --listen-client-urls=unix://c:1 --advertise-client-urls=http://127.0.0.1:1 \
  --listen-peer-urls=unix://p:1 --quota-backend-bytes=4096 --log-level=error >log 2>&1 &
tools=$2
c() { "$tools/etcdctl" --endpoints=unix://c:1 "$@" 2>&1; }
until c get health >/dev/null; do kill -0 $!; sleep 0.1; done
! c put /registry/pods/later no
c alarm list
! c endpoint health
c snapshot save "$4"
kill $!
wait
`, "sh", filepath.Dir(m.data), m.tools, m.data, full).CombinedOutput()
			if err != nil || !strings.Contains(string(out), "NOSPACE") {
				t.Fatalf("%v: %s", err, out)
			}
			for _, vars := range []map[string]string{
				{"kind": "snapshot", "snapshot": full}, {"kind": "member", "token": "prod-2"},
			} {
				staged, err := m.stage(vars)
				if err != nil {
					t.Fatalf("%v: %v", vars, err)
				}
				if staged.Revision != 4 {
					t.Errorf("%v: staged %+v", vars, staged)
				}
			}
		})
	}
}

// TestStageOfNewerRelease stages a snapshot of etcd with the minor version before. Neither etcdutl nor the older etcd
// refuses it: a snapshot has no cluster version, and etcd 3.5 ignores the storage version in it. So what counts is that
// the older etcd serves it, and that the newer one serves it after an upgrade.
func TestStageOfNewerRelease(t *testing.T) {
	newer := newLostMember(t, pinned(t, "etcd"), "/registry")
	older := newLostMember(t, pinned(t, build.MinorBefore("etcd", 1)), "/registry")
	older.snapshot = newer.snapshot
	older.fromSnapshot(t)
	older.tools = newer.tools
	if served := older.serves("/registry/secrets/a/b"); !strings.HasPrefix(served, "k8s:enc:secretbox") {
		t.Errorf("after an upgrade, it serves\n%s", served)
	}
}

// damaged refuses snapshots that are not whole.
func (m *lostMember) damaged(t *testing.T) {
	t.Helper()
	good, err := os.ReadFile(m.snapshot)
	if err != nil {
		t.Fatal(err)
	}
	flipped := append([]byte(nil), good...)
	flipped[len(flipped)/2] ^= 1
	for name, c := range map[string]struct {
		content []byte
		want    string
	}{
		"truncated": {good[:len(good)-1], "is incomplete"}, "flipped": {flipped, "is corrupt"},
		"without its hash": {good[:len(good)-32], "has no integrity hash"}, "empty": {nil, "has no integrity hash"},
		"hash of another": {append(append([]byte(nil), good[:len(good)-32]...), make([]byte, 32)...), "is corrupt"},
	} {
		bad := filepath.Join(t.TempDir(), "bad.db")
		if err := os.WriteFile(bad, c.content, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := m.stage(map[string]string{"kind": "snapshot", "snapshot": bad}); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := os.Stat(m.data + "-archive"); err == nil {
		t.Error("a refused snapshot has left something")
	}
	for want, vars := range map[string]map[string]string{
		"is not a file":         {"kind": "snapshot", "snapshot": "/none"},
		"not enough space":      {"kind": "snapshot", "snapshot": m.snapshot, "reserve": "4611686018427387904"},
		"cannot be restored":    {"kind": "snapshot", "snapshot": m.snapshot, "peer": "not a URL"},
		"has no data":           {"kind": "member", "data": m.data + "-none"},
		"fetch commands failed": {"kind": "fetch", "commands": "echo broken >&2; exit 4"},
	} {
		if _, err := m.stage(vars); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", vars, err, want)
		}
	}
}

func (m *lostMember) fromSnapshot(t *testing.T) {
	t.Helper()
	m.systemd()
	staged, err := m.stage(map[string]string{"kind": "snapshot", "snapshot": m.snapshot})
	if err != nil {
		t.Fatal(err)
	}
	if asked := m.systemd(); strings.Contains(asked, "etcd.service") {
		t.Errorf("the member was touched: %s", asked)
	}
	if staged.Token != "prod-1" || staged.Revision != 3 || staged.Peer != "https://10.0.0.11:2380" {
		t.Errorf("staged %+v", staged)
	}
	staged.reports(t)
	if now := time.Now().UnixMilli(); staged.Revision+staged.Bump < now-60000 || staged.Revision+staged.Bump > now {
		t.Errorf("revision %d grows by %d", staged.Revision, staged.Bump)
	}
	served := m.serves("/registry/secrets/a/b")
	id := staged.ID(specAt(t, "10.0.0.11"))
	for _, want := range []string{
		"k8s:enc:secretbox", fmt.Sprintf(`"MemberID" : %d`, id.Member), fmt.Sprintf(`"ClusterID" : %d`, id.Cluster),
		fmt.Sprintf(`"Revision" : %d`, staged.Revision+staged.Bump),
	} {
		if !strings.Contains(served, want) {
			t.Errorf("the staged data serves without %s:\n%s", want, served)
		}
	}
	if strings.Count(served, "started") != 1 {
		t.Errorf("the restored cluster has other members:\n%s", served)
	}
	fixed, err := m.stage(map[string]string{"kind": "snapshot", "snapshot": m.snapshot, "bump": "0"})
	if err != nil || fixed.Bump != 0 {
		t.Errorf("without a bump: %+v, %v", fixed, err)
	}
}

// TestStageEndsItsFetch: what a restore that fails or is interrupted fetches does not go on, and neither does what an
// earlier one has left.
func TestStageEndsItsFetch(t *testing.T) {
	m := newLostMember(t, pinned(t, "etcd"), "/registry")
	if _, err := m.stage(map[string]string{"kind": "fetch", "commands": "exit 4"}); err == nil {
		t.Fatal("commands that fail have fetched something")
	}
	const end = "stop etcd-restore-fetch.service\n"
	if asked := m.systemd(); asked != end+end {
		t.Errorf("with commands that fail, systemd was asked %q, once before it and once after it", asked)
	}
	if _, err := m.stage(map[string]string{"kind": "snapshot", "snapshot": m.snapshot}); err != nil {
		t.Fatal(err)
	}
	if asked := m.systemd(); !strings.HasPrefix(asked, end) {
		t.Errorf("before another source, systemd was asked %q", asked)
	}
}

// reports checks what is reported of the objects: how Secrets and ConfigMaps are encrypted, which are not, and the root
// certificate.
func (s Staged) reports(t *testing.T) {
	t.Helper()
	const ca = "k8s:enc:secretbox:v1:key2:certificate, of the cluster"
	if string(s.CA) != ca || len(s.Heads) != 2 || len(s.Samples) != 2 ||
		!strings.HasPrefix(string(s.Samples[0]), "k8s:enc:secretbox:v1:key1:") || string(s.Samples[1]) != ca ||
		!slices.Equal(s.Unencrypted, []string{"secrets"}) || s.Secrets != 3 || s.Sealed != 1 {
		t.Errorf("staged %+v", s)
	}
}

// TestStageOfAnotherPrefix: API servers may run with another --etcd-prefix. Their objects are looked for there.
func TestStageOfAnotherPrefix(t *testing.T) {
	m := newLostMember(t, pinned(t, "etcd"), "/other/prefix")
	staged, err := m.stage(map[string]string{"kind": "snapshot", "snapshot": m.snapshot})
	if err != nil {
		t.Fatal(err)
	}
	staged.reports(t)
}

// fromSurvivor keeps what is only in the log of a member, and leaves its data as it is. Once
// that data is archived, what was staged is used again.
func (m *lostMember) fromSurvivor(t *testing.T) {
	t.Helper()
	before := contentOf(t, m.data)
	staged, err := m.stage(map[string]string{"kind": "member", "token": "prod-2"})
	if err != nil {
		t.Fatal(err)
	}
	if asked := m.systemd(); !strings.Contains(asked, "stop etcd.service") || strings.Contains(asked, "start") {
		t.Errorf("systemd was asked %q", asked)
	}
	if staged.Revision != 4 {
		t.Errorf("staged %+v, without the last write", staged)
	}
	if served := m.serves("/registry/pods/late"); !strings.HasPrefix(served, "yes\n") {
		t.Errorf("the last write is lost:\n%s", served)
	}
	if contentOf(t, m.data) != before {
		t.Error("the survivor's data was changed")
	}
	if _, err := m.stage(map[string]string{"kind": "member", "bump": "none"}); err == nil ||
		!strings.HasSuffix(m.systemd(), "start --no-block etcd.service\n") {
		t.Errorf("after a failure (%v), the survivor was not started again", err)
	}
	staged, err = m.stage(map[string]string{"kind": "member", "token": "prod-3"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(m.data, "member"), m.data+".away"); err != nil {
		t.Fatal(err)
	}
	again, err := m.stage(map[string]string{"kind": "member", "token": "prod-4"})
	if err != nil || again.Token != staged.Token {
		t.Errorf("what was staged before the data was archived is not used again: %+v, %v", again, err)
	}
	if _, err := m.stage(map[string]string{"kind": "member", "key": "k2"}); err == nil {
		t.Error("what was staged for another restore is used")
	}
	m.replaced(t, staged)
}

// replaced: what was staged before the data was archived is the last copy in place. Another source, or a refusal, does
// not remove it, and only the data that is put in place ends it.
func (m *lostMember) replaced(t *testing.T, last Staged) {
	t.Helper()
	root := m.data + "-archive"
	is := func(what, want string) {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), "sh", "-euc", string(host.Assignments(archiveVars(m.data, "cp1", 3))+
			ArchiveFunctions+StagedQuestion)).Output()
		if got := strings.Join(strings.Fields(string(out)), " "); err != nil || got != want {
			t.Errorf("%s: staged are %q, %v; want %q", what, got, err, want)
		}
	}
	is("after a source that failed", "k1 s1")
	again := func(what, key string, vars map[string]string) Staged {
		t.Helper()
		vars["key"], vars["source"] = key, "s"+key[1:]
		got, err := m.stage(vars)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		return got
	}
	snapshot := func() map[string]string { return map[string]string{"kind": "snapshot", "snapshot": m.snapshot} }
	if got := again("another source", "k2", snapshot()); got.Reused || got.Revision != 3 {
		t.Errorf("another source: %+v", got)
	}
	is("after another source", "k2 s2 k1 s1")
	if got := again("the other source again", "k2", snapshot()); !got.Reused {
		t.Errorf("the other source again: %+v", got)
	}
	if got := again("a third source", "k3", snapshot()); got.Reused {
		t.Errorf("a third source: %+v", got)
	}
	is("after a third source", "k3 s3 k1 s1")
	m.restores(t, stagingScript(dropScript))
	is("after the third was refused", "k1 s1")
	again("another source", "k2", snapshot())
	if got := again("the first source again", "k1", map[string]string{"kind": "member"}); !got.Reused ||
		got.Token != last.Token {
		t.Errorf("the first source again: %+v", got)
	}
	is("after the first source again", "k1 s1")
	if got := again("without the content of its file", "s1", map[string]string{"kind": "file"}); !got.Reused {
		t.Errorf("without the content of its file: %+v", got)
	}
	again("another source", "k2", snapshot())
	if err := os.Rename(filepath.Join(root, "restoring"), filepath.Join(root, "restoring.gone")); err != nil {
		t.Fatal(err)
	}
	if got := again("after a cut between two renames", "k1", map[string]string{"kind": "member"}); !got.Reused {
		t.Errorf("after a cut between two renames: %+v", got)
	}
	again("another source", "k2", snapshot())
	m.restores(t, placeScript)
	if _, err := os.Stat(filepath.Join(m.data, "member")); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(root, "restoring*")); len(left) != 1 { // restoring.gone
		t.Errorf("when the data is in place, there are %q", left)
	}
}

// restores runs a script of a restore. The test's computer has no user etcd.
func (m *lostMember) restores(t *testing.T, script host.Script) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "sh", "-euc", string(host.Assignments(archiveVars(m.data, "cp1", 3))+
		"systemctl() { :; }\nchown() { :; }\n"+ArchiveFunctions+script)).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func contentOf(t *testing.T, dir string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "sh", "-euc", `cd "$1"; find . -type f | sort | xargs sha256sum`, "sh",
		dir).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestStageFollowsNoLink: nothing is started with data of a survivor that contains links, also ones that are made until
// etcd is stopped.
func TestStageFollowsNoLink(t *testing.T) {
	t.Parallel()
	for planted, plant := range map[string]string{
		"the database":  `ln -s "$outside" "$data/member/snap/db"`,
		"the directory": `mv "$data/member" "$data/taken"; ln -s taken "$data/member"`,
		"a pipe":        `mkfifo "$data/member/wal/0.wal"`,
	} {
		for _, when := range []string{"before", "meanwhile"} {
			t.Run(planted+", "+when, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				vars := archiveVars(dir+"/etcd", "cp1", 3)
				for _, name := range []string{
					"source", "snapshot", "commands", "environment", "name", "peer", "token", "quota",
				} {
					vars[name] = ""
				}
				vars["kind"], vars["key"], vars["bump"], vars["reserve"] = "member", "k1", "auto", "0"
				vars["tools"], vars["outside"], vars["log"] = dir+"/bin", dir+"/outside", dir+"/log"
				planted, stop := plant, ":"
				if when == "meanwhile" {
					planted, stop = ":", plant
				}
				setUp := `mkdir -p "$data/member/snap" "$data/member/wal" "$tools"
printf '#!/bin/sh\necho etcd >>%s\n' "$log" >"$tools/etcd"
printf '#!/bin/sh\n' >"$tools/etcdctl"
chmod +x "$tools/etcd" "$tools/etcdctl"
systemctl() {
  echo "$1" >>"$log"
  case $1 in show) echo loaded ;; stop) if [ "$2" = etcd.service ]; then ` + stop + `; fi ;; esac
}
` + planted + "\n"
				script := host.Assignments(vars) + host.Script(setUp) + stagingScript(RestoreFunctions, stageScript)
				out, err := exec.CommandContext(t.Context(), "sh", "-euc", string(script)).CombinedOutput()
				if err == nil || !strings.Contains(string(out), "etcd makes none") {
					t.Errorf("%v: %s", err, out)
				}
				asked, err := os.ReadFile(dir + "/log")
				want := "stop\n" // of what still fetches a snapshot
				if when == "meanwhile" {
					want += "show\nstop\nstop\nstop\nstart\n"
				} else {
					want += "stop\n"
				}
				if err != nil || string(asked) != want {
					t.Errorf("%v: it did %q, want %q", err, asked, want)
				}
				if _, err := os.Stat(dir + "/etcd-archive"); !os.IsNotExist(err) {
					t.Errorf("something is left: %v", err)
				}
			})
		}
	}
}
