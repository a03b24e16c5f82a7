package acceptance

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// otherBalancer is a balancer that the provider does not look after.
type otherBalancer struct {
	name    string
	program string // its unit
	config  func(targets map[string]string, path string) (file, text string)
}

// otherHAProxy checks the targets actively, as a cloud's balancer does.
var otherHAProxy = otherBalancer{"HAProxy", "haproxy", func(targets map[string]string, path string) (string, string) {
	text := "defaults\n mode tcp\n timeout connect 2s\n timeout client 1h\n timeout server 1h\n" +
		" retries 2\n option redispatch 1\n" +
		"listen api\n bind :6443\n option httpchk GET " + path +
		"\n default-server check check-ssl verify none inter 500ms fall 2 rise 2\n"
	for _, name := range slices.Sorted(maps.Keys(targets)) {
		text += fmt.Sprintf(" server %s %s\n", name, targets[name])
	}
	return "/etc/haproxy/haproxy.cfg", text
}}

// otherNginx finds out by connections that fail. It has no active checks.
var otherNginx = otherBalancer{"nginx stream", "nginx", func(targets map[string]string, _ string) (string, string) {
	text := "load_module modules/ngx_stream_module.so;\nevents {}\nstream {\n upstream api {\n"
	for _, name := range slices.Sorted(maps.Keys(targets)) {
		text += fmt.Sprintf("  server %s max_fails=1 fail_timeout=2s;\n", targets[name])
	}
	return "/etc/nginx/nginx.conf", text + " }\n server { listen 6443; proxy_pass api; proxy_connect_timeout 1s; " +
		"proxy_timeout 1h; }\n}\n"
}}

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
	onMachine(t, lb, `apt-get install -y -q haproxy nginx-light libnginx-mod-stream >/dev/null 2>&1
systemctl disable --quiet --now haproxy nginx`)
	use := func(names ...string) {
		writeExternal(t, w, lb.Address.String(), names...)
	}

	t.Run("a name that nobody resolves", func(t *testing.T) {
		writeExternal(t, w, "no-such-name.invalid", "cp1")
		expectContains(t, refused(t, w), `Endpoint no-such-name.invalid not created`, `the name cannot be resolved`,
			`external.probe_from`)
	})
	use("cp1")
	t.Run("a balancer whose check has the wrong path", func(t *testing.T) {
		otherHAProxy.start(t, lb, map[string]string{"cp1": address("cp1") + ":6443"}, "/no-such-path")
		expectContains(t, refused(t, w), `Replica cp1 not in rotation at endpoint`,
			`does not answer, although a replica is ready`, `checks them by HTTPS with the path /readyz`)
	})
	t.Run("create", func(t *testing.T) {
		otherHAProxy.start(t, lb, map[string]string{"cp1": address("cp1") + ":6443"}, "/readyz")
		apply(t, w)
		onMachine(t, shared.lab.Machine("cp1"), `grep -q -- '--shutdown-delay-duration=5s' `+
			`/etc/systemd/system/kube-apiserver.service && test ! -e /etc/haproxy/kube`)
	})
	for _, balancer := range []otherBalancer{otherHAProxy, otherNginx} {
		t.Run(balancer.name, func(t *testing.T) { behind(t, w, lb, balancer, use) })
		if t.Failed() {
			t.FailNow()
		}
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
	apply(t, w, "-destroy")
	expectBare(t, bare, "cp1", "cp2", "cp3")
}

// behind changes a control plane behind a balancer while clients work.
func behind(t *testing.T, w *workspace.Workspace, lb *lab.Machine, balancer otherBalancer, use func(names ...string)) {
	all := map[string]string{}
	for _, name := range []string{"cp1", "cp2", "cp3"} {
		all[name] = address(name) + ":6443"
	}
	onMachine(t, lb, `systemctl stop haproxy nginx`)
	balancer.start(t, lb, all, "/readyz")
	l := startLoad(t, outputOf(t, w, "kubeconfig"))
	use("cp1", "cp2", "cp3")
	apply(t, w)
	backend, err := w.Run(t.Context(), "output", "-json", "backend")
	if err != nil || !strings.Contains(backend, all["cp3"]) {
		t.Errorf("backend is %s, %v", backend, err)
	}
	apply(t, w, "-replace="+replicaAddress("cp2"))
	use("cp1")
	apply(t, w)
	undisturbed(t, l)
}

// start starts the balancer with the targets, and waits until it listens.
func (b otherBalancer) start(t *testing.T, m *lab.Machine, targets map[string]string, path string) {
	t.Helper()
	file, text := b.config(targets, path)
	onMachine(t, m, fmt.Sprintf("cat >%s <<'EOF'\n%sEOF\nsystemctl restart %s; until ss -Hlnt | grep -q :6443; do sleep "+
		"0.05; done", file, text, b.program))
}

func writeExternal(t *testing.T, w *workspace.Workspace, endpoint string, names ...string) {
	t.Helper()
	if err := w.WriteJSON("z.auto.tfvars.json", map[string]any{
		"machines": addresses(names), "endpoint_address": endpoint,
		"health_check": map[string]any{"interval": "500ms", "threshold": 2},
	}); err != nil {
		t.Fatal(err)
	}
}
