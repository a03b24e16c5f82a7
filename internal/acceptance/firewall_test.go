package acceptance

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/firewall"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
)

// TestFirewall creates, changes and destroys a control plane on machines whose nftables drop
// everything that the table of connections does not name.
func TestFirewall(t *testing.T) {
	names := []string{"cp1", "cp2", "cp3"}
	w := newStory(t, names...)
	var machines []netip.Addr
	for _, name := range names {
		machines = append(machines, shared.lab.Machine(name).Address)
		onMachine(t, shared.lab.Machine(name),
			"DEBIAN_FRONTEND=noninteractive apt-get install -y -q python3-nftables >/tmp/apt.log 2>&1 || "+
				"{ tail /tmp/apt.log; exit 1; }")
	}
	operator := netip.PrefixFrom(operatorOf(machines[0]), 32)
	site := firewall.Site{
		Machines: map[firewall.Role][]netip.Addr{
			firewall.Members: machines, firewall.Replicas: machines, firewall.Balancers: machines,
		},
		Remote: map[firewall.Role][]netip.Prefix{
			firewall.Operator: {operator}, firewall.Clients: {operator}, firewall.Monitoring: {operator},
		},
		Endpoint: "haproxy",
	}
	if err := site.Validate(); err != nil {
		t.Fatal(err)
	}
	files := site.NFTables()
	for _, name := range names {
		m := shared.lab.Machine(name)
		loadNFTables(t, m, files[m.Address.String()])
		loadNFTables(t, m, files[m.Address.String()]) // the second load replaces the first
		t.Cleanup(func() { loadNFTables(t, m, "delete table inet kube_control_plane") })
	}
	bare := fingerprints(t, names...)
	apply(t, w)
	expectHealthy(t, w, names)
	useAPI(t, w)
	// The table lets in what is needed, and drops the rest: konnectivity's port has no rule.
	cp2 := machines[1]
	knock := "timeout 3 bash -c 'echo >/dev/tcp/%s/%d' 2>/dev/null; echo $?"
	for port, want := range map[int]string{2379: "0", 2380: "0", 6443: "0", 10257: "124", 8132: "124"} {
		got := onMachine(t, shared.lab.Machine("cp1"), fmt.Sprintf(knock, cp2, port))
		if fmt.Sprintf("%.*s", len(want), got) != want {
			t.Errorf("cp1 to port %d of cp2: exit status %q, want %s", port, got, want)
		}
	}
	choose(t, w, "cp1", "cp2")
	apply(t, w)
	choose(t, w, names...)
	apply(t, w)
	expectHealthy(t, w, names)
	apply(t, w, "-destroy")
	expectBare(t, bare, names...)
}

// operatorOf returns the address that this computer has in the lab of a machine.
func operatorOf(machine netip.Addr) netip.Addr {
	bytes := machine.As4()
	bytes[3] = 1
	return netip.AddrFrom4(bytes)
}

// loadNFTables does what "nft -f" does, by the same library: the machines have no package of nft.
func loadNFTables(t *testing.T, m *lab.Machine, text string) {
	t.Helper()
	onMachine(t, m, fmt.Sprintf(`cat >/tmp/kube.nft <<'END'
%s
END
python3 -c '
import nftables, sys
status, _, error = nftables.Nftables().cmd(open("/tmp/kube.nft").read())
sys.exit(error if status else 0)'
rm /tmp/kube.nft`, text))
}
