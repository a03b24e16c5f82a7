package acceptance

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/lab/services"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// adoptedStory is a control plane that kubeadm has created on cp1, behind a balancer of somebody else on cp2.
type adoptedStory struct {
	w       *workspace.Workspace
	machine *lab.Machine
	version string
	etcd    string
	from    kubeadmRelease
	units   bool // the components run as units
	// The arguments that the story changes.
	apiServer, member string
}

// kubeadmRelease names what kubeadm installs, as sets of components.
type kubeadmRelease struct{ kubernetes, node, etcd string }

// TestAdoptKubeadm imports a control plane that kubeadm init has created, with its kubelet and containerd. Neither the
// import nor the apply that follows restarts anything; a changed flag restarts what it concerns, with all flags that
// kubeadm was given.
func TestAdoptKubeadm(t *testing.T) {
	s := &adoptedStory{from: kubeadmRelease{"kubernetes", "kubernetes-1.36-node", "etcd"}}
	s.tell(t, []adoptedStep{
		{"a create is refused", s.createRefused},
		{"imported", s.imported},
		{"kubeadm still works", s.kubeadmWorks},
		{"moved to units and back", s.movedAndBack},
		{"a first restart that fails", s.takenBack},
		{"a flag of the API server", s.flagOfAPIServer},
		{"a flag of the member", s.flagOfMember},
		{"certificates renewed", s.renewed},
		{"kubeadm still works on the provider's manifests", s.kubeadmWorks},
	})
}

// TestAdoptOlderKubeadm imports control planes of older releases of kubeadm, each with an etcd of its time.
func TestAdoptOlderKubeadm(t *testing.T) {
	machines(t)
	for _, from := range []kubeadmRelease{
		{"kubernetes-1.32", "kubernetes-1.32-node", "etcd-3.5"},
		{"kubernetes-1.33", "kubernetes-1.33-node", "etcd-3.5"},
		{"kubernetes-1.34", "kubernetes-1.34-node", "etcd"},
		{"kubernetes-1.35", "kubernetes-1.35-node", "etcd"},
	} {
		t.Run(from.kubernetes, func(t *testing.T) {
			s := &adoptedStory{from: from}
			s.tell(t, []adoptedStep{
				{"imported", s.imported},
				{"kubeadm still works", s.kubeadmWorks},
				{"a flag of the API server", s.flagOfAPIServer},
				{"certificates renewed", s.renewed},
			})
		})
	}
}

// tell creates a control plane with kubeadm, runs the steps, and destroys it.
func (s *adoptedStory) tell(t *testing.T, steps []adoptedStep) {
	t.Helper()
	machines(t)
	s.machine = shared.lab.Machine("cp1")
	rebuiltAfter(t, "cp1", "cp2")
	if !t.Run("kubeadm init", s.kubeadm) {
		t.FailNow()
	}
	s.w = newStory(t, "cp1", "cp2") // it trusts the machine that has been made anew
	choose(t, s.w, "cp1")
	s.configure(t)
	runSteps(t, []string{"cp1"}, steps)
	apply(t, s.w, "-destroy")
	expectNoManifests(t, "cp1")
}

func (s *adoptedStory) kubeadm(t *testing.T) {
	s.version, s.etcd = release(t, s.from.kubernetes), release(t, s.from.etcd)
	installNodeOf(t, s.machine, services.Kubelet, s.from.node, s.from.etcd, s.from.kubernetes)
	balancer := shared.lab.Machine("cp2")
	if err := services.InstallBalancers(t.Context(), balancer); err != nil {
		t.Fatal(err)
	}
	startBalancer(t, services.HAProxy, balancer, targetsOn("cp1"), "/readyz")
	for name, patch := range kubeadmPatches {
		uploadText(t, s.machine, "/root/patches/"+name+"+strategic.yaml", patch)
	}
	t.Log(onMachine(t, s.machine, fmt.Sprintf("version=%s etcd=%s name=cp1 address=%s endpoint=%s\n%s", s.version, s.etcd,
		address("cp1"), address("cp2"), services.KubeadmInit)))
	t.Log(onMachine(t, s.machine, "cat /etc/kubernetes/manifests/*"))
}

// kubeadmPatches are patches that kubeadm applies to manifests, by component.
var kubeadmPatches = map[string]string{
	"kube-apiserver": `metadata:
  annotations:
    team/owner: platform
spec:
  containers:
  - name: kube-apiserver
    resources:
      limits:
        memory: 3Gi
      requests:
        cpu: 300m
  dnsPolicy: Default
`,
	"etcd": `metadata:
  labels:
    team: storage
`,
}

