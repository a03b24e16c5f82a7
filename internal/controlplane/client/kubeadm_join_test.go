package client

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/nodebootstrap"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// startControllers runs the controllers that sign cluster-info and the certificates of kubelets, with the flags that
// replicas have.
func (s *apiServer) startControllers(t *testing.T) {
	t.Helper()
	kubeconfig, err := pki.Kubeconfig(pki.KubeconfigSpec{
		Cluster: "lab", Server: s.url(), CA: s.bundle.Anchors(pki.Kubernetes), User: "admin", Client: s.pair,
	})
	if err != nil {
		t.Fatal(err)
	}
	admin := s.file(t, "controllers.conf", kubeconfig)
	s.start(t, builtProgram(t, "kubernetes", "kube-controller-manager"), map[string]string{
		"kubeconfig": admin, "leader-elect": "false", "bind-address": "127.0.0.1", "secure-port": fmt.Sprint(freePort(t)),
		"controllers":               "bootstrapsigner,tokencleaner,csrapproving,csrsigning",
		"cluster-signing-cert-file": s.file(t, "signing.crt", s.bundle.Signing(pki.Kubernetes)),
		"cluster-signing-key-file":  s.file(t, "signing.key", s.bundle.CA.PrivateKey),
	})
}

// joining runs kubeadm 1.34, and its kubelet until that has a certificate. They have /etc/kubernetes and
// /var/lib/kubelet of their own. There is no container runtime, so the kubelet ends after it has got its certificate
// (it waits for that only with rotation off), and kubeadm does not wait for its health.
const joining = `set -eu
mount -t tmpfs tmpfs /etc/kubernetes
mount -t tmpfs tmpfs /var/lib/kubelet
(
  until [ -s /var/lib/kubelet/config.yaml ]; do sleep 0.2; done
  sed 's/^rotateCertificates: true$/rotateCertificates: false/' /var/lib/kubelet/config.yaml >/var/lib/kubelet/once.yaml
  timeout 60 "$KUBELET" --config=/var/lib/kubelet/once.yaml --kubeconfig=/etc/kubernetes/kubelet.conf \
    --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --hostname-override=worker1 \
    >"$OUT/kubelet.log" 2>&1 || true
) &
kubelet=$!
trap 'kill $kubelet 2>/dev/null || true' EXIT
"$KUBEADM" ${JOIN#kubeadm} --node-name=worker1 --cri-socket=unix:///run/none.sock --ignore-preflight-errors=all \
  --skip-phases=kubelet-wait-bootstrap 2>&1
wait $kubelet
cp /etc/kubernetes/pki/ca.crt /var/lib/kubelet/config.yaml /etc/kubernetes/kubelet.conf "$OUT"
cp -L /var/lib/kubelet/pki/kubelet-client-current.pem "$OUT/client.pem"
`

// join runs a join command, and returns the output and the directory with what the worker has then.
func (s *apiServer) join(t *testing.T, command string, limit time.Duration) (output, dir string, err error) {
	t.Helper()
	dir = t.TempDir()
	for _, path := range []string{"/etc/kubernetes", "/var/lib/kubelet"} {
		if os.Mkdir(path, 0o755) == nil {
			t.Cleanup(func() { _ = os.Remove(path) })
		}
	}
	node := func(name string) string { return builtProgram(t, "kubernetes-1.34-node", name) }
	join := exec.CommandContext(t.Context(), "timeout", fmt.Sprint(limit.Seconds()),
		"unshare", "--mount", "sh", "-c", joining)
	join.Env = append(os.Environ(), "KUBELET="+node("kubelet"), "KUBEADM="+node("kubeadm"), "OUT="+dir, "JOIN="+command)
	join.WaitDelay = 5 * time.Second
	out, err := join.CombinedOutput()
	return string(out), dir, err
}

// TestKubeadmJoins: kubeadm 1.34 as it is released reads what the provider applies, with the join command of a token;
// a kubelet gets its certificate. Tokens that have ended, and a wrong pin, are refused with the reason.
func TestKubeadmJoins(t *testing.T) {
	testrun.Long(t)
	if os.Geteuid() != 0 {
		testrun.Missing(t, "root privileges")
	}
	s := startAPIServer(t)
	api := s.applied(t)
	for _, o := range s.objects(t) {
		mustApply(t.Context(), t, api, o)
	}
	s.startControllers(t)
	pins, err := nodebootstrap.Pins(s.bundle)
	if err != nil {
		t.Fatal(err)
	}
	make := func(validity time.Duration) (nodebootstrap.Token, string) {
		token, err := nodebootstrap.NewToken()
		if err != nil {
			t.Fatal(err)
		}
		if err := api.Create(t.Context(), token.Object(time.Now().Add(validity), "for a test")); err != nil {
			t.Fatal(err)
		}
		return token, nodebootstrap.JoinCommand(fmt.Sprintf("127.0.0.1:%d", s.port), token.Text(), pins)
	}
	_, good := make(time.Hour)
	output, dir, err := s.join(t, good, 150*time.Second)
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "kubelet.log"))
		t.Fatalf("%v\n%s\n%s", err, output, log)
	}
	s.expectJoined(t, dir)

	revoked, command := make(time.Hour)
	if err := api.Delete(t.Context(), nodebootstrap.TokenObject(revoked.ID), ""); err != nil {
		t.Fatal(err)
	}
	_, expired := make(time.Second)
	_, other := make(time.Hour)
	for name, c := range map[string]struct{ command, want string }{
		"revoked":   {command, "could not find a JWS signature in the cluster-info ConfigMap"},
		"expired":   {expired, "could not find a JWS signature in the cluster-info ConfigMap"},
		"wrong pin": {strings.Replace(other, pins[0], "sha256:"+strings.Repeat("0", 64), 1), "cluster CA found in"},
	} {
		t.Run(name, func(t *testing.T) {
			output, _, err := s.join(t, c.command+" --v=1", 20*time.Second) // kubeadm would try for five minutes
			if err == nil || !strings.Contains(output, c.want) {
				t.Errorf("%v, want %q:\n%s", err, c.want, output)
			}
		})
	}
}

// expectJoined checks what the worker has after it has joined.
func (s *apiServer) expectJoined(t *testing.T, dir string) {
	t.Helper()
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if got := read("ca.crt"); strings.TrimSpace(got) != strings.TrimSpace(s.bundle.Anchors(pki.Kubernetes)) {
		t.Errorf("the worker trusts\n%s", got)
	}
	info, err := pki.Inspect(read("client.pem"))
	if err != nil || info.CommonName != "system:node:worker1" || len(info.Organizations) != 1 ||
		info.Organizations[0] != "system:nodes" {
		t.Errorf("the kubelet's certificate is %+v, %v", info, err)
	}
	if !strings.Contains(read("kubelet.conf"), fmt.Sprintf("server: https://127.0.0.1:%d", s.port)) {
		t.Errorf("kubelet.conf is\n%s", read("kubelet.conf"))
	}
	for _, part := range []string{"clusterDomain: cluster.local", "- 10.96.0.10", "rotateCertificates: true"} {
		if !strings.Contains(read("config.yaml"), part) {
			t.Errorf("the kubelet's configuration lacks %q:\n%s", part, read("config.yaml"))
		}
	}
	t.Logf("the kubelet is %s until %s", info.CommonName, info.NotAfter)
}
