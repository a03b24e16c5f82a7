package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/cache"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/nodebootstrap"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// apiServer is a kube-apiserver with an etcd, as processes of the test.
type apiServer struct {
	bundle  *pki.Bundle
	dir     string
	port    int
	kubeadm string
	set     string // of the programs
	version string
	pair    pki.KeyPair // of system:masters
}

// builtProgram returns the path of a program in the cache of built ones. A set may have a suffix, as in
// "kubernetes-1.34-node".
func builtProgram(t *testing.T, set, name string) string {
	t.Helper()
	product, _, _ := strings.Cut(set, "-")
	version, err := build.Version(set)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := cache.Dir()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "components", product+"-v"+version, name)
	if _, err := os.Stat(program); err != nil {
		testrun.Missing(t, "kube-lab build "+set+" makes "+name)
	}
	return program
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

// start runs a program until the end of the test.
func (s *apiServer) start(t *testing.T, program string, flags map[string]string) {
	t.Helper()
	var args []string
	for name, value := range flags {
		args = append(args, "--"+name+"="+value)
	}
	log, err := os.Create(filepath.Join(s.dir, filepath.Base(program)+".log"))
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(program, args...)
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		_ = log.Close()
		if text, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			lines := strings.Split(string(text), "\n")
			t.Logf("%s:\n%s", program, strings.Join(lines[max(0, len(lines)-15):], "\n"))
		}
	})
}

func (s *apiServer) file(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// startAPIServer starts both and waits until the API server is ready.
func startAPIServer(t *testing.T) *apiServer {
	t.Helper()
	return startAPIServerOf(t, "kubernetes", nil)
}

// startAPIServerOf is startAPIServer with another release of Kubernetes, and with more flags of the API server.
func startAPIServerOf(t *testing.T, set string, more map[string]string) *apiServer {
	t.Helper()
	if testing.Short() {
		testrun.Elsewhere(t, "make test-unit runs it")
	}
	s := &apiServer{bundle: cptest.Bundle(t), dir: t.TempDir(), port: freePort(t), set: set}
	etcd, apiserver := builtProgram(t, "etcd", "etcd"), builtProgram(t, set, "kube-apiserver")
	s.kubeadm = builtProgram(t, "kubernetes", "kubeadm")
	version, err := build.Version(set)
	if err != nil {
		t.Fatal(err)
	}
	s.version = version
	client, peer := fmt.Sprintf("http://127.0.0.1:%d", freePort(t)), fmt.Sprintf("http://127.0.0.1:%d", freePort(t))
	s.start(t, etcd, map[string]string{
		"data-dir": filepath.Join(s.dir, "etcd"), "listen-client-urls": client, "advertise-client-urls": client,
		"listen-peer-urls": peer, "initial-advertise-peer-urls": peer, "initial-cluster": "default=" + peer,
	})
	serving, err := s.bundle.Issue(pki.APIServer(pki.APIServerNames{
		NodeName: "cp1", ClusterDomain: "cluster.local", Advertise: "127.0.0.1", Endpoint: "127.0.0.1",
		ServiceIPs: component.ServiceIPs([]string{"10.96.0.0/12"}),
	}), time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if s.pair, err = s.bundle.Issue(component.SystemMasters(), time.Now(), time.Hour); err != nil {
		t.Fatal(err)
	}
	flags := map[string]string{
		"etcd-servers": client, "bind-address": "127.0.0.1", "advertise-address": "127.0.0.1",
		"secure-port": strconv.Itoa(s.port), "service-cluster-ip-range": "10.96.0.0/12",
		"client-ca-file":     s.file(t, "ca.crt", s.bundle.Anchors(pki.Kubernetes)),
		"authorization-mode": "Node,RBAC", "enable-bootstrap-token-auth": "true",
		"tls-cert-file":                    s.file(t, "serving.crt", serving.Certificate),
		"tls-private-key-file":             s.file(t, "serving.key", serving.PrivateKey),
		"service-account-issuer":           "https://kubernetes.default.svc.cluster.local",
		"service-account-key-file":         s.file(t, "sa.pub", s.bundle.PublicKeys()),
		"service-account-signing-key-file": s.file(t, "sa.key", s.bundle.ServiceAccount.PrivateKey),
	}
	maps.Copy(flags, more)
	s.start(t, apiserver, flags)
	s.awaitReady(t)
	return s
}

func (s *apiServer) tls(t *testing.T) *tls.Config {
	t.Helper()
	certificate, err := tls.X509KeyPair([]byte(s.pair.Certificate), []byte(s.pair.PrivateKey))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(s.bundle.Anchors(pki.Kubernetes)))
	return &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
}

func (s *apiServer) url() string { return fmt.Sprintf("https://127.0.0.1:%d", s.port) }

func (s *apiServer) awaitReady(t *testing.T) {
	t.Helper()
	web := &http.Client{Transport: &http.Transport{TLSClientConfig: s.tls(t)}, Timeout: 10 * time.Second}
	defer web.CloseIdleConnections()
	last := errors.New("not asked")
	for began := time.Now(); time.Since(began) < 3*time.Minute; time.Sleep(200 * time.Millisecond) {
		response, err := web.Get(s.url() + "/readyz")
		if last = err; err != nil {
			continue
		}
		response.Body.Close()
		if response.StatusCode == http.StatusOK {
			return
		}
		last = errors.New(response.Status)
	}
	t.Fatalf("kube-apiserver is not ready: %v", last)
}

func (s *apiServer) applied(t *testing.T) Applied {
	t.Helper()
	web := &http.Client{Transport: &http.Transport{TLSClientConfig: s.tls(t)}, Timeout: apiTimeout}
	api, err := adminAccess{rest: &rest.Config{Host: s.url(), QPS: -1}, web: web}.applied(web.CloseIdleConnections)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.Close)
	return api
}

