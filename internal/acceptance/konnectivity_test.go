package acceptance

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"

	"github.com/kubequorum/terraform-provider-kube/internal/lab/services"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// konnectivityStory is a control plane whose machines do not reach the Service of a webhook: only an
// agent on a fourth machine does.
type konnectivityStory struct {
	w      *workspace.Workspace
	names  []string
	admin  credentials
	worker worker
	agents apps.DaemonSet
}

const konnectivityVariables = `
variable "program" {
  type    = string
  default = "/usr/local/bin/proxy-server"
}

output "agents" {
  value = provider::kube::konnectivity_agent_manifest(var.endpoint_address, 8132, "example.com/proxy-agent:v0.36.0")
}

output "ca" {
  value = kube_pki_bundle.this.ca_certificate
}
`

const konnectivityOverride = `
resource "kube_control_plane_endpoint" "this" {
  haproxy = {
    hosts        = var.machines
    konnectivity = {}
  }
}

resource "kube_control_plane_replica" "this" {
  konnectivity = { program = var.program }
}
`

// TestKonnectivity: API servers call a webhook that only an agent reaches, also while replicas
// change. Removing the setting leaves nothing of it.
func TestKonnectivity(t *testing.T) {
	programs := konnectivityPrograms(t)
	s := &konnectivityStory{names: []string{"cp1", "cp2", "cp3"}}
	s.w = newStory(t, append(s.names, "cp4")...)
	choose(t, s.w, s.names...)
	t.Cleanup(func() {
		if err := shared.lab.Machine("cp4").Rebuild(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	bare := fingerprints(t, s.names...)
	uploadProxyServer(t, programs, s.names, "/usr/local/bin/proxy-server", "/usr/local/lib/konnectivity-2/proxy-server")
	extend(t, s.w, konnectivityVariables)
	override(t, s.w, konnectivityOverride)
	for _, step := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"created", s.created},
		{"answers", s.answers},
		{"aggregated API", s.aggregated},
		{"servers restarted", s.serversRestarted},
		{"API servers restarted", s.apiServersRestarted},
		{"a server hangs", s.hangs},
		{"replica replaced", s.replaced},
		{"edited by hand", s.edited},
		{"rolled back", s.rolledBack},
		{"by BGP", s.byBGP},
		{"removed", s.removed},
	} {
		if !t.Run(step.name, step.run) && s.agents.Name == "" {
			t.FailNow() // nothing else can work
		}
	}
	apply(t, s.w, "-destroy")
	for _, name := range s.names {
		onMachine(t, shared.lab.Machine(name), "rm -r /usr/local/bin/proxy-server /usr/local/lib/konnectivity-2")
	}
	expectBare(t, bare, s.names...)
}

func uploadProxyServer(t *testing.T, programs string, names []string, paths ...string) {
	t.Helper()
	for _, name := range names {
		for _, at := range paths {
			upload(t, shared.lab.Machine(name), filepath.Join(programs, "proxy-server"), at, "755")
		}
	}
}

// hangs: a proxy server that hangs is restarted, its agents return, and no API server is restarted.
func (s *konnectivityStory) hangs(t *testing.T) {
	hurry(t, s.names, 4)
	const unit = "kube-konnectivity-server"
	process := func() string {
		return onMachine(t, shared.lab.Machine("cp2"), "systemctl show --value -p MainPID "+unit)
	}
	all, before := processes(t, s.names...), process()
	freeze(t, "cp2", unit)
	begin := time.Now()
	awaitFor(t, restartTimeout, unit+" was not restarted", func() bool {
		now := process()
		return now != before && now != "0\n"
	})
	t.Logf("%s on cp2 runs again after %s", unit, time.Since(begin).Round(time.Second))
	s.awaitAgents(t)
	expectRestarted(t, all, nil)
	apply(t, s.w) // the edited probes
}

func (s *konnectivityStory) created(t *testing.T) {
	apply(t, s.w)
	s.startAgents(t)
}

// startAgents starts the webhook and the agent on the fourth machine.
func (s *konnectivityStory) startAgents(t *testing.T) {
	t.Helper()
	s.admin = credentialsOf(t, outputOf(t, s.w, "kubeconfig"))
	s.worker = startWebhook(t, shared.lab.Machine("cp4"))
	s.agents = applyManifest(t, s.admin, outputOf(t, s.w, "agents"))
	s.worker.startAgent(t, s.admin, s.agents, outputOf(t, s.w, "ca"))
	s.awaitAgents(t)
}

// awaitAgents waits until each proxy server has an agent.
func (s *konnectivityStory) awaitAgents(t *testing.T) { t.Helper(); awaitAgents(t, s.names) }

func awaitAgents(t *testing.T, names []string) {
	t.Helper()
	for _, name := range names {
		onMachine(t, shared.lab.Machine(name), `tries=0
until curl -s --fail -o /dev/null http://127.0.0.1:8134/readyz; do
  tries=$((tries + 1))
  if [ $tries -ge 300 ]; then journalctl -u kube-konnectivity-server -n 30 --no-pager; exit 1; fi
  sleep 0.1
done`)
	}
}

// answers: each API server calls the webhook, and no machine of one reaches it.
func (s *konnectivityStory) answers(t *testing.T) {
	for _, name := range s.names {
		out, err := shared.lab.Machine(name).Run(t.Context(), "curl -s -k --max-time 3 https://"+serviceAddress)
		if err == nil {
			t.Fatalf("%s reaches the webhook directly: %s", name, out)
		}
	}
	s.worker.register(t, s.admin)
	for _, server := range servers(s.names...) {
		begun := time.Now()
		var err error
		// The API server learns of the webhook from a watch: until then it allows everything.
		for err = createConfigMap(t.Context(), s.admin, server, "denied-a"); err != nil && time.Since(begun) < time.Minute; {
			time.Sleep(100 * time.Millisecond)
			err = createConfigMap(t.Context(), s.admin, server, "denied-a")
		}
		if err != nil {
			t.Fatalf("%s: %v", server, err)
		}
		if err := createConfigMap(t.Context(), s.admin, server, "allowed"); err != nil {
			t.Errorf("%s: %v", server, err)
		}
	}
}

// during runs change while clients create objects through the endpoint, a hundred at least. Every answer has to be
// the webhook's.
func (s *konnectivityStory) during(t *testing.T, what string, change func()) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	var mu sync.Mutex
	requests, failures := 0, map[string]int{}
	for client := range 4 {
		clients.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				name := fmt.Sprintf("%s-%d-%d", []string{"allowed", "denied"}[i%2], client, i)
				err := createConfigMap(t.Context(), s.admin, endpointURL, name)
				mu.Lock()
				requests++
				if err != nil {
					failures[err.Error()]++
				}
				mu.Unlock()
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	change()
	awaitFor(t, time.Minute, "fewer than 100 requests are answered", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return requests >= 100
	})
	stop()
	clients.Wait()
	t.Logf("%s: %d requests, %d kinds of failures", what, requests, len(failures))
	for text, count := range failures {
		t.Errorf("%s: %d requests failed: %s", what, count, text)
	}
}

