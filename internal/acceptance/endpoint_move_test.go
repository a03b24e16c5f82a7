package acceptance

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/lab/services"
	"github.com/kubequorum/terraform-provider-kube/internal/load"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// takeWhenFreeScript runs on a balancer: it takes an address when nobody answers for it any more (guide
// Topologies). keepalived announces it by gratuitous ARP, as the balancer of a platform would.
const takeWhenFreeScript = `interface=$(ip -o -4 address show to %[1]s | awk '{ print $2; exit }')
cat >/etc/keepalived/keepalived.conf <<EOF
vrrp_instance other {
  state MASTER
  interface $interface
  virtual_router_id 7
  priority 255
  garp_master_delay 1
  garp_master_refresh 1
  virtual_ipaddress { %[2]s/32 dev $interface }
}
EOF
cat >/usr/local/bin/take-when-free <<'EOF'
#!/bin/bash
address=$1 interface=$2
answered() {
  ip neighbour delete "$address" dev "$interface" 2>/dev/null
  (echo >"/dev/udp/$address/9") 2>/dev/null
  sleep 0.1
  ip neighbour show "$address" | grep -q lladdr
}
while answered || answered; do :; done
systemctl start keepalived
EOF
chmod 755 /usr/local/bin/take-when-free
systemd-run --quiet --unit=take-when-free take-when-free %[2]s "$interface"`

// once returns the criteria for clients of an address that moves once, and is away for a moment. New
// connections wait for it. What was being answered may fail.
func once() load.Criteria {
	c := unnoticed().Excusing(load.Moved(10)...)
	c.Longest.Any, c.Longest.Events = 5*time.Second, 5*time.Second // the kernel repeats a SYN after 1 s and 3 s
	return c
}

// moving is a control plane with the endpoints virtual_ip and balancer of the example.
type moving struct {
	*testing.T
	w        *workspace.Workspace
	names    []string
	bare     map[string][]string
	lb       *lab.Machine // of the balancer
	handOver string       // of the virtual IP; "" for none
}

