package component

import (
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
)

func TestValidateCIDRs(t *testing.T) {
	for _, c := range []struct{ services, pods, want string }{
		{"10.96.0.0/12", "", ""},
		{"10.96.0.0/12", "10.244.0.0/16", ""},
		{"10.96.0.0/12 fd00:1::/112", "10.244.0.0/16 fd00:2::/56", ""},
		{"10.96.0.0/12 fd00:1::/112", "10.244.0.0/16", ""},
		{"", "10.244.0.0/16", "no service range"},
		{"10.96.0.0", "", "malformed service range"},
		{"10.96.0.0/12", "10.244/16", "malformed pod range"},
		{"10.96.0.1/12", "", "did you mean 10.96.0.0/12"},
		{"10.96.0.0/12", "10.100.0.0/16", "overlaps"},
		{"10.96.0.0/16 10.97.0.0/16", "", "same IP family"},
		{"10.96.0.0/16 fd00::/112 10.98.0.0/16", "", "at most two"},
		{"10.96.0.0/12", "fd00::/56", "different IP families"},
		{"10.96.0.0/30", "", "too small"},
		{"10.0.0.0/8", "", "too large: at most 20 bits for addresses, a /12"},
		{"fd00:1::/108", "fd00:2::/56", ""},
		{"10.96.0.0/29", "", ""},
		{"10.96.0.0/11", "", "too large"},
		{"10.96.0.0/12 fd00:1::/112", "fd00:2::/56", ""},
		{"10.96.0.0/12", "10.244.0.0/16 fd00:2::/56", ""},
		{"10.96.0.0/12", "fd00:2::/56", "different IP families"},
		{"fd00:1::/64", "", "too large: at most 20 bits for addresses, a /108"},
		{"10.96.0.0/12 fd00:1::/64", "", "too large"},
		{"FD00:1::/112", "", `use "fd00:1::/112"`},
		{"fd00:1:0::/112", "", `use "fd00:1::/112"`},
		{"fd00:1::/112", "fd00:2:0::/56", `use "fd00:2::/56"`},
		{"::ffff:10.96.0.0/108", "", "IPv4 in the form of IPv6"},
	} {
		err := ValidateCIDRs(strings.Fields(c.services), strings.Fields(c.pods))
		if (c.want == "") != (err == nil) || !strings.Contains(cptest.Text(err), c.want) {
			t.Errorf("%q, %q: %v, want %q", c.services, c.pods, err, c.want)
		}
	}
}

func TestValidateEtcdURLs(t *testing.T) {
	for _, c := range []struct{ urls, want string }{
		{"https://10.0.0.11:2379", ""},
		{"https://10.0.0.11:2379 https://[fd00::1]:2379 https://etcd.example:2379", ""},
		{"", "no etcd URL"},
		{"http://10.0.0.11:2379", "not https"},
		{"https://10.0.0.11", "names no port"},
		{"10.0.0.11:2379", "malformed"},
		{"https://10.0.0.11:2379/v3", "malformed"},
		{"https://a:2379,https://b:2379", "malformed"},
		{"https://a:2379 https://a:2379", "given twice"},
		{"https://fd00::1:2379", "malformed"},
		{"https://[FD00::1]:2379", `use "fd00::1"`},
		{"https://[::ffff:10.0.0.11]:2379", `use "10.0.0.11"`},
		{"https://[fd00::1%25eth0]:2379", "has a zone"},
	} {
		err := ValidateEtcd(strings.Fields(c.urls))
		if (c.want == "") != (err == nil) || !strings.Contains(cptest.Text(err), c.want) {
			t.Errorf("%q: %v, want %q", c.urls, err, c.want)
		}
	}
}

func TestValidateNameAndAddress(t *testing.T) {
	for name, good := range map[string]bool{
		"cp1": true, "cp-1.example": true, "a": true,
		"": false, "CP1": false, "-a": false, "a-": false, "a..b": false, "a_b": false, strings.Repeat("a", 254): false,
	} {
		if err := ValidateName(name); (err == nil) != good {
			t.Errorf("name %q: %v", name, err)
		}
	}
	for address, good := range map[string]bool{
		"10.0.0.11": true, "fd00::11": true,
		"FD00::11": false, "fe80::1": false, "::ffff:10.0.0.11": false,
		"cp1.example": false, "": false, "0.0.0.0": false, "127.0.0.1": false, "::1": false, "224.0.0.1": false,
	} {
		if err := ValidateAddress(address); (err == nil) != good {
			t.Errorf("address %q: %v", address, err)
		}
	}
}