func (s *konnectivityStory) set(t *testing.T, program, chance string) {
	t.Helper()
	if err := s.w.WriteJSON("konnectivity.auto.tfvars.json", map[string]any{
		"program": program, "apiserver_extra_args": map[string]string{"goaway-chance": chance},
	}); err != nil {
		t.Fatal(err)
	}
}

// serversRestarted: another program restarts the proxy servers, one replica at a time.
func (s *konnectivityStory) serversRestarted(t *testing.T) {
	s.set(t, "/usr/local/lib/konnectivity-2/proxy-server", "0.001")
	s.during(t, "restart of the proxy servers", func() { applyOnly(t, s.w, "only the apply is observed") })
	expectEmptyPlan(t, s.w)
	for _, name := range s.names {
		program := onMachine(t, shared.lab.Machine(name),
			"readlink /proc/$(systemctl show --value -p MainPID kube-konnectivity-server)/exe")
		if !strings.Contains(program, "konnectivity-2") {
			t.Errorf("%s runs %s", name, program)
		}
	}
}

// apiServersRestarted: a restart of the API servers leaves the proxy servers, and their agents, alone.
func (s *konnectivityStory) apiServersRestarted(t *testing.T) {
	pid := func(name string) string {
		return onMachine(t, shared.lab.Machine(name), "systemctl show --value -p MainPID kube-konnectivity-server")
	}
	before := map[string]string{}
	for _, name := range s.names {
		before[name] = pid(name)
	}
	s.set(t, "/usr/local/lib/konnectivity-2/proxy-server", "0.002")
	s.during(t, "restart of the API servers", func() { applyOnly(t, s.w, "only the apply is observed") })
	expectEmptyPlan(t, s.w)
	for _, name := range s.names {
		if pid(name) != before[name] {
			t.Errorf("%s: the proxy server was restarted without need", name)
		}
	}
}

// replaced: a replica that is created has agents before it serves.
func (s *konnectivityStory) replaced(t *testing.T) {
	s.during(t, "replacement of a replica", func() {
		applyOnly(t, s.w, "only the apply is observed", `-replace=kube_control_plane_replica.this["cp2"]`)
	})
	expectEmptyPlan(t, s.w)
	s.awaitAgents(t)
}

