package haproxy

import (
	"reflect"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/packages"
)

// TestProgramsInFiles: what a machine says of its programs gets into its units only if it is a path.
func TestProgramsInFiles(t *testing.T) {
	for at, want := range map[string]string{
		"/usr/sbin/haproxy":                  "/usr/sbin/haproxy",
		"/usr/local/bin/haproxy":             "/usr/local/bin/haproxy",
		"":                                   "",
		"haproxy":                            "",
		"/tmp/haproxy":                       "",
		"/usr/sbin/../../tmp/haproxy":        "",
		"/usr/sbin/nginx":                    "",
		"/usr/sbin/haproxy\nExecStartPre=/x": "",
		"/usr/sbin/haproxy;reboot":           "",
		"/usr/sbin/haproxy -f /tmp/evil":     "",
		"/usr/sbin/\x1b[2J/usr/sbin/haproxy": "",
	} {
		f := host.Facts{Commands: map[string]string{"haproxy": at}}
		if got := packages.Program(f, "haproxy"); got != want {
			t.Errorf("%q: %q", at, got)
		}
		s := threeHosts()
		for _, file := range files(s, "cp1", balancer{facts: f, device: "eth0"}) {
			if want == "" && at != "" && at != "haproxy" && strings.Contains(string(file.Content), at) {
				t.Errorf("%q is in %s", at, file.Path)
			}
		}
	}
}

func TestDevice(t *testing.T) {
	for text, want := range map[string]string{
		"eth0": "eth0", "eth0@if5": "eth0", "bond0.100": "bond0.100",
		"": "", "eth0'": "", "eth0;reboot": "", "$(reboot)": "", "eth0\n": "", "-eth0": "", strings.Repeat("e", 16): "",
	} {
		if got := device(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

// TestReadStats: rows that HAProxy does not print are no servers.
func TestReadStats(t *testing.T) {
	row := func(name, status, check, address, sessions string) string {
		return "kube-apiserver," + name + "," + sessions + "," + status + ",," + check + ",," + address + ",\n"
	}
	const title = "# pxname,svname,scur,status,last_chk,check_status,check_desc,addr,\n"
	for name, c := range map[string]struct {
		text string
		odd  []string
	}{
		"as it is":                {row("cp1", "UP", "L7OK", "10.0.0.11:6443", "3"), nil},
		"a check under way":       {row("cp1", "UP 1/3", "* L7STS", "10.0.0.11:6443", "0"), nil},
		"before the first check":  {row("cp1", "no check", "", "[fd00::11]:6443", ""), nil},
		"maintenance":             {row("cp1", "MAINT (via other/cp2)", "", "10.0.0.11:6443", "0"), nil},
		"a name of a shell":       {row("cp1';id;'", "UP", "L7OK", "10.0.0.11:6443", "0"), []string{"cp1';id;'"}},
		"no address":              {row("cp1", "UP", "L7OK", "cp1.example.com:6443", "0"), []string{"cp1"}},
		"a status of a terminal":  {row("cp1", "UP\x1b[2J", "L7OK", "10.0.0.11:6443", "0"), []string{"cp1"}},
		"a check that is none":    {row("cp1", "UP", "FINE", "10.0.0.11:6443", "0"), []string{"cp1"}},
		"sessions that are none":  {row("cp1", "UP", "L7OK", "10.0.0.11:6443", "many"), []string{"cp1"}},
		"sessions that cannot be": {row("cp1", "UP", "L7OK", "10.0.0.11:6443", "-1"), []string{"cp1"}},
	} {
		stats, odd := readStats(title + c.text)
		if !reflect.DeepEqual(odd, c.odd) || (len(stats) == 0) != (len(odd) > 0) {
			t.Errorf("%s: %+v, odd %q", name, stats, odd)
		}
	}
}

// TestHostileMachine: a balancer that answers everything with what a shell, a unit or
// a terminal would act on gets none of it into anything that is written anywhere.
func TestHostileMachine(t *testing.T) {
	const evil = "x';id>/tmp/p;:'$(id)`id`\n\x1b]0;x\x07"
	s := threeHosts()
	hostile := host.Facts{
		Systemd: evil, Commands: map[string]string{
			"haproxy": evil, "keepalived": "/usr/sbin/keepalived" + evil, "perl": evil,
			"apt-get": evil,
		},
		Files:     map[string]host.FileState{},
		Units:     map[string]host.UnitState{haproxyUnit: {Load: evil, Active: evil, Enabled: evil}},
		Listeners: map[int]host.Listener{6443: {Process: evil, Addresses: []string{"::", evil}}},
		Output: "2: " + evil + " inet 10.0.0.11/24 scope global\n2: eth0';id inet 10.0.0.11/24 scope\n--\n" +
			"10.0.0.100 dev eth0 lladdr " + evil + "\n--\n" +
			"# pxname,svname,scur,status,last_chk,check_status,check_desc,addr,\nkube-apiserver,\"" + evil +
			"\",0,UP,,L7OK,,10.0.0.11:6443,\n",
	}
	for _, path := range []string{endpointPath, backendsPath, recordPath, keepalivedPath, caPath, unitDir + haproxyUnit} {
		hostile.Files[path] = host.FileState{Owner: evil, Group: evil, SHA256: evil, Content: evil + "\nserver " + evil +
			" 10.0.0.11:6443\n    bind " + evil + "\n"}
	}
	b := newBalancer(s, hostile, "10.0.0.11")
	if b.device != "" || b.neighbors.By["10.0.0.100"] != "unknown" || len(b.servers)+len(b.stats) > 0 {
		t.Fatalf("%+v", b)
	}
	b.device = "eth0"
	seen := map[string]balancer{"cp1": b, "cp2": asRendered(s, "cp2")}
	for name := range seen {
		c := change(s, name, seen[name], s.servers(t.Context(), seen)[name])
		script := string(host.Assignments(c.Vars) + c.Script)
		for _, file := range c.Files {
			script += string(file.Content)
		}
		if strings.Contains(script, "id>/tmp/p") || strings.Contains(script, "\x1b") {
			t.Errorf("%s gets it:\n%s", name, script)
		}
	}
	for _, text := range append(status(s, seen).Drift, health(seen["cp1"]), preflight(s, seen).Error(),
		strings.Join(addressInUse(s, s.Address, seen), "")) {
		if strings.ContainsAny(text, "\x1b\x07") {
			t.Errorf("a terminal would act on %q", text)
		}
	}
	if _, err := rendered(s.Hosts["cp1"], hostile); err == nil || strings.ContainsAny(err.Error(), "\x1b\x07") {
		t.Errorf("imported: %v", err)
	}
}
