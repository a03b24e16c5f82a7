package lab_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
)

var subnet6 = netip.MustParsePrefix("fd00:91::/64")

// addressScript prints the machine's addresses that others can reach, without those whose use
// waits for the detection of duplicates.
const addressScript = "ip -o address show dev eth0 scope global -tentative | awk '{print $4}'"

func TestDualStack(t *testing.T) {
	l := upWith(t, lab.Config{
		Name: labName("dual"), Subnet: subnet, Subnet6: subnet6, Machines: []string{"a", "b"},
	})
	a := l.Machine("a")
	if want := netip.MustParseAddr("fd00:91::11"); a.Address6 != want || a.Address != netip.MustParseAddr("10.91.0.11") {
		t.Errorf("addresses are %s and %s", a.Address, a.Address6)
	}
	reaches := func() {
		t.Helper()
		if got := sh(t, a, addressScript); got != "10.91.0.11/24\nfd00:91::11/64\n" {
			t.Errorf("the machine has %q", got)
		}
		sh(t, a, "getent ahostsv6 b | grep -q ^fd00:91::12 && "+
			"timeout 5 bash -c 'head -1 </dev/tcp/fd00:91::12/22' | grep SSH")
	}
	reaches()
	out, err := l.Command(t.Context(), "ssh", "-F", "none", "-o", "BatchMode=yes", "-o", "UserKnownHostsFile="+
		l.KnownHostsPath(), "-i", l.PrivateKeyPath(), "root@"+a.Address6.String(), "hostname").CombinedOutput()
	if err != nil || string(out) != "a\n" {
		t.Errorf("SSH by IPv6 gives %q, %v", out, err)
	}
	bridge := func() string {
		return strings.Fields(command(t, l.Command(t.Context(), "ip", "-br", "link", "show", "dev", "bridge")))[2]
	}
	before := bridge()
	if err := a.PowerOff(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := a.Boot(t.Context()); err != nil {
		t.Fatal(err)
	}
	reaches()
	if after := bridge(); before != "02:00:0a:5b:00:01" || after != before {
		t.Errorf("the hardware address of the operator was %s, and is %s after a power cut", before, after)
	}
	again, err := lab.Open(l.Name)
	if err != nil || again.Subnet6 != subnet6 || again.Machine("b").Address6.String() != "fd00:91::12" {
		t.Errorf("opened again: %+v, %v", again, err)
	}
	routes := command(t, l.Command(t.Context(), "ip", "-6", "route")) + sh(t, a, "ip -6 route")
	if strings.Contains(routes, "default") {
		t.Errorf("something leads out:\n%s", routes)
	}
}

// TestIPv6Only: the lab's own commands reach the machines by IPv6.
func TestIPv6Only(t *testing.T) {
	l := upWith(t, lab.Config{
		Name: labName("six"), Subnet: subnet, Subnet6: subnet6, IPv6Only: true, Machines: []string{"a", "b"},
	})
	for _, m := range l.Machines() {
		if m.Address != m.Address6 {
			t.Errorf("%s has %s and %s", m.Name, m.Address, m.Address6)
		}
		if got := sh(t, m, addressScript); got != m.Address.String()+"/64\n" {
			t.Errorf("%s has %q", m.Name, got)
		}
	}
	sh(t, l.Machine("a"), "timeout 5 bash -c 'head -1 </dev/tcp/b/22' | grep SSH")
}
