package acceptance

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/lab/services"
	"github.com/kubequorum/terraform-provider-kube/internal/load"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// adoptedCluster is a control plane of three machines that kubeadm has created, behind a balancer on another machine,
// which hooks configure.
type adoptedCluster struct {
	w             *workspace.Workspace
	names         []string
	balancer      *lab.Machine
	version, etcd string
	runtime       string
	arguments     string // of API servers
	kubelet       string // manage_kubelet
	rotation      int
	objects       bool   // kube_node_bootstrap manages what workers read
	discovery     string // cluster-info as it was read last
}

// adoptedObjects takes over what kubeadm join reads, with a version.
const adoptedObjects = `
resource "kube_node_bootstrap" "this" {
  pki       = kube_pki_bundle.this.bundle
  endpoint  = kube_control_plane_endpoint.this.registration
  version   = %q
  pod_cidrs = ["10.244.0.0/16"]
  adopt     = true

  depends_on = [kube_control_plane_replica.this]
}

output "discovery_file" {
  value = kube_node_bootstrap.this.discovery_file
}
`

// TestAdoptCluster imports a control plane of three machines that an older kubeadm has created and upgraded, and
// changes it: each change is an apply that clients do not notice.
func TestAdoptCluster(t *testing.T) {
	machines(t)
	s := &adoptedCluster{
		names: []string{"cp1", "cp2", "cp3"}, version: release(t, "kubernetes-1.34"), etcd: release(t, "etcd"),
		runtime: "static_pod", kubelet: "null",
	}
	release(t, "kubernetes-1.35-node")
	release(t, "kubernetes-1.36-node")
	if err := shared.lab.Add(t.Context(), missing(shared.lab, []string{"cp4"})...); err != nil {
		t.Fatal(err)
	}
	s.balancer = shared.lab.Machine("cp4")
	rebuiltAfter(t, append([]string{"cp4"}, s.names...)...)
	if !t.Run("kubeadm", s.kubeadm) {
		t.FailNow()
	}
	s.w = newStory(t, append([]string{"cp4"}, s.names...)...) // it trusts the machines that have been made anew
	choose(t, s.w, s.names...)
	runSteps(t, s.names, []adoptedStep{
		{"by kubeadm", s.byKubeadm},
		{"imported", s.imported},
		{"workers join", s.workersJoin},
		{"a flag of the API servers", s.flagChanged},
		{"certificates renewed", s.renewed},
		{"authorities rotated", s.rotated},
		{"the first machine replaced", s.replaced},
		{"a machine less and more", s.scaled},
		{"upgraded by a minor", s.upgraded},
		{"kubelets upgraded", s.kubeletsUpgraded},
		{"kubeadm still works", s.kubeadmWorks},
		{"moved to units", s.moved},
	})
	apply(t, s.w, "-destroy")
}

// kubeadm creates the control plane on cp1, and joins the others.
func (s *adoptedCluster) kubeadm(t *testing.T) {
	for _, name := range s.names {
		installNodeOf(t, shared.lab.Machine(name), services.Kubelet, "kubernetes-1.34-node", "etcd",
			"kubernetes-1.34", "kubernetes-1.35", "kubernetes")
	}
	if err := services.InstallBalancers(t.Context(), s.balancer); err != nil {
		t.Fatal(err)
	}
	if err := services.InstallServers(t.Context(), s.balancer); err != nil {
		t.Fatal(err)
	}
	startBalancer(t, services.HAProxyByHooks, s.balancer, targetsOn("cp1"), "")
	createByKubeadm(t, s.names, s.version, s.etcd, "endpoint="+address("cp4"), nil)
	startBalancer(t, services.HAProxyByHooks, s.balancer, targetsOn(s.names...), "")
}

