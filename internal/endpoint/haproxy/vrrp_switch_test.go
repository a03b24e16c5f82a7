package haproxy

import (
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

func withMulticast(s Spec) Spec {
	s.VRRP = Multicast
	return s
}

func TestRenderMulticast(t *testing.T) {
	usual := renderKeepalived(threeHosts(), "cp2", "eth0")
	got := renderKeepalived(withMulticast(threeHosts()), "cp2", "eth0")
	if added := subtract(got, usual); !slices.Equal(added, []string{"mcast_src_ip 10.0.0.12"}) {
		t.Errorf("added %q", added)
	}
	if !sendsMulticast(got) || sendsMulticast(usual) || strings.Contains(got, "unicast") {
		t.Errorf("rendered\n%s", got)
	}
	explicit := threeHosts()
	explicit.VRRP = Unicast
	if renderKeepalived(explicit, "cp2", "eth0") != usual || !explicit.rendersLike(threeHosts()) {
		t.Error("unicast is not the default")
	}
	if threeHosts().rendersLike(withMulticast(threeHosts())) {
		t.Error("multicast renders the same files")
	}
	bad := threeHosts()
	bad.VRRP = "broadcast"
	check(t, "another way", bad.validate(), "neither unicast nor multicast")
}

// TestToStop: hosts that do not hear each other's advertisements never run at the same time.
func TestToStop(t *testing.T) {
	unicast, multicast, another := threeHosts(), withMulticast(threeHosts()), threeHosts()
	another.VirtualRouterID = unicast.routerID()%255 + 1
	explicit := threeHosts()
	explicit.VirtualRouterID = unicast.routerID()
	stopped := func(b balancer) balancer {
		b.facts.Units = map[string]host.UnitState{keepalivedUnit: {Load: "loaded", Active: "inactive"}}
		return b
	}
	for name, c := range map[string]struct {
		want Spec
		seen map[string]balancer
		stop []string
	}{
		"nothing changes": {unicast, map[string]balancer{
			"cp1": held(asRendered(unicast, "cp1"), "10.0.0.100"), "cp2": asRendered(unicast, "cp2"),
		}, nil},
		"to multicast": {multicast, map[string]balancer{
			"cp1": asRendered(unicast, "cp1"), "cp2": held(asRendered(unicast, "cp2"), "10.0.0.100"),
			"cp3": asRendered(unicast, "cp3"),
		}, []string{"cp1", "cp3"}},
		"the holder has changed, one is stopped": {multicast, map[string]balancer{
			"cp1": asRendered(unicast, "cp1"), "cp2": held(asRendered(multicast, "cp2"), "10.0.0.100"),
			"cp3": stopped(asRendered(unicast, "cp3")),
		}, []string{"cp1"}},
		"reverted after the holder has changed": {unicast, map[string]balancer{
			"cp1": stopped(asRendered(unicast, "cp1")), "cp2": held(asRendered(multicast, "cp2"), "10.0.0.100"),
			"cp3": asRendered(multicast, "cp3"),
		}, []string{"cp3"}},
		"another virtual router": {another, map[string]balancer{
			"cp1": asRendered(unicast, "cp1"), "cp2": held(asRendered(unicast, "cp2"), "10.0.0.100"),
			"cp3": asRendered(unicast, "cp3"),
		}, []string{"cp1", "cp3"}},
		"another virtual router, the holder has changed": {another, map[string]balancer{
			"cp1": asRendered(unicast, "cp1"), "cp2": held(asRendered(another, "cp2"), "10.0.0.100"),
			"cp3": stopped(asRendered(unicast, "cp3")),
		}, []string{"cp1"}},
		"the same virtual router, by its number": {explicit, map[string]balancer{
			"cp1": asRendered(unicast, "cp1"), "cp2": held(asRendered(unicast, "cp2"), "10.0.0.100"),
		}, nil},
		"a new host": {multicast, map[string]balancer{
			"cp1": {}, "cp2": held(asRendered(multicast, "cp2"), "10.0.0.100"),
		}, nil},
		"both have the address": {multicast, map[string]balancer{
			"cp1": held(asRendered(unicast, "cp1"), "10.0.0.100"),
			"cp2": held(asRendered(multicast, "cp2"), "10.0.0.100"),
		}, []string{"cp2"}},
		"nobody has the address": {multicast, map[string]balancer{"cp1": asRendered(unicast, "cp1")}, nil},
		"one may have got the address since": {multicast, map[string]balancer{
			"cp1": asRendered(unicast, "cp1"), "cp2": asRendered(unicast, "cp2"), "cp3": {},
		}, []string{"cp2"}},
	} {
		if got := toStop(c.want, c.seen); !slices.Equal(got, c.stop) {
			t.Errorf("%s: stops %q, want %q", name, got, c.stop)
		}
	}
}

// TestImportMulticast: the files do not name the other hosts, so that the record must.
func TestImportMulticast(t *testing.T) {
	s := withMulticast(threeHosts())
	part, err := rendered(s.Hosts["cp1"], machineOf(s, "cp1", "eth0"))
	if err != nil {
		t.Fatal(err)
	}
	if got := part.imported(); got.VRRP != Multicast || len(got.Hosts) != 3 {
		t.Errorf("got %+v", got)
	}
	facts := machineOf(s, "cp1", "eth0")
	delete(facts.Files, recordPath)
	if part, err = rendered(s.Hosts["cp1"], facts); err != nil {
		t.Fatal(err)
	}
	if got := part.imported(); got.VRRP != Multicast || got.Hosts != nil || !part.multicast {
		t.Errorf("without a record: %+v", got)
	}
	explicit := threeHosts()
	explicit.VRRP = Unicast
	if part, err = rendered(explicit.Hosts["cp1"], machineOf(explicit, "cp1", "eth0")); err != nil ||
		part.imported().VRRP != Unicast {
		t.Errorf("of an explicit default: %+v, %v", part, err)
	}
}
