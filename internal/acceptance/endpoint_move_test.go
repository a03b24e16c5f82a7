package acceptance

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/lab/services"
	"github.com/kubequorum/terraform-provider-kube/internal/load"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// takeAddressScript gives an address to a balancer: it announces it by gratuitous ARP, and again each
// second, as the balancer of a platform would.
const takeAddressScript = `interface=$(ip -o -4 address show to %[1]s | awk '{ print $2; exit }')
cat >/etc/keepalived/keepalived.conf <<EOF
vrrp_instance other {
  state MASTER
  interface $interface
  virtual_router_id 7
  priority 200
  garp_master_delay 1
  garp_master_refresh 1
  virtual_ipaddress { %[2]s/32 dev $interface }
}
EOF
systemctl start keepalived
until ip -o address show to %[2]s | grep -q .; do sleep 0.1; done
sleep 2 # two more announcements`

// TestMoveEndpoint moves a control plane from a virtual IP to a balancer that others look after, and
// back, while clients of both addresses work. Then the balancer takes over the virtual IP itself, and
// HAProxy takes it back.
func TestMoveEndpoint(t *testing.T) {
	names := []string{"cp1", "cp2", "cp3"}
	w := storyIn(t, append(names, "cp4"), checkout(t), "examples/moving-endpoint")
	bare := fingerprints(t, names...)
	lb := shared.lab.Machine("cp4")
	t.Cleanup(func() {
		if err := lb.Rebuild(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	onMachine(t, lb, `apt-get install -y -q haproxy keepalived >/dev/null 2>&1
systemctl disable --quiet --now haproxy keepalived`)
	vip, balancer := w.VIP(), lb.Address.String()
	handOver := ""
	write := func(balancer string, endpoints ...string) {
		t.Helper()
		values := map[string]any{
			"machines": addresses(names), "endpoints": endpoints, "endpoint_address": vip, "balancer": balancer,
		}
		if handOver != "" {
			values["hand_over"] = handOver
		}
		if err := w.WriteJSON("z.auto.tfvars.json", values); err != nil {
			t.Fatal(err)
		}
	}
	use := func(balancer string, endpoints ...string) {
		t.Helper()
		write(balancer, endpoints...)
		apply(t, w)
	}
	at := func(address string) string { // the kubeconfig for clients of one address
		text := outputOf(t, w, "kubeconfig")
		for _, other := range []string{vip, balancer} {
			text = strings.ReplaceAll(text, "https://"+other+":6443", "https://"+address+":6443")
		}
		return text
	}

	use(balancer, "virtual_ip")
	startBalancer(t, services.HAProxy, lb, targetsOn("cp1", "cp2", "cp3"), "/readyz")
	atVIP := startLoad(t, at(vip))
	use(balancer, "virtual_ip", "balancer")
	atBalancer := startLoad(t, at(balancer)) // verifies the name in the certificates
	use(balancer, "balancer", "virtual_ip")
	if text := outputOf(t, w, "kubeconfig"); !strings.Contains(text, "https://"+balancer+":6443") {
		t.Errorf("the kubeconfig does not name the first endpoint, %s", balancer)
	}
	undisturbed(t, atVIP)
	expectAdditional(t, w, balancer)
	use(balancer, "balancer")
	for _, name := range names {
		onMachine(t, shared.lab.Machine(name),
			fmt.Sprintf("test ! -e /etc/haproxy/kube && ! ip address | grep -F ' %s/'", vip))
	}
	if t.Failed() {
		t.FailNow()
	}

	use(balancer, "balancer", "virtual_ip")
	atVIP = startLoad(t, at(vip))
	use(balancer, "virtual_ip", "balancer")
	undisturbed(t, atBalancer)
	use(balancer, "virtual_ip")
	onMachine(t, lb, "systemctl stop haproxy")
	expectEmptyPlan(t, w)

	// The balancer gets the virtual IP: it takes the address between two applies.
	use(vip, "virtual_ip", "balancer")
	undisturbed(t, atVIP)
	startBalancer(t, services.HAProxy, lb, targetsOn("cp1", "cp2", "cp3"), "/readyz")
	onMachine(t, lb, fmt.Sprintf(takeAddressScript, balancer, vip))
	// Until HAProxy has lost the address, both have it, and connections end when it moves.
	atVIP = startClients(t, load.Config{Kubeconfig: at(vip), Criteria: moved()})
	use(vip, "balancer")
	undisturbed(t, atVIP)
	for _, name := range names {
		onMachine(t, shared.lab.Machine(name), "test ! -e /etc/haproxy/kube")
	}
	expectEmptyPlan(t, w)

	// HAProxy takes it back, while the balancer still has it.
	write(vip, "balancer", "virtual_ip")
	expectContains(t, refused(t, w), vip+" is in use", "haproxy.hand_over")
	atVIP = startClients(t, load.Config{Kubeconfig: at(vip), Criteria: moved()})
	handOver = "prepare"
	use(vip, "balancer", "virtual_ip")
	if got := holders(t, names...); len(got) > 0 {
		t.Errorf("%v took the address before it was to be announced", got)
	}
	handOver = "announce"
	use(vip, "virtual_ip", "balancer")
	holder(t, names...)
	onMachine(t, lb, "systemctl stop keepalived haproxy")
	handOver = ""
	use(vip, "virtual_ip")
	undisturbed(t, atVIP)
	holder(t, names...)
	expectEmptyPlan(t, w)
	apply(t, w, "-destroy")
	expectBare(t, bare, names...)
}

// expectAdditional imports a replica with two endpoints, and the endpoint at an address.
func expectAdditional(t *testing.T, w *workspace.Workspace, balancer string) {
	t.Helper()
	for to, id := range map[string]string{
		replicaAddress("cp1"): address("cp1"), "kube_control_plane_endpoint.balancer[0]": address("cp2") + "/" + balancer,
		"kube_control_plane_endpoint.virtual_ip[0]": address("cp2") + "/" + w.VIP(),
	} {
		if _, err := w.Run(t.Context(), "state", "rm", to); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Run(t.Context(), "import", "-input=false", "-no-color", to, id); err != nil {
			t.Fatal(err)
		}
	}
	text, _, err := w.Plan(t.Context())
	if err != nil || strings.Contains(text, "additional_endpoints") || strings.Contains(text, "must be replaced") {
		t.Errorf("after an import, the plan changes the endpoints: %v\n%s", err, text)
	}
	apply(t, w)
}
