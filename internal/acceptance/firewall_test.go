package acceptance

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/firewall"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// TestFirewall creates, changes and destroys a control plane on machines whose nftables drop
// everything that the table of connections does not name, in both directions, after creates that are
// refused because one more rule is missing.
func TestFirewall(t *testing.T) {
	names := []string{"cp1", "cp2", "cp3"}
	w := newStory(t, append(names, "cp4")...)
	choose(t, w, names...)
	var machines []netip.Addr
	for _, name := range names {
		machines = append(machines, shared.lab.Machine(name).Address)
		onMachine(t, shared.lab.Machine(name),
			"DEBIAN_FRONTEND=noninteractive apt-get install -y -q python3-nftables >/tmp/apt.log 2>&1 || "+
				"{ tail /tmp/apt.log; exit 1; }")
	}
	operator := prefixOf(operatorOf(machines[0]))
	site := firewall.Site{
		Machines: map[firewall.Role][]netip.Addr{
			firewall.Members: machines, firewall.Replicas: machines, firewall.Balancers: machines,
		},
		Remote: map[firewall.Role][]netip.Prefix{
			firewall.Operator: {operator}, firewall.Clients: {operator}, firewall.Monitoring: {operator},
			firewall.Nodes:             {prefixOf(shared.lab.Machine("cp4").Address)},
			firewall.EndpointAddresses: {prefixOf(netip.MustParseAddr(vip))},
		},
		Endpoint:   "haproxy",
		DropEgress: true,
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
	endpointOnly, membersOnly := "-target=kube_control_plane_endpoint.this", "-target=kube_etcd_member.this"
	refusedWithout(t, w, files, firewall.Ingress, 6443, "api-check", endpointOnly)
	refusedWithout(t, w, files, firewall.Ingress, 2380, "etcd-peer", membersOnly)
	refusedWithout(t, w, files, firewall.Ingress, 2379, "etcd-health", membersOnly)
	refusedWithout(t, w, files, firewall.Egress, 6443, "api-check", endpointOnly)
	refusedWithout(t, w, files, firewall.Egress, 2380, "etcd-peer", membersOnly)
	refusedWithout(t, w, files, firewall.Egress, 2379, "etcd-health", membersOnly)
	refusedWithoutVRRP(t, w, files, "cp2", "ip saddr "+address("cp1")+"/32 meta l4proto 112 accept", endpointOnly)
	refusedWithoutVRRP(t, w, files, "cp1", "ip daddr "+address("cp2")+"/32 meta l4proto 112 accept", endpointOnly)
	expectBare(t, bare, names...)
	applyOnly(t, w, "the rest follows", endpointOnly, membersOnly)
	refusedWithout(t, w, files, firewall.Ingress, 6443, "api-balancer")
	refusedWithout(t, w, files, firewall.Egress, 6443, "api-balancer")
	if left := onMachine(t, shared.lab.Machine("cp1"), "ls /etc/kubernetes/*.conf "+
		"/opt/kube/kubernetes /etc/systemd/system/kube-apiserver.service 2>/dev/null || true"); left != "" {
		t.Errorf("a refused replica has left %s", left)
	}
	apply(t, w)
	expectHealthy(t, w, names)
	useAPI(t, w)
	// The table lets in what is needed, and drops the rest: konnectivity's port has no rule.
	for port, open := range map[int]bool{2379: true, 2380: true, 6443: true, 10257: false, 8132: false} {
		expectOpen(t, "cp1", machines[1], port, open)
	}
	expectEgress(t, operator.Addr(), files[machines[0].String()])
	expectKubelet(t, w, files[machines[0].String()])
	choose(t, w, "cp1", "cp2")
	apply(t, w)
	choose(t, w, names...)
	apply(t, w)
	expectHealthy(t, w, names)
	apply(t, w, "-destroy")
	expectBare(t, bare, names...)
}

func prefixOf(address netip.Addr) netip.Prefix { return netip.PrefixFrom(address, address.BitLen()) }

// expectOpen expects that a machine can connect to a port, or that nothing answers it.
func expectOpen(t *testing.T, from string, to netip.Addr, port int, open bool) {
	t.Helper()
	knock := "timeout 3 bash -c 'echo >/dev/tcp/%s/%d' 2>/dev/null; echo $?"
	got := strings.TrimSpace(onMachine(t, shared.lab.Machine(from), fmt.Sprintf(knock, to, port)))
	if want := map[bool]string{true: "0", false: "124"}[open]; got != want {
		t.Errorf("%s to port %d of %s: exit status %q, want %s", from, port, to, got, want)
	}
}

// expectEgress expects that cp1 reaches this computer, which drops nothing, at the port that the table lets out, and
// at no other one.
func expectEgress(t *testing.T, here netip.Addr, full string) {
	t.Helper()
	for _, port := range []uint16{443, 8443} {
		listener, err := net.Listen("tcp", netip.AddrPortFrom(here, port).String())
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
	}
	expectOpen(t, "cp1", here, 443, true)
	expectOpen(t, "cp1", here, 8443, false)
	cp1 := shared.lab.Machine("cp1")
	loadNFTables(t, cp1, without(t, full, "meta nfproto ipv4 tcp dport 443 accept"))
	expectOpen(t, "cp1", here, 443, false)
	loadNFTables(t, cp1, full)
}

// expectKubelet reads the log of a Pod through the API server of cp1, with and without the rule of egress to
// port 10250 of the node. The node is cp4, where something else takes the kubelet's place: it answers all requests.
func expectKubelet(t *testing.T, w *workspace.Workspace, full string) {
	t.Helper()
	cp1, cp4 := shared.lab.Machine("cp1"), shared.lab.Machine("cp4")
	onMachine(t, cp4, `openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=node -days 2 -keyout /run/node.key \
  -out /run/node.crt 2>/dev/null
systemd-run --quiet --unit=instead-of-kubelet openssl s_server -accept 10250 -www \
  -cert /run/node.crt -key /run/node.key`)
	t.Cleanup(func() { onMachine(t, cp4, "systemctl stop instead-of-kubelet; rm /run/node.key /run/node.crt") })
	arguments := []string{
		"--kubeconfig=" + writeFile(t, w, "firewall.conf", outputOf(t, w, "kubeconfig")),
		"--server=https://" + cp1.Address.String() + ":6443",
	}
	with := func(more ...string) []string { return append(slices.Clone(arguments), more...) }
	node := writeFile(t, w, "node.yaml", `apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: cp4}}
- apiVersion: v1
  kind: Pod
  metadata: {name: asked, namespace: default}
  spec:
    nodeName: cp4
    automountServiceAccountToken: false
    containers: [{name: main, image: none}]
`)
	await(t, "no Pod can be made", func() bool { // until the namespace has its service account
		_, err := tryKubectl(t, w, with("apply", "--filename="+node)...)
		return err == nil
	})
	kubectl(t, w, with("patch", "node", "cp4", "--subresource=status", "--patch",
		`{"status":{"addresses":[{"type":"InternalIP","address":"`+cp4.Address.String()+`"}]}}`)...)
	expectContains(t, kubectl(t, w, with("logs", "asked")...), "s_server")
	loadNFTables(t, cp1, without(t, full, fmt.Sprintf("ip daddr %s tcp dport 10250 accept", prefixOf(cp4.Address))))
	out, err := tryKubectl(t, w, with("logs", "asked")...)
	if err == nil {
		t.Error("the log is read without the rule for kubelets")
	}
	expectContains(t, out, "dial tcp "+cp4.Address.String()+":10250")
	loadNFTables(t, cp1, full)
	expectContains(t, kubectl(t, w, with("logs", "asked")...), "s_server")
	kubectl(t, w, with("delete", "pod", "asked", "--force", "--grace-period=0")...)
	kubectl(t, w, with("delete", "node", "cp4")...)
}

// without returns a file for nftables without the line of a rule.
func without(t *testing.T, full, rule string) string {
	t.Helper()
	var rest []string
	for line := range strings.Lines(full) {
		if !strings.Contains(line, rule) {
			rest = append(rest, line)
		}
	}
	if strings.Join(rest, "") == full {
		t.Fatalf("no rule %q in\n%s", rule, full)
	}
	return strings.Join(rest, "")
}

// refusedWithout closes a port of cp1 for cp2, on cp1 (ingress) or on cp2 (egress), expects that an apply is refused,
// and opens it again.
func refusedWithout(t *testing.T, w *workspace.Workspace, files map[string]string, direction firewall.Direction,
	port int, rule string, args ...string,
) {
	t.Helper()
	m, from := shared.lab.Machine("cp1"), address("cp2")
	wanted := fmt.Sprintf("ip saddr %s/32 tcp dport %d accept", from, port)
	closed, missing := m, wanted
	if direction == firewall.Egress {
		closed, missing = shared.lab.Machine("cp2"), fmt.Sprintf("ip daddr %s/32 tcp dport %d accept", m.Address, port)
	}
	full := files[closed.Address.String()]
	loadNFTables(t, closed, without(t, full, missing))
	text := refused(t, w, args...)
	loadNFTables(t, closed, full)
	for _, want := range []string{
		fmt.Sprintf("%s does not reach TCP port %d of %s (%s: ", from, port, m.Address, rule), "no answer within 5s",
		fmt.Sprintf("let TCP %d in on %s from %s (ingress; nftables: %s;", port, m.Address, from, wanted),
		"nothing was changed",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("without the rule %s (%s), %q is not in\n%s", rule, direction, want, text)
		}
	}
	if other := address("cp3") + " does not reach"; strings.Contains(text, other) {
		t.Errorf("an open connection is called closed:\n%s", text)
	}
}

// refusedWithoutVRRP takes a rule from a machine, without which cp2 does not hear cp1, expects that an apply is
// refused, and loads the rule again.
func refusedWithoutVRRP(t *testing.T, w *workspace.Workspace, files map[string]string, closed, rule, target string) {
	t.Helper()
	m, from, to := shared.lab.Machine(closed), address("cp1"), address("cp2")
	full := files[m.Address.String()]
	loadNFTables(t, m, without(t, full, rule))
	text := refused(t, w, target)
	loadNFTables(t, m, full)
	expectContains(t, text, from+" does not reach by VRRP (IP protocol 112) "+to+" (vrrp: ",
		"let VRRP (IP protocol 112) in on "+to+" from "+from+" (ingress; nftables: ip saddr "+from+
			"/32 meta l4proto 112 accept;", "nothing was changed")
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
