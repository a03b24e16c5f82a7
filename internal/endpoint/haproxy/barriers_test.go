package haproxy

import (
	"slices"
	"testing"
)

// TestOpenings: clients reach the port of the endpoint, and the other hosts keepalived.
func TestOpenings(t *testing.T) {
	three := threeHosts()
	three.Port = 8443
	got := openings(three, "cp1")
	if len(got) != 2 || got[0].String() != "8443/tcp" || got[0].From != nil || got[1].String() != "vrrp" {
		t.Fatalf("openings are %+v", got)
	}
	var from []string
	for _, address := range got[1].From {
		from = append(from, address.String())
	}
	slices.Sort(from)
	if !slices.Equal(from, []string{"10.0.0.12", "10.0.0.13"}) {
		t.Errorf("VRRP comes from %q", from)
	}
	alone := specOf("10.0.0.100", map[string]string{"cp1": "10.0.0.11"})
	if got := openings(alone, "cp1"); len(got) != 1 || got[0].String() != "6443/tcp" {
		t.Errorf("alone: %+v", got)
	}
}