// guide returns the configuration of the guide.
func (s *adoptedStory) guide(t *testing.T) adoption {
	t.Helper()
	return adoptionOf(t, adoptionGuide(t), adoptedIn(address("cp2"), s.version, s.etcd))
}

// configure writes the configuration of the guide, with what this kubeadm was given beyond that.
func (s *adoptedStory) configure(t *testing.T) {
	t.Helper()
	s.guide(t).write(t, s.w)
	override(t, s.w, fmt.Sprintf(`
resource "kube_etcd_member" "this" {
  extra_args = {
    snapshot-count = "10000"
    max-txn-ops    = "200"
    %s
  }
}

resource "kube_control_plane_replica" "this" {
  extra_args = { apiserver = { event-ttl = "2h"%s } }
}
`, s.member, s.apiServer))
	pods := filepath.Join(s.w.Dir, "pods_override.tf")
	if s.units {
		write(t, pods, `
resource "kube_etcd_member" "this" { runtime = "systemd" }
resource "kube_control_plane_replica" "this" { runtime = "systemd" }
`)
		return
	}
	write(t, pods, fmt.Sprintf(`
resource "kube_etcd_member" "this" {
  patch = <<-EOT
%s
  EOT
}

resource "kube_control_plane_replica" "this" {
  extra_volumes = {
    apiserver = {
      extra = {
        host_path = "/srv/extra", mount_path = "/srv/mounted", read_only = true, path_type = "DirectoryOrCreate"
      }
    }
  }
  patches = {
    apiserver = <<-EOT
%s
    EOT
  }
}
`, kubeadmPatches["etcd"], kubeadmPatches["kube-apiserver"]))
}

func (s *adoptedStory) processes(t *testing.T) map[string]string { return podProcesses(t, s.machine) }

