package haproxy

import (
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/packages"
)

// TestFacts: facts are about all virtual IPs. They change no other file, and end with the setting.
func TestFacts(t *testing.T) {
	s := threeHosts()
	b := balancer{device: "eth0", facts: host.Facts{Files: map[string]host.FileState{}}}
	plain := change(s, "cp1", b, "")
	s.TextfileDirectory, s.Address6 = "/srv/facts", "fd00::100"
	script := string(s.facts().Job().Files[2].Content)
	if !strings.Contains(script, "addresses='10.0.0.100\nfd00::100'\n") {
		t.Errorf("the addresses are not in\n%.1000s", script)
	}
	s.Address6 = ""
	on := change(s, "cp1", b, "")
	if len(on.Files) != len(plain.Files)+3 || len(on.Links) != len(plain.Links)+1 ||
		!strings.HasSuffix(string(on.Script), "systemctl restart kube-endpoint-facts.timer\n") {
		t.Errorf("%d files, %d links, script %s", len(on.Files), len(on.Links), on.Script)
	}
	for _, file := range on.Files {
		b.facts.Files[file.Path] = host.FileState{Content: string(file.Content)}
	}
	if got := noFacts.DirectoryIn(b.facts.Files); got != "/srv/facts" {
		t.Errorf("an import reads %q", got)
	}
	s.TextfileDirectory = ""
	off := change(s, "cp1", b, "")
	if !slices.Contains(off.Remove, "/srv/facts/kube_control_plane_endpoint.prom") || len(off.Files) != len(plain.Files) {
		t.Errorf("switched off: removed %v", off.Remove)
	}
}

// TestFactsWhileTheAddressMoves: between endpoints, the other one may have the address, so that none of these hosts has
// it is no alert. What takes it from the hosts' own services is about an address that is there.
func TestFactsWhileTheAddressMoves(t *testing.T) {
	for _, c := range []struct {
		handOver string
		inherit  bool
		want     []string
	}{
		{"", false, []string{"10.0.0.100"}},
		{Release, false, nil},
		{Prepare, false, nil},
		{Take, false, nil},
		{Prepare, true, []string{"10.0.0.100"}},
		{Take, true, []string{"10.0.0.100"}},
	} {
		s := threeHosts()
		s.TextfileDirectory, s.HandOver, s.Inherit = "/srv/facts", c.handOver, c.inherit
		if got := s.facts().Addresses; !slices.Equal(got, c.want) {
			t.Errorf("hand_over = %q, inherit = %v: the addresses are %q, want %q", c.handOver, c.inherit, got, c.want)
		}
	}
}

// TestCurlIsKept: an endpoint of another kind that leaves the machine does not take curl from the writer of facts.
func TestCurlIsKept(t *testing.T) {
	kept := strings.Fields(packages.DNS().WithRemoval("", nil).Vars["packages_kept"])
	if !slices.Contains(kept, noFacts.Job().TimerPath()+":curl") {
		t.Errorf("kept %q", kept)
	}
}
