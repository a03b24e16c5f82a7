package lab

import (
	"net/netip"
	"testing"
)

func TestFreeAddress(t *testing.T) {
	for name, test := range map[string]struct {
		subnet string
		taken  []string
		want   string // empty: refused
	}{
		"first":           {"10.0.0.0/24", nil, "10.0.0.11"},
		"next":            {"10.0.0.0/24", []string{"10.0.0.11", "10.0.0.12"}, "10.0.0.13"},
		"gap":             {"10.0.0.0/24", []string{"10.0.0.12"}, "10.0.0.11"},
		"host part":       {"10.0.0.77/24", nil, "10.0.0.11"},
		"never broadcast": {"10.0.0.0/28", []string{"10.0.0.11", "10.0.0.12", "10.0.0.13", "10.0.0.14"}, ""},
		"last":            {"10.0.0.0/28", []string{"10.0.0.11", "10.0.0.12", "10.0.0.13"}, "10.0.0.14"},
	} {
		t.Run(name, func(t *testing.T) {
			s := state{Subnet: netip.MustParsePrefix(test.subnet)}
			for _, address := range test.taken {
				s.Machines = append(s.Machines, stateMachine{Address: netip.MustParseAddr(address)})
			}
			got, err := s.freeAddress()
			switch {
			case test.want == "" && err == nil:
				t.Errorf("gives %s, want an error", got)
			case test.want != "" && (err != nil || got.String() != test.want):
				t.Errorf("gives %s, %v, want %s", got, err, test.want)
			}
		})
	}
}

func TestAddress6(t *testing.T) {
	for subnet, want := range map[string]map[string]string{
		"":               {"10.0.0.11": "invalid IP"},
		"fd00:95::/64":   {"10.0.0.11": "fd00:95::11", "10.0.0.109": "fd00:95::109", "10.0.0.254": "fd00:95::254"},
		"fd00:95::7/112": {"10.0.0.12": "fd00:95::12"},
	} {
		var s state
		if subnet != "" {
			s.Subnet6 = netip.MustParsePrefix(subnet)
		}
		for address, want := range want {
			if got := s.address6(netip.MustParseAddr(address)); got.String() != want {
				t.Errorf("%s in %q gives %s, want %s", address, subnet, got, want)
			}
		}
	}
}

func TestConfigValidate(t *testing.T) {
	subnet := netip.MustParsePrefix("10.0.0.0/24")
	for name, test := range map[string]struct {
		cfg Config
		ok  bool
	}{
		"smallest":                {Config{Name: "x"}, true},
		"all":                     {Config{Name: "x-1", Subnet: subnet, Machines: []string{"a", "cp-1"}}, true},
		"no name":                 {Config{}, false},
		"path as name":            {Config{Name: "../x"}, false},
		"small subnet":            {Config{Name: "x", Subnet: netip.MustParsePrefix("10.0.0.0/28")}, false},
		"IPv6":                    {Config{Name: "x", Subnet: netip.MustParsePrefix("fd00::/64")}, false},
		"both families":           {Config{Name: "x", Subnet6: netip.MustParsePrefix("fd00:95::/64")}, true},
		"IPv6 only":               {Config{Name: "x", Subnet6: netip.MustParsePrefix("fd00:95::/64"), IPv6Only: true}, true},
		"neither family":          {Config{Name: "x", IPv6Only: true}, false},
		"routable IPv6":           {Config{Name: "x", Subnet6: netip.MustParsePrefix("2001:db8::/64")}, false},
		"IPv4 as IPv6":            {Config{Name: "x", Subnet6: netip.MustParsePrefix("10.0.0.0/24")}, false},
		"small IPv6 subnet":       {Config{Name: "x", Subnet6: netip.MustParsePrefix("fd00:95::/120")}, false},
		"no machine name":         {Config{Name: "x", Machines: []string{""}}, false},
		"path as machine":         {Config{Name: "x", Machines: []string{"../x"}}, false},
		"machine like an option":  {Config{Name: "x", Machines: []string{"-x"}}, false},
		"machine like no cable":   {Config{Name: "x", Machines: []string{"too-long-a-name-"}}, false},
		"machine like the switch": {Config{Name: "x", Machines: []string{bridge}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := test.cfg.validate(); (err == nil) != test.ok {
				t.Errorf("validate gives %v, want ok = %v", err, test.ok)
			}
		})
	}
}
