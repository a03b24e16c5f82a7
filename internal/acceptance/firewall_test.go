package acceptance

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/firewall"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// TestFirewall creates, changes and destroys a control plane on machines whose nftables drop
// everything that the table of connections does not name, after creates that are refused because one
// more rule is missing.
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
	// Without one rule, the resource that needs it is refused, and names it. Nothing is on the machines.
	full := files[machines[0].String()]
	endpointOnly, membersOnly := "-target=kube_control_plane_endpoint.this", "-target=kube_etcd_member.this"
	refusedWithout(t, w, full, 6443, "api-check", endpointOnly)
	refusedWithout(t, w, full, 2380, "etcd-peer", membersOnly)
	refusedWithout(t, w, full, 2379, "etcd-health", membersOnly)
	expectBare(t, bare, names...)
	if _, err := w.Apply(t.Context(), t.Output(), endpointOnly, membersOnly); err != nil {
		t.Fatal(err)
	}
	refusedWithout(t, w, full, 6443, "api-balancer")
	if left := onMachine(t, shared.lab.Machine("cp1"), "ls /etc/kubernetes/*.conf "+
		"/opt/kube/kubernetes /etc/systemd/system/kube-apiserver.service 2>/dev/null || true"); left != "" {
		t.Errorf("a refused replica has left %s", left)
	}
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

// refusedWithout closes a port of cp1 for cp2, expects that an apply is refused, and opens it again.
func refusedWithout(t *testing.T, w *workspace.Workspace, full string, port int, rule string, args ...string) {
	t.Helper()
	m, from := shared.lab.Machine("cp1"), address("cp2")
	wanted := fmt.Sprintf("ip saddr %s/32 tcp dport %d accept", from, port)
	var rest []string
	for line := range strings.Lines(full) {
		if !strings.Contains(line, wanted) {
			rest = append(rest, line)
		}
	}
	if strings.Join(rest, "") == full {
		t.Fatalf("no rule %q in\n%s", wanted, full)
	}
	loadNFTables(t, m, strings.Join(rest, ""))
	text := refused(t, w, args...)
	loadNFTables(t, m, full)
	for _, want := range []string{
		fmt.Sprintf("%s does not reach TCP port %d of %s (%s: ", from, port, m.Address, rule), "no answer within 5s",
		fmt.Sprintf("let TCP %d in on %s from %s (ingress; nftables: %s;", port, m.Address, from, wanted),
		"nothing was changed",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("without the rule %s, %q is not in\n%s", rule, want, text)
		}
	}
	if other := address("cp3") + " does not reach"; strings.Contains(text, other) {
		t.Errorf("an open connection is called closed:\n%s", text)
	}
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
