package host

import (
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

const answer = "clock\t1700000000.250000000\n" +
	"machine-id\t4588075ba5ad1f7ac4c53dd8924450fe\n" +
	"boot-id\t2fab716e-5c74-4163-8f4b-3b90aff66b09\n" +
	"hostname\tcp1\nmachine\taarch64\n" +
	"os\tID=\"rocky\"\nos\tID_LIKE=\"rhel centos fedora\"\nsystemd\t252\n" +
	"file\t8180\troot\troot\t5\t/etc/a key\n" +
	"file\t41ed\troot\tdaemon\t4096\t/etc\n" +
	"file\ta1ff\troot\troot\t7\t/etc/link\n" +
	"file\t81ed\troot\troot\t9\t/opt/kube/p/1/x\n" +
	"digest\tabc  /etc/a key\n" +
	"content\t/etc/a key\taGVsbG8=\n" +
	"recorded\tdef\t/opt/kube/p/1/x\ndigest\tdef  /opt/kube/p/1/x\n" +
	"dir\t/etc\nentry\ta key\nentry\tlink\ndir\t/empty\n" +
	"unit\tMainPID=41\nunit\tNRestarts=2\nunit\tId=ssh.service\nunit\tActiveState=active\nunit\tActiveEnterTimestamp=Sat 2026-11-21 11:11:59 UTC\n" +
	"unit\t\nunit\tId=real.target\nunit\tLoadState=loaded\nunit\tNeedDaemonReload=yes\nunit\tActiveEnterTimestamp=\n" +
	"ss\tState  Recv-Q Send-Q Local Address:Port Peer Address:PortProcess\n" +
	"ss\tLISTEN 0      4096   127.0.0.1%lo:6443  0.0.0.0:*    users:((\"kube-apiserver\",pid=7,fd=3))\n" +
	"ss\tLISTEN 0      128    [::]:22            [::]:*       users:((\"sshd\",pid=1,fd=4))\n" +
	"ss\tLISTEN 0      128    0.0.0.0:22         0.0.0.0:*\n" +
	"disk\t1000\t4096\t/var/lib/etcd\ndisk\t\t/gone\n" +
	"command\thaproxy\t/usr/sbin/haproxy\n" +
	"output\tb3V0Cg==\nend\t\n"

func TestParseFacts(t *testing.T) {
	got, clock, err := parseFacts(answer, Query{Units: []string{"ssh.service", "alias.target"}, Ports: []int{22, 6443, 2379}})
	if err != nil {
		t.Fatal(err)
	}
	if want := time.Unix(1700000000, 250000000); !clock.Equal(want) {
		t.Errorf("clock %v, want %v", clock, want)
	}
	want := Facts{
		MachineID: "4588075ba5ad1f7ac4c53dd8924450fe", BootID: "2fab716e-5c74-4163-8f4b-3b90aff66b09", Hostname: "cp1",
		OS: "rocky", OSLike: "rhel centos fedora", Architecture: "arm64", Systemd: "252",
		Files: map[string]FileState{
			"/etc/a key":      {Mode: 0o600, Owner: "root", Group: "root", Size: 5, SHA256: "abc", Content: "hello"},
			"/etc":            {Mode: fs.ModeDir | 0o755, Owner: "root", Group: "daemon", Size: 4096},
			"/etc/link":       {Mode: fs.ModeSymlink | 0o777, Owner: "root", Group: "root", Size: 7},
			"/opt/kube/p/1/x": {Mode: 0o755, Owner: "root", Group: "root", Size: 9, SHA256: "def", Recorded: "def"},
		},
		Dirs: map[string][]string{"/etc": {"a key", "link"}, "/empty": {}},
		Units: map[string]UnitState{
			"ssh.service":  {Active: "active", MainPID: 41, Restarts: 2, Since: time.Date(2026, 11, 21, 11, 11, 59, 0, time.UTC)},
			"alias.target": {Load: "loaded", NeedReload: true},
		},
		Listeners: map[int]Listener{
			6443: {Process: "kube-apiserver", Addresses: []string{"127.0.0.1"}},
			22:   {Process: "sshd", Addresses: []string{"::", "0.0.0.0"}},
		},
		DiskFree: map[string]int64{"/var/lib/etcd": 4096000},
		Commands: map[string]string{"haproxy": "/usr/sbin/haproxy"},
		Output:   "out\n",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}

func TestParseFactsRefuses(t *testing.T) {
	q := Query{Units: []string{"ssh.service", "alias.target"}}
	for name, text := range map[string]string{
		"empty":            "",
		"cut off":          strings.TrimSuffix(answer, "end\t\n"),
		"no clock":         "end\t\n",
		"bad mode":         strings.Replace(answer, "file\t8180", "file\tzz", 1),
		"short file line":  strings.Replace(answer, "file\t8180\t", "file\t", 1),
		"bad content":      strings.Replace(answer, "aGVsbG8=", "%", 1),
		"bad output":       strings.Replace(answer, "b3V0Cg==", "%", 1),
		"a unit too few":   strings.Replace(answer, "unit\t\n", "", 1),
		"bad process id":   strings.Replace(answer, "MainPID=41", "MainPID=x", 1),
		"bad restarts":     strings.Replace(answer, "NRestarts=2", "NRestarts=x", 1),
		"bad time":         strings.Replace(answer, "11:11:59", "quarter past", 1),
		"bad disk numbers": strings.Replace(answer, "disk\t1000", "disk\tx", 1),
	} {
		if _, _, err := parseFacts(text, q); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestParseSmallThings(t *testing.T) {
	for machine, want := range map[string]string{"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386", "riscv64": "riscv64"} {
		if got := goArchitecture(machine); got != want {
			t.Errorf("%s: %s, want %s", machine, got, want)
		}
	}
	for text, want := range map[string]string{"252": "252", "252.39-1~deb12u1": "252", "": ""} {
		if got := leadingDigits(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if clock, err := parseClock("1700000000.%N"); err != nil || clock.Unix() != 1700000000 {
		t.Errorf("a clock without fraction: %v, %v", clock, err)
	}
	if got := goMode(0o104755); got != fs.ModeSetuid|0o755 {
		t.Errorf("mode %v", got)
	}
}

func TestParseListeners(t *testing.T) {
	r := report{
		"ss": {"LISTEN 0 128 *:6443 *:*", "ESTAB 0 0 10.0.0.1:22 10.0.0.2:999", "LISTEN 0 5 [fe80::1%eth0]:2380 [::]:*", "LISTEN 0 5 %:x *:*"},
		"tcp": {
			"  sl  local_address rem_address   st",
			"   0: 0100007F:094B 00000000:0000 0A 00000000:00000000",
			"   1: 0100007F:0016 0200007F:9999 01 00000000:00000000",
			"   0: 00000000000000000000000000000000:094B 00000000000000000000000000000000:0000 0A",
			"   0: zz:094B x 0A",
		},
	}
	got := parseListeners(r, []int{22, 2379, 2380, 6443})
	want := map[int]Listener{
		6443: {Addresses: []string{"::"}},
		2380: {Addresses: []string{"fe80::1"}},
		2379: {Addresses: []string{"127.0.0.1", "::"}},
	}
	if !maps.EqualFunc(got, want, func(a, b Listener) bool { return a.Process == b.Process && slices.Equal(a.Addresses, b.Addresses) }) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
