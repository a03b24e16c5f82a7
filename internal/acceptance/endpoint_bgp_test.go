package acceptance

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/load"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

const (
	anycast     = "10.200.0.1" // in no machine's network
	replicasASN = 64512
	routerASN   = 64513
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

// router is a machine that routes to the endpoint.
type router struct{ *lab.Machine }

// startRouter makes m a router. siblings are the routers of other zones, which tell each other the
// routes of their zones. The computer of the tests sends requests to m.
func startRouter(t *testing.T, m *lab.Machine, siblings ...*lab.Machine) router {
	t.Helper()
	more := ""
	for i, other := range siblings {
		more += fmt.Sprintf(siblingConfig, m.Address, other.Address, i, routerASN, anycast)
	}
	onMachine(t, m, fmt.Sprintf(routerScript, m.Address, routerASN, subnet, replicasASN, anycast, more))
	route := []string{anycast + "/32", "via", m.Address.String()}
	add := exec.CommandContext(t.Context(), "ip", append([]string{"route", "replace"}, route...)...)
	if out, err := add.CombinedOutput(); err != nil {
		t.Fatalf("add a route: %v: %s", err, out)
	}
	t.Cleanup(func() {
		_ = exec.Command("ip", append([]string{"route", "delete"}, route...)...).Run() // the lab is removed in any case
	})
	return router{m}
}

// await returns how long it took until the router has routes to exactly these machines.
func (r router) await(t *testing.T, names ...string) time.Duration {
	t.Helper()
	var want []string
	for _, name := range names {
		want = append(want, address(name))
	}
	slices.Sort(want)
	begun := time.Now()
	script := fmt.Sprintf(`want=%q; got=none; end=$(($(date +%%s) + 60))
while :; do
  before=$got
  got=$(ip -4 route show %s | grep -oE '(via|nexthop via) [0-9.]+' | grep -oE '[0-9.]+$' | sort | tr '\n' ' ')
  [ "$got" = "$before" ] || echo "$(date +%%T.%%3N) $got"
  if [ "$got" = "$want" ]; then exit; fi
  if [ "$(date +%%s)" -ge "$end" ]; then echo "routes: $got" >&2; exit 1; fi
  sleep 0.02
done`, strings.Join(append(want, ""), " "), anycast)
	out, err := r.Run(t.Context(), script)
	if err != nil {
		t.Fatalf("want %v: %v %s", want, err, out)
	}
	took := time.Since(begun)
	if took > 2*time.Second {
		t.Logf("the routes were:\n%s", out)
	}
	return took
}

// routes returns the machines that the router has routes to, sorted.
func (r router) routes(t *testing.T) []string {
	t.Helper()
	return strings.Fields(onMachine(t, r.Machine, "ip -4 route show "+anycast+
		" | grep -oE '(via|nexthop via) [0-9.]+' | grep -oE '[0-9.]+$' | sort"))
}

func (r router) write(t *testing.T, w *workspace.Workspace, asn int, names ...string) {
	t.Helper()
	if err := w.WriteJSON("z.auto.tfvars.json", map[string]any{
		"machines": addresses(names), "endpoint_address": anycast, "asn": asn,
		"peers": []map[string]any{{"address": r.Address.String(), "asn": routerASN, "bfd": true}},
	}); err != nil {
		t.Fatal(err)
	}
}

// rerouted returns the criteria for clients behind a router that spreads connections. When a route
// is withdrawn, it sends the packets of existing connections to another machine, which resets them.
func rerouted() load.Criteria {
	return unnoticed().Excusing(load.Excuse{
		Operation: load.APIRequest,
		Texts:     []string{"connection reset by peer", "EOF", "connection refused", "force closed"},
		Most:      60,
		Reason:    "a router sends the packets of a connection to another machine when the set of routes changes",
	})
}

// TestBGPEndpoint is the life of a control plane at an address that its machines announce.
func TestBGPEndpoint(t *testing.T) {
	w := storyIn(t, []string{"cp1", "cp2", "cp3", "cp4"}, checkout(t), "examples/bgp-endpoint")
	t.Cleanup(func() {
		if err := shared.lab.Machine("cp4").Rebuild(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	bare := fingerprints(t, "cp1", "cp2", "cp3")
	r := startRouter(t, shared.lab.Machine("cp4"))

	t.Run("create", func(t *testing.T) {
		r.write(t, w, replicasASN, "cp1")
		apply(t, w)
		r.await(t, "cp1")
		onMachine(t, r.Machine, "curl -s -k --fail --max-time 5 -o /dev/null https://"+anycast+":6443/readyz")
	})
	if t.Failed() {
		t.FailNow()
	}
	t.Run("clients during changes", func(t *testing.T) {
		l := startClients(t, load.Config{Kubeconfig: outputOf(t, w, "kubeconfig"), Criteria: rerouted()})
		r.write(t, w, replicasASN, "cp1", "cp2", "cp3")
		apply(t, w)
		r.await(t, "cp1", "cp2", "cp3")
		apply(t, w, "-replace="+inModule(replicaAddress("cp2")))
		r.await(t, "cp1", "cp2", "cp3")
		r.write(t, w, replicasASN, "cp1")
		apply(t, w)
		r.await(t, "cp1")
		r.write(t, w, replicasASN, "cp1", "cp2", "cp3")
		apply(t, w)
		undisturbed(t, l)
	})
	if t.Failed() {
		t.FailNow()
	}
	t.Run("an autonomous system that the router does not accept", func(t *testing.T) {
		r.write(t, w, replicasASN+9, "cp1", "cp2", "cp3")
		expectContains(t, refused(t, w), "in rotation at endpoint "+anycast, "bgp.peers")
		before := r.routes(t)
		if len(before) != 2 {
			t.Errorf("the router has routes to %v: more than one machine was changed", before)
		}
		expectContains(t, refused(t, w), "another replica is not ready")
		if after := r.routes(t); !slices.Equal(after, before) {
			t.Errorf("the router has routes to %v, and had routes to %v", after, before)
		}
		r.write(t, w, replicasASN, "cp1", "cp2", "cp3")
		apply(t, w)
		r.await(t, "cp1", "cp2", "cp3")
	})
	t.Run("an API server that stops", func(t *testing.T) {
		m := shared.lab.Machine("cp2")
		onMachine(t, m, "systemctl stop kube-apiserver")
		t.Logf("the route to a stopped API server is gone after %s", r.await(t, "cp1", "cp3"))
		expectContains(t, plan(t, w), "not ready: ")
		onMachine(t, m, "systemctl start kube-apiserver")
		t.Logf("it is back after %s", r.await(t, "cp1", "cp2", "cp3"))
		expectEmptyPlan(t, w)
	})
	t.Run("a dead machine", func(t *testing.T) {
		dead := shared.lab.Machine("cp3")
		if err := dead.PowerOff(t.Context()); err != nil {
			t.Fatal(err)
		}
		took := r.await(t, "cp1", "cp2")
		t.Logf("the route to a dead machine is gone %s after the power", took)
		if took > 3*time.Second {
			t.Errorf("the route to a dead machine stayed for %s", took)
		}
		if err := dead.Boot(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.await(t, "cp1", "cp2", "cp3")
		expectEmptyPlan(t, w)
	})
	if t.Failed() {
		t.FailNow()
	}
	apply(t, w, "-destroy")
	expectBare(t, bare, "cp1", "cp2", "cp3")
}
