package acceptance

import (
	"context"
	_ "embed"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rbac "k8s.io/api/rbac/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubequorum/terraform-provider-kube/internal/lab/services"
)

// kubeadmServers makes the authority, the certificates and the kubeconfigs with kubeadm's own phases, and runs etcd,
// the API server and the controllers with the flags that kubeadm writes, as transient units instead of containers.
//
//go:embed testdata/kubeadm-servers.sh
var kubeadmServers string

// movedStory is a control plane of kubeadm on cp4, which moves to machines of the provider.
type movedStory struct {
	restoreStory
	user user
	old  string // the URL of its API server
}

// TestMoveFromKubeadm follows the guide about moving, from a control plane that kubeadm has configured. Its objects,
// kubeconfigs and service-account tokens are those of the new control plane.
func TestMoveFromKubeadm(t *testing.T) {
	names := []string{"cp1", "cp2", "cp3"}
	w := newStory(t, append(names, "cp4")...)
	choose(t, w, names...)
	bare := fingerprints(t, names...)
	s := &movedStory{restoreStory: restoreStory{w: w, names: names}, user: newUser(t, w), old: servers("cp4")[0]}
	s.kubeadm(t)
	s.copyKeys(t)
	s.client = credentialsOf(t, s.file(t, "old/admin.conf"))
	s.client.must(t, s.old, http.MethodPost, configMaps, configMap("kept"), nil)
	token := s.client.tokenAt(t, s.old, "default")

	issuer := s.user.typeCommands(t, strings.Replace(documentedScript(t, "moving", 0), "get", "--server="+s.old+" get", 1))
	expectContains(t, issuer, "https://kubernetes.default.svc.cluster.local")
	onMachine(t, shared.lab.Machine("cp4"), "systemctl stop old-apiserver old-controllers")
	onMachine(t, shared.lab.Machine("cp4"), documentedScript(t, "moving", 1))
	s.copyFromOld(t, "/root/old.db", "old/old.db")
	onMachine(t, shared.lab.Machine("cp4"), "systemctl stop old-etcd")
	override(t, w, strings.NewReplacer(`" "prod" {`, `" "this" {`, `cluster_name = "prod"`, `cluster_name = "prod"
  deletion_protection = false`).Replace(guideBlock(t, "moving", "terraform", "old/old.db")))
	s.user.typeCommands(t, documentedScript(t, "moving", 2))

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

// kubeadm runs the former control plane.
func (s *movedStory) kubeadm(t *testing.T) {
	t.Helper()
	m := shared.lab.Machine("cp4")
	t.Cleanup(func() {
		if err := m.Rebuild(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	kubernetes, etcd := release(t, "kubernetes"), release(t, "etcd")
	for name, set := range map[string]string{
		"kubeadm": "kubernetes-v" + kubernetes, "kube-apiserver": "kubernetes-v" + kubernetes,
		"kube-controller-manager": "kubernetes-v" + kubernetes, "etcd": "etcd-v" + etcd, "etcdctl": "etcd-v" + etcd,
	} {
		program := filepath.Join(shared.components, set, name)
		if err := services.Install(t.Context(), m, program, "/usr/local/bin/"+name); err != nil {
			t.Fatal(err)
		}
	}
	onMachine(t, m, fmt.Sprintf("version=%s address=%s endpoint=%s:6443\n%s", kubernetes, address("cp4"), vip,
		kubeadmServers))
	super := credentialsOf(t, onMachine(t, m, "cat /etc/kubernetes/super-admin.conf"))
	await(t, "the API server of kubeadm is not ready", func() bool {
		code, _, err := super.call(t.Context(), s.old, http.MethodGet, "/readyz", nil, nil)
		return err == nil && code == http.StatusOK
	})
	admins := rbac.ClusterRoleBinding{
		ObjectMeta: meta.ObjectMeta{Name: "kubeadm:cluster-admins"},
		RoleRef:    rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbac.Subject{{APIGroup: rbac.GroupName, Kind: rbac.GroupKind, Name: "kubeadm:cluster-admins"}},
	}
	super.must(t, s.old, http.MethodPost, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", admins, nil)
	await(t, "the controllers of kubeadm made no ServiceAccount", func() bool {
		code, _, err := super.call(t.Context(), s.old, http.MethodGet, "/api/v1/namespaces/default/serviceaccounts/default",
			nil, nil)
		return err == nil && code == http.StatusOK
	})
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
