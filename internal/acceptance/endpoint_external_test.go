package acceptance

import (
	"context"
	"fmt"
	"maps"
	"net"
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
		"listen api\n bind :::6443 v4v6\n option httpchk GET " + path +
		"\n default-server check check-ssl verify none inter 500ms fall 2 rise 2\n"
	for _, name := range slices.Sorted(maps.Keys(targets)) {
		text += fmt.Sprintf(" server %s %s\n", name, targets[name])
	}
	return "/etc/haproxy/haproxy.cfg", text
}}

// otherNginx has no active checks: it would send requests to an API server that is not ready. So
// hooks tell it who is in rotation.
var otherNginx = otherBalancer{"nginx stream with hooks", "nginx", func(map[string]string, string) (string, string) {
	text := "load_module modules/ngx_stream_module.so;\nevents {}\nstream {\n upstream api {\n" +
		"  server 127.0.0.1:1 down;\n  include /etc/nginx/pool/*;\n }\n"
	return "/etc/nginx/nginx.conf", text + " server { listen 6443; proxy_pass api; proxy_connect_timeout 1s; " +
		"proxy_timeout 1h; }\n}\n"
}}

// poolScript installs the other end of the hooks on the balancer: a file for each target.
const poolScript = `mkdir -p /etc/nginx/pool
echo 'server %s:6443;' >/etc/nginx/pool/cp1
cat >/usr/local/bin/pool <<'EOF'
#!/bin/sh -e
read -r input
field() { printf '%%s' "$input" | sed -E "s/.*\"$1\":\"?([^\",}]*).*/\1/"; }
exec 9>/run/pool.lock
flock 9
target=/etc/nginx/pool/$(field name)
case $(field action) in
register) echo "server $(field address):$(field port);" >"$target" ;;
drain | deregister) rm -f "$target" ;;
status)
  if [ -e "$target" ]; then echo '{"in_rotation": true}'; exit; fi
  echo '{"in_rotation": false, "reason": "not in the pool"}'
  exit
  ;;
esac
systemctl reload nginx
EOF
chmod +x /usr/local/bin/pool
`

// poolHooks returns the hooks that run poolScript's program by SSH.
func poolHooks(lb *lab.Machine) map[string]any {
	command := []string{
		"ssh", "-i", shared.lab.PrivateKeyPath(), "-o", "UserKnownHostsFile=" + shared.lab.KnownHostsPath(), "-o",
		"BatchMode=yes", "root@" + lb.Address.String(), "/usr/local/bin/pool",
	}
	return map[string]any{"register": command, "drain": command, "deregister": command, "status": command}
}

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
	var hooks map[string]any
	use := func(names ...string) {
		writeExternal(t, w, lb.Address.String(), hooks, names...)
	}

	t.Run("a name that nobody resolves", func(t *testing.T) {
		writeExternal(t, w, "no-such-name.invalid", nil, "cp1")
		expectContains(t, refused(t, w), `Endpoint no-such-name.invalid not created`, `the name cannot be resolved`,
			`external.probe_from`)
	})
	use("cp1")
	t.Run("a balancer whose check has the wrong path", func(t *testing.T) {
		otherHAProxy.start(t, lb, targetsOn("cp1"), "/no-such-path")
		expectContains(t, refused(t, w), `Replica cp1 not in rotation at endpoint`,
			`does not answer, although a replica is ready`, `checks them by HTTPS with the path /readyz`)
	})
	t.Run("create", func(t *testing.T) {
		otherHAProxy.start(t, lb, targetsOn("cp1"), "/readyz")
		// The replica serves by now, and it is the only one.
		expectContains(t, refused(t, w), "The plan replaces all control-plane replicas", "terraform untaint")
		if _, err := w.Run(t.Context(), "untaint", inModule(replicaAddress("cp1"))); err != nil {
			t.Fatal(err)
		}
		apply(t, w)
		onMachine(t, shared.lab.Machine("cp1"), `grep -q -- '--shutdown-delay-duration=5s' `+
			`/etc/systemd/system/kube-apiserver.service && test ! -e /etc/haproxy/kube`)
	})
	if t.Failed() {
		t.FailNow()
	}
	t.Run(otherHAProxy.name, func(t *testing.T) {
		otherHAProxy.start(t, lb, targetsOn("cp1", "cp2", "cp3"), "/readyz")
		// HAProxy takes all targets for ready until it has checked them.
		onMachine(t, lb, `ok=0; until [ $ok = 10 ]; do
  if curl --silent --insecure --fail --max-time 1 --output /dev/null https://127.0.0.1:6443/readyz
  then ok=$((ok + 1)); else ok=0; fi
  sleep 0.2
done`)
		behind(t, w, use)
	})
	if t.Failed() {
		t.FailNow()
	}
	t.Run(otherNginx.name, func(t *testing.T) {
		onMachine(t, lb, fmt.Sprintf(poolScript, address("cp1")))
		onMachine(t, lb, `systemctl stop haproxy`)
		otherNginx.start(t, lb, nil, "")
		hooks = poolHooks(lb)
		use("cp1")
		apply(t, w)
		behind(t, w, use)
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
		hooks = poolHooks(lb)
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
	apply(t, w, "-destroy")
	expectBare(t, bare, "cp1", "cp2", "cp3")
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
func behind(t *testing.T, w *workspace.Workspace, use func(names ...string)) {
	t.Helper()
	l := startLoad(t, outputOf(t, w, "kubeconfig"))
	use("cp1", "cp2", "cp3")
	apply(t, w)
	backend, err := w.Run(t.Context(), "output", "-json", "backend")
	if err != nil || !strings.Contains(backend, address("cp3")+":6443") {
		t.Errorf("backend is %s, %v", backend, err)
	}
	apply(t, w, "-replace="+inModule(replicaAddress("cp2")))
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
