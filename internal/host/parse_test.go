package host

import (
	"encoding/base64"
	"io/fs"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
)

// The digests of answer.
var (
	digestA = strings.Repeat("a1", 32)
	digestB = strings.Repeat("0b", 32)
)

var answer = "clock\t1700000000.250000000\n" +
	"machine-id\t4588075ba5ad1f7ac4c53dd8924450fe\n" +
	"boot-id\t2fab716e-5c74-4163-8f4b-3b90aff66b09\n" +
	"hostname\tcp1\nmachine\taarch64\n" +
	"os\tID=\"rocky\"\nos\tID_LIKE=\"rhel centos fedora\"\nsystemd\t252\n" +
	"file\t8180\troot\troot\t5\t/etc/a key\n" +
	"file\t41ed\troot\tdaemon\t4096\t/etc\n" +
	"file\ta1ff\troot\troot\t7\t/etc/link\n" +
	"file\t81ed\troot\troot\t9\t/opt/kube/p/1/x\n" +
	"digest\t" + digestA + "  /etc/a key\n" +
	"contents\t" + base64.StdEncoding.EncodeToString([]byte("==> /etc/a key <==\nhello")) + "\n" +
	"recorded\t" + digestB + "\t/opt/kube/p/1/x\ndigest\t" + digestB + "  /opt/kube/p/1/x\n" +
	"dir\t/etc\nentry\ta key\nentry\tlink\ndir\t/empty\ndir\t/shared\nentry\tmember\n" +
	"unit\tMainPID=41\nunit\tNRestarts=2\nunit\tId=ssh.service\n" +
	"unit\tActiveState=active\nunit\tActiveEnterTimestamp=Sat 2026-11-21 11:11:59 UTC\n" +
	"unit\t\nunit\tId=real.target\nunit\tLoadState=loaded\nunit\tNeedDaemonReload=yes\n" +
	"unit\tActiveEnterTimestamp=\nunit\tJob=812\n" +
	"ss\tState  Recv-Q Send-Q Local Address:Port Peer Address:PortProcess\n" +
	"ss\tLISTEN 0      4096   127.0.0.1%lo:6443  0.0.0.0:*    users:((\"kube-apiserver\",pid=7,fd=3))\n" +
	"ss\tLISTEN 0      128    [::]:22            [::]:*       users:((\"sshd\",pid=1,fd=4))\n" +
	"ss\tLISTEN 0      128    0.0.0.0:22         0.0.0.0:*\n" +
	"disk\t1000\t4096\t/var/lib/etcd\ndisk\t\t/gone\n" +
	"command\thaproxy\t/usr/sbin/haproxy\ncommand\tgone\t\n" +
	"output\tb3V0Cg==\nend\t\n"

// asked is the query that answer answers.
var asked = Query{
	Files: []string{"/etc", "/etc/link", "/gone"}, Contents: []string{"/etc/a key"}, Binaries: []string{"/opt/kube/p/1/x"},
	Dirs: []string{"/etc", "/empty", "/gone"}, SharedDirs: []string{"/shared"},
	Units: []string{"ssh.service", "alias.target"},
	Ports: []int{22, 6443, 2379},
	Disks: []string{"/var/lib/etcd", "/gone"}, Commands: []string{"haproxy", "gone"},
}

