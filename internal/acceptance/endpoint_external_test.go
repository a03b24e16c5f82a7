package acceptance

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/lab/services"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// TestExternalEndpoint is the life of a control plane behind balancers that the provider does not
// look after. Their targets come from the attribute backend.
func TestExternalEndpoint(t *testing.T) {
	w := storyIn(t, []string{"cp1", "cp2", "cp3", "cp4"}, checkout(t), "examples/external-balancer")
	bare := fingerprints(t, "cp1", "cp2", "cp3")
	lb := shared.lab.Machine("cp4")
	t.Cleanup(func() {
		if err := lb.Rebuild(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	if err := services.InstallBalancers(t.Context(), lb); err != nil {
		t.Fatal(err)
	}
	var hooks map[string]any
	use := func(names ...string) {
		writeExternal(t, w, lb.Address.String(), hooks, names...)
	}

	t.Run("a name that nobody resolves", func(t *testing.T) {
		writeExternal(t, w, "no-such-name.invalid", nil, "cp1")
		expectContains(t, refused(t, w), `Endpoint no-such-name.invalid not created`, `the name cannot be resolved`,
			`external.probe_from`)
	})
	extend(t, w, fedConfig)
	use("cp1")
	t.Run("a balancer whose check has the wrong path", func(t *testing.T) {
		startBalancer(t, services.HAProxy, lb, targetsOn("cp1"), "/no-such-path")
		expectContains(t, refused(t, w), `Replica cp1 not in rotation at endpoint`,
			`does not answer, although a replica is ready`, `checks them by HTTPS with the path /readyz`,
			`terraform untaint ADDRESS`)
	})
	t.Run("create", func(t *testing.T) {
		startBalancer(t, services.HAProxy, lb, targetsOn("cp1"), "/readyz")
		// The replica serves by now, and it is the only one.
		expectContains(t, refused(t, w), "The plan replaces all control-plane replicas", "terraform untaint ADDRESS")
		const running = "systemctl show --property MainPID --value kube-apiserver.service"
		before := onMachine(t, shared.lab.Machine("cp1"), running)
		if _, err := w.Run(t.Context(), "untaint", inModule(replicaAddress("cp1"))); err != nil {
			t.Fatal(err)
		}
		apply(t, w)
		if now := onMachine(t, shared.lab.Machine("cp1"), running); now != before {
			t.Errorf("the API server was restarted: it was the process %s, and is %s", before, now)
		}
		onMachine(t, shared.lab.Machine("cp1"), `grep -q -- '--shutdown-delay-duration=5s' `+
			`/etc/systemd/system/kube-apiserver.service && test ! -e /etc/haproxy/kube`)
	})
	if t.Failed() {
		t.FailNow()
	}
	t.Run(services.HAProxy.Name, func(t *testing.T) {
		startBalancer(t, services.HAProxy, lb, targetsOn("cp1", "cp2", "cp3"), "/readyz")
		// HAProxy takes all targets for ready until it has checked them.
		onMachine(t, lb, `ok=0; until [ $ok = 10 ]; do
  if curl --silent --insecure --fail --max-time 1 --output /dev/null https://127.0.0.1:6443/readyz
  then ok=$((ok + 1)); else ok=0; fi
  sleep 0.2
done`)
		behind(t, w, use, 200)
	})
	if t.Failed() {
		t.FailNow()
	}
	t.Run(services.HAProxyByHooks.Name, func(t *testing.T) {
		if err := services.InstallServers(t.Context(), lb); err != nil {
			t.Fatal(err)
		}
		startBalancer(t, services.HAProxyByHooks, lb, targetsOn("cp1"), "")
		hooks = services.PoolHooks(shared.lab, lb)
		use("cp1")
		apply(t, w)
		behind(t, w, use, 201)
		expectServers(t, lb, "cp1 2 0")
		use("cp1", "cp2")
		apply(t, w)
		// What hooks have not done is drift, and an apply repairs it.
		askHAProxy(t, lb, "set server api/cp2 state drain")
		expectContains(t, plan(t, w), "state of the server: 2 8")
		apply(t, w)
		expectServers(t, lb, "cp1 2 0", "cp2 2 0")
	})
	if t.Failed() {
		t.FailNow()
	}
	t.Run("through a machine", func(t *testing.T) { probedFrom(t, w, lb, use) })
	if t.Failed() {
		t.FailNow()
	}
	t.Run(services.Nginx.Name, func(t *testing.T) {
		if err := services.InstallPool(t.Context(), lb, targetsOn("cp1")); err != nil {
			t.Fatal(err)
		}
		onMachine(t, lb, `systemctl stop haproxy`)
		startBalancer(t, services.Nginx, lb, nil, "")
		apply(t, w)
		behind(t, w, use, 202)
	})
	if t.Failed() {
		t.FailNow()
	}
	t.Run("a hook that fails", func(t *testing.T) {
		hooks = map[string]any{"register": hooks["register"], "drain": []string{"/bin/false"}}
		use("cp1", "cp2")
		apply(t, w)
		expectContains(t, refused(t, w, "-replace="+inModule(replicaAddress("cp2"))),
			"Replica cp2 not drained at endpoint", "hook drain (/bin/false) failed: exit status 1", "external.hooks")
		hooks = services.PoolHooks(shared.lab, lb)
		use("cp1", "cp2")
		apply(t, w)
	})
	if t.Failed() {
		t.FailNow()
	}
	t.Run("a balancer that is gone", func(t *testing.T) {
		onMachine(t, lb, `systemctl stop nginx`)
		text, changes, err := w.Plan(t.Context())
		if err != nil || !changes || !strings.Contains(text, "does not answer") {
			t.Errorf("the plan does not say that the endpoint does not answer: %v\n%s", err, text)
		}
		onMachine(t, lb, `systemctl start nginx`)
		expectEmptyPlan(t, w)
	})
	t.Run("a balancer that ends TLS", func(t *testing.T) { endsTLS(t, w, lb) })
	apply(t, w, "-destroy")
	passes(t, w)
	expectBare(t, bare, "cp1", "cp2", "cp3")
}

// endsTLS: the answer of a balancer that shows a certificate of its own is none.
func endsTLS(t *testing.T, w *workspace.Workspace, lb *lab.Machine) {
	onMachine(t, lb, `systemctl stop nginx`)
	if err := services.MakeCertificate(t.Context(), lb); err != nil {
		t.Fatal(err)
	}
	startBalancer(t, services.HAProxyEndsTLS, lb, targetsOn("cp1", "cp2"), "/readyz")
	await(t, "the balancer does not answer", func() bool {
		return strings.Contains(onMachine(t, lb, "curl -s -k --max-time 2 https://127.0.0.1:6443/readyz || :"), "ok")
	})
	text, changes, err := w.Plan(t.Context())
	if err != nil || !changes || !strings.Contains(unfolded(text), "the balancer ends TLS itself") {
		t.Errorf("the plan does not say that the balancer ends TLS: %v\n%s", err, text)
	}
	onMachine(t, lb, `systemctl stop haproxy; systemctl start nginx`)
	expectEmptyPlan(t, w)
}

// targetsOn returns what the balancer sends requests to.
func targetsOn(names ...string) map[string]string {
	all := map[string]string{}
	for _, name := range names {
		all[name] = net.JoinHostPort(address(name), "6443")
	}
	return all
}

// behind changes a control plane behind a balancer while clients work.
func behind(t *testing.T, w *workspace.Workspace, use func(names ...string), txnOps int) {
	t.Helper()
	l := startLoad(t, outputOf(t, w, "kubeconfig"))
	use("cp1", "cp2", "cp3")
	apply(t, w)
	expectFed(t, w, "cp1", "cp2", "cp3")
	expectReportedHealthy(t, w)
	// Only members change: each takes the replica on its machine out of rotation.
	override(t, w, fmt.Sprintf(`
module "control_plane" {
  etcd = { version = %q, extra_args = { max-txn-ops = "%d" } }
}
`, release(t, "etcd"), txnOps))
	apply(t, w)
	apply(t, w, "-replace="+inModule(replicaAddress("cp2")))
	use("cp1")
	apply(t, w)
	expectFed(t, w, "cp1")
	undisturbed(t, l)
}

// fedConfig is a resource of another provider in the same configuration, which gets what the balancer needs.
const fedConfig = `
resource "terraform_data" "balancer" {
  input = module.control_plane.backend
}

output "fed" {
  value = terraform_data.balancer.output
}
`

// expectFed: the other resource has the targets and their check after the same apply.
func expectFed(t *testing.T, w *workspace.Workspace, names ...string) {
	t.Helper()
	text, err := w.Run(t.Context(), "output", "-json", "fed")
	if err != nil {
		t.Fatal(err)
	}
	var got, want any
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	targets := map[string]any{}
	for name, at := range targetsOn(names...) {
		targets[name] = at
	}
	want = map[string]any{"targets": targets, "health_check": map[string]any{
		"protocol": "HTTPS", "path": "/readyz", "tls_name": "kubernetes", "interval": "500ms", "threshold": 2.0,
		"healthy_threshold": 2.0,
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the other resource has %v, want %v", got, want)
	}
}

// askHAProxy sends a command to the runtime API of HAProxyByHooks, and returns the answer.
func askHAProxy(t *testing.T, lb *lab.Machine, command string) string {
	t.Helper()
	return onMachine(t, lb, `bash -c 'exec 3<>/dev/tcp/127.0.0.1/9999; echo "`+command+`" >&3; cat <&3'`)
}

// expectServers expects the servers of HAProxyByHooks: name, operational and administrative state.
func expectServers(t *testing.T, lb *lab.Machine, want ...string) {
	t.Helper()
	text := askHAProxy(t, lb, "show servers state api") // its columns: management guide
	text = onMachine(t, lb, "awk '$2 == \"api\" { print $4 \" \" $6 \" \" $7 }' <<'EOF'\n"+text+"EOF")
	if got := strings.Split(strings.TrimSpace(text), "\n"); !slices.Equal(got, want) {
		t.Errorf("the balancer's servers are %q, want %q", got, want)
	}
}

// probedFrom: where Terraform runs, nobody reaches the endpoint. It is probed through a machine.
func probedFrom(t *testing.T, w *workspace.Workspace, lb *lab.Machine, use func(names ...string)) {
	t.Helper()
	probe := func(from any) {
		if err := w.WriteJSON("probe.auto.tfvars.json", map[string]any{"probe_from": from}); err != nil {
			t.Fatal(err)
		}
	}
	closed := "INPUT -p tcp --dport 6443 -s " + operatorOf(lb.Address).String() + " -j REJECT"
	onMachine(t, lb, "iptables -I "+closed)
	expectContains(t, plan(t, w), "does not answer")
	probe(address("cp1"))
	use("cp1", "cp2", "cp3")
	apply(t, w)
	onMachine(t, lb, "iptables -D "+closed)
	probe(nil)
	use("cp1")
	apply(t, w)
}

// startBalancer starts a balancer with targets that it checks at a path.
func startBalancer(
	t *testing.T, b services.Balancer, m *lab.Machine, targets map[string]string, path string,
) {
	t.Helper()
	if err := b.Start(t.Context(), m, targets, path); err != nil {
		t.Fatal(err)
	}
}

func inModule(address string) string { return "module.control_plane." + address }

func writeExternal(
	t *testing.T, w *workspace.Workspace, endpoint string, hooks map[string]any, names ...string,
) {
	t.Helper()
	if err := w.WriteJSON("z.auto.tfvars.json", map[string]any{
		"machines": addresses(names), "endpoint_address": endpoint,
		"health_check": map[string]any{"interval": "500ms", "threshold": 2}, "hooks": hooks,
	}); err != nil {
		t.Fatal(err)
	}
}
