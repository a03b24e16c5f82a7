package release

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
)

// kubeReview installs kube-review as the pipelines of the examples do, with their own step,
// from a release that is a directory instead of a web site. Then it reads a plan.
func kubeReview(t *testing.T, made snapshot) {
	root, err := build.Checkout()
	if err != nil {
		t.Fatal(err)
	}
	if platform != "linux_amd64" {
		t.Skip("the pipelines of the examples run on linux_amd64")
	}
	archive := made.review(platform + ".tar.gz")
	sum := sha256.Sum256([]byte(read(t, archive)))
	for _, example := range []string{"drift-review", "fleet"} {
		t.Run(example, func(t *testing.T) {
			script := installStep(t, filepath.Join(root, "examples", example, "github-actions.yml"))
			if _, err := installWith(t, made, script, strings.Repeat("0", 64)); err == nil {
				t.Error("an archive with another digest is installed")
			}
			if _, err := installWith(t, made, script, ""); err == nil {
				t.Error("an archive is installed without a digest")
			}
			bin, err := installWith(t, made, script, hex.EncodeToString(sum[:]))
			if err != nil {
				t.Fatal(err)
			}
			program := filepath.Join(bin, "kube-review")
			if said := run(t, program, "-version"); said != made.version+"\n" {
				t.Errorf("kube-review has version %q, want %q", said, made.version)
			}
			said := run(t, program, filepath.Join(root, "internal", "review", "testdata", "drift.plan.json"))
			if !strings.HasPrefix(said, "### Control plane: plan\n\n**5 findings on 3 machines**") {
				t.Errorf("kube-review writes:\n%s", said)
			}
		})
	}
}

// installStep returns the script of the step that installs kube-review.
func installStep(t *testing.T, file string) string {
	t.Helper()
	var workflow struct {
		Jobs map[string]struct {
			Steps []struct{ Name, Run string } `json:"steps"`
		} `json:"jobs"`
	}
	if err := yaml.Unmarshal([]byte(read(t, file)), &workflow); err != nil {
		t.Fatal(err)
	}
	for _, job := range workflow.Jobs {
		for _, step := range job.Steps {
			if step.Name == "install kube-review" {
				return step.Run
			}
		}
	}
	t.Fatalf("%s has no step that installs kube-review", file)
	return ""
}

// installWith runs the step and returns the directory that it adds to the path.
func installWith(t *testing.T, made snapshot, script, digest string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	step := exec.CommandContext(t.Context(), "bash", "-eo", "pipefail", "-c", script)
	step.Dir = dir
	step.Env = append(os.Environ(), "RUNNER_TEMP="+dir, "GITHUB_PATH="+filepath.Join(dir, "path"),
		"KUBE_REVIEW_URL=file://"+made.dir, "KUBE_REVIEW_VERSION="+made.version, "KUBE_REVIEW_SHA256="+digest)
	if out, err := step.CombinedOutput(); err != nil {
		t.Logf("%s", out)
		return "", err
	}
	return strings.TrimSpace(read(t, filepath.Join(dir, "path"))), nil
}
