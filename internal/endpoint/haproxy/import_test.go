package haproxy

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// machineOf is what the named host shows of an endpoint.
func machineOf(s Spec, name, device string) host.Facts {
	facts := host.Facts{
		Files: map[string]host.FileState{
			endpointPath:   {Content: renderHAProxy(s)},
			keepalivedPath: {Content: renderKeepalived(s, name, device)},
			backendsPath: {Content: renderBackends(s.Address, []server{
				serverAt("cp1", "10.0.0.11:6443"),
				serverAt("cp9", "10.0.0.19:7443"),
			}, nil)},
			caPath:     {Content: s.CACertificate},
			recordPath: {Content: recordText(s)},
		},
		Output: "2: eth0    inet " + s.Hosts[name].Address() +
			"/24 scope global eth0\n3: eth1    inet 192.0.2.1/24 scope global eth1\n",
	}
	for _, file := range s.watcher(name) {
		facts.Files[file.Path] = host.FileState{Content: string(file.Content)}
	}
	return facts
}

// TestImportReadsBack: what a machine shows of a spec gives that spec.
func TestImportReadsBack(t *testing.T) {
	for name, c := range map[string]struct {
		spec   Spec
		device string
		change func(*Spec)
	}{
		"usual":                  {threeHosts(), "eth0", func(*Spec) {}},
		"alone":                  {specOf("10.0.0.100", map[string]string{"cp1": "10.0.0.11"}), "eth0", func(*Spec) {}},
		"the usual device named": {threeHosts(), "eth0", func(s *Spec) { s.Interface = "eth0" }},
		"another device":         {threeHosts(), "eth1", func(s *Spec) { s.Interface = "eth1" }},
		"waits":                  {threeHosts(), "eth0", func(s *Spec) { s.HandOver = Prepare }},
		"takes over":             {threeHosts(), "eth0", func(s *Spec) { s.HandOver = Take }},
		"port, id, CA": {threeHosts(), "eth0", func(s *Spec) {
			s.Port, s.VirtualRouterID, s.CACertificate, s.DrainTimeout = 7443, 51, bundles(t)[0].CA.Certificate, time.Minute
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := c.spec
			s.InstallPackages = name == "usual"
			c.change(&s)
			part, err := rendered(s.Hosts["cp1"], machineOf(s, "cp1", c.device))
			if err != nil {
				t.Fatal(err)
			}
			want := Imported{
				ClusterID: testCluster,
				Address:   s.Address, Port: s.port(), Hosts: s.addresses(), Interface: s.Interface,
				VirtualRouterID: s.VirtualRouterID,
				InstallPackages: s.InstallPackages, CACertificate: s.CACertificate,
				DrainTimeout: orDefault(s.DrainTimeout, endpoint.DefaultDrainTimeout),
				Replicas:     []string{"10.0.0.11", "10.0.0.19"}, HandOver: s.HandOver,
			}
			if got := part.imported(); !reflect.DeepEqual(got, want) {
				t.Errorf("read back as\n%#v\nwant\n%#v", got, want)
			}
		})
	}
}

// TestImportWithoutRecord: hosts of an earlier version have none; then what is
// rendered says it, and the names of the others are theirs to say.
func TestImportWithoutRecord(t *testing.T) {
	s := threeHosts()
	s.Interface, s.VirtualRouterID = "eth1", 51
	facts := machineOf(s, "cp2", "eth1")
	delete(facts.Files, recordPath)
	part, err := rendered(s.Hosts["cp2"], facts)
	if err != nil {
		t.Fatal(err)
	}
	got := part.imported()
	if got.Hosts != nil || got.Interface != "eth1" || got.VirtualRouterID != 51 || !got.InstallPackages ||
		got.DrainTimeout != endpoint.DefaultDrainTimeout {
		t.Errorf("read back as %#v", got)
	}
	if want := []string{"10.0.0.11", "10.0.0.12", "10.0.0.13"}; !reflect.DeepEqual(part.all(), want) ||
		part.name != "cp2" {
		t.Errorf("machine %s knows %v, want %v", part.name, part.all(), want)
	}
}

func TestImportRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(files map[string]host.FileState)
		wantErr string
	}{
		"nothing there": {func(files map[string]host.FileState) { clear(files) }, "no endpoint of this provider"},
		"no bind line": {
			func(files map[string]host.FileState) { files[endpointPath] = host.FileState{Content: "global\n"} },
			"changed by hand",
		},
		"known otherwise": {func(files map[string]host.FileState) {
			files[keepalivedPath] = host.FileState{Content: renderKeepalived(threeHosts(), "cp3", "eth0")}
		}, "known to the others as 10.0.0.13"},
	} {
		t.Run(name, func(t *testing.T) {
			s := threeHosts()
			facts := machineOf(s, "cp1", "eth0")
			c.change(facts.Files)
			if _, err := rendered(s.Hosts["cp1"], facts); err == nil || !strings.Contains(err.Error(), c.wantErr) {
				t.Errorf("error is %v, want one that says %q", err, c.wantErr)
			}
		})
	}
}
