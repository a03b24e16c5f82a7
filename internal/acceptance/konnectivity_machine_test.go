package acceptance

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	authentication "k8s.io/api/authentication/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/supplied"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// konnectivityPrograms returns a directory with proxy-server and proxy-agent, which no module proxy has as programs.
// They may be packed (.xz) in the directory that the environment variable KONNECTIVITY names.
func konnectivityPrograms(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("KONNECTIVITY")
	if dir == "" {
		testrun.Elsewhere(t, "KONNECTIVITY names no directory with proxy-server and proxy-agent")
	}
	unpacked := t.TempDir()
	for _, name := range []string{"proxy-server", "proxy-agent"} {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			if err := os.Symlink(path, filepath.Join(unpacked, name)); err != nil {
				t.Fatal(err)
			}
		} else if _, err := supplied.Unpack(t.Context(), path+".xz", unpacked); err != nil {
			t.Fatalf("KONNECTIVITY: %v", err)
		}
	}
	return unpacked
}

// upload copies a file to a machine.
func upload(t *testing.T, m *lab.Machine, from, to string, mode string) {
	t.Helper()
	content, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	command := m.SSH(t.Context(), fmt.Sprintf("mkdir -p %s && cat >%s.new && chmod %s %s.new && mv %s.new %s",
		filepath.Dir(to), to, mode, to, to, to))
	command.Stdin = content
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("copy %s to %s: %v: %s", from, m.Name, err, out)
	}
}

// uploadText writes a file on a machine.
func uploadText(t *testing.T, m *lab.Machine, path, content string) {
	t.Helper()
	from := filepath.Join(t.TempDir(), "content")
	if err := os.WriteFile(from, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	upload(t, m, from, path, "600")
}

// worker is a machine that stands for a node, without a kubelet: it has the address of a Service,
// behind which a webhook listens, and an agent of konnectivity as a process.
type worker struct {
	*lab.Machine
	ca string // of the webhook, PEM
}

// serviceAddress is the ClusterIP of the webhook's Service. No machine of the lab has a route to it.
const serviceAddress = "10.96.0.77"

// startWebhook starts the webhook at the address of its Service.
func startWebhook(t *testing.T, m *lab.Machine) worker {
	t.Helper()
	program := filepath.Join(t.TempDir(), "webhook")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./testdata/webhook")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the webhook: %v: %s", err, out)
	}
	upload(t, m, program, "/opt/webhook/webhook", "755")
	certificate, key := webhookCertificate(t, "webhook.default.svc")
	uploadText(t, m, "/opt/webhook/tls.crt", certificate)
	uploadText(t, m, "/opt/webhook/tls.key", key)
	onMachine(t, m, "ip address add "+serviceAddress+"/32 dev lo\n"+
		"systemd-run --quiet --unit=webhook --working-directory=/opt/webhook /opt/webhook/webhook "+serviceAddress+":443\n"+
		"until curl -s -k -o /dev/null https://"+serviceAddress+"; do sleep 0.1; done")
	return worker{m, certificate}
}

// webhookCertificate returns a server certificate that is its own authority.
func webhookCertificate(t *testing.T, name string) (certificate, key string) {
	t.Helper()
	pair, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &pair.PublicKey, pair)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalECPrivateKey(pair)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded}))
}

// manifestPaths are the paths of the kinds in the manifest of the agents.
var manifestPaths = map[string]string{
	"Namespace":          "/api/v1/namespaces",
	"ServiceAccount":     "/api/v1/namespaces/konnectivity/serviceaccounts",
	"ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
	"Role":               "/apis/rbac.authorization.k8s.io/v1/namespaces/konnectivity/roles",
	"RoleBinding":        "/apis/rbac.authorization.k8s.io/v1/namespaces/konnectivity/rolebindings",
	"DaemonSet":          "/apis/apps/v1/namespaces/konnectivity/daemonsets",
}

// applyManifest creates the objects of the agents, and returns their DaemonSet. The API server refuses
// unknown fields.
func applyManifest(t *testing.T, admin credentials, manifest string) apps.DaemonSet {
	t.Helper()
	var agents apps.DaemonSet
	for document := range strings.SplitSeq(manifest, "\n---\n") {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatal(err)
		}
		kind, _ := object["kind"].(string)
		path, known := manifestPaths[kind]
		if !known {
			t.Fatalf("the manifest has a %s", kind)
		}
		if kind == "DaemonSet" {
			admin.must(t, endpointURL, http.MethodPost, path+"?fieldValidation=Strict", object, &agents)
		} else {
			admin.must(t, endpointURL, http.MethodPost, path+"?fieldValidation=Strict", object, nil)
		}
	}
	return agents
}