// configure writes the configuration of the control plane.
func (s *adoptedCluster) configure(t *testing.T) {
	t.Helper()
	hooks, err := json.Marshal(services.PoolHooks(shared.lab, s.balancer))
	if err != nil {
		t.Fatal(err)
	}
	override(t, s.w, fmt.Sprintf(`
resource "kube_pki_bundle" "this" {
  cluster_name        = "kubernetes"
  key_algorithm       = "RSA-2048"
  deletion_protection = false
  rotation            = { kubernetes = %[1]d, etcd = %[1]d, front_proxy = %[1]d, service_account = %[1]d }
}

resource "kube_control_plane_endpoint" "this" {
  address        = %[2]q
  haproxy        = null
  ca_certificate = null
  external       = { targets = var.machines, hooks = %[3]s }
}

resource "kube_etcd_member" "this" {
  endpoint   = kube_control_plane_endpoint.this.registration
  runtime    = %[4]q
  version    = %[5]q
  extra_args = { snapshot-count = "10000", max-txn-ops = "200" }
}

resource "kube_control_plane_replica" "this" {
  runtime       = %[4]q
  version       = %[6]q
  service_cidrs = ["10.96.0.0/12"]
  pod_cidrs     = ["10.244.0.0/16"]
  extra_args    = { apiserver = { event-ttl = "2h"%[7]s } }
  extra_volumes = %[8]s

  authentication = %[10]s
  manage_kubelet = %[9]s
}
`, s.rotation, address("cp4"), hooks, s.runtime, s.etcd, s.version, s.arguments, s.volumes(), s.kubelet,
		s.authentication()))
	if s.objects {
		extend(t, s.w, fmt.Sprintf(adoptedObjects, s.version))
	}
}

// authentication is open for kubeadm join from the first change on that restarts the API servers.
func (s *adoptedCluster) authentication() string {
	if s.arguments == "" {
		return "null"
	}
	return `{ anonymous_paths = ["` + infoPath + `"] }`
}

// volumes are those that kubeadm was given. Units have none.
func (s *adoptedCluster) volumes() string {
	if s.runtime != "static_pod" {
		return "null"
	}
	return `{ apiserver = { extra = {
    host_path = "/srv/extra", mount_path = "/srv/mounted", read_only = true, path_type = "DirectoryOrCreate"
  } } }`
}

func (s *adoptedCluster) processes(t *testing.T) map[string]map[string]string {
	t.Helper()
	all := map[string]map[string]string{}
	for _, name := range s.names {
		all[name] = podProcesses(t, shared.lab.Machine(name))
	}
	return all
}

// underLoad applies the configuration while clients use the API and etcd.
func (s *adoptedCluster) underLoad(t *testing.T, change func()) {
	t.Helper()
	clients := startLoadOn(t, outputOf(t, s.w, "kubeconfig"), func() []string { return s.names[1:2] })
	change()
	undisturbed(t, clients)
}

// flagByHand sets and removes the flag $flag in kubeadm's manifest, and waits until the API server has followed.
const flagByHand = `file=/etc/kubernetes/manifests/kube-apiserver.yaml
pid=$(pidof kube-apiserver)
if grep -q -- "$flag" "$file"; then sed "/- $flag\$/d" "$file" >/root/apiserver
else sed "s/^    - kube-apiserver\$/&\n    - $flag/" "$file" >/root/apiserver; fi
mv /root/apiserver "$file"
until now=$(pidof kube-apiserver) && [ "$now" != "$pid" ] && curl -ksf "https://$address:6443/readyz" >/dev/null; do
  sleep 0.2
done`

// byKubeadm makes changes as without the provider, for comparison: their clients notice what they may. A machine
// follows when the one before is ready. The second change of the flag takes the first one back.
func (s *adoptedCluster) byKubeadm(t *testing.T) {
	admin := onMachine(t, shared.lab.Machine("cp1"), "cat /etc/kubernetes/super-admin.conf")
	noticed := func(name string, change func(t *testing.T)) {
		t.Run(name, func(t *testing.T) {
			clients := startLoad(t, admin, "cp2")
			change(t)
			t.Logf("clients notice: %q", load.Verdict(reportOf(t, clients), clients.criteria))
		})
	}
	onEach := func(script string) func(t *testing.T) {
		return func(t *testing.T) {
			for _, name := range s.names {
				onMachine(t, shared.lab.Machine(name), "address="+address(name)+"\n"+script)
			}
		}
	}
	noticed("a flag of the API servers", onEach("flag=--goaway-chance=0\n"+flagByHand))
	noticed("its former value", onEach("flag=--goaway-chance=0\n"+flagByHand))
	noticed("certificates renewed", onEach("kubeadm certs renew all >/dev/null\n"+services.KubeadmRestart))
	noticed("a machine replaced", func(t *testing.T) { s.replacedByKubeadm(t, admin) })
	s.version = release(t, "kubernetes-1.35")
	s.uploadKubeadm(t, "kubernetes-1.35-node")
	noticed("upgraded by a minor", s.upgradedByKubeadm)
}

