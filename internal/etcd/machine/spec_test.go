package machine

import (
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/etcdtest"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

func TestValidate(t *testing.T) {
	for name, want := range map[string]string{
		"cp1": "", "a": "", "cp-1": "", "": "DNS name", "Cp1": "DNS name", "cp1-": "DNS name",
		"a,b=c": "DNS name", strings.Repeat("a", 64): "DNS name", strings.Repeat("a", 63): "",
		"cp1.example.com": "", "ip-10-0-0-1.ec2.internal": "", "cp1.": "DNS name", ".cp1": "DNS name", "a..b": "DNS name",
		"cp1.-a": "DNS name", "10.0.0.11": "DNS name", "..": "DNS name", "1": "", "cp1.part": "",
		"restoring": "is reserved", "restoring.example.com": "is reserved", "restoring-1": "",
		strings.Repeat("a", 60) + ".com": "", strings.Repeat("a", 61) + ".com": "DNS name",
	} {
		etcdtest.WantError(t, "name "+name, ValidateName(name), want)
	}
	for version, want := range map[string]string{
		"3.6.16": "", "3.5.26": "", "3.7.0": "", "v3.6.16": "malformed",
		"3.6": "malformed", "4.0.0": "malformed", "3.4.1": "not supported", "3.8.0": "not supported",
	} {
		etcdtest.WantError(t, "version "+version, release.ValidateVersion(version), want)
	}
	for step, want := range map[string]string{
		"3.6.1 3.6.16": "", "3.6.16 3.6.1": "", "3.5.26 3.6.0": "",
		"3.5.25 3.6.0": "3.5.26 or later", "3.5.35 3.7.0": "3.6 first", "3.6.0 3.5.35": "older",
		"3.6.10 3.7.0": "3.6.11 or later", "3.6.11 3.7.0": "",
	} {
		from, to, _ := strings.Cut(step, " ")
		etcdtest.WantError(t, step, release.ValidateUpgrade(from, to), want)
	}
	for dir, want := range map[string]string{
		"/var/lib/etcd": "", "/data/etcd": "", "/var/lib": "shared",
		"/data": "shared", "etcd": "absolute", "/var/lib/../etcd": "absolute", "/var/lib/e tcd": "characters",
		"/": "shared",
	} {
		etcdtest.WantError(t, "dir "+dir, ValidateDataDir(dir), want)
	}
	for arg, want := range map[string]string{
		"quota-backend-bytes": "", "listen-metrics-urls": "", "--quota": "without leading dashes", "name": "provider",
		"initial-cluster-token": "how the cluster is bootstrapped",
		"discovery-srv":         "how the cluster is bootstrapped", "strict-reconfig-check": "losing quorum",
		"wal-dir": "archive",
	} {
		etcdtest.WantError(t, "extra "+arg, release.ValidateExtraArgs("", map[string]string{arg: "x"}), want)
	}
	etcdtest.WantError(t, "line break", release.ValidateExtraArgs("", map[string]string{"max-txn-ops": "1\n"}),
		"line break")
	for _, c := range []struct {
		peers map[string]string
		want  string
	}{
		{map[string]string{"cp1": "10.0.0.11", "cp2": "10.0.0.12"}, ""},
		{map[string]string{"cp2": "10.0.0.12"}, `add "cp1"`},
		{map[string]string{"cp1": "10.0.0.19"}, "host.address"},
		{map[string]string{"cp1": "10.0.0.11", "cp2": "10.0.0.11"}, "twice"},
		{map[string]string{"cp1": "10.0.0.11", "cp2": "cp2.example"}, "IP address"},
		{map[string]string{"cp1": "10.0.0.11", "cp2": "FD00:0::12"}, `peers: address of "cp2": "FD00:0::12" is not in ` +
			`canonical form: use "fd00::12"`},
	} {
		etcdtest.WantError(t, "peers", ValidatePeers("cp1", "10.0.0.11", c.peers), c.want)
	}
}

func TestPreflight(t *testing.T) {
	s := specAt(t, "10.0.0.11")
	s.MetricsAddress = "::"
	good := func() Observed {
		return Observed{Facts: host.Facts{
			Systemd: "252", Architecture: "arm64",
			DiskFree: map[string]int64{layout.DefaultDataDir: 5 << 30},
		}}
	}
	for _, c := range []struct {
		name string
		edit func(*Observed)
		want string
	}{
		{"fit", func(*Observed) {}, ""},
		{"no systemd", func(f *Observed) { f.Facts.Systemd = "" }, "systemd"},
		{"architecture", func(f *Observed) { f.Facts.Architecture = "riscv64" }, "riscv64"},
		{
			"port", func(f *Observed) { f.Facts.Listeners = map[int]host.Listener{2380: {Process: "nginx"}} },
			"port 2380 is in use by nginx",
		},
		{"own port", func(f *Observed) {
			f.Facts.Listeners = map[int]host.Listener{2380: {Process: "etcd"}}
			f.Unit.Active, f.Record = "active", &Record{ClusterID: testID}
		}, ""},
		{"the listener for metrics", func(f *Observed) {
			f.Facts.Listeners = map[int]host.Listener{MetricsPort: {Process: "nginx"}}
			f.Unit.Active, f.Record = "active", &Record{ClusterID: testID}
		}, "port 2382 is in use by nginx"},
		{"own listener for metrics", func(f *Observed) {
			f.Facts.Listeners = map[int]host.Listener{MetricsPort: {Process: "etcd"}}
			f.Unit.Active, f.Record = "active", &Record{ClusterID: testID}
		}, ""},
		{"disk", func(f *Observed) { f.Facts.DiskFree[layout.DefaultDataDir] = 100 << 20 }, "100 MiB of free space"},
		{
			"clock", func(f *Observed) { f.Facts.ClockOffset = -3 * time.Minute },
			"the clock is 3m0s behind this computer's: at most 2m0s is allowed",
		},
		{
			"clock, slow link", func(f *Observed) { f.Facts.ClockOffset, f.Facts.ClockError = 125*time.Second, 6*time.Second },
			"",
		},
	} {
		f := good()
		c.edit(&f)
		if problems := strings.Join(Preflight(s, f), "; "); (problems == "") != (c.want == "") ||
			!strings.Contains(problems, c.want) {
			t.Errorf("%s: %q, want %q", c.name, problems, c.want)
		}
	}
	if problems := Preflight(s, Observed{}); len(problems) < 2 {
		t.Errorf("not every failed check is listed: %q", problems)
	}
}
