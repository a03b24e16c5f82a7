package acceptance

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/lab/services"
	"github.com/kubequorum/terraform-provider-kube/internal/load"
	"github.com/kubequorum/terraform-provider-kube/internal/supplied"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// adoptedKubeVIP is a control plane of three machines that kubeadm has created, at an address of which static pods of
// kube-vip elect the holder.
type adoptedKubeVIP struct {
	adoptedCluster
	lease string // lease_name of the endpoint; "" for that of the guide
}

// kubeVIPManifest writes the static pod, as kube-vip's guide for kubeadm says. $conf is the kubeconfig that it uses.
const kubeVIPManifest = `mkdir -p /etc/kubernetes/manifests
%s manifest pod --interface "$(ip -o address show to %s | awk '{ print $2 }')" --address %s --controlplane --arp \
  --leaderElection --leaseDuration 5 --leaseRenewDuration 3 --leaseRetry 1 >/tmp/kube-vip.yaml
sed "s#path: /etc/kubernetes/admin.conf#path: $conf#" /tmp/kube-vip.yaml >/etc/kubernetes/manifests/kube-vip.yaml`

// TestAdoptKubeVIP imports a control plane whose address static pods of kube-vip have. The endpoint takes the address
// over, machine by machine, and no component restarts.
func TestAdoptKubeVIP(t *testing.T) {
	machines(t)
	testrun.Supplied(t, supplied.KubeVIP) // without it, nothing of this can be tested
	s := &adoptedKubeVIP{adoptedCluster: adoptedCluster{
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
		{"another Lease is refused", s.otherLease},
		{"a change at the same time is refused", s.changedAtOnce},
		{"cut off", s.cutOff},
		{"taken over", s.takenOver},
		{"a flag of the API servers", s.flagChanged},
		{"a static pod that comes back", s.podAgain},
	})
	apply(t, s.w, "-destroy")
}