// replacedByKubeadm resets the last machine, and lets it join again.
func (s *adoptedCluster) replacedByKubeadm(t *testing.T, admin string) {
	t.Helper()
	leaves := shared.lab.Machine("cp3")
	t.Log(onMachine(t, leaves, "kubeadm reset --force --ignore-preflight-errors=all 2>&1"))
	kubectl(t, s.w, "--kubeconfig="+writeFile(t, s.w, "super-admin.conf", admin), "delete", "node", leaves.Name)
	by := services.Kubeadm{Kubernetes: s.version, Etcd: s.etcd, Settings: "endpoint=" + address("cp4")}
	if err := by.Join(t.Context(), shared.lab.Machine("cp1"), []*lab.Machine{leaves}, t.Output()); err != nil {
		t.Fatal(err)
	}
	s.ready(t)
}

// upgradedByKubeadm upgrades the control plane to s.version, and leaves the kubelets as they are.
func (s *adoptedCluster) upgradedByKubeadm(t *testing.T) {
	t.Helper()
	if err := (services.Kubeadm{}).Upgrade(t.Context(), labMachines(s.names), s.version, t.Output()); err != nil {
		t.Fatal(err)
	}
	s.ready(t)
}

// ready waits until each API server is.
func (s *adoptedCluster) ready(t *testing.T) {
	t.Helper()
	for _, name := range s.names {
		onMachine(t, shared.lab.Machine(name), "until curl -ksf https://"+address(name)+":6443/readyz; do sleep 0.2; done")
	}
}

// uploadKubeadm gives each machine the kubeadm of a release.
func (s *adoptedCluster) uploadKubeadm(t *testing.T, set string) {
	t.Helper()
	for _, name := range s.names {
		upload(t, shared.lab.Machine(name), filepath.Join(nodePrograms(t, set), "kubeadm"), "/usr/bin/kubeadm", "755")
	}
}

// imported: clients of kubeadm's administrator notice nothing, and nothing restarts.
func (s *adoptedCluster) imported(t *testing.T) {
	before := s.processes(t)
	s.configure(t)
	ids := map[string]string{"kube_pki_bundle.this": address("cp1")}
	for _, name := range s.names {
		ids[fmt.Sprintf("kube_etcd_member.this[%q]", name)] = address(name)
		ids[fmt.Sprintf("kube_control_plane_replica.this[%q]", name)] = address(name)
	}
	write(t, filepath.Join(s.w.Dir, "imports.tf"), importBlocks(ids))
	admin := onMachine(t, shared.lab.Machine("cp1"), "cat /etc/kubernetes/super-admin.conf")
	clients := startLoad(t, admin, "cp2")
	expectImportPlan(t, plan(t, s.w), s.names, s.names)
	apply(t, s.w)
	undisturbed(t, clients)
	if now := s.processes(t); !reflect.DeepEqual(now, before) {
		t.Errorf("before the import:\n%v\nafter it:\n%v", before, now)
	}
	write(t, filepath.Join(s.w.Dir, "imports.tf"), "")
	expectEmptyPlan(t, s.w)
}

// workersJoin takes over what kubeadm join reads. Nothing restarts.
func (s *adoptedCluster) workersJoin(t *testing.T) {
	before := s.processes(t)
	s.objects = true
	s.configure(t)
	expectContains(t, plan(t, s.w), "1 to add, 0 to change, 0 to destroy")
	apply(t, s.w)
	if now := s.processes(t); !reflect.DeepEqual(now, before) {
		t.Errorf("before the takeover:\n%v\nafter it:\n%v", before, now)
	}
	s.expectObjects(t)
}

