package acceptance

import (
	_ "embed"
	"fmt"
	"net/http"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/lab/services"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// kubeadmEtcd creates an etcd member for a control plane on other machines.
//
//go:embed testdata/kubeadm-etcd.sh
var kubeadmEtcd string

// handedOver are the files of the etcd machine that kubeadm's guide copies to the control plane.
var handedOver = []string{"etcd/ca.crt", "apiserver-etcd-client.crt", "apiserver-etcd-client.key"}

// adoptedEtcd is a control plane of kubeadm on cp1, behind a balancer on cp2, whose etcd kubeadm has created on cp3.
type adoptedEtcd struct {
	w             *workspace.Workspace
	version, etcd string
	member        string // arguments of the member
	apiServer     string // arguments of the API server
	rotation      int
	encryption    int // stage of its rotation
}

// encryptedFrom is the directory of kubeadm's configuration of encryption at rest, in which one key encrypts, and what
// is in the clear is read as well.
const (
	encryptedFrom = "/etc/kubernetes/enc"
	encryptedBy   = `apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets]
  providers:
  - secretbox: {keys: [{name: legacy, secret: QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=}]}
  - identity: {}
`
)

// encryptedArgument and encryptedVolume make kubeadm use it.
const (
	encryptedArgument = `    - name: encryption-provider-config
      value: ` + encryptedFrom + `/config.yaml
`
	encryptedVolume = `    - name: enc
      hostPath: ` + encryptedFrom + `
      mountPath: ` + encryptedFrom + `
      readOnly: true
      pathType: DirectoryOrCreate
`
)

// TestAdoptExternalEtcd imports a control plane of kubeadm, which encrypts at rest, and its external etcd. The key of
// etcd's CA is on the machine of the member only. Nothing restarts by that; then flags change, the CA is rotated, and
// what was in the clear is encrypted.
func TestAdoptExternalEtcd(t *testing.T) {
	machines(t)
	names := []string{"cp1", "cp2", "cp3"}
	s := &adoptedEtcd{version: release(t, "kubernetes"), etcd: release(t, "etcd"), encryption: 2}
	rebuiltAfter(t, names...)
	s.kubeadm(t)
	s.w = newStory(t, names...) // it trusts the machines that have been made anew
	choose(t, s.w, "cp1")
	runSteps(t, []string{"cp1", "cp3"}, []adoptedStep{
		{"another machine's CA is refused", s.otherAuthority},
		{"imported", s.imported},
		{"workers join", s.workersJoin},
		{"flags of both", s.flagsChanged},
		{"the CA of etcd rotated", s.rotated},
		{"everything encrypted", s.encrypted},
	})
	apply(t, s.w, "-destroy")
	expectNoManifests(t, "cp1", "cp3")
}

// kubeadm follows its guides: etcd on cp3, then the control plane on cp1.
func (s *adoptedEtcd) kubeadm(t *testing.T) {
	first, balancer, member := shared.lab.Machine("cp1"), shared.lab.Machine("cp2"), shared.lab.Machine("cp3")
	installNode(t, first, services.Kubelet)
	installNode(t, member, "")
	if err := services.InstallBalancers(t.Context(), balancer); err != nil {
		t.Fatal(err)
	}
	startBalancer(t, services.HAProxy, balancer, targetsOn("cp1"), "/readyz")
	t.Log(onMachine(t, member, fmt.Sprintf("version=%s etcd=%s name=cp3 address=%s\n%s", s.version, s.etcd, address("cp3"),
		kubeadmEtcd)))
	onMachine(t, first, "mkdir -p /etc/kubernetes/pki/etcd")
	for _, file := range handedOver {
		path := "/etc/kubernetes/pki/" + file
		uploadText(t, first, path, onMachine(t, member, "cat "+path))
	}
	uploadText(t, first, encryptedFrom+"/config.yaml", encryptedBy)
	const local = "etcd:\n  local:\n"
	at, end := strings.Index(services.KubeadmInit, local), strings.Index(services.KubeadmInit, "---\napiVersion: kubelet")
	if at < 0 || end < at {
		t.Fatalf("the script has no local etcd:\n%s", services.KubeadmInit)
	}
	script := services.KubeadmInit[:at] + `etcd:
  external:
    endpoints: ["https://$etcd_address:2379"]
    caFile: /etc/kubernetes/pki/etcd/ca.crt
    certFile: /etc/kubernetes/pki/apiserver-etcd-client.crt
    keyFile: /etc/kubernetes/pki/apiserver-etcd-client.key
` + services.KubeadmInit[end:]
	for _, list := range [][2]string{
		{"    - name: event-ttl\n", encryptedArgument}, {"    - name: extra\n", encryptedVolume},
	} {
		if strings.Count(script, list[0]) != 1 {
			t.Fatalf("the script has not one line %q:\n%s", list[0], script)
		}
		script = strings.Replace(script, list[0], list[1]+list[0], 1)
	}
	t.Log(onMachine(t, first, fmt.Sprintf("version=%s name=cp1 address=%s endpoint=%s etcd_address=%s\n%s", s.version,
		address("cp1"), address("cp2"), address("cp3"), script)))
}

// guide returns the configuration of the guide. Its machines of etcd are cp3 alone.
func (s *adoptedEtcd) guide(t *testing.T) adoption {
	t.Helper()
	return adoptionOf(t, adoptionGuide(t), adoptedIn(address("cp2"), s.version, s.etcd),
		etcdMachines, fmt.Sprintf("{ cp3 = %q }", address("cp3")), etcdBundle, fmt.Sprintf("%q", s.bundleFrom("cp3")))
}

// What the guide says of machines of etcd, apart from those of the control plane.
const (
	etcdMachines = `{ etcd1 = "10.0.0.21", etcd2 = "10.0.0.22", etcd3 = "10.0.0.23" }`
	etcdBundle   = `"10.0.0.11,10.0.0.21"`
)

// bundleFrom is the ID of the bundle, whose key of etcd's CA is on a machine.
func (s *adoptedEtcd) bundleFrom(name string) string { return address("cp1") + "," + address(name) }

// configure writes the configuration of the guide, with the stages of rotations, and with what this kubeadm was given
// beyond that.
func (s *adoptedEtcd) configure(t *testing.T) {
	t.Helper()
	s.guide(t).write(t, s.w)
	rotation := ""
	if s.rotation > 0 || s.encryption > 2 {
		rotation = fmt.Sprintf(`
resource "kube_pki_bundle" "this" {
  rotation = { etcd = %d, encryption = %d }
}
`, s.rotation, s.encryption)
	}
	override(t, s.w, fmt.Sprintf(`%[1]s
resource "kube_etcd_member" "this" {
  extra_args = { snapshot-count = "10000"%[2]s }
}

resource "kube_control_plane_replica" "this" {
  extra_args    = { apiserver = { event-ttl = "2h"%[3]s } }
  extra_volumes = { apiserver = {
    enc = { host_path = %[4]q, mount_path = %[4]q, read_only = true, path_type = "DirectoryOrCreate" }
    extra = {
      host_path = "/srv/extra", mount_path = "/srv/mounted", read_only = true, path_type = "DirectoryOrCreate"
    }
  } }
}
`, rotation, s.member, s.apiServer, encryptedFrom))
}

// identify copies the certificate of the Kubernetes CA to the machine of the member, as the guide says.
func (s *adoptedEtcd) identify(t *testing.T) {
	t.Helper()
	const path = "/etc/kubernetes/pki/ca.crt"
	uploadText(t, shared.lab.Machine("cp3"), path, onMachine(t, shared.lab.Machine("cp1"), "cat "+path))
}

func (s *adoptedEtcd) processes(t *testing.T) map[string]map[string]string {
	t.Helper()
	return map[string]map[string]string{
		"cp1": processesOf(t, shared.lab.Machine("cp1"), "kube-apiserver", "kube-controller-manager", "kube-scheduler"),
		"cp3": processesOf(t, shared.lab.Machine("cp3"), "etcd"),
	}
}

// otherAuthority: a machine without etcd has no key of its CA.
func (s *adoptedEtcd) otherAuthority(t *testing.T) {
	s.configure(t)
	importFrom(t, s.w, replaced(t, s.guide(t).imports, s.bundleFrom("cp3"), s.bundleFrom("cp2")))
	text, _, err := s.w.Plan(t.Context())
	if err == nil {
		t.Fatalf("it was imported:\n%s", text)
	}
	expectContains(t, unfolded(err.Error()), "/etc/kubernetes/pki/etcd/ca.key is not there")
}

// imported: nothing restarts, and the bundle has all keys.
func (s *adoptedEtcd) imported(t *testing.T) {
	before := s.processes(t)
	s.identify(t)
	importFrom(t, s.w, s.guide(t).imports)
	output := plan(t, s.w)
	expectImportPlan(t, output, []string{"cp3"}, []string{"cp1"})
	if strings.Contains(output, "CA keys not imported") {
		t.Error("a key is missing")
	}
	apply(t, s.w)
	if now := s.processes(t); !reflect.DeepEqual(now, before) {
		t.Errorf("before the import:\n%v\nafter it:\n%v", before, now)
	}
	write(t, filepath.Join(s.w.Dir, "imports.tf"), "")
	expectEmptyPlan(t, s.w)
	s.kubeadmWorks(t)
}

// workersJoin: kubeadm still knows that etcd is elsewhere, and expects no certificate of etcd on the machine.
func (s *adoptedEtcd) workersJoin(t *testing.T) {
	extend(t, s.w, fmt.Sprintf(adoptedObjects, s.version))
	expectContains(t, plan(t, s.w), "1 to add, 0 to change, 0 to destroy")
	apply(t, s.w)
	s.expectExternal(t)
	s.kubeadmWorks(t)
}

// kubeadmWorks: kubeadm lists no certificate of etcd, which is on other machines.
func (s *adoptedEtcd) kubeadmWorks(t *testing.T) {
	t.Helper()
	first := shared.lab.Machine("cp1")
	kubeadmWorks(t, first, s.version, "apiserver-kubelet-client", "scheduler.conf")
	if listed := onMachine(t, first, "kubeadm certs check-expiration 2>&1"); strings.Contains(listed, "etcd-server") {
		t.Errorf("kubeadm expects etcd on the machine:\n%s", listed)
	}
}

// expectExternal expects in kubeadm-config what kubeadm was given.
func (s *adoptedEtcd) expectExternal(t *testing.T) {
	t.Helper()
	admin := "--kubeconfig=" + writeFile(t, s.w, "admin.conf", outputOf(t, s.w, "kubeconfig"))
	expectContains(t, kubectl(t, s.w, admin, "get", "configmap", "-n", "kube-system", "kubeadm-config", "-o",
		"jsonpath={.data.ClusterConfiguration}"), "external:", "https://"+address("cp3")+":2379",
		"certFile: /etc/kubernetes/pki/apiserver-etcd-client.crt", "name: event-ttl", "kubernetesVersion: v"+s.version)
}

func (s *adoptedEtcd) flagsChanged(t *testing.T) {
	s.member, s.apiServer = ", max-txn-ops = \"200\"", ", goaway-chance = \"0\""
	s.configure(t)
	expectContains(t, plan(t, s.w), "0 to add, 2 to change, 0 to destroy")
	apply(t, s.w)
	expectContains(t, onMachine(t, shared.lab.Machine("cp3"), "tr '\\0' '\\n' <\"/proc/$(pidof etcd)/cmdline\""),
		"--max-txn-ops=200")
	expectContains(t, onMachine(t, shared.lab.Machine("cp1"), "tr '\\0' '\\n' <\"/proc/$(pidof kube-apiserver)/cmdline\""),
		"--goaway-chance=0", "--etcd-servers=https://"+address("cp3")+":2379")
}

func (s *adoptedEtcd) rotated(t *testing.T) {
	for stage := range 3 {
		s.rotation = stage + 1
		s.configure(t)
		apply(t, s.w)
	}
	s.expectExternal(t)
	s.kubeadmWorks(t)
}

// encrypted: the last stage of the rotation rewrites the Secrets that are in the clear. All have the key of kubeadm's
// configuration, and are read.
func (s *adoptedEtcd) encrypted(t *testing.T) {
	var (
		plain = ctl + `etcdctl put /registry/secrets/default/plain '{"kind": "Secret", "apiVersion": "v1", ` +
			`"metadata": {"name": "plain", "namespace": "default"}}'`
		stored = ctl + `etcdctl get --prefix /registry/secrets/ --print-value-only |
  grep -ac 'k8s:enc:secretbox:v1:legacy:' || true
etcdctl get --prefix /registry/secrets/ --keys-only | grep -c . || true`
	)
	member := shared.lab.Machine("cp3")
	onMachine(t, member, plain)
	before := strings.Fields(onMachine(t, member, stored))
	s.encryption = 3
	s.configure(t)
	apply(t, s.w)
	after := strings.Fields(onMachine(t, member, stored))
	t.Logf("encrypted and all Secrets: %v, then %v", before, after)
	if len(before) != 2 || before[0] == before[1] {
		t.Fatal("no Secret is in the clear")
	}
	if len(after) != 2 || after[0] == "0" || after[0] != after[1] {
		t.Fatalf("encrypted with the key of kubeadm, and all Secrets: %v", after)
	}
	admin := credentialsOf(t, outputOf(t, s.w, "kubeconfig"))
	var list struct{ Items []map[string]any }
	admin.must(t, "https://"+address("cp2")+":6443", http.MethodGet, "/api/v1/secrets", nil, &list)
	if fmt.Sprint(len(list.Items)) != after[1] {
		t.Errorf("%d of %s Secrets are read", len(list.Items), after[1])
	}
}
