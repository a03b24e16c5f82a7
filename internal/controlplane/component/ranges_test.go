package component

import (
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
)

func TestValidateNetwork(t *testing.T) {
	manager := func(pairs ...string) map[string]map[string]string {
		flags := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			flags[pairs[i]] = pairs[i+1]
		}
		return map[string]map[string]string{release.ControllerManager: flags}
	}
	for _, c := range []struct {
		address, services, pods string
		extra                   map[string]map[string]string
		want                    string
	}{
		{"10.0.0.11", "10.96.0.0/12", "10.244.0.0/16", nil, ""},
		{"10.0.0.11", "10.96.0.0/12 fd00:1::/112", "10.244.0.0/16 fd00:2::/56", nil, ""},
		{"fd00::11", "fd00:1::/112", "fd00:2::/56", nil, ""},
		{"fd00::11", "fd00:1::/112 10.96.0.0/12", "fd00:2::/48 10.244.0.0/16", nil, ""},
		{"fd00::11", "10.96.0.0/12", "", nil, "fd00::11 is IPv6, and the first service range 10.96.0.0/12 is not"},
		{"fd00::11", "10.96.0.0/12 fd00:1::/112", "", nil, "Put an IPv6 range first"},
		{"10.0.0.11", "fd00:1::/112 10.96.0.0/12", "", nil, "Put an IPv4 range first"},
		{"fd00::11", "fd00:1::/112", "fd00:2::/112", nil, "smaller than the /64 that each Node gets"},
		{"fd00::11", "fd00:1::/112", "fd00::/47", nil, "at most a /48"},
		{"fd00::11", "fd00:1::/112", "fd00:2::/64", nil, ""},
		{"fd00::11", "fd00:1::/112", "fd00:2::/112", manager("node-cidr-mask-size", "0"), "smaller than the /64"},
		{"fd00::11", "fd00:1::/112", "fd00:2::/112", manager("node-cidr-mask-size", "x"), "smaller than the /64"},
		{"10.0.0.11", "10.96.0.0/12", "10.0.0.0/9", manager("node-cidr-mask-size", "27"), ""},
		{"cp1.example", "10.96.0.0/12", "", nil, ""},
		{"10.0.0.11", "10.96.0.0", "10.244.0.0", nil, ""},
		{"fd00::11", "", "", nil, ""},
		{"fd00::11", "fd00:1::/112", "fd00:2::/112", manager("node-cidr-mask-size", "120"), ""},
		{"fd00::11", "fd00:1::/112", "fd00:2::/112", manager("node-cidr-mask-size-ipv6", "120"), ""},
		{"fd00::11", "fd00:1::/112", "fd00:2::/112", manager("allocate-node-cidrs", "false"), ""},
		{"10.0.0.11", "10.96.0.0/12", "10.244.0.0/25", nil, "smaller than the /24 that each Node gets"},
		{"10.0.0.11", "10.96.0.0/12", "10.244.0.0/25", manager("node-cidr-mask-size", "28"), ""},
		{
			"10.0.0.11", "10.96.0.0/12 fd00:1::/112", "10.244.0.0/16 fd00:2::/112",
			manager("node-cidr-mask-size-ipv4", "26"), "set node-cidr-mask-size-ipv6",
		},
		{
			"10.0.0.11", "10.96.0.0/12 fd00:1::/112", "10.244.0.0/16 fd00:2::/112",
			manager("node-cidr-mask-size", "120"), "set node-cidr-mask-size-ipv6", // not with two ranges
		},
	} {
		err := ValidateNetwork(c.address, strings.Fields(c.services), strings.Fields(c.pods), c.extra)
		if (c.want == "") != (err == nil) || !strings.Contains(cptest.Text(err), c.want) {
			t.Errorf("%s %q %q %v: %v, want %q", c.address, c.services, c.pods, c.extra, err, c.want)
		}
	}
}

// TestBothFamilies: both ranges reach the flags, and both first addresses the certificate.
func TestBothFamilies(t *testing.T) {
	s := testReplica(t)
	s.Address, s.EtcdURLs = "fd00::11", []string{"https://[fd00::11]:2379"}
	s.ServiceCIDRs = []string{"fd00:1::/112", "10.96.0.0/12"}
	s.PodCIDRs = []string{"fd00:2::/56", "10.244.0.0/16"}
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	flags := APIServer(s).Flags
	for flag, want := range map[string]string{
		"advertise-address": "fd00::11", "bind-address": "fd00::11", "etcd-servers": "https://[fd00::11]:2379",
		"service-cluster-ip-range": "fd00:1::/112,10.96.0.0/12",
	} {
		if flags[flag] != want {
			t.Errorf("%s is %q, want %q", flag, flags[flag], want)
		}
	}
	s.AllAddresses = true
	if got := APIServer(s).Flags["bind-address"]; got != "::" {
		t.Errorf("on all addresses, it binds %s", got)
	}
	manager := controllerManager(s).Flags
	if manager["cluster-cidr"] != "fd00:2::/56,10.244.0.0/16" || manager["service-cluster-ip-range"] !=
		"fd00:1::/112,10.96.0.0/12" {
		t.Errorf("kube-controller-manager has %v", manager)
	}
	if got := strings.Join(ServiceIPs(s.ServiceCIDRs), " "); got != "fd00:1::1 10.96.0.1" {
		t.Errorf("the Service kubernetes has %s", got)
	}
	if got := s.LocalURL(); got != "https://[fd00::11]:6443" {
		t.Errorf("kubeconfigs have %s", got)
	}
}