// expectObjects expects in the ConfigMaps what the provider sets, and beside it what kubeadm was given.
func (s *adoptedCluster) expectObjects(t *testing.T) {
	t.Helper()
	admin := "--kubeconfig=" + writeFile(t, s.w, "admin.conf", outputOf(t, s.w, "kubeconfig"))
	read := func(namespace, name, key string) string {
		t.Helper()
		return kubectl(t, s.w, admin, "get", "configmap", "-n", namespace, name, "-o", "jsonpath={.data."+key+"}")
	}
	expectContains(t, read("kube-system", "kubeadm-config", "ClusterConfiguration"), "kubernetesVersion: v"+s.version,
		"controlPlaneEndpoint: "+address("cp4")+":6443", "certificatesDir: /etc/kubernetes/pki", "name: max-txn-ops",
		"name: event-ttl")
	expectContains(t, read("kube-system", "kubelet-config", "kubelet"), "cgroupDriver: cgroupfs", "failSwapOn: false")
	s.discovery = read("kube-public", "cluster-info", "kubeconfig")
	if want := outputOf(t, s.w, "discovery_file"); strings.TrimSpace(s.discovery) != strings.TrimSpace(want) {
		t.Errorf("cluster-info is\n%s\nwant\n%s", s.discovery, want)
	}
}

func (s *adoptedCluster) flagChanged(t *testing.T) {
	s.arguments = ", goaway-chance = \"0\""
	s.configure(t)
	expectContains(t, plan(t, s.w), "0 to add, 3 to change, 0 to destroy")
	s.underLoad(t, func() { apply(t, s.w) })
}

// renewed: all certificates are issued anew.
func (s *adoptedCluster) renewed(t *testing.T) {
	file := filepath.Join(s.w.Dir, "renewal_override.tf")
	write(t, file, `
resource "kube_etcd_member" "this" { early_renewal = "8759h59m" }
resource "kube_control_plane_replica" "this" { early_renewal = "8759h59m" }
`)
	s.underLoad(t, func() {
		applyOnly(t, s.w, "the certificates it has issued are due at once")
		write(t, file, "")
		apply(t, s.w)
	})
}

// rotated: all authorities, stage by stage. Each has clients with the newest credentials, and the kubelets stay
// connected.
func (s *adoptedCluster) rotated(t *testing.T) {
	for stage := range 3 {
		s.rotation = stage + 1
		s.configure(t)
		s.underLoad(t, func() { apply(t, s.w) })
		s.kubeletsConnected(t)
	}
	before := s.discovery
	if s.expectObjects(t); s.discovery == before {
		t.Error("cluster-info has the former CA")
	}
	s.kubeadmWorks(t)
}

// kubeletsConnected: each kubelet renews the lease of its node.
func (s *adoptedCluster) kubeletsConnected(t *testing.T) {
	t.Helper()
	admin := "--kubeconfig=" + writeFile(t, s.w, "admin.conf", outputOf(t, s.w, "kubeconfig"))
	renewed := func() string {
		return kubectl(t, s.w, admin, "get", "leases", "-n", "kube-node-lease", "-o",
			"jsonpath={range .items[*]}{.metadata.name} {.spec.renewTime}{\"\\n\"}{end}")
	}
	before := renewed()
	if strings.Count(before, "\n") != len(s.names) {
		t.Fatalf("the leases of the nodes are\n%s", before)
	}
	for line := range strings.Lines(before) {
		await(t, "the kubelet does not renew the lease of its node: "+line, func() bool {
			return !strings.Contains(renewed(), line)
		})
	}
}

func (s *adoptedCluster) replaced(t *testing.T) {
	s.underLoad(t, func() {
		apply(t, s.w, `-replace=kube_control_plane_replica.this["cp1"]`, `-replace=kube_etcd_member.this["cp1"]`)
	})
}

func (s *adoptedCluster) scaled(t *testing.T) {
	s.underLoad(t, func() {
		choose(t, s.w, "cp1", "cp2")
		apply(t, s.w)
		choose(t, s.w, s.names...)
		apply(t, s.w)
	})
}

func (s *adoptedCluster) upgraded(t *testing.T) {
	s.version = release(t, "kubernetes")
	s.configure(t)
	s.underLoad(t, func() { apply(t, s.w) })
	s.expectObjects(t)
	s.uploadKubeadm(t, "kubernetes-1.36-node")
	s.kubeadmWorks(t)
}

