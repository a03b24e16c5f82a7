package packages

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

func at(programs ...string) map[string]string {
	all := map[string]string{}
	for _, name := range programs {
		all[name] = "/usr/bin/" + name
	}
	return all
}

// TestMissing: an interrupted installation counts as missing, and names are those of the distribution.
func TestMissing(t *testing.T) {
	for name, c := range map[string]struct {
		set         Set
		commands    map[string]string
		interrupted bool
		want        []string
	}{
		"complete":              {BGP(), at("bird", "birdc", "curl"), false, nil},
		"interrupted":           {BGP(), at("bird", "birdc", "curl"), true, []string{"bird", "curl"}},
		"half of a package":     {BGP(), at("bird", "curl"), false, []string{"bird"}},
		"Debian":                {BGP(), at("apt-get", "curl"), false, []string{"bird2"}},
		"others":                {BGP(), at("dnf"), false, []string{"bird", "curl"}},
		"DNS on Debian":         {DNS(), at("apt-get", "dig", "curl"), false, []string{"bind9-dnsutils"}},
		"DNS elsewhere":         {DNS(), at("zypper", "curl"), false, []string{"bind-utils"}},
		"balancer with perl":    {HAProxy(), at("dnf", "perl", "keepalived"), false, []string{"haproxy"}},
		"balancer without perl": {HAProxy(), at("dnf", "haproxy", "keepalived"), false, []string{"socat"}},
		"balancer with socat":   {HAProxy(), at("dnf", "haproxy", "keepalived", "socat"), false, nil},
		"interrupted with perl": {HAProxy(), at("dnf", "haproxy", "perl"), true, []string{"haproxy", "keepalived"}},
		"program of another place": {
			DNS(), map[string]string{"nsupdate": "/tmp/nsupdate"}, false, []string{"bind-utils", "curl"},
		},
	} {
		f := host.Facts{Commands: c.commands, Files: map[string]host.FileState{}}
		if c.interrupted {
			f.Files[c.set.InstallingPath()] = host.FileState{}
		}
		if got := c.set.Missing(f); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestHasManager(t *testing.T) {
	for _, name := range Managers() {
		if !HasManager(host.Facts{Commands: at("bird", name)}) {
			t.Errorf("%s does not count", name)
		}
	}
	if HasManager(host.Facts{Commands: map[string]string{"curl": "/usr/bin/curl", "dnf": "/tmp/dnf"}}) {
		t.Error("a machine without a package manager has one")
	}
}

// TestExtend: the query asks for all that Missing reads.
func TestExtend(t *testing.T) {
	q := HAProxy().Extend(host.Query{Files: []string{"/etc/x"}, Commands: []string{"y"}})
	want := []string{"y", "apt-get", "dnf", "yum", "zypper", "haproxy", "keepalived", "socat", "perl"}
	if !slices.Equal(q.Commands, want) || !slices.Equal(q.Files, []string{"/etc/x", "/var/lib/kube-endpoint/installing"}) {
		t.Errorf("the query is %+v", q)
	}
}

// TestProgram: only a path where programs are is used.
func TestProgram(t *testing.T) {
	for path, want := range map[string]string{
		"/usr/sbin/haproxy":           "/usr/sbin/haproxy",
		"haproxy":                     "",
		"/tmp/haproxy":                "",
		"/usr/sbin/../../tmp/haproxy": "",
		"/usr/sbin/nginx":             "",
	} {
		f := host.Facts{Commands: map[string]string{"haproxy": path}}
		if got := Program(f, "haproxy"); got != want {
			t.Errorf("%q: %q", path, got)
		}
	}
}

// TestInstallMasks: only the units of packages whose programs are not there are kept from starting, also if an earlier
// installation was interrupted: a bird or a keepalived of others would not start at the next boot.
func TestInstallMasks(t *testing.T) {
	for name, c := range map[string]struct {
		set         Set
		commands    map[string]string
		interrupted bool
		want        string
	}{
		"both":                       {HAProxy(), at("dnf", "perl"), false, "haproxy.service keepalived.service"},
		"keepalived of others":       {HAProxy(), at("dnf", "perl", "keepalived"), false, "haproxy.service"},
		"keepalived and interrupted": {HAProxy(), at("dnf", "perl", "keepalived"), true, "haproxy.service"},
		"socat alone":                {HAProxy(), at("dnf", "haproxy", "keepalived"), false, ""},
		"bird":                       {BGP(), at("apt-get", "curl"), false, "bird.service"},
		"curl alone":                 {BGP(), at("apt-get", "bird", "birdc"), false, ""},
	} {
		f := host.Facts{Commands: c.commands, Files: map[string]host.FileState{}}
		if c.interrupted {
			f.Files[c.set.InstallingPath()] = host.FileState{}
		}
		if got := c.set.Install(f).Vars["units"]; got != c.want {
			t.Errorf("%s: units %q, want %q", name, got, c.want)
		}
	}
}

// TestRemovable: what another endpoint on the machine, or a timer, needs stays.
func TestRemovable(t *testing.T) {
	state, other := t.TempDir(), filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(filepath.Join(state, "installed"), []byte("bird2\ncurl\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	command := BGP().WithRemoval("removable\n", map[string]string{"vip": "10.0.0.100"})
	if command.Vars["vip"] != "10.0.0.100" || command.Vars["packages_dir"] != BGP().StateDir {
		t.Errorf("the variables are %q", command.Vars)
	}
	kept := strings.Fields(command.Vars["packages_kept"])
	for _, user := range []string{
		"/etc/kube-endpoint-dns", "/etc/kube-endpoint-kube-vip", "/etc/systemd/system/etcd-facts.timer",
		"/etc/systemd/system/etcd-liveness.timer", "/etc/systemd/system/kube-endpoint-facts.timer",
		"/etc/systemd/system/kube-facts.timer", "/etc/systemd/system/kube-liveness.timer",
	} {
		if !slices.Contains(kept, user+":curl") {
			t.Errorf("curl is not kept for %s: %q", user, kept)
		}
	}
	if slices.Contains(kept, "/etc/kube-endpoint-bgp:curl") {
		t.Errorf("curl is kept for the endpoint that leaves: %q", kept)
	}
	removable := func() string {
		vars := host.Assignments(map[string]string{"packages_dir": state, "packages_kept": other + ":curl"})
		output, err := exec.Command("sh", "-euc", string(vars)+string(command.Script)).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, output)
		}
		return strings.Join(strings.Fields(string(output)), " ")
	}
	if got := removable(); got != "bird2 curl" {
		t.Errorf("without another endpoint: %q", got)
	}
	if err := os.Mkdir(other, 0o755); err != nil {
		t.Fatal(err)
	}
	if got := removable(); got != "bird2" {
		t.Errorf("with another endpoint: %q", got)
	}
	if err := errors.Join(os.Remove(other), os.WriteFile(other, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if got := removable(); got != "bird2" {
		t.Errorf("with a timer: %q", got)
	}
}