// podProcesses returns what runs on a machine: the containers, and the process of each component with the time of its
// start.
func podProcesses(t *testing.T, m *lab.Machine) map[string]string {
	t.Helper()
	return processesOf(t, m, "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
}

func processesOf(t *testing.T, m *lab.Machine, names ...string) map[string]string {
	t.Helper()
	running := map[string]string{}
	for _, name := range names {
		running[name] = onMachine(t, m, `pid=$(pidof `+name+`)
cut -d ' ' -f 1,22 "/proc/$pid/stat"
ctr -n k8s.io tasks ls | awk -v pid="$pid" '$2 == pid'
sha256sum </etc/kubernetes/manifests/`+name+`.yaml`)
	}
	return running
}

// lastLine returns the last line of a text: of a process, the digest of its manifest.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// expectRestarted compares the processes with those of before. Where the only API server restarts, clients lose their
// leases, and end by themselves: of these, the manifests are compared.
func (s *adoptedStory) expectRestarted(t *testing.T, before map[string]string, names ...string) {
	t.Helper()
	now := s.processes(t)
	for name := range before {
		leased := name == "kube-controller-manager" || name == "kube-scheduler"
		if leased && slices.Contains(names, "kube-apiserver") {
			now[name], before[name] = lastLine(now[name]), lastLine(before[name])
		}
		wanted := strings.Contains(" "+strings.Join(names, " ")+" ", " "+name+" ")
		if restarted := now[name] != before[name]; restarted != wanted {
			t.Errorf("%s was restarted: %v, want %v: before\n%s\nnow\n%s", name, restarted, wanted, before[name], now[name])
		}
	}
}

// createRefused: what was not imported is not taken over.
func (s *adoptedStory) createRefused(t *testing.T) {
	before := s.processes(t)
	s.configure(t)
	output := refused(t, s.w)
	t.Log(output)
	expectContains(t, unfolded(output), "kubeadm has created the member on the machine", "import the member")
	s.expectRestarted(t, before)
	for _, name := range []string{"terraform.tfstate", "terraform.tfstate.backup"} {
		if err := os.Remove(filepath.Join(s.w.Dir, name)); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
}

// imported: the plan says what differs, and nothing restarts.
func (s *adoptedStory) imported(t *testing.T) {
	before := s.processes(t)
	importFrom(t, s.w, s.guide(t).imports)
	expectImportPlan(t, plan(t, s.w), []string{"cp1"}, []string{"cp1"})
	s.expectRestarted(t, before)
	apply(t, s.w)
	s.expectRestarted(t, before)
	write(t, filepath.Join(s.w.Dir, "imports.tf"), "")
	expectEmptyPlan(t, s.w)
}

func (s *adoptedStory) kubeadmWorks(t *testing.T) {
	kubeadmWorks(t, s.machine, s.version, stackedCertificates...)
}

// movedAndBack: units run the components for a while. Then the manifests of kubeadm are there again, byte for byte.
func (s *adoptedStory) movedAndBack(t *testing.T) {
	const manifests = "cd /etc/kubernetes/manifests && sha256sum *"
	const units = "etcd.service kube-apiserver.service kube-controller-manager.service kube-scheduler.service"
	before := onMachine(t, s.machine, manifests)
	s.units = true
	s.configure(t)
	apply(t, s.w)
	expectRunBy(t, []string{"cp1"}, units, "")
	expectNoManifests(t, "cp1")
	s.units = false
	s.configure(t)
	expectContains(t, unfolded(plan(t, s.w)), "used again, byte for byte")
	apply(t, s.w)
	expectRunBy(t, []string{"cp1"}, "", "etcd kube-apiserver kube-controller-manager kube-scheduler")
	if after := onMachine(t, s.machine, manifests); after != before {
		t.Errorf("the manifests are\n%s\nand were\n%s", after, before)
	}
}

// takenBack: a replica that does not become ready with its first restart is rolled back to the manifest of kubeadm.
func (s *adoptedStory) takenBack(t *testing.T) {
	const digest = "sha256sum </etc/kubernetes/manifests/kube-apiserver.yaml"
	manifest := onMachine(t, s.machine, digest)
	s.apiServer = ", goaway-chance = \"2\""
	s.configure(t)
	expectContains(t, unfolded(refused(t, s.w)), "rolled back to "+s.version)
	if now := onMachine(t, s.machine, digest); now != manifest {
		t.Error("another manifest is placed")
	}
	before := s.processes(t)
	s.apiServer = ""
	s.configure(t)
	apply(t, s.w)
	s.expectRestarted(t, before)
}

// flagOfAPIServer: the first restart keeps what kubeadm was given.
func (s *adoptedStory) flagOfAPIServer(t *testing.T) {
	before := s.processes(t)
	s.apiServer = ", goaway-chance = \"0\""
	s.configure(t)
	output := plan(t, s.w)
	expectContains(t, output, "0 to add, 1 to change, 0 to destroy")
	apply(t, s.w)
	s.expectRestarted(t, before, "kube-apiserver")
	expectContains(t, onMachine(t, s.machine, "tr '\\0' '\\n' <\"/proc/$(pidof kube-apiserver)/cmdline\""),
		"--event-ttl=2h", "--goaway-chance=0\n")
	expectContains(t, onMachine(t, s.machine, "cat /etc/kubernetes/manifests/kube-apiserver.yaml"),
		"mountPath: /srv/mounted", "path: /srv/extra", "team/owner: platform", "memory: 3Gi", "dnsPolicy: Default")
	expectContains(t, onMachine(t, s.machine, "cat /etc/kubernetes/replica.pods/inherited/kube-apiserver.yaml"),
		"--event-ttl=2h", "kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint")
}

func (s *adoptedStory) flagOfMember(t *testing.T) {
	before := s.processes(t)
	s.member = `max-request-bytes = "2097152"`
	s.configure(t)
	apply(t, s.w)
	now := s.processes(t)
	if now["etcd"] == before["etcd"] {
		t.Error("etcd was not restarted")
	}
	expectContains(t, onMachine(t, s.machine, "tr '\\0' '\\n' <\"/proc/$(pidof etcd)/cmdline\""), "--max-txn-ops=200",
		"--max-request-bytes=2097152", "--feature-gates=InitialCorruptCheck=true")
	expectContains(t, onMachine(t, s.machine, "cat /etc/etcd/inherited/etcd.yaml"), "--max-txn-ops=200")
	expectContains(t, onMachine(t, s.machine, "cat /etc/kubernetes/manifests/etcd.yaml"), "team: storage")
}

// renewed: all certificates are issued anew, and what reads its own at the start only is restarted.
func (s *adoptedStory) renewed(t *testing.T) {
	const digests = "cd /etc/kubernetes && sha256sum *.conf pki/*.crt pki/etcd/*.crt"
	before := onMachine(t, s.machine, digests)
	file := filepath.Join(s.w.Dir, "renewal_override.tf")
	write(t, file, `
resource "kube_etcd_member" "this" { early_renewal = "8759h59m" }
resource "kube_control_plane_replica" "this" { early_renewal = "8759h59m" }
`)
	applyOnly(t, s.w, "the certificates it has issued are due at once")
	write(t, file, "")
	apply(t, s.w)
	after := onMachine(t, s.machine, digests)
	for _, line := range strings.Split(before, "\n") {
		_, file, _ := strings.Cut(line, "  ")
		authority := strings.Contains(file, "ca.crt") || strings.Contains(file, "ca-signing")
		kept := authority || file == "kubelet.conf" || file == "super-admin.conf" || file == ""
		if strings.Contains(after, line) != kept {
			t.Errorf("%s: kept is %v, want %v", file, !kept, kept)
		}
	}
}