func (s *apiServer) objects(t *testing.T) []nodebootstrap.Object {
	t.Helper()
	all, err := nodebootstrap.Objects(s.adopting())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func (s *apiServer) adopting() nodebootstrap.Settings {
	return nodebootstrap.Settings{
		Bundle: s.bundle, Host: "127.0.0.1", Port: s.port, Version: s.version, ClusterDomain: "cluster.local",
		ServiceCIDRs: []string{"10.96.0.0/12"}, Adopt: true,
	}
}

func get(t *testing.T, api Applied, o nodebootstrap.Object) map[string]any {
	t.Helper()
	current, err := api.Get(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return current
}

// TestApplied applies the objects for workers on a real API server: they are as wanted and owned, and stay when they
// are applied again. What others change is current and repaired. Then real kubeadm makes them: its roles and bindings
// grant exactly the same, and they are not owned.
func TestApplied(t *testing.T) {
	s := startAPIServer(t)
	api, ctx := s.applied(t), t.Context()
	objects := s.objects(t)
	versions := map[string]any{}
	for _, o := range objects {
		if current := get(t, api, o); current != nil {
			t.Fatalf("%s exists already", o.Label())
		}
		mustApply(ctx, t, api, o)
		versions[o.Label()] = get(t, api, o)["metadata"].(map[string]any)["resourceVersion"]
	}
	for _, o := range objects {
		mustApply(ctx, t, api, o)
		current := get(t, api, o)
		owned, others := nodebootstrap.Owners(current)
		if !owned || len(others) > 0 || len(o.Differences(current)) > 0 {
			t.Errorf("%s: owned %v, others %v, differences %v", o.Label(), owned, others, o.Differences(current))
		}
		if again := current["metadata"].(map[string]any)["resourceVersion"]; again != versions[o.Label()] {
			t.Errorf("%s was written again: %v, before %v", o.Label(), again, versions[o.Label()])
		}
	}
	for _, o := range slices.Backward(objects) {
		if err := api.Delete(ctx, o, ""); err != nil || get(t, api, o) != nil {
			t.Errorf("%s is not deleted: %v", o.Label(), err)
		}
	}
	s.runKubeadm(t)
	for _, o := range objects {
		current := get(t, api, o)
		if current == nil {
			t.Errorf("kubeadm has not made %s", o.Label())
			continue
		}
		if owned, others := nodebootstrap.Owners(current); owned || !slices.Equal(others, []string{"kubeadm"}) {
			t.Errorf("%s of kubeadm: owned %v, others %v", o.Label(), owned, others)
		}
		if differences := o.Differences(current); o.Kind != "ConfigMap" && len(differences) > 0 {
			t.Errorf("%s of kubeadm: %v", o.Label(), differences)
		} else if len(differences) > 0 {
			t.Logf("%s of kubeadm: %q", o.Label(), differences)
		}
		kept, err := s.adopting().Adopted(o, current)
		if err != nil {
			t.Fatal(err)
		}
		mustApply(ctx, t, api, kept)
		taken := get(t, api, o)
		if owned, _ := nodebootstrap.Owners(taken); !owned || len(kept.Differences(taken)) > 0 {
			t.Errorf("%s is not taken over", o.Label())
		}
		expectKept(t, o, current, taken)
	}
}

// expectKept: kubeadm-config has all fields of kubeadm after it was taken over.
func expectKept(t *testing.T, o nodebootstrap.Object, before, after map[string]any) {
	t.Helper()
	if o.Label() != "ConfigMap kube-system/kubeadm-config" {
		return
	}
	text := func(object map[string]any) map[string]any {
		data, _ := object["data"].(map[string]any)
		text, _ := data["ClusterConfiguration"].(string)
		var fields map[string]any
		if err := yaml.Unmarshal([]byte(text), &fields); err != nil {
			t.Fatal(err)
		}
		return fields
	}
	had, has := text(before), text(after)
	for _, name := range []string{"certificatesDir", "etcd", "imageRepository", "apiServer"} {
		if !reflect.DeepEqual(had[name], has[name]) || name == "etcd" && has[name] == nil {
			t.Errorf("%s: %s is %v, and was %v", o.Label(), name, has[name], had[name])
		}
	}
}

func mustApply(ctx context.Context, t *testing.T, api Applied, o nodebootstrap.Object) {
	t.Helper()
	if err := api.Apply(ctx, o, true); err != nil {
		t.Fatal(err)
	}
}

// runKubeadm runs the phases of kubeadm init that make the objects.
func (s *apiServer) runKubeadm(t *testing.T) {
	t.Helper()
	kubeconfig, err := pki.Kubeconfig(pki.KubeconfigSpec{
		Cluster: "lab", Server: s.url(), CA: s.bundle.Anchors(pki.Kubernetes), User: "admin", Client: s.pair,
	})
	if err != nil {
		t.Fatal(err)
	}
	config := s.file(t, "kubeadm.yaml", fmt.Sprintf("apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\n"+
		"localAPIEndpoint: {advertiseAddress: 192.0.2.11, bindPort: %d}\nnodeRegistration: {name: cp1}\n---\n"+
		"apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: v%s\n"+
		"controlPlaneEndpoint: 127.0.0.1:%d\nnetworking: {serviceSubnet: 10.96.0.0/12}\n", s.port, s.version, s.port))
	admin := s.file(t, "admin.conf", kubeconfig)
	phases := []string{"upload-config kubeadm", "upload-config kubelet", "bootstrap-token --skip-token-print"}
	for _, phase := range phases {
		args := slices.Concat([]string{"init", "phase"}, strings.Fields(phase),
			[]string{"--config", config, "--kubeconfig", admin})
		if out, err := exec.CommandContext(t.Context(), s.kubeadm, args...).CombinedOutput(); err != nil {
			t.Logf("kubeadm init phase %s: %v: %s", phase, err, out) // after the objects, it looks for a node
		}
	}
}

// TestTokensOnAPIServer: the API server accepts a token as one of kubeadm's group until it is revoked.
func TestTokensOnAPIServer(t *testing.T) {
	s := startAPIServer(t)
	api := s.applied(t)
	token, err := nodebootstrap.NewToken()
	if err != nil {
		t.Fatal(err)
	}
	if err := api.Create(t.Context(), token.Object(time.Now().Add(time.Hour), "for a test")); err != nil {
		t.Fatal(err)
	}
	if ids, err := api.Tokens(t.Context()); err != nil || !slices.Equal(ids, []string{token.ID}) {
		t.Errorf("tokens %v, %v", ids, err)
	}
	if code := s.status(t, token.Text()); code != http.StatusForbidden { // it is known, and may not list nodes
		t.Errorf("a request with the token: HTTP %d", code)
	}
	if err := api.Delete(t.Context(), nodebootstrap.TokenObject(token.ID), ""); err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); s.status(t, token.Text()) != http.StatusUnauthorized; time.Sleep(100 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatal("a revoked token is accepted for more than a minute")
		}
	}
	if ids, err := api.Tokens(t.Context()); err != nil || len(ids) != 0 {
		t.Errorf("tokens after the delete: %v, %v", ids, err)
	}
}

func (s *apiServer) status(t *testing.T, token string) int {
	t.Helper()
	config := s.tls(t)
	config.Certificates = nil
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url()+"/api/v1/nodes", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := (&http.Transport{TLSClientConfig: config, DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	return response.StatusCode
}