func TestParseFacts(t *testing.T) {
	got, clock, err := parseFacts(answer, asked)
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
			"/etc/a key":      {Mode: 0o600, Owner: "root", Group: "root", Size: 5, SHA256: digestA, Content: "hello"},
			"/etc":            {Mode: fs.ModeDir | 0o755, Owner: "root", Group: "daemon", Size: 4096},
			"/etc/link":       {Mode: fs.ModeSymlink | 0o777, Owner: "root", Group: "root", Size: 7},
			"/opt/kube/p/1/x": {Mode: 0o755, Owner: "root", Group: "root", Size: 9, SHA256: digestB, Recorded: digestB},
		},
		Dirs: map[string][]string{"/etc": {"a key", "link"}, "/empty": {}, "/shared": {"member"}},
		Units: map[string]UnitState{
			"ssh.service": {Active: "active", MainPID: 41, Restarts: 2, Since: time.Date(2026, 11, 21, 11, 11, 59, 0,
				time.UTC)},
			"alias.target": {Load: "loaded", NeedReload: true, Queued: true},
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
	for name, text := range map[string]string{
		"empty":             "",
		"cut off":           strings.TrimSuffix(answer, "end\t\n"),
		"no clock":          "end\t\n",
		"bad mode":          strings.Replace(answer, "file\t8180", "file\tzz", 1),
		"short file line":   strings.Replace(answer, "file\t8180\t", "file\t", 1),
		"bad content":       strings.Replace(answer, "contents\t", "contents\t%", 1),
		"bad output":        strings.Replace(answer, "b3V0Cg==", "%", 1),
		"a unit too few":    strings.Replace(answer, "unit\t\n", "", 1),
		"bad process id":    strings.Replace(answer, "MainPID=41", "MainPID=x", 1),
		"bad restarts":      strings.Replace(answer, "NRestarts=2", "NRestarts=x", 1),
		"bad time":          strings.Replace(answer, "11:11:59", "quarter past", 1),
		"bad disk numbers":  strings.Replace(answer, "disk\t1000", "disk\tx", 1),
		"negative size":     strings.Replace(answer, "root\t5\t", "root\t-5\t", 1),
		"a mode of 32 bits": strings.Replace(answer, "file\t8180", "file\t10008180", 1),
		"more than a disk":  strings.Replace(answer, "disk\t1000", "disk\t9223372036854775807", 1),
		"machine id":        strings.Replace(answer, "4588075ba5ad1f7ac4c53dd8924450fe", "$(id)", 1),
		"long machine id": strings.Replace(answer, "4588075ba5ad1f7ac4c53dd8924450fe",
			"4588075ba5ad1f7ac4c53dd8924450fe00", 1),
		"boot id":            strings.Replace(answer, "2fab716e-", "2fab716e;", 1),
		"host name":          strings.Replace(answer, "hostname\tcp1", "hostname\tcp1\x1b[2J", 1),
		"operating system":   strings.Replace(answer, `ID="rocky"`, `ID=`+"`id`", 1),
		"like":               strings.Replace(answer, "rhel centos", "rhel\u202ecentos", 1),
		"architecture":       strings.Replace(answer, "aarch64", "../../x", 1),
		"version of systemd": strings.Replace(answer, "systemd\t252", "systemd\tx", 1),
		"clock of no time":   strings.Replace(answer, "1700000000", "99999999999999", 1),
		"state of a unit":    strings.Replace(answer, "ActiveState=active", "ActiveState=active;id", 1),
		"negative process":   strings.Replace(answer, "MainPID=41", "MainPID=-1", 1),
		"a program's place":  strings.Replace(answer, "/usr/sbin/haproxy", "/usr/sbin/haproxy;id", 1),
		"a path as an entry": strings.Replace(answer, "entry\tlink", "entry\t../link", 1),
		"a long entry":       strings.Replace(answer, "entry\tlink", "entry\t"+strings.Repeat("x", 256), 1),
		"entry of nothing":   strings.Replace(answer, "dir\t/etc\n", "", 1),
		"too many entries":   strings.Replace(answer, "entry\tlink\n", strings.Repeat("entry\tlink\n", maxEntries), 1),
		"an unasked file":    strings.Replace(answer, "end\t\n", "file\t8180\troot\troot\t5\t/etc/shadow\nend\t\n", 1),
		"unasked content": strings.Replace(answer, "contents\t", "contents\t"+
			base64.StdEncoding.EncodeToString([]byte("==> /etc/shadow <==\nroot:!::")), 1),
		"an unasked disk":    strings.Replace(answer, "/var/lib/etcd", "/var/lib/other", 1),
		"an unasked dir":     strings.Replace(answer, "dir\t/empty", "dir\t/other", 1),
		"an unasked program": strings.Replace(answer, "command\thaproxy", "command\tsh", 1),
	} {
		if _, _, err := parseFacts(text, asked); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestParseSmallThings(t *testing.T) {
	for machine, want := range map[string]string{
		"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386",
		"riscv64": "riscv64", "": "",
	} {
		if got, err := goArchitecture(machine); got != want || err != nil {
			t.Errorf("%s: %s, %v, want %s", machine, got, err, want)
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
		"ss": {
			"LISTEN 0 128 *:6443 *:*", "ESTAB 0 0 10.0.0.1:22 10.0.0.2:999", "LISTEN 0 5 [fe80::1%eth0]:2380 [::]:*",
			"LISTEN 0 5 %:x *:*",
		},
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
	if !maps.EqualFunc(got, want, func(a, b Listener) bool {
		return a.Process == b.Process && slices.Equal(a.Addresses, b.Addresses)
	}) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestParseFactsLeavesOut: legitimate values of an unknown form are skipped or replaced.
func TestParseFactsLeavesOut(t *testing.T) {
	text := strings.NewReplacer(
		digestA, "not a digest; id", "recorded\t"+digestB, "recorded\t$(id)", "root\troot\t5", "DOM\\user\tg\x1b[31m\t5",
		"4588075ba5ad1f7ac4c53dd8924450fe", "uninitialized", "hostname\tcp1", "hostname\t(none)",
		"kube-apiserver", "$(id)\x1b[2J", "entry\tlink", "entry\tzz\u202e\xff;id",
	).Replace(answer)
	facts, _, err := parseFacts(text, asked)
	if err != nil {
		t.Fatal(err)
	}
	if facts.MachineID != "" || facts.Hostname != "" {
		t.Errorf("%q, %q", facts.MachineID, facts.Hostname)
	}
	if f := facts.Files["/etc/a key"]; f.SHA256 != "" || f.Owner != "?" || f.Group != "?" || f.Content != "hello" {
		t.Errorf("%+v", f)
	}
	if f := facts.Files["/opt/kube/p/1/x"]; f.Recorded != "" || f.SHA256 != digestB {
		t.Errorf("%+v", f)
	}
	if got := facts.Listeners[6443].Process; got != "?" {
		t.Errorf("process %q", got)
	}
	if got := facts.Dirs["/etc"]; !slices.Equal(got, []string{"a key", `zz\u202e\xff;id`}) {
		t.Errorf("entries %q", got)
	}
}

// FuzzParseFacts: whatever a machine answers, parsed values have the forms above, and only what
// was queried is returned.
func FuzzParseFacts(f *testing.F) {
	f.Add(answer)
	f.Add("")
	f.Add("clock\t1\nend\t\n")
	f.Add(strings.Replace(answer, "cp1", "$(id)", 1))
	f.Add(strings.Replace(answer, "entry\tlink", "entry\t\x1b[31m\xff", 1))
	f.Add(strings.ReplaceAll(answer, "/etc", "/etc\nfile\t8180\troot\troot\t5\t/etc/shadow"))
	f.Fuzz(func(t *testing.T, text string) {
		facts, clock, err := parseFacts(text, asked)
		if err != nil {
			if message := err.Error(); len(message) > 16<<10 || strings.ContainsFunc(message, func(r rune) bool {
				return !unicode.IsPrint(r) && r != '\n'
			}) {
				t.Errorf("an error that shows what the machine said: %q", message)
			}
			return
		}
		if clock.Year() > 9999 {
			t.Errorf("clock %v", clock)
		}
		for _, c := range []struct {
			form *regexp.Regexp
			text string
		}{
			{machineIDPattern, facts.MachineID},
			{bootIDPattern, facts.BootID},
			{hostnamePattern, facts.Hostname},
			{osPattern, facts.OS},
			{osPattern, facts.OSLike},
			{kernelPattern, facts.Architecture},
			{systemdPattern, facts.Systemd},
		} {
			if c.text != "" && !c.form.MatchString(c.text) {
				t.Errorf("%q is not of the form %s", c.text, c.form)
			}
		}
		for path, state := range facts.Files {
			paths := slices.Concat(asked.Files, asked.Contents, asked.Notes, asked.Binaries)
			if !slices.Contains(paths, path) || state.Size < 0 ||
				state.SHA256 != "" && !digestPattern.MatchString(state.SHA256) || state.Owner != "?" &&
				!ownerPattern.MatchString(state.Owner) {
				t.Errorf("%q: %+v", path, state)
			}
		}
		for name, unit := range facts.Units {
			for _, word := range []string{unit.Load, unit.Active, unit.Sub, unit.Enabled, unit.Result} {
				if !slices.Contains(asked.Units, name) || word != "" && !statePattern.MatchString(word) || unit.MainPID < 0 ||
					unit.Restarts < 0 {
					t.Errorf("%q: %+v", name, unit)
				}
			}
		}
		for port, l := range facts.Listeners {
			if !slices.Contains(asked.Ports, port) || l.Process != "" && l.Process != "?" &&
				!processPattern.MatchString(l.Process) {
				t.Errorf("%d: %+v", port, l)
			}
		}
		for name, place := range facts.Commands {
			if !slices.Contains(asked.Commands, name) || !programPattern.MatchString(place) {
				t.Errorf("%q: %q", name, place)
			}
		}
		for dir, entries := range facts.Dirs {
			most := maxEntries
			if slices.Contains(asked.SharedDirs, dir) {
				most = MaxShared
			}
			if !slices.Contains(slices.Concat(asked.Dirs, asked.SharedDirs), dir) || len(entries) > most {
				t.Errorf("%q: %d entries", dir, len(entries))
			}
			for _, entry := range entries {
				if strings.ContainsFunc(entry, func(r rune) bool { return !unicode.IsPrint(r) && r != '\t' }) {
					t.Errorf("%q: %q", dir, entry)
				}
			}
		}
		for dir := range facts.Crowded {
			if !slices.Contains(asked.SharedDirs, dir) || len(facts.Dirs[dir]) != MaxShared {
				t.Errorf("%q is crowded, with %d entries", dir, len(facts.Dirs[dir]))
			}
		}
	})
}

// TestParseSharedDirs: a directory in which another user may make entries never makes an answer invalid by their
// number.
func TestParseSharedDirs(t *testing.T) {
	for name, c := range map[string]struct {
		entries int
		crowded bool
	}{
		"none":         {0, false},
		"at the limit": {MaxShared, false},
		"one more":     {MaxShared + 1, true},
		"many more":    {2 * maxEntries, true},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(answer, "entry\tmember\n", strings.Repeat("entry\tx\n", c.entries), 1)
			facts, _, err := parseFacts(text, asked)
			must(t, err)
			if got := len(facts.Dirs["/shared"]); got != min(c.entries, MaxShared) || facts.Crowded["/shared"] != c.crowded {
				t.Errorf("%d entries, crowded %v", got, facts.Crowded)
			}
			if len(facts.Dirs["/etc"]) != 2 || facts.Output != "out\n" {
				t.Errorf("the rest of the answer: %q, %q", facts.Dirs["/etc"], facts.Output)
			}
		})
	}
}

func TestParseNotes(t *testing.T) {
	const mark = "2fab716e-5c74-4163-8f4b-3b90aff66b09"
	root := FileState{Mode: 0o644, Owner: "root", Size: 2}
	noted := root
	noted.Content = "b\n"
	big, link, other := root, root, root
	big.Size, link.Mode, other.Owner = maxNote+1, fs.ModeSymlink|0o777, "etcd"
	encoded := base64.StdEncoding.EncodeToString([]byte(mark + " /a\na\n==> /b <==\n" + mark + " /b\nb\n"))
	for name, c := range map[string]struct {
		a, b  FileState
		value string
		want  map[string]FileState // without /a
		bad   bool
	}{
		"notes of root":              {root, root, mark + "\t" + encoded, map[string]FileState{"/b": noted}, false},
		"of another user":            {root, other, mark + "\t" + encoded, map[string]FileState{}, false},
		"a link":                     {root, link, mark + "\t" + encoded, map[string]FileState{}, false},
		"too large":                  {root, big, mark + "\t" + encoded, map[string]FileState{}, false},
		"the other one is too large": {big, root, mark + "\t" + encoded, map[string]FileState{"/b": noted}, false},
		"read was none":              {root, root, "", map[string]FileState{}, false},
		"without a mark":             {root, root, "\t" + encoded, map[string]FileState{}, false},
		"another mark":               {root, root, "x\t" + encoded, nil, true},
		"no base64":                  {root, root, mark + "\t%", nil, true},
	} {
		files := map[string]FileState{"/a": c.a, "/b": c.b}
		err := parseNotes(files, c.value, []string{"/a", "/b", "/c"})
		if delete(files, "/a"); (err != nil) != c.bad || !c.bad && !reflect.DeepEqual(files, c.want) {
			t.Errorf("%s: %+v, %v", name, files, err)
		}
	}
}

func TestSplitContents(t *testing.T) {
	paths := []string{"/a", "/b", "/c d"}
	for name, c := range map[string]struct {
		text string
		want map[string]string // nil is an error
	}{
		"none":         {"", map[string]string{}},
		"an empty one": {"==> /b <==\n", map[string]string{"/b": ""}},
		"several": {
			"==> /b <==\nb\n\n==> /c d <==\n\n==> /a <==\na\n\n",
			map[string]string{"/a": "a\n\n", "/b": "b\n", "/c d": ""},
		},
		"without line feed": {"==> /a <==\na\n==> /b <==\nb", map[string]string{"/a": "a", "/b": "b"}},
		"like a header": {
			"==> /a <==\n==> /x <==\n\n==> /b <==", map[string]string{"/a": "==> /x <==\n\n==> /b <=="},
		},
		"a file that pretends to be two": {"==> /a <==\na\n==> /b <==\nforged\n\n==> /b <==\nb", nil},
		"a header at once":               {"==> /a <==\n==> /b <==\nforged", nil},
		"no header":                      {"text\n==> /a <==\n", nil},
		"another file":                   {"==> /etc/shadow <==\n", nil},
	} {
		got, err := splitContents(c.text, paths)
		if (err != nil) != (c.want == nil) || len(got) != len(c.want) || !reflect.DeepEqual(got, c.want) && len(got) > 0 {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
