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
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// kubeReview installs kube-review as the pipelines of the examples do, with their own commands,
// from a directory instead of a web site. Then it runs the program.
func kubeReview(t *testing.T, made snapshot) {
	root, err := build.Checkout()
	if err != nil {
		t.Fatal(err)
	}
	if platform != "linux_amd64" {
		testrun.Elsewhere(t, "the pipelines of the examples run on linux_amd64")
	}
	archive := made.review(platform + ".tar.gz")
	sum := sha256.Sum256([]byte(read(t, archive)))
	examples := filepath.Join(root, "examples")
	for name, script := range map[string]string{
		"GitHub":       installStep(t, filepath.Join(examples, "drift-review", "github-actions.yml")),
		"GitHub fleet": installStep(t, filepath.Join(examples, "fleet", "github-actions.yml")),
		"GitLab":       installCommands(t, filepath.Join(examples, "drift-review", "gitlab-ci.yml")),
	} {
		t.Run(name, func(t *testing.T) {
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
			if output := run(t, program, "-version"); output != made.version+"\n" {
				t.Errorf("kube-review has version %q, want %q", output, made.version)
			}
			output := run(t, program, filepath.Join(root, "internal", "review", "testdata", "drift.plan.json"))
			if !strings.HasPrefix(output, "### Control plane: plan\n\n**5 findings on 3 machines**") {
				t.Errorf("kube-review writes:\n%s", output)
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

// installCommands returns the commands of GitLab's job that install kube-review, with another
// directory than that of a container.
func installCommands(t *testing.T, file string) string {
	t.Helper()
	var pipeline struct {
		Review struct {
			Commands []string `json:"before_script"`
		} `json:"drift-review"`
	}
	if err := yaml.Unmarshal([]byte(read(t, file)), &pipeline); err != nil {
		t.Fatal(err)
	}
	commands := pipeline.Review.Commands
	if len(commands) != 5 || !strings.HasPrefix(commands[0], "apk add ") {
		t.Fatalf("the commands are %q", commands)
	}
	script := strings.ReplaceAll(strings.Join(commands[1:], "\n"), "/usr/local/bin", `"$RUNNER_TEMP"`)
	return script + "\necho \"$RUNNER_TEMP\" >\"$GITHUB_PATH\"\n"
}

// installWith runs the commands and returns the directory with the program.
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