// startAgent runs the container of the DaemonSet as a process, with what a kubelet would mount: the
// cluster's CA and tokens of its ServiceAccount.
func (w worker) startAgent(t *testing.T, admin credentials, agents apps.DaemonSet, ca string) {
	t.Helper()
	upload(t, w.Machine, filepath.Join(konnectivityPrograms(t), "proxy-agent"), "/opt/agent/proxy-agent", "755")
	const mounted = "/var/run/secrets/"
	uploadText(t, w.Machine, "/opt/agent/kubernetes.io/serviceaccount/ca.crt", ca)
	token := tokenFor(t, admin, "system:konnectivity-server")
	uploadText(t, w.Machine, "/opt/agent/tokens/konnectivity-agent-token", token)
	uploadText(t, w.Machine, "/opt/agent/kubeconfig", fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "%s", certificate-authority: /opt/agent/kubernetes.io/serviceaccount/ca.crt}}]
users: [{name: u, user: {token: "%s"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
`, endpointURL, tokenFor(t, admin)))
	container := agents.Spec.Template.Spec.Containers[0]
	args := append([]string{"--kubeconfig=/opt/agent/kubeconfig"}, container.Args...)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], mounted, "/opt/agent/")
	}
	onMachine(t, w.Machine, "systemd-run --quiet --unit=agent /opt/agent/proxy-agent "+strings.Join(args, " "))
}

// tokenFor returns a token of the agents' ServiceAccount.
func tokenFor(t *testing.T, admin credentials, audiences ...string) string {
	t.Helper()
	hours := int64(3 * 3600)
	request := authentication.TokenRequest{
		TypeMeta: meta.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenRequest"},
		Spec:     authentication.TokenRequestSpec{Audiences: audiences, ExpirationSeconds: &hours},
	}
	var answer authentication.TokenRequest
	admin.must(t, endpointURL, http.MethodPost,
		"/api/v1/namespaces/konnectivity/serviceaccounts/konnectivity-agent/token", request, &answer)
	return answer.Status.Token
}

// register makes API servers call the webhook for each new ConfigMap in the namespace default. A
// call that fails fails the request.
func (w worker) register(t *testing.T, admin credentials) {
	t.Helper()
	admin.must(t, endpointURL, http.MethodPost, "/api/v1/namespaces/default/services", map[string]any{
		"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "webhook"},
		"spec": map[string]any{"clusterIP": serviceAddress, "ports": []any{map[string]any{"port": 443}}},
	}, nil)
	admin.must(t, endpointURL, http.MethodPost,
		"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", map[string]any{
			"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
			"metadata": map[string]any{"name": "tunnel"},
			"webhooks": []any{map[string]any{
				"name": "tunnel.example.com", "admissionReviewVersions": []any{"v1"}, "sideEffects": "None",
				"failurePolicy": "Fail", "timeoutSeconds": 5,
				"clientConfig": map[string]any{
					"caBundle": base64.StdEncoding.EncodeToString([]byte(w.ca)),
					"service":  map[string]any{"namespace": "default", "name": "webhook"},
				},
				"namespaceSelector": map[string]any{
					"matchLabels": map[string]any{"kubernetes.io/metadata.name": "default"},
				},
				"rules": []any{map[string]any{
					"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "operations": []any{"CREATE"},
					"resources": []any{"configmaps"},
				}},
			}},
		}, nil)
}

// createConfigMap asks a server to create a ConfigMap, without storing it. It returns an error unless
// the webhook has answered.
func createConfigMap(ctx context.Context, admin credentials, server, name string) error {
	code, text, err := admin.call(ctx, server, http.MethodPost, "/api/v1/namespaces/default/configmaps?dryRun=All",
		map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}}, nil)
	denied := strings.HasPrefix(name, "denied-")
	switch {
	case err != nil:
		return err
	case !denied && code == http.StatusCreated,
		denied && code == http.StatusBadRequest && strings.Contains(text, "denied by the webhook behind the tunnel"):
		return nil
	}
	return fmt.Errorf("HTTP %d: %s", code, text)
}
