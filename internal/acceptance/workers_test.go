package acceptance

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/lab/services"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// podImage is the lab's only container image of Pods.
const podImage = services.PodImage

// workerName is the machine that joins.
const workerName = "cp4"

// joinStory is a control plane with one worker, which stock kubeadm joins.
type joinStory struct {
	w        *workspace.Workspace
	user     user
	names    []string          // of the control plane's machines
	version  string            // of the control plane
	issued   map[string]string // the bootstrap tokens, by name with their validity
	joins    string            // the set of kubeadm and kubelet that joins
	newer    string            // the directory of kubeadm and kubelet of the release as which the worker joins again
	admin    credentials
	node     *lab.Machine
	refuses  bool // API servers refuse requests without credentials, also for cluster-info
	serving  bool // kubelets have certificates of the cluster, and API servers verify them
	rotation int  // generation of all authorities and of the keys of service accounts
	tunnel   bool // API servers reach kubelets through an agent
}

// TestJoinWorkers follows the guide literally, with its configuration and its commands: kubeadm and kubelet 1.34 as
// they are released join a machine with the join command, and before, where API servers refuse requests without
// credentials, with the token's file. Its Pods run, with logs and exec through the API server, also when that verifies
// kubelets, and also through a tunnel where API servers do not reach the kubelet. The worker stays through a rotation
// of all authorities, an upgrade by a minor, restarts, a scale-up, the loss of the machine with the virtual IP, and
// then joins as 1.36. Tokens that have ended are refused with the reason.
func TestJoinWorkers(t *testing.T) {
	s := &joinStory{
		names: []string{"cp1"}, joins: "kubernetes-1.34-node", newer: nodePrograms(t, "kubernetes-1.36-node"),
		version: release(t, "kubernetes-1.35"), refuses: true,
	}
	s.w = newStory(t, append(s.names, workerName)...)
	choose(t, s.w, s.names...)
	s.node = shared.lab.Machine(workerName)
	t.Cleanup(func() {
		if err := s.node.Rebuild(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	s.user = newUser(t, s.w)
	extend(t, s.w, workersByGuide(t, `"prod"`, `"this"`, `"1.36.3"`, "var.kubernetes_version")+tokensConfig)
	for _, step := range []struct {
		name string
		run  func(t *testing.T)
	}{
		{"closed", s.closed},
		{"machine", s.prepare},
		{"joined by file", s.joinedByFile},
		{"opened", s.opened},
		{"joined", s.joined},
		{"pod", func(t *testing.T) { s.runPod(t, "first") }},
		{"through a tunnel", s.throughTunnel},
		{"ended tokens", s.endedTokens},
		{"kubelets verified", s.verified},
		{"authorities rotated", s.rotated},
		{"upgraded", s.upgraded},
		{"restarts", s.restarted},
		{"scaled up", s.scaled},
		{"holder of the address lost", s.holderLost},
		{"replaced", s.replaced},
		{"deleted", s.deleted},
	} {
		if !t.Run(step.name, step.run) {
			t.FailNow()
		}
	}
	apply(t, s.w, "-destroy")
}

// nodePrograms returns the directory with kubeadm and kubelet.
func nodePrograms(t *testing.T, set string) string {
	t.Helper()
	machines(t)
	version, err := build.Version(set)
	if err != nil {
		t.Fatal(err)
	}
	directory := filepath.Join(shared.components, "kubernetes-v"+version)
	for _, name := range []string{"kubeadm", "kubelet"} {
		if _, err := os.Stat(filepath.Join(directory, name)); err != nil {
			testrun.Missing(t, "kube-lab build "+set+" makes "+name)
		}
	}
	return directory
}

// tokens sets the bootstrap tokens, by name with their validity.
func (s *joinStory) tokens(t *testing.T, tokens map[string]string) {
	t.Helper()
	s.issued = tokens
	if err := s.w.WriteJSON("workers.auto.tfvars.json", map[string]any{
		"tokens": tokens, "kubernetes_version": s.version,
	}); err != nil {
		t.Fatal(err)
	}
}

// command returns the join command of a token.
func (s *joinStory) command(t *testing.T, token string) string {
	t.Helper()
	return s.ofToken(t, "joins", token)
}

// ofToken returns what an output says of a token.
func (s *joinStory) ofToken(t *testing.T, output, token string) string {
	t.Helper()
	text, err := s.w.Run(t.Context(), "output", "-json", output)
	if err != nil {
		t.Fatal(err)
	}
	tokens := map[string]string{}
	if err := json.Unmarshal([]byte(text), &tokens); err != nil || tokens[token] == "" {
		t.Fatalf("output %s has nothing of token %s: %v", output, token, err)
	}
	return tokens[token]
}

// closed: without the anonymous path, the apply says that workers cannot join, and so does the API server.
func (s *joinStory) closed(t *testing.T) {
	s.tokens(t, map[string]string{"first": "30m"})
	s.configure(t)
	apply(t, s.w)
	output, _, err := s.w.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	expectContains(t, unfolded(output), "Workers cannot read cluster-info", "authentication.anonymous_paths")
	s.admin = credentialsOf(t, outputOf(t, s.w, "kubeconfig"))
	nobody := credentials{tls: &tls.Config{RootCAs: s.admin.tls.RootCAs, MinVersion: tls.VersionTLS12}}
	if code, text, err := nobody.call(t.Context(), endpointURL, "GET", infoPath, nil, nil); code != 401 {
		t.Errorf("cluster-info without credentials: HTTP %d, %v: %s", code, err, text)
	}
}

// opened: with the anonymous path, cluster-info is what discovery_file says, without a token.
func (s *joinStory) opened(t *testing.T) {
	s.refuses = false
	s.configure(t)
	apply(t, s.w)
	nobody := credentials{tls: &tls.Config{RootCAs: s.admin.tls.RootCAs, MinVersion: tls.VersionTLS12}}
	var info core.ConfigMap
	nobody.must(t, endpointURL, "GET", infoPath, nil, &info)
	if got := outputOf(t, s.w, "discovery_file"); got != info.Data["kubeconfig"] {
		t.Errorf("cluster-info is\n%s\nand discovery_file is\n%s", info.Data["kubeconfig"], got)
	}
}

// prepare makes the machine one that can be a node: containerd, kubelet, kubeadm, and the image.
func (s *joinStory) prepare(t *testing.T) {
	installNodeOf(t, s.node, services.Kubelet, s.joins, "")
}

// install puts kubeadm and kubelet on the worker.
func (s *joinStory) install(t *testing.T, programs string) {
	t.Helper()
	for _, name := range []string{"kubeadm", "kubelet"} {
		upload(t, s.node, filepath.Join(programs, name), "/usr/bin/"+name, "755")
	}
}

// joinedByFile: kubeadm joins with the token's file while API servers refuse requests without credentials. Then the
// machine leaves again.
func (s *joinStory) joinedByFile(t *testing.T) {
	uploadText(t, s.node, "/root/discovery.conf", s.ofToken(t, "join_files", "first"))
	s.runJoin(t, documentedScript(t, "workers", 0))
	s.admin.must(t, endpointURL, "DELETE", "/api/v1/nodes/"+workerName, nil, nil)
	t.Log(onMachine(t, s.node, "kubeadm reset --force; rm /root/discovery.conf"))
}

// joined: the command of the guide prints one like that of the guide. With it, kubeadm joins the machine, to its end,
// and the node becomes ready.
func (s *joinStory) joined(t *testing.T) {
	command, shown := typedIn(documentedScript(t, "workers", 1))
	join := strings.TrimSpace(s.user.typeCommands(t, command))
	like := regexp.MustCompile("^" + replaced(t, regexp.QuoteMeta(strings.TrimSpace(shown)),
		regexp.QuoteMeta("10.0.0.100"), regexp.QuoteMeta(vip), regexp.QuoteMeta("f3k8qp.8kd0s4vkq2m1w7xz"),
		"[a-z0-9]{6}[.][a-z0-9]{16}", "…", "[0-9a-f]{64}") + "$")
	if !like.MatchString(join) {
		t.Fatalf("the guide shows\n%s\nand the command prints\n%s", shown, join)
	}
	s.runJoin(t, join)
}

// join runs the join command of a token, with more arguments.
func (s *joinStory) join(t *testing.T, token, more string) {
	t.Helper()
	s.runJoin(t, s.command(t, token)+more)
}

func (s *joinStory) runJoin(t *testing.T, command string) {
	t.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	output, err := s.node.Run(ctx, command)
	t.Logf("kubeadm join after %.1f s:\n%s", time.Since(began).Seconds(), output)
	if err != nil {
		t.Fatalf("%v\n%s", err, onMachine(t, s.node, "journalctl -u kubelet -n 60 --no-pager"))
	}
	recordBlocks(t, command)
	expectContains(t, output, "This node has joined the cluster")
	s.expectReady(t)
	t.Logf("ready after %.1f s", time.Since(began).Seconds())
	expectEmptyPlan(t, s.w)
}

// nodeObject returns the worker's node, or nil.
func (s *joinStory) nodeObject(t *testing.T) *core.Node {
	t.Helper()
	var node core.Node
	code, _, err := s.admin.call(t.Context(), endpointURL, "GET", "/api/v1/nodes/"+workerName, nil, &node)
	if err != nil || code != 200 {
		return nil
	}
	return &node
}

// ready reports whether the API knows the node as ready.
func (s *joinStory) ready(t *testing.T) bool {
	t.Helper()
	node := s.nodeObject(t)
	if node == nil {
		return false
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == core.NodeReady {
			return condition.Status == core.ConditionTrue
		}
	}
	return false
}

func (s *joinStory) expectReady(t *testing.T) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Log(onMachine(t, s.node, "journalctl -u kubelet -n 60 --no-pager; journalctl -u containerd -n 20 --no-pager"))
		}
	}()
	awaitFor(t, 2*time.Minute, "the node is not ready", func() bool { return s.ready(t) })
}
