package acceptance

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

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

// TestMoveEndpoint moves a control plane from a virtual IP to a balancer that others look after, and
// back, while clients of both addresses work. Then the balancer takes over the virtual IP itself, and
// HAProxy takes it back, and never do two machines have it.
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

	// The balancer gets the virtual IP. It waits until HAProxy has given the address up.
	use(vip, "virtual_ip", "balancer")
	undisturbed(t, atVIP)
	startBalancer(t, services.HAProxy, lb, targetsOn("cp1", "cp2", "cp3"), "/readyz")
	onMachine(t, lb, fmt.Sprintf(takeWhenFreeScript, balancer, vip))
	atVIP = startClients(t, load.Config{Kubeconfig: at(vip), Criteria: once()})
	both := bothHave(t, vip, append(names, "cp4"))
	handOver = "release"
	use(vip, "virtual_ip", "balancer")
	awaitHolder(t, "cp4")
	handOver = ""
	use(vip, "balancer")
	undisturbed(t, atVIP)
	for _, name := range names {
		onMachine(t, shared.lab.Machine(name), "test ! -e /etc/haproxy/kube")
	}
	expectEmptyPlan(t, w)

	// HAProxy takes it back, when the balancer has given it up.
	write(vip, "balancer", "virtual_ip")
	expectContains(t, refused(t, w), vip+" is in use", "haproxy.hand_over")
	atVIP = startClients(t, load.Config{Kubeconfig: at(vip), Criteria: once()})
	handOver = "prepare"
	use(vip, "balancer", "virtual_ip")
	handOver = "take"
	use(vip, "virtual_ip", "balancer")
	expectEmptyPlan(t, w)
	if got := holders(t, names...); len(got) > 0 {
		t.Errorf("%v took the address while the balancer still had it", got)
	}
	onMachine(t, lb, "systemctl stop keepalived; sleep 0.2; systemctl stop haproxy")
	awaitHolder(t, names...)
	handOver = ""
	use(vip, "virtual_ip")
	undisturbed(t, atVIP)
	if at := both(); at != "" {
		t.Errorf("%s was on two machines at once: %s", vip, at)
	}
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
