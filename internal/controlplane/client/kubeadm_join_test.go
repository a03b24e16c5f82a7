package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	s.start(t, builtProgram(t, s.set, "kube-controller-manager"), map[string]string{
		"kubeconfig": admin, "leader-elect": "false", "bind-address": "127.0.0.1", "secure-port": fmt.Sprint(freePort(t)),
		"controllers":               "bootstrapsigner,tokencleaner,csrapproving,csrsigning",
		"cluster-signing-cert-file": s.file(t, "signing.crt", s.bundle.Signing(pki.Kubernetes)),
		"cluster-signing-key-file":  s.file(t, "signing.key", s.bundle.CA.PrivateKey),
	})
}

// joining runs kubeadm, and its kubelet until that has a certificate. They have /etc/kubernetes and
// /var/lib/kubelet of their own. There is no container runtime, so the kubelet ends after it has got its certificate
// (it waits for that only with rotation off), and kubeadm does not wait for its health. With $PAUSE, the kubelet starts
// only when the file $OUT/go exists; $OUT/discovered says that kubeadm has read what it needs.
const joining = `set -eu
mount -t tmpfs tmpfs /etc/kubernetes
mount -t tmpfs tmpfs /var/lib/kubelet
(
  until [ -s /var/lib/kubelet/config.yaml ]; do sleep 0.2; done
  sed 's/^rotateCertificates: true$/rotateCertificates: false/' /var/lib/kubelet/config.yaml >/var/lib/kubelet/once.yaml
  echo 'failCgroupV1: false' >>/var/lib/kubelet/once.yaml
  if [ -n "$PAUSE" ]; then
    until [ -s /etc/kubernetes/bootstrap-kubelet.conf ]; do sleep 0.2; done
    : >"$OUT/discovered"
    until [ -e "$OUT/go" ]; do sleep 0.2; done
  fi
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

// joinRun is how a join command is run.
type joinRun struct {
	set     string // of kubeadm and kubelet
	command string
	limit   time.Duration
	between func() // is called between the discovery and the start of the kubelet; nil: nothing happens then
}

// join runs a join command, and returns the output and the directory with what the worker has then.
func (s *apiServer) join(t *testing.T, r joinRun) (output, dir string, err error) {
	t.Helper()
	dir = t.TempDir()
	for _, path := range []string{"/etc/kubernetes", "/var/lib/kubelet"} {
		if os.Mkdir(path, 0o755) == nil {
			t.Cleanup(func() { _ = os.Remove(path) })
		}
	}
	node := func(name string) string { return builtProgram(t, r.set, name) }
	join := exec.CommandContext(t.Context(), "timeout", fmt.Sprint(r.limit.Seconds()),
		"unshare", "--mount", "sh", "-c", joining)
	pause := ""
	if r.between != nil {
		pause = "yes"
	}
	join.Env = append(os.Environ(), "KUBELET="+node("kubelet"), "KUBEADM="+node("kubeadm"), "OUT="+dir,
		"JOIN="+r.command, "PAUSE="+pause)
	join.WaitDelay = 5 * time.Second
	ctx, ended := context.WithCancel(t.Context())
	defer ended()
	if r.between != nil {
		go whenDiscovered(ctx, dir, r.between)
	}
	out, err := join.CombinedOutput()
	return string(out), dir, err
}

// whenDiscovered calls between once the script has read what it needs, and lets it go on.
func whenDiscovered(ctx context.Context, dir string, between func()) {
	for {
		if _, err := os.Stat(filepath.Join(dir, "discovered")); err == nil {
			between()
			_ = os.WriteFile(filepath.Join(dir, "go"), nil, 0o600) // without it, the script ends by its limit
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// joinReleases are the releases of kubeadm and kubelet that join, with the control planes that may have them: neither
// may be newer than the API server (https://kubernetes.io/releases/version-skew-policy).
var joinReleases = []struct {
	node   string
	planes []string
}{
	{"kubernetes-1.34-node", []string{"kubernetes-1.34", "kubernetes-1.35", "kubernetes"}},
	{"kubernetes-1.35-node", []string{"kubernetes-1.35", "kubernetes"}},
	{"kubernetes-1.36-node", []string{"kubernetes"}},
}

// TestKubeadmJoins: kubeadm as it is released reads what the provider applies, with the join command of a token and
// with its discovery file; a kubelet gets its certificate: each release, in each control plane that may have it.
func TestKubeadmJoins(t *testing.T) {
	testrun.Long(t)
	for _, plane := range []string{"kubernetes-1.34", "kubernetes-1.35", "kubernetes"} {
		t.Run(plane, func(t *testing.T) {
			s := startJoinable(t, plane, nil)
			for _, r := range joinReleases {
				if !slices.Contains(r.planes, plane) {
					continue
				}
				token, command := s.token(t, time.Hour)
				at := nodebootstrap.Settings{Bundle: s.bundle, Host: "127.0.0.1", Port: s.port}
				file := "kubeadm join --discovery-file " + s.file(t, "discovery.conf", at.DiscoveryFileOf(token.Text()))
				for how, command := range map[string]string{"command": command, "file": file} {
					t.Run(r.node+" by "+how, func(t *testing.T) {
						output, dir, err := s.join(t, joinRun{set: r.node, command: command, limit: 150 * time.Second})
						if err != nil {
							t.Fatalf("%v\n%s\n%s", err, output, kubeletLog(dir))
						}
						s.expectJoined(t, dir)
					})
				}
			}
		})
	}
}

// joinable is an API server with the controllers and the objects that a join needs.
type joinable struct {
	*apiServer
	api  Applied
	pins []string
}

func startJoinable(t *testing.T, set string, flags map[string]string) joinable {
	t.Helper()
	if os.Geteuid() != 0 {
		testrun.Missing(t, "root privileges")
	}
	s := startAPIServerOf(t, set, flags)
	api := s.applied(t)
	for _, o := range s.objects(t) {
		mustApply(t.Context(), t, api, o)
	}
	s.startControllers(t)
	pins, err := nodebootstrap.Pins(s.bundle)
	if err != nil {
		t.Fatal(err)
	}
	return joinable{s, api, pins}
}

// token makes a token, and returns it with its join command.
func (s joinable) token(t *testing.T, validity time.Duration) (nodebootstrap.Token, string) {
	t.Helper()
	token, err := nodebootstrap.NewToken()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.api.Create(t.Context(), token.Object(time.Now().Add(validity), "for a test")); err != nil {
		t.Fatal(err)
	}
	return token, nodebootstrap.JoinCommand(fmt.Sprintf("127.0.0.1:%d", s.port), token.Text(), s.pins)
}

// awaitRefused waits until the API server does not accept the token any more: it remembers for ten seconds that it has
// (k8s.io/kubernetes/pkg/kubeapiserver/options, TokenSuccessCacheTTL).
func (s joinable) awaitRefused(ctx context.Context, token nodebootstrap.Token) error {
	web := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{
		MinVersion: tls.VersionTLS12, InsecureSkipVerify: true,
	}}}
	defer web.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url()+"/api", http.NoBody)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+token.Text())
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		response, err := web.Do(request)
		if err != nil {
			return err
		}
		_ = response.Body.Close()
		if response.StatusCode == http.StatusUnauthorized {
			return nil
		}
	}
	return errors.New("the API server still accepts the token after a minute")
}

// kubeletLog returns what the kubelet of a join has written.
func kubeletLog(dir string) string {
	log, _ := os.ReadFile(filepath.Join(dir, "kubelet.log"))
	return string(log)
}

// TestKubeadmRefused: tokens that have ended, also between the discovery and the kubelet's request, and a wrong pin,
// are refused with the reason. So are requests without credentials, where no anonymous path is open.
func TestKubeadmRefused(t *testing.T) {
	testrun.Long(t)
	s := startJoinable(t, "kubernetes", nil)
	const set = "kubernetes-1.34-node"
	revoke := func(token nodebootstrap.Token) error {
		return s.api.Delete(t.Context(), nodebootstrap.TokenObject(token.ID), "")
	}
	revoked, command := s.token(t, time.Hour)
	if err := revoke(revoked); err != nil {
		t.Fatal(err)
	}
	_, expired := s.token(t, time.Second)
	_, other := s.token(t, time.Hour)
	for name, c := range map[string]struct{ command, want string }{
		"revoked":   {command, "could not find a JWS signature in the cluster-info ConfigMap"},
		"expired":   {expired, "could not find a JWS signature in the cluster-info ConfigMap"},
		"wrong pin": {strings.Replace(other, s.pins[0], "sha256:"+strings.Repeat("0", 64), 1), "cluster CA found in"},
	} {
		t.Run(name, func(t *testing.T) { // kubeadm would try for five minutes
			output, _, err := s.join(t, joinRun{set: set, command: c.command + " --v=1", limit: 20 * time.Second})
			if err == nil || !strings.Contains(output, c.want) {
				t.Errorf("%v, want %q:\n%s", err, c.want, output)
			}
		})
	}
	t.Run("closed", func(t *testing.T) {
		closed := startJoinable(t, "kubernetes", map[string]string{"anonymous-auth": "false"})
		_, command := closed.token(t, time.Hour)
		output, _, err := closed.join(t, joinRun{set: set, command: command + " --v=1", limit: 20 * time.Second})
		if err == nil || !strings.Contains(output, "Unauthorized") {
			t.Errorf("kubeadm joins without anonymous requests, or does not say why it waits: %v\n%s", err, output)
		}
		output, dir, err := closed.join(t, joinRun{set: set, command: command, limit: 20 * time.Second})
		if err == nil || strings.Contains(output, "Unauthorized") {
			t.Errorf("kubeadm says without --v=1 why it waits: %v\n%s", err, output)
		}
		if _, err := os.Stat(filepath.Join(dir, "kubelet.conf")); err == nil {
			t.Error("the worker has credentials")
		}
	})
	t.Run("revoked in the middle", func(t *testing.T) {
		token, command := s.token(t, time.Hour)
		revoked := make(chan error, 1)
		output, dir, err := s.join(t, joinRun{set: set, command: command, limit: 150 * time.Second, between: func() {
			err := revoke(token)
			if err == nil {
				err = s.awaitRefused(t.Context(), token)
			}
			revoked <- err
		}})
		select {
		case failed := <-revoked:
			if failed != nil {
				t.Fatal(failed)
			}
		default:
			t.Fatalf("kubeadm has discovered nothing: %v\n%s", err, output)
		}
		const want = "the server has asked for the client to provide credentials"
		if log := kubeletLog(dir); err == nil || !strings.Contains(log, want) {
			t.Errorf("%v:\n%s\n%s", err, output, log)
		}
		if _, err := os.Stat(filepath.Join(dir, "kubelet.conf")); err == nil {
			t.Error("the worker has credentials")
		}
	})
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
