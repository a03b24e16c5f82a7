package acceptance

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/lab/services"
)

// balancedPort is where HAProxy of kubeadm's guide serves clients, beside API servers at 6443 of all addresses.
const balancedPort = 8443

// adoptedHAProxy is a control plane of three machines that kubeadm has created, with HAProxy and keepalived of
// kubeadm's guide on the same machines.
type adoptedHAProxy struct {
	adoptedCluster
	step string // hand_over; "" when the endpoint has taken the address over
}

// TestAdoptHAProxy imports a control plane whose address HAProxy and keepalived on its machines have. The endpoint
// takes it over, and clients notice nothing.
func TestAdoptHAProxy(t *testing.T) {
	machines(t)
	s := &adoptedHAProxy{adoptedCluster: adoptedCluster{
		names: []string{"cp1", "cp2", "cp3"}, version: release(t, "kubernetes-1.35"), etcd: release(t, "etcd"),
		runtime: "static_pod",
	}}
	rebuiltAfter(t, s.names...)
	if !t.Run("kubeadm", s.kubeadm) {
		t.FailNow()
	}
	s.w = newStory(t, s.names...)
	choose(t, s.w, s.names...)
	runSteps(t, s.names, []adoptedStep{
		{"imported, and prepared", s.prepared},
		{"taken over", s.taken},
		{"the former endpoint is gone", s.alone},
		{"a flag of the API servers", s.flagChanged},
		{"a machine with the address loses its power", s.failedOver},
	})
	apply(t, s.w, "-destroy")
}

// kubeadm creates the control plane on cp1, and joins the others.
func (s *adoptedHAProxy) kubeadm(t *testing.T) {
	var servers []string
	for _, name := range s.names {
		installNodeOf(t, shared.lab.Machine(name), services.Kubelet, "kubernetes-1.35-node", "etcd", "kubernetes-1.35")
		servers = append(servers, fmt.Sprintf("    server %s %s:6443 check verify none", name, address(name)))
	}
	for i, name := range s.names {
		onMachine(t, shared.lab.Machine(name), string(host.Assignments(map[string]string{
			"servers": strings.Join(servers, "\n"), "own": address(name), "vip": vip, "priority": fmt.Sprint(101 - i),
			"state": map[bool]string{true: "MASTER", false: "BACKUP"}[i == 0],
		}))+services.KubeadmBalancers)
	}
	createByKubeadm(t, s.names, s.version, s.etcd, fmt.Sprintf("endpoint=%s port=%d", vip, balancedPort), nil)
}

// guide returns the configuration of the guide, as its steps change it.
func (s *adoptedHAProxy) guide(t *testing.T) adoption {
	t.Helper()
	return adoptionOf(t, handOverStep(t, adoptionGuide(t), s.step), adoptedIn(vip, s.version, s.etcd))
}

// handOverStep returns the blocks of the guide as one of its steps changes them: the value of hand_over, or "" for the
// last one.
func handOverStep(t *testing.T, blocks []string, step string) []string {
	t.Helper()
	if step != "" {
		return []string{blocks[0], replaced(t, blocks[1], `hand_over = "prepare"`, fmt.Sprintf("hand_over = %q", step))}
	}
	former, others, ok := strings.Cut(blocks[1], "\n}\n\n")
	if !ok || !strings.HasPrefix(former, `resource "kube_control_plane_endpoint" "former"`) {
		t.Fatalf("the guide does not begin with the former endpoint:\n%s", blocks[1])
	}
	return []string{blocks[0], replaced(t, others, `, inherit = true, hand_over = "prepare"`, "",
		"  additional_endpoints = [kube_control_plane_endpoint.prod.registration]\n", "",
		"kube_control_plane_endpoint.former.registration", "kube_control_plane_endpoint.prod.registration")}
}

// configure writes the configuration of the guide, with what this kubeadm was given beyond that.
func (s *adoptedHAProxy) configure(t *testing.T) {
	t.Helper()
	s.guide(t).write(t, s.w)
	override(t, s.w, fmt.Sprintf(`
resource "kube_etcd_member" "this" {
  extra_args = { snapshot-count = "10000", max-txn-ops = "200" }
}

resource "kube_control_plane_replica" "this" {
  extra_args    = { apiserver = { event-ttl = "2h"%s } }
  extra_volumes = %s
}
`, s.arguments, s.volumes()))
}

// unnoticedBy applies the configuration while clients of kubeadm's administrator work, and expects that no component
// restarts.
func (s *adoptedHAProxy) unnoticedBy(t *testing.T) {
	t.Helper()
	s.configure(t)
	before, at := s.processes(t), holder(t, s.names...).Name
	admin := onMachine(t, shared.lab.Machine("cp1"), "cat /etc/kubernetes/super-admin.conf")
	clients := startLoad(t, admin, "cp2")
	t.Log(plan(t, s.w))
	apply(t, s.w)
	undisturbed(t, clients)
	if now := s.processes(t); !reflect.DeepEqual(now, before) {
		t.Errorf("before the apply:\n%v\nafter it:\n%v", before, now)
	}
	if now := holder(t, s.names...).Name; now != at {
		t.Errorf("%s had the address, and now %s has it", at, now)
	}
}

// formerly prints what runs of the former services, and what starts with the machine.
const formerly = "systemctl is-active keepalived haproxy; systemctl is-enabled keepalived haproxy; true"

func (s *adoptedHAProxy) expectFormer(t *testing.T, want string) {
	t.Helper()
	for _, name := range s.names {
		if got := strings.Join(strings.Fields(onMachine(t, shared.lab.Machine(name), formerly)), " "); got != want {
			t.Errorf("%s: keepalived and HAProxy are %q, want %q", name, got, want)
		}
	}
}

func (s *adoptedHAProxy) prepared(t *testing.T) {
	s.step = "prepare"
	s.configure(t)
	importFrom(t, s.w, s.guide(t).imports)
	s.unnoticedBy(t)
	importFrom(t, s.w, "")
	expectEmptyPlan(t, s.w)
	s.expectFormer(t, "active active enabled enabled")
}

func (s *adoptedHAProxy) taken(t *testing.T) {
	s.step = "take"
	s.unnoticedBy(t)
	expectEmptyPlan(t, s.w)
	for _, name := range s.names {
		expectContains(t, onMachine(t, shared.lab.Machine(name), formerly), "inactive", "disabled")
	}
}

func (s *adoptedHAProxy) alone(t *testing.T) {
	s.step = ""
	s.unnoticedBy(t)
	expectEmptyPlan(t, s.w)
}

func (s *adoptedHAProxy) flagChanged(t *testing.T) {
	s.arguments = ", goaway-chance = \"0\""
	s.configure(t)
	clients := startLoad(t, outputOf(t, s.w, "kubeconfig"), "cp2")
	apply(t, s.w)
	undisturbed(t, clients)
	s.expectFormer(t, "inactive inactive disabled disabled")
}

// failedOver: the address moves when its machine has no power, and nothing of the former services comes back with it.
func (s *adoptedHAProxy) failedOver(t *testing.T) {
	m := holder(t, s.names...)
	if err := m.PowerOff(t.Context()); err != nil {
		t.Fatal(err)
	}
	var others []string
	for _, name := range s.names {
		if name != m.Name {
			others = append(others, name)
		}
	}
	awaitHolder(t, others...)
	if err := m.Boot(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitFor(t, 5*time.Minute, "the machine is not as before", func() bool {
		_, changes, err := s.w.Plan(t.Context())
		return err == nil && !changes
	})
	expectEmptyPlan(t, s.w)
	s.expectFormer(t, "inactive inactive disabled disabled")
}