func newMoving(t *testing.T) *moving {
	t.Helper()
	m := &moving{T: t, names: []string{"cp1", "cp2", "cp3"}}
	m.w = storyIn(t, append(m.names, "cp4"), checkout(t), "examples/moving-endpoint")
	m.bare = fingerprints(t, m.names...)
	m.lb = shared.lab.Machine("cp4")
	t.Cleanup(func() {
		if err := m.lb.Rebuild(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	onMachine(t, m.lb, `apt-get install -y -q haproxy keepalived >/dev/null 2>&1
systemctl disable --quiet --now haproxy keepalived`)
	return m
}

// write describes the endpoints, the first one first.
func (m *moving) write(balancer string, endpoints ...string) {
	m.Helper()
	values := map[string]any{
		"machines": addresses(m.names), "endpoints": endpoints, "endpoint_address": m.w.VIP(), "balancer": balancer,
	}
	if m.handOver != "" {
		values["hand_over"] = m.handOver
	}
	if err := m.w.WriteJSON("z.auto.tfvars.json", values); err != nil {
		m.Fatal(err)
	}
}

func (m *moving) use(balancer string, endpoints ...string) {
	m.Helper()
	m.write(balancer, endpoints...)
	apply(m.T, m.w)
}

// at returns the kubeconfig for clients of one address.
func (m *moving) at(address string) string {
	m.Helper()
	text := outputOf(m.T, m.w, "kubeconfig")
	for _, other := range []string{m.w.VIP(), m.lb.Address.String()} {
		text = strings.ReplaceAll(text, "https://"+other+":6443", "https://"+address+":6443")
	}
	return text
}

func (m *moving) startBalancer() {
	m.Helper()
	startBalancer(m.T, services.HAProxy, m.lb, targetsOn(m.names...), "/readyz")
}

// withoutHAProxy expects that nothing of the virtual IP is on the machines of the control plane.
func (m *moving) withoutHAProxy() {
	m.Helper()
	for _, name := range m.names {
		onMachine(m.T, shared.lab.Machine(name),
			fmt.Sprintf("test ! -e /etc/haproxy/kube && ! ip address | grep -F ' %s/'", m.w.VIP()))
	}
}

// moveWorkers lets workers join at the first endpoint.
const moveWorkers = `
resource "kube_node_bootstrap" "this" {
  pki      = kube_pki_bundle.this.bundle
  endpoint = local.endpoints[0]
  version  = "1.36.3"

  depends_on = [kube_control_plane_replica.this]
}
`

// expectJoining expects that workers join at an address: it is in cluster-info, which they read before they trust
// anybody, and in kubeadm's configuration of the cluster.
func (m *moving) expectJoining(address string) {
	m.Helper()
	admin := credentialsOf(m.T, outputOf(m.T, m.w, "kubeconfig"))
	for path, want := range map[string]string{
		infoPath: "server: https://" + address + ":6443\n",
		"/api/v1/namespaces/kube-system/configmaps/kubeadm-config": "controlPlaneEndpoint: " + address + ":6443\n",
	} {
		var object core.ConfigMap
		admin.must(m.T, servers(m.names[0])[0], "GET", path, nil, &object)
		if text := strings.Join(slices.Collect(maps.Values(object.Data)), "\n") + "\n"; !strings.Contains(text, want) {
			m.Errorf("%s lacks %q:\n%s", path, want, text)
		}
	}
}

// TestMoveEndpoint moves a control plane from a virtual IP to a balancer that others look after, and
// back, while clients of both addresses work. What workers read that join follows.
func TestMoveEndpoint(t *testing.T) {
	m := newMoving(t)
	w, vip, balancer := m.w, m.w.VIP(), m.lb.Address.String()
	extend(t, w, moveWorkers)
	m.use(balancer, "virtual_ip")
	m.expectJoining(vip)
	m.startBalancer()
	atVIP := startLoad(t, m.at(vip))
	m.use(balancer, "virtual_ip", "balancer")
	atBalancer := startLoad(t, m.at(balancer)) // verifies the name in the certificates
	m.expectJoining(vip)
	m.use(balancer, "balancer", "virtual_ip")
	m.expectJoining(balancer)
	if text := outputOf(t, w, "kubeconfig"); !strings.Contains(text, "https://"+balancer+":6443") {
		t.Errorf("the kubeconfig does not name the first endpoint, %s", balancer)
	}
	undisturbed(t, atVIP)
	expectAdditional(t, w, balancer)
	m.use(balancer, "balancer")
	m.withoutHAProxy()
	if t.Failed() {
		t.FailNow()
	}

	m.use(balancer, "balancer", "virtual_ip")
	atVIP = startLoad(t, m.at(vip))
	m.use(balancer, "virtual_ip", "balancer")
	m.expectJoining(vip)
	undisturbed(t, atBalancer)
	m.use(balancer, "virtual_ip")
	onMachine(t, m.lb, "systemctl stop haproxy")
	expectEmptyPlan(t, w)
	undisturbed(t, atVIP)
	apply(t, w, "-destroy")
	passes(t, w)
	expectBare(t, m.bare, m.names...)
}

// TestMoveAddress moves the address itself from HAProxy to a balancer that others look after, and back, while
// clients work. Never do two machines have it.
func TestMoveAddress(t *testing.T) {
	m := newMoving(t)
	w, vip := m.w, m.w.VIP()
	m.use(vip, "virtual_ip")

	// The balancer waits until HAProxy has given the address up.
	m.use(vip, "virtual_ip", "balancer")
	m.startBalancer()
	onMachine(t, m.lb, fmt.Sprintf(takeWhenFreeScript, m.lb.Address, vip))
	clients := startClients(t, load.Config{Kubeconfig: m.at(vip), Criteria: once()})
	both := bothHave(t, vip, append(m.names, "cp4"))
	m.handOver = "release"
	m.use(vip, "virtual_ip", "balancer")
	awaitHolder(t, "cp4")
	m.handOver = ""
	m.use(vip, "balancer")
	t.Run("to the balancer", func(t *testing.T) { undisturbed(t, clients) })
	m.withoutHAProxy()
	expectEmptyPlan(t, w)
	if t.Failed() {
		t.FailNow()
	}

	// HAProxy waits until the balancer has given the address up.
	m.write(vip, "balancer", "virtual_ip")
	expectContains(t, refused(t, w), vip+" is in use", "haproxy.hand_over")
	clients = startClients(t, load.Config{Kubeconfig: m.at(vip), Criteria: once()})
	m.handOver = "prepare"
	m.use(vip, "balancer", "virtual_ip")
	m.handOver = "take"
	m.use(vip, "virtual_ip", "balancer")
	expectEmptyPlan(t, w)
	if got := holders(t, m.names...); len(got) > 0 {
		t.Errorf("%v took the address while the balancer still had it", got)
	}
	onMachine(t, m.lb, "systemctl stop keepalived; sleep 0.2; systemctl stop haproxy")
	awaitHolder(t, m.names...)
	m.handOver = ""
	m.use(vip, "virtual_ip")
	t.Run("from the balancer", func(t *testing.T) { undisturbed(t, clients) })
	if at := both(); at != "" {
		t.Errorf("%s was on two machines at once: %s", vip, at)
	}
	holder(t, m.names...)
	expectEmptyPlan(t, w)
	apply(t, w, "-destroy")
	expectBare(t, m.bare, m.names...)
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

// awaitHolder waits until one of the machines has the virtual IP.
func awaitHolder(t *testing.T, names ...string) {
	t.Helper()
	begun := time.Now()
	for len(holders(t, names...)) == 0 {
		if time.Since(begun) > time.Minute {
			t.Fatalf("none of %v has %s", names, vip)
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Logf("%v have the address %s later", holders(t, names...), time.Since(begun).Round(10*time.Millisecond))
}

// bothHave looks, until the returned function is called, for two machines that have an address at the same
// time. That function returns the machines, or "" if there were none.
func bothHave(t *testing.T, address string, names []string) func() string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan string, 1)
	having := func() map[string]bool {
		all := map[string]bool{}
		for _, name := range names {
			out, err := shared.lab.Machine(name).Run(ctx, "ip -o address show to "+address)
			all[name] = err == nil && strings.TrimSpace(out) != ""
		}
		return all
	}
	go func() {
		at := ""
		for ctx.Err() == nil {
			first, second := having(), having() // who is in both has had it in between
			var had []string
			for _, name := range names {
				if first[name] && second[name] {
					had = append(had, name)
				}
			}
			if len(had) > 1 {
				at = strings.Join(had, " and ")
			}
		}
		result <- at
	}()
	return func() string {
		cancel()
		return <-result
	}
}