// edited: what is changed on a machine is drift, and is repaired.
func (s *konnectivityStory) edited(t *testing.T) {
	m := shared.lab.Machine("cp1")
	onMachine(t, m, "sed -i s/GRPC/Direct/ /etc/kubernetes/kube-egress-selector.yaml; "+
		"rm /etc/kubernetes/kube-konnectivity-server.conf; systemctl stop kube-konnectivity-server")
	text, _, err := s.w.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	expectContains(t, text, "/etc/kubernetes/kube-egress-selector.yaml has different content",
		"/etc/kubernetes/kube-konnectivity-server.conf is missing",
		"kube-konnectivity-server: kube-konnectivity-server.service is inactive")
	apply(t, s.w)
	s.awaitAgents(t)
	s.during(t, "after a repair", func() {})
}

// rolledBack: a program that does not start is rolled back on the first replica, and the webhook
// answers all the time.
func (s *konnectivityStory) rolledBack(t *testing.T) {
	for _, name := range s.names {
		onMachine(t, shared.lab.Machine(name), "mkdir -p /usr/local/lib/konnectivity-2 && "+
			"cp /bin/false /usr/local/lib/konnectivity-2/broken")
	}
	s.set(t, "/usr/local/lib/konnectivity-2/broken", "0.002")
	s.during(t, "rollback", func() {
		_, err := s.w.Apply(t.Context(), t.Output())
		if err == nil {
			t.Fatal("a proxy server that does not start is applied")
		}
		expectContains(t, unfolded(err.Error()), "Control-plane replica not changed: rolled back to", "konnectivity-server")
	})
	s.set(t, "/usr/local/lib/konnectivity-2/proxy-server", "0.002")
	apply(t, s.w)
	s.awaitAgents(t)
}

// byBGP: agents that reach a replica only in rotation connect again after a change of it, and the change is not rolled
// back. The machine of the agent is the router, and balances the virtual IP meanwhile: the API servers of replicas that
// announce an address listen on all addresses of their machines.
func (s *konnectivityStory) byBGP(t *testing.T) {
	s.balancedElsewhere(t, "")
	startRouter(t, s.worker.Machine)
	extend(t, s.w, konnectivityVariables+fmt.Sprintf(`
resource "kube_control_plane_endpoint" "announced" {
  address = %q
  pki     = kube_pki_bundle.this.bundle
  bgp     = { asn = %d, targets = var.machines, peers = [{ address = %q, asn = %d, bfd = true }] }
}
`, services.Anycast, services.ReplicasASN, s.worker.Address, services.RouterASN))
	s.balancedElsewhere(t, "additional_endpoints = [kube_control_plane_endpoint.announced.registration]")
	onMachine(t, s.worker.Machine, "systemctl stop agent")
	through := s.agents.DeepCopy()
	arguments := through.Spec.Template.Spec.Containers[0].Args
	for i := range arguments {
		arguments[i] = strings.ReplaceAll(arguments[i], vip, services.Anycast)
	}
	s.worker.startAgent(t, s.admin, *through, outputOf(t, s.w, "ca"))
	s.awaitAgents(t)
	for _, chance := range []string{"0.002", "0.003"} { // the second change restarts the API servers alone
		s.set(t, "/usr/local/bin/proxy-server", chance)
		apply(t, s.w)
		s.awaitAgents(t)
	}
	s.balancedElsewhere(t, "")
	extend(t, s.w, konnectivityVariables)
	apply(t, s.w)
}

// balancedElsewhere applies an override in which the machine of the agent balances. argument is one of the replicas.
func (s *konnectivityStory) balancedElsewhere(t *testing.T, argument string) {
	t.Helper()
	override(t, s.w, fmt.Sprintf(`
resource "kube_control_plane_endpoint" "this" {
  haproxy = { hosts = { %s = %q }, konnectivity = { targets = var.machines } }
}
resource "kube_control_plane_replica" "this" {
  konnectivity = { program = var.program }
  %s
}
`, s.worker.Name, s.worker.Address, argument))
	apply(t, s.w)
}

// removed: without the setting, the API servers connect directly, and nothing of it is left.
func (s *konnectivityStory) removed(t *testing.T) {
	s.admin.must(t, endpointURL, "DELETE",
		"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/tunnel", nil, nil)
	override(t, s.w, "")
	apply(t, s.w)
	for _, name := range s.names {
		out := onMachine(t, shared.lab.Machine(name), "ls -d /etc/systemd/system/kube-konnectivity-server.service* "+
			"/etc/systemd/system/*/kube-konnectivity-server.service /etc/kubernetes/*konnectivity* /etc/kubernetes/*egress* "+
			"/etc/kubernetes/pki/*konnectivity* /run/kube-konnectivity-server 2>/dev/null || :; "+
			"getent passwd kube-konnectivity-server || :; getent group kube-konnectivity-server || :; "+
			"grep -l konnectivity /etc/systemd/system/kube-[acs]*.service /etc/haproxy/kube/*.cfg || :; "+
			"systemctl is-active kube-konnectivity-server || :")
		if strings.TrimSpace(out) != "inactive" {
			t.Errorf("%s: %s is left", name, out)
		}
	}
}
