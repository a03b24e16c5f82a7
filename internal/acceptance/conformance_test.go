package acceptance

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// judged matches the conformance tests of Kubernetes that say something about a control plane.
var judged = regexp.MustCompile(`\[sig-(api-machinery|auth)\] .*\[Conformance\]|\[sig-node\] Lease .*\[Conformance\]`)

// unjudged are the conformance tests among these that cannot run, by a pattern of their names, with the reason.
// There is no registry, the image of agnhost has its program alone, and no Pod can call a Service.
var unjudged = map[string]string{
	`\[sig-api-machinery\] Aggregator `:                    "its Pods have images sample-apiserver and etcd",
	`\[sig-auth\] ServiceAccounts should mount `:           "it runs cat in the image agnhost",
	`\[sig-auth\] ServiceAccounts ServiceAccountIssuerDis`: "its Pod calls the Service kubernetes",
}

// leastJudged is the number of conformance tests that must pass at least: a renamed group must be noticed.
const leastJudged = 106

// TestConformance: the conformance tests of Kubernetes judge a control plane with a worker: those of
// sig-api-machinery and sig-auth, and that of leases. None fails. Those that cannot run are listed.
func TestConformance(t *testing.T) {
	s := &joinStory{names: []string{"cp1"}, joins: "kubernetes-1.36-node", version: release(t, "kubernetes")}
	program := conformanceTests(t)
	s.w = newStory(t, append(s.names, workerName)...)
	choose(t, s.w, s.names...)
	s.node = shared.lab.Machine(workerName)
	t.Cleanup(func() {
		if err := s.node.Rebuild(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	extend(t, s.w, workersConfig)
	s.tokens(t, map[string]string{"first": "30m"})
	s.configure(t)
	// A test waits until a list has been compacted away, which takes ten minutes by default. Others have webhooks, whose
	// Pods the API server calls itself, because there is no kube-proxy on its machine.
	if err := s.w.WriteJSON("conformance.auto.tfvars.json", map[string]any{
		"apiserver_extra_args": map[string]any{"etcd-compaction-interval": "1m", "enable-aggregator-routing": "true"},
	}); err != nil {
		t.Fatal(err)
	}
	apply(t, s.w)
	s.admin = credentialsOf(t, outputOf(t, s.w, "kubeconfig"))
	s.prepare(t)
	importImages(t, s.node, program)
	s.routeToPods(t)
	s.join(t, "first", " --ignore-preflight-errors=SystemVerification") // of cgroups v1

	wanted, left := selectTests(t, program)
	results := s.conform(t, program)
	passed := 0
	for _, name := range wanted {
		switch outcome, ran := results[name]; {
		case !ran:
			t.Errorf("did not run: %s", name)
		case outcome != "":
			t.Errorf("failed: %s: %s", name, outcome)
		default:
			passed++
		}
	}
	t.Logf("%d conformance tests passed of %d", passed, len(wanted))
	if passed < leastJudged {
		t.Errorf("%d conformance tests passed, expected %d or more", passed, leastJudged)
	}
	for _, pattern := range slices.Sorted(maps.Keys(left)) {
		t.Logf("not run, %d tests of %s: %s", left[pattern], strings.ReplaceAll(pattern, `\`, ""), unjudged[pattern])
	}
	expectEmptyPlan(t, s.w)
	apply(t, s.w, "-destroy")
}

// conformanceTests returns the path of the end-to-end tests of the default release.
func conformanceTests(t *testing.T) string {
	t.Helper()
	machines(t)
	version, err := build.Version("kubernetes-1.36-e2e")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(shared.components, "kubernetes-v"+version, "e2e.test")
	if _, err := os.Stat(path); err != nil {
		testrun.Missing(t, "kube-lab build kubernetes-1.36-e2e makes it")
	}
	return path
}

// importImages gives a machine the images that tests use, under their names: pause is the lab's, whose program waits,
// and agnhost is upstream's program.
func importImages(t *testing.T, m *lab.Machine, program string) {
	t.Helper()
	images := output(t, program, "--list-images")
	for name, image := range map[string]func(reference, archive string) error{
		"pause": func(reference, archive string) error { return build.PodImage(t.Context(), reference, archive) },
		"agnhost": func(reference, archive string) error {
			return build.ProgramImage(t.Context(), reference, filepath.Join(filepath.Dir(program), "agnhost"), archive)
		},
	} {
		named := regexp.MustCompile(`(?m)^registry\.k8s\.io/(?:e2e-test-images/)?` + name + `:\S+$`)
		references := named.FindAllString(images, -1)
		if len(references) == 0 {
			t.Fatalf("the tests use no %s:\n%s", name, images)
		}
		for _, reference := range references { // some tests have an older release
			path := filepath.Join(t.TempDir(), name+".tar")
			if err := image(reference, path); err != nil {
				t.Fatal(err)
			}
			importArchive(t, m, path)
		}
	}
}

// routeToPods makes the machines of the control plane reach Pods, as a network plugin would.
func (s *joinStory) routeToPods(t *testing.T) {
	t.Helper()
	s.onControlPlane(t, "ip route replace 10.244.0.0/24 via "+s.node.Address.String())
	t.Cleanup(func() {
		for _, m := range labMachines(s.names) {
			if out, err := m.Run(context.WithoutCancel(t.Context()), "ip route del 10.244.0.0/24 || :"); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		}
	})
}

// selectTests returns the names of the tests that judge, and how many are left out, by the pattern.
func selectTests(t *testing.T, program string) (wanted []string, left map[string]int) {
	t.Helper()
	left = map[string]int{}
	for line := range strings.Lines(output(t, program, "--list-tests")) {
		_, name, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if !judged.MatchString(name) {
			continue
		}
		pattern := ""
		for p := range unjudged {
			if regexp.MustCompile(p).MatchString(name) {
				pattern = p
			}
		}
		if pattern == "" {
			wanted = append(wanted, name)
		} else {
			left[pattern]++
		}
	}
	for pattern := range unjudged {
		if left[pattern] == 0 {
			t.Errorf("no conformance test has a name like %s", pattern)
		}
	}
	return wanted, left
}

// output returns what the tests print without a cluster.
func output(t *testing.T, program, flag string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, flag).Output()
	if err != nil {
		t.Fatalf("%s %s: %v", program, flag, err)
	}
	return string(out)
}

// conform runs the tests as an administrator, through the virtual IP. It returns why each test that ran failed, ""
// if it passed.
func (s *joinStory) conform(t *testing.T, program string) map[string]string {
	t.Helper()
	admin := writeFile(t, s.w, "admin.conf", outputOf(t, s.w, "kubeconfig"))
	reports := t.TempDir()
	command := s.w.InLab(t.Context(), program, "--kubeconfig="+admin, "--provider=skeleton", "--report-dir="+reports,
		"--ginkgo.no-color", "--ginkgo.silence-skips", "--ginkgo.timeout=30m", "--ginkgo.focus="+judged.String(),
		"--ginkgo.skip="+strings.Join(slices.Sorted(maps.Keys(unjudged)), "|"))
	command.Dir = reports
	log, err := command.CombinedOutput()
	text, readErr := os.ReadFile(filepath.Join(reports, "junit_01.xml"))
	if readErr != nil {
		t.Fatalf("the tests write no report: %v, %v:\n%s", readErr, err, tail(string(log), 20_000))
	}
	results, parseErr := parseReport(text)
	if parseErr != nil {
		t.Fatal(parseErr)
	}
	if err != nil {
		t.Errorf("the tests end with %v:\n%s", err, tail(string(log), 20_000))
	}
	return results
}

// tail returns the end of a text.
func tail(text string, most int) string { return text[max(0, len(text)-most):] }
