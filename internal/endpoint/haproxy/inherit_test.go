package haproxy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

const formerConfig = `! Configuration File for keepalived
global_defs {
    router_id LVS_DEVEL
}
vrrp_instance VI_1 {
    state MASTER
    virtual_router_id 51 # the guide's
    virtual_ipaddress {
        10.0.0.100/24 dev eth0
        # 10.0.0.7
    }
    virtual_ipaddress_excluded {
        fd00::100
    }
}
`

// TestParseFormer reads the addresses and the identifiers of instances, and nothing from comments.
func TestParseFormer(t *testing.T) {
	f := parseFormer(formerConfig)
	want := []netip.Addr{netip.MustParseAddr("10.0.0.100"), netip.MustParseAddr("fd00::100")}
	if !slices.Equal(f.addresses, want) || !slices.Equal(f.routerIDs, []int{51}) || f.includes {
		t.Errorf("%+v", f)
	}
	for _, text := range []string{"include /etc/keepalived/more.conf", "\tincluder x"} {
		if !parseFormer(text).includes {
			t.Errorf("%q includes nothing", text)
		}
	}
}

// balancerWith is a machine whose own services run with these configurations.
func balancerWith(keepalived, haproxy string) balancer {
	running := host.UnitState{Load: "loaded", Active: "active", Enabled: "enabled"}
	return balancer{facts: host.Facts{
		Units: map[string]host.UnitState{formerKeepalivedUnit: running, formerHAProxyUnit: running},
		Files: map[string]host.FileState{
			formerKeepalivedPath: {Content: keepalived}, formerHAProxyPath: {Content: haproxy},
		},
	}}
}

// TestInheritProblems: what would be lost with the former services, or would disturb the takeover, is refused.
func TestInheritProblems(t *testing.T) {
	const config = "frontend apiserver\n    bind *:8443\n    default_backend b\nlisten statistics\n    stats enable\n"
	for name, c := range map[string]struct {
		keepalived, haproxy, want string
	}{
		"the guide": {formerConfig, config, ""},
		"another service": {
			strings.NewReplacer("10.0.0.100", "10.0.0.9", "fd00::100", "fd00::9").Replace(formerConfig), config, "",
		},
		"one more address": {strings.Replace(formerConfig, "# 10.0.0.7", "10.0.0.7", 1), config, "also has 10.0.0.7"},
		"includes":         {formerConfig + "include other.conf\n", config, "includes other files"},
		"router id":        {strings.Replace(formerConfig, "51", "77", 1), config, "router id 77 too"},
		"more to balance": {
			formerConfig, config + "frontend web\x1b[2J\n    bind *:80\n", "(apiserver, web",
		},
		"another file": {formerConfig, "frontend x\n    bind *:84430\n", "only a HAProxy with that file"},
	} {
		t.Run(name, func(t *testing.T) {
			s := Spec{
				Address: "10.0.0.100", Further: []string{"fd00::100"}, Port: 8443, Inherit: true, HandOver: Prepare,
				VirtualRouterID: 77,
			}
			b := balancerWith(c.keepalived, c.haproxy)
			b.facts.Listeners = map[int]host.Listener{8443: {Process: "haproxy", Addresses: []string{"0.0.0.0"}}}
			got := strings.Join(inheritProblems(s, b), "; ")
			if (c.want == "") != (got == "") || !strings.Contains(got, c.want) || strings.Contains(got, "\x1b") {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestLeads: if the former services have moved the address while an apply was cut off, or were started again, the
// machine leads whose keepalived of the endpoint has it.
func TestLeads(t *testing.T) {
	vip := netip.MustParseAddr("10.0.0.100")
	has := func(waiting, keepalived string) balancer {
		b := balancerWith(keepalived, "")
		b.local = []netip.Addr{vip}
		b.facts.Files[waitingPath] = host.FileState{SHA256: sha256Hex([]byte(waiting))}
		return b
	}
	s := Spec{Address: vip.String(), Inherit: true, HandOver: Take}
	for want, seen := range map[string]map[string]balancer{
		"":  {"a": {}, "b": {}},
		"a": {"a": has("1\n", formerConfig), "b": {}},
		"b": {"a": has("1\n", formerConfig), "b": has("0\n", formerConfig), "c": {}},
		"c": {"a": has("0\n", formerConfig), "c": has("0\n", "")},
	} {
		if got := leads(s, seen); got != want {
			t.Errorf("%q leads, want %q", got, want)
		}
	}
}

// TestPrepared: HAProxy listens at no address before the endpoint may take it, and the stop of keepalived removes none.
func TestPrepared(t *testing.T) {
	s := Spec{Address: "10.0.0.100", Port: 8443, Inherit: true, HandOver: Prepare}
	at := fmt.Sprintf("bind %s:%d", s.Address, s.Port)
	if text := renderHAProxy(s); strings.Contains(text, at) || !strings.Contains(text, preparedBind) {
		t.Error(text)
	}
	if text := renderKeepalivedUnit(s, "keepalived", "eth0"); strings.Contains(text, "address delete") {
		t.Error(text)
	}
	s.HandOver = Take
	if text := renderHAProxy(s); !strings.Contains(text, at) || strings.Contains(text, preparedBind) {
		t.Error(text)
	}
	if text := renderKeepalivedUnit(s, "keepalived", "eth0"); !strings.Contains(text, "address delete") {
		t.Error(text)
	}
	if s.watches() {
		t.Error("a watcher waits for a machine outside of the endpoint")
	}
}

// TestValidateInherit: two of the steps take the address from the hosts' own services.
func TestValidateInherit(t *testing.T) {
	for step, inherited := range map[string]bool{"": false, Prepare: true, Take: true, Release: false} {
		if err := ValidateInherit(true, step); (err == nil) != inherited {
			t.Errorf("%q: %v", step, err)
		}
		if err := ValidateInherit(false, step); err != nil {
			t.Error(err)
		}
	}
}
