package services

import (
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
)

// What the routers expect.
const (
	Anycast     = "10.200.0.1" // the address that machines announce: in no machine's network
	ReplicasASN = 64512
	RouterASN   = 64513
)

// routerScript makes a machine the router of the lab, with bird: it accepts one address from the
// replicas' machines, and uses all routes to it.
const routerScript = `apt-get install -y -q bird2 >/dev/null 2>&1
systemctl disable --quiet --now bird
sysctl -q -w net.ipv4.ip_forward=1 net.ipv4.fib_multipath_hash_policy=1 net.ipv4.conf.all.send_redirects=0
for setting in /proc/sys/net/ipv4/conf/*/send_redirects; do echo 0 >"$setting"; done
cat >/etc/bird/router.conf <<'EOF'
router id %[1]s;
protocol device { scan time 1; }
protocol bfd { interface "*" { interval 100 ms; multiplier 3; }; }
protocol kernel { merge paths yes limit 8; ipv4 { import none; export all; }; }
protocol bgp replicas {
  local %[1]s as %[2]d;
  neighbor range %[3]s as %[4]d;
  dynamic name "replica";
  hold time 3;
  error wait time 1, 2;
  bfd yes;
  ipv4 { import where net = %[5]s/32; export none; };
}
%[6]s
EOF
bird -p -c /etc/bird/router.conf
systemd-run --quiet --unit=router /usr/sbin/bird -f -c /etc/bird/router.conf
until birdc show status >/dev/null; do sleep 0.05; done
`

// siblingConfig is a session with the router of another zone. A route of a router's own zone is
// preferred, because it is external. The routers are in one network: without "direct", bird looks for
// the next hop of an internal session in its own table, which has no route to it.
const siblingConfig = `protocol bgp sibling_%[3]d {
  local %[1]s as %[4]d;
  neighbor %[2]s as %[4]d;
  direct;
  hold time 3;
  error wait time 1, 2;
  bfd yes;
  ipv4 { import where net = %[5]s/32; export where net = %[5]s/32; next hop self; };
}
`

// Router is a machine that routes to Anycast.
type Router struct{ *lab.Machine }

// StartRouter makes m a router for machines in a network. siblings are the routers of other zones, which tell
// each other the routes of their zones. From then on, this process' network sends requests for Anycast to m.
func StartRouter(ctx context.Context, m *lab.Machine, from netip.Prefix, siblings ...*lab.Machine) (Router, error) {
	more := ""
	for i, other := range siblings {
		more += fmt.Sprintf(siblingConfig, m.Address, other.Address, i, RouterASN, Anycast)
	}
	script := fmt.Sprintf(routerScript, m.Address, RouterASN, from, ReplicasASN, Anycast, more)
	if _, err := run(ctx, m, script); err != nil {
		return Router{}, err
	}
	if out, err := route(ctx, "replace", m).CombinedOutput(); err != nil {
		return Router{}, fmt.Errorf("add a route: %w: %s", err, out)
	}
	return Router{m}, nil
}

// Forget removes the route of this process' network, if it is there.
func (r Router) Forget(ctx context.Context) { _ = route(ctx, "delete", r.Machine).Run() }

func route(ctx context.Context, action string, via *lab.Machine) *exec.Cmd {
	return exec.CommandContext(ctx, "ip", "route", action, Anycast+"/32", "via", via.Address.String())
}

// Routes returns the addresses of the machines that the router has routes to.
func (r Router) Routes(ctx context.Context) ([]string, error) {
	out, err := run(ctx, r.Machine, "ip -4 route show "+Anycast+
		" | { grep -oE '(via|nexthop via) [0-9.]+' || true; } | grep -oE '[0-9.]+$' || true")
	return strings.Fields(out), err
}

// Await returns how long it took until the router has routes to exactly these machines.
func (r Router) Await(ctx context.Context, addresses []string) (time.Duration, error) {
	return await(ctx, addresses, 20*time.Millisecond, r.Routes)
}

// Variables returns those of examples/bgp-endpoint, but for the machines.
func (r Router) Variables(asn int) map[string]any {
	return map[string]any{
		"endpoint_address": Anycast, "asn": asn,
		"peers": []map[string]any{{"address": r.Address.String(), "asn": RouterASN, "bfd": true}},
	}
}
