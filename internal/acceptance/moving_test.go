package acceptance

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/lab/services"
)

// movedStory is a control plane of kubeadm on cp4, which moves to machines of the provider. cp4 has the address of the
// endpoint, and the new machines have it after that.
type movedStory struct {
	restoreStory
	user user
	old  string // the URL of the API server on cp4
}

// TestMoveFromKubeadm follows the guide about moving, from a control plane that kubeadm init has created, with a
// kubelet and containerd. Its objects, kubeconfigs and service-account tokens are those of the new control plane.
func TestMoveFromKubeadm(t *testing.T) {
	names := []string{"cp1", "cp2", "cp3"}
	w := newStory(t, append(names, "cp4")...)
	choose(t, w, names...)
	bare := fingerprints(t, names...)
	s := &movedStory{restoreStory: restoreStory{w: w, names: names}, user: newUser(t, w), old: servers("cp4")[0]}
	former := shared.lab.Machine("cp4")
	s.kubeadm(t, former)
	s.copyKeys(t)
	s.client = credentialsOf(t, s.file(t, "old/admin.conf"))
	await(t, "the controllers of kubeadm made no ServiceAccount", func() bool {
		code, _, err := s.client.call(t.Context(), s.old, http.MethodGet,
			"/api/v1/namespaces/default/serviceaccounts/default", nil, nil)
		return err == nil && code == http.StatusOK
	})
	s.client.must(t, s.old, http.MethodPost, configMaps, configMap("kept"), nil)
	token := s.client.tokenAt(t, s.old, "default")

	issuer := s.user.typeCommands(t, documentedScript(t, "moving", 0))
	expectContains(t, issuer, "https://kubernetes.default.svc.cluster.local")
	onMachine(t, former, "set -e\n"+documentedScript(t, "moving", 1))
	onMachine(t, former, "set -e\n"+documentedScript(t, "moving", 2))
	s.copyFromOld(t, "/root/old.db", "old/old.db")
	if err := former.PowerOff(t.Context()); err != nil { // and so the address is free
		t.Fatal(err)
	}
	override(t, w, strings.NewReplacer(`" "prod" {`, `" "this" {`, `cluster_name = "prod"`, `cluster_name = "prod"
  deletion_protection = false`).Replace(guideBlock(t, "moving", "terraform", "old/old.db")))
	s.user.typeCommands(t, documentedScript(t, "moving", 3))

	s.client.expectKnown(t, "the kubeconfig of before", "kubernetes-admin", append(servers(names...), endpointURL)...)
	s.client.with(token).expectKnown(t, "a token of before", "system:serviceaccount:default:default", endpointURL)
	if got := testObjects(s.stored(t)); len(got) != 1 || got[0] != "kept" {
		t.Errorf("the new control plane has the ConfigMaps %q", got)
	}
	s.client.expectControllers(t, "moved", s.file(t, "old/ca.crt"))
	expectHealthy(t, w, names)
	expectEmptyPlan(t, w)
	apply(t, w, "-destroy")
	expectBare(t, bare, names...)
}

// addressAdded gives a machine the address $vip, as a balancer of somebody else would. $address is the machine's.
const addressAdded = `device=$(ip -o address show to "$address" | awk '{ print $2 }')
ip address add "$vip/32" dev "${device%@*}"
`

// kubeadm creates the former control plane. etcdctl is on its machine, as the guide wants.
func (s *movedStory) kubeadm(t *testing.T, m *lab.Machine) {
	t.Helper()
	rebuiltAfter(t, m.Name)
	installNode(t, m, services.Kubelet)
	kubernetes, etcd := release(t, "kubernetes"), release(t, "etcd")
	etcdctl := filepath.Join(shared.components, "etcd-v"+etcd, "etcdctl")
	if err := services.Install(t.Context(), m, etcdctl, "/usr/local/bin/etcdctl"); err != nil {
		t.Fatal(err)
	}
	onMachine(t, m, fmt.Sprintf("address=%s vip=%s\n%s", address(m.Name), vip, addressAdded))
	t.Log(onMachine(t, m, fmt.Sprintf("version=%s etcd=%s name=%s address=%s endpoint=%s\n%s", kubernetes, etcd, m.Name,
		address(m.Name), vip, services.KubeadmInit)))
}

// copyKeys copies what the guide names, and the administrator's kubeconfig.
func (s *movedStory) copyKeys(t *testing.T) {
	t.Helper()
	if err := os.Mkdir(filepath.Join(s.w.Dir, "old"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"pki/ca.crt", "pki/ca.key", "pki/sa.key", "admin.conf"} {
		s.copyFromOld(t, "/etc/kubernetes/"+path, "old/"+filepath.Base(path))
	}
}

func (s *movedStory) copyFromOld(t *testing.T, from, to string) {
	t.Helper()
	write(t, filepath.Join(s.w.Dir, to), onMachine(t, shared.lab.Machine("cp4"), "cat "+from))
}

func (s *movedStory) file(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.w.Dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