// workload is what else runs on the nodes: a Deployment of which one Pod is always needed, and a Pod without a
// controller.
const workload = `
{"apiVersion": "v1", "kind": "List", "items": [
{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
  "replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {
    "metadata": {"labels": {"app": "web"}}, "spec": {
      "hostNetwork": true, "tolerations": [{"operator": "Exists"}], "terminationGracePeriodSeconds": 1,
      "containers": [{"name": "main", "image": "` + podImage + `", "imagePullPolicy": "Never", "args": ["tick"]}]}}}},
{"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"}, "spec": {
  "minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}},
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "lone"}, "spec": {
  "nodeName": "cp1", "hostNetwork": true, "tolerations": [{"operator": "Exists"}],
  "terminationGracePeriodSeconds": 1,
  "containers": [{"name": "main", "image": "` + podImage + `", "imagePullPolicy": "Never", "args": ["tick"]}]}}]}`

// kubeletsUpgraded: the kubelets follow the control plane, one machine at a time, and other Pods leave its node before.
// A second apply does the same when somebody has started the packages' kubelet again.
func (s *adoptedCluster) kubeletsUpgraded(t *testing.T) {
	admin := "--kubeconfig=" + writeFile(t, s.w, "admin.conf", outputOf(t, s.w, "kubeconfig"))
	kubectl(t, s.w, admin, "apply", "-f", writeFile(t, s.w, "workload.json", workload))
	kubectl(t, s.w, admin, "rollout", "status", "deployment/web", "--timeout=3m")
	pods := kubectl(t, s.w, admin, "get", "pods", "-l", "app=web", "-o", "name")
	s.kubelet = "true"
	s.configure(t)
	expectContains(t, refused(t, s.w), "cannot be evicted", `default/lone`, "has no controller")
	kubectl(t, s.w, admin, "delete", "pod", "lone")
	s.underLoad(t, func() { apply(t, s.w) })
	if now := kubectl(t, s.w, admin, "get", "pods", "-l", "app=web", "-o", "name"); now == pods {
		t.Errorf("no Pod has left its node: %s", now)
	}
	kubectl(t, s.w, admin, "rollout", "status", "deployment/web", "--timeout=3m")
	cordoned := kubectl(t, s.w, admin, "get", "nodes", "-o", "jsonpath={.items[*].spec.unschedulable}")
	if cordoned != "" {
		t.Errorf("nodes are cordoned: %s", cordoned)
	}
	const running = "/proc/$(systemctl show --property=MainPID --value kubelet.service)/exe --version"
	expectVersions := func() {
		t.Helper()
		for _, name := range s.names {
			if got := onMachine(t, shared.lab.Machine(name), running); strings.TrimSpace(got) != "Kubernetes v"+s.version {
				t.Errorf("kubelet of %s: %q", name, got)
			}
		}
	}
	expectVersions()
	nodes := kubectl(t, s.w, admin, "get", "nodes", "-o",
		"jsonpath={range .items[*]}{.status.nodeInfo.kubeletVersion}{end}")
	if nodes != strings.Repeat("v"+s.version, len(s.names)) {
		t.Errorf("nodes report %q", nodes)
	}
	onMachine(t, shared.lab.Machine("cp2"), "rm /etc/systemd/system/kubelet.service.d/90-kube-program.conf; "+
		"systemctl daemon-reload; systemctl restart kubelet")
	expectContains(t, plan(t, s.w), "kubelet: runs version", "1 to change")
	apply(t, s.w)
	expectVersions()
	kubectl(t, s.w, admin, "delete", "poddisruptionbudget/web", "deployment/web")
	kubectl(t, s.w, admin, "wait", "--for=delete", "pod", "-l", "app=web", "--timeout=2m")
}

// kubeadmWorks: on each machine.
func (s *adoptedCluster) kubeadmWorks(t *testing.T) {
	t.Helper()
	for _, name := range s.names {
		kubeadmWorks(t, shared.lab.Machine(name), s.version, stackedCertificates...)
	}
}

// moved: the components run as units, and the kubelets have no static pod left.
func (s *adoptedCluster) moved(t *testing.T) {
	s.runtime, s.kubelet = "systemd", "null"
	s.configure(t)
	s.underLoad(t, func() { apply(t, s.w) })
	expectRunBy(t, s.names, "etcd.service kube-apiserver.service kube-controller-manager.service kube-scheduler.service",
		"")
	expectNoManifests(t, s.names...)
}