// kubeadm creates the control plane on cp1, and joins the others.
func (s *adoptedKubeVIP) kubeadm(t *testing.T) {
	archive := filepath.Join(t.TempDir(), "kube-vip.tar")
	program := filepath.Join(t.TempDir(), "kube-vip")
	data, err := os.ReadFile(testrun.Supplied(t, supplied.KubeVIP))
	if err == nil {
		err = os.WriteFile(program, data, 0o700) //nolint:gosec // it is a program
	}
	if err == nil {
		err = build.ProgramImage(t.Context(), "ghcr.io/kube-vip/kube-vip:v1.2.3", program, archive)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range s.names {
		m := shared.lab.Machine(name)
		installNodeOf(t, m, services.Kubelet, "kubernetes-1.35-node", "etcd", "kubernetes-1.35")
		importArchive(t, m, archive)
	}
	manifest := func(name, conf string) {
		if err := services.InstallKubeVIP(t.Context(), shared.lab.Machine(name), program); err != nil {
			t.Fatal(err)
		}
		onMachine(t, shared.lab.Machine(name), "conf="+conf+"\n"+fmt.Sprintf(kubeVIPManifest, services.KubeVIPPath,
			address(name), vip))
	}
	manifest("cp1", "/etc/kubernetes/super-admin.conf")
	createByKubeadm(t, s.names, s.version, s.etcd, "endpoint="+vip, func(name string) {
		manifest(name, "/etc/kubernetes/admin.conf")
	})
	for _, name := range s.names {
		onMachine(t, shared.lab.Machine(name), "until pgrep -f 'kube-vip manager' >/dev/null; do sleep 0.5; done")
	}
}

// at are the values of the lab.
func (s *adoptedKubeVIP) at() adoptedAt {
	return adoptedIn(vip, s.version, s.etcd)
}

// configure writes the configuration of the guide, with what this kubeadm was given beyond that.
func (s *adoptedKubeVIP) configure(t *testing.T) {
	t.Helper()
	adoptionOf(t, adoptionGuide(t), s.at()).write(t, s.w)
	lease := ""
	if s.lease != "" {
		lease = fmt.Sprintf(`
resource "kube_control_plane_endpoint" "this" {
  kube_vip = { targets = var.machines, lease_name = %s }
}
`, s.lease)
	}
	override(t, s.w, fmt.Sprintf(`%s
resource "kube_etcd_member" "this" {
  extra_args = { snapshot-count = "10000", max-txn-ops = "200" }
}

resource "kube_control_plane_replica" "this" {
  extra_args    = { apiserver = { event-ttl = "2h"%s } }
  extra_volumes = %s
}
`, lease, s.arguments, s.volumes()))
}

// podRuns defines runs: whether the kube-vip of a static pod runs, which has its settings in its environment.
const podRuns = `runs() {
  for pid in $(pgrep -x kube-vip); do
    if tr '\0' '\n' <"/proc/$pid/environ" | grep -qx address=` + vip + `; then return 0; fi
  done
  return 1
}
`

// expectPods expects that the static pods of kube-vip run on these machines, and on no other.
func (s *adoptedKubeVIP) expectPods(t *testing.T, names ...string) {
	t.Helper()
	var running []string
	for _, name := range s.names {
		if onMachine(t, shared.lab.Machine(name), podRuns+"ls /etc/kubernetes/manifests | grep kube-vip || true; "+
			"! runs || echo runs") != "" {
			running = append(running, name)
		}
	}
	if !reflect.DeepEqual(running, names) {
		t.Errorf("static pods of kube-vip are on %q, want %q", running, names)
	}
}

// otherLease: two elections would give the address to two machines.
func (s *adoptedKubeVIP) otherLease(t *testing.T) {
	s.lease = "null"
	s.configure(t)
	importFrom(t, s.w, adoptionOf(t, adoptionGuide(t)[:1], s.at()).imports) // without the endpoint
	before := s.processes(t)
	expectContains(t, refused(t, s.w), "elects by another Lease", "plndr-cp-lock", "kube_vip.lease_name")
	s.expectPods(t, s.names...)
	if now := s.processes(t); !reflect.DeepEqual(now, before) {
		t.Errorf("before the refused apply:\n%v\nafter it:\n%v", before, now)
	}
}

// changedAtOnce: no API server stops while a static pod sends clients to it.
func (s *adoptedKubeVIP) changedAtOnce(t *testing.T) {
	s.lease, s.arguments = "", ", goaway-chance = \"0\""
	s.configure(t)
	importFrom(t, s.w, adoptionOf(t, adoptionGuide(t), s.at()).imports)
	before := s.processes(t)
	expectContains(t, refused(t, s.w), "apply without other changes first")
	if now := s.processes(t); !reflect.DeepEqual(now, before) {
		t.Errorf("before the refused apply:\n%v\nafter it:\n%v", before, now)
	}
	s.arguments = ""
}

// cutOff: the provider is killed while the machine with the address loses its static pod.
func (s *adoptedKubeVIP) cutOff(t *testing.T) {
	s.configure(t)
	m := holder(t, s.names...)
	admin := onMachine(t, shared.lab.Machine("cp1"), "cat /etc/kubernetes/super-admin.conf")
	clients := startClients(t, load.Config{Kubeconfig: admin, Criteria: moved()})
	begun := func(line string) bool {
		return strings.Contains(line, `"type":"apply_start"`) && strings.Contains(line, "kube_control_plane_replica")
	}
	cutWhen(t, s.w, begun, func(terraform *os.Process) {
		onMachine(t, m, "timeout 120 sh -c 'while [ -e /etc/kubernetes/manifests/kube-vip.yaml ]; do "+
			"sleep 0.05; done'")
		killProvider(t, s.w, terraform)
	})
	undisturbed(t, clients)
}

// takenOver: clients of kubeadm's administrator lose connections to the holder at most, and nothing else restarts.
func (s *adoptedKubeVIP) takenOver(t *testing.T) {
	s.configure(t)
	before := s.processes(t)
	admin := onMachine(t, shared.lab.Machine("cp1"), "cat /etc/kubernetes/super-admin.conf")
	clients := startClients(t, load.Config{Kubeconfig: admin, Criteria: moved()})
	t.Log(plan(t, s.w))
	apply(t, s.w)
	undisturbed(t, clients)
	s.expectPods(t)
	holder(t, s.names...)
	if now := s.processes(t); !reflect.DeepEqual(now, before) {
		t.Errorf("before the import:\n%v\nafter it:\n%v", before, now)
	}
	for _, name := range s.names {
		onMachine(t, shared.lab.Machine(name), "systemctl is-active kube-endpoint-kube-vip; "+
			"grep -q plndr-cp-lock /etc/kube-endpoint-kube-vip/inherited/kube-vip.yaml")
	}
	importFrom(t, s.w, "")
	expectEmptyPlan(t, s.w)
}

func (s *adoptedKubeVIP) flagChanged(t *testing.T) {
	s.arguments = ", goaway-chance = \"0\""
	s.configure(t)
	clients := startClients(t, load.Config{Kubeconfig: outputOf(t, s.w, "kubeconfig"), Criteria: moved()})
	apply(t, s.w)
	undisturbed(t, clients)
}

// podReturns puts the static pod back, and waits until it runs.
const podReturns = podRuns + `cp /etc/kube-endpoint-kube-vip/inherited/kube-vip.yaml /etc/kubernetes/manifests/
until runs; do sleep 0.5; done`

// podAgain: somebody puts the static pod back, and the next apply takes the address over again.
func (s *adoptedKubeVIP) podAgain(t *testing.T) {
	m := shared.lab.Machine("cp2")
	onMachine(t, m, podReturns)
	expectContains(t, plan(t, s.w), "kube-vip also runs as a static pod")
	apply(t, s.w)
	s.expectPods(t)
	holder(t, s.names...)
}
