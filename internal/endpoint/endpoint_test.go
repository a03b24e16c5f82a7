package endpoint

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestSeveralEndpoints(t *testing.T) {
	inside := Registration{
		Address: "10.0.0.100", Address6: "fd00::100", Port: 6443, ClusterID: "a",
		Hosts: map[string]string{"lb1": "10.0.0.1", "lb2": "10.0.0.2"},
	}
	outside := Registration{Kind: External, Address: "api.example.com", ClusterID: "a", DetectionTime: 6 * time.Second}
	announced := Registration{Kind: BGP, Address: "10.200.0.1", ClusterID: "a"}
	both := inside
	both.Additional = []Registration{outside}
	if got := both.AdditionalAddresses(); !slices.Equal(got, []string{"api.example.com"}) {
		t.Errorf("additional addresses: %v", got)
	}
	if both.LongestDetection() != 6*time.Second || inside.LongestDetection() != 0 {
		t.Error("the longest detection time is not that of the external endpoint")
	}
	if both.OnMachines() || !(Registration{Address: "x", Additional: []Registration{announced}}).OnMachines() {
		t.Error("OnMachines is not that of bgp")
	}
	haproxy := inside
	haproxy.Kind = HAProxy // what "" means
	overlapping, separate := inside, inside
	overlapping.Address, overlapping.Hosts = "10.0.0.101", map[string]string{"lb": "10.0.0.2"}
	separate.Address, separate.Hosts = "10.0.0.101", map[string]string{"lb1": "10.0.0.3"}
	foreign, nested, named, renamed := outside, outside, outside, outside
	named.Kind, renamed.Kind, renamed.Address = DNS, DNS, "api.example.org"
	both.Additional = append(both.Additional, separate)
	if err := both.ValidateAdditional(); err != nil {
		t.Error(err)
	}
	foreign.ClusterID = "b"
	nested.Additional = []Registration{announced}
	for want, additional := range map[string][]Registration{
		"listed twice":               {outside, outside},
		"one name only":              {named, renamed},
		"by BGP only":                {announced, {Kind: BGP, Address: "10.200.0.2", ClusterID: "a"}},
		"both manage the address":    {announced, {Kind: KubeVIP, Address: announced.Address, ClusterID: "a"}},
		"balance for one endpoint":   {overlapping},
		"haproxy 10.0.0.100 is":      {haproxy},
		"belongs to the cluster":     {foreign},
		"has additional endpoints":   {nested},
		"at most 4 are":              {outside, outside, outside, outside, outside},
		"an endpoint has no address": {{}},
	} {
		r := inside
		r.Additional = additional
		if err := r.ValidateAdditional(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}

// TestAt: what a rollback returns to has the endpoints from before, with the settings of now: a balancer
// that has been removed in the same run cannot be told anything.
func TestAt(t *testing.T) {
	before := Registration{Address: "10.0.0.100", Hosts: map[string]string{"lb1": "10.0.0.1"}}
	after := Registration{Kind: DNS, Address: "api.example.com", Additional: []Registration{
		{Address: "10.0.0.100", Hosts: map[string]string{"lb2": "10.0.0.2"}},
	}}
	got := after.At(before)
	if len(got.Additional) != 0 || got.ID() != "haproxy 10.0.0.100" || got.Hosts["lb2"] == "" {
		t.Errorf("got %+v", got)
	}
	if want := []string{"dns api.example.com", "haproxy 10.0.0.100"}; !slices.Equal(after.IDs(), want) {
		t.Errorf("IDs are %v, want %v", after.IDs(), want)
	}
}
