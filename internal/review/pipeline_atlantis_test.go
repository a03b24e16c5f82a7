package review

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// atlantis has the fields of a repository's atlantis.yaml that the example uses.
type atlantis struct {
	Version  int `json:"version"`
	Projects []struct {
		Name     string `json:"name"`
		Dir      string `json:"dir"`
		Workflow string `json:"workflow"`
		Autoplan struct {
			WhenModified []string `json:"when_modified"`
		} `json:"autoplan"`
	} `json:"projects"`
	Workflows map[string]struct {
		Plan struct {
			Steps []any `json:"steps"`
		} `json:"plan"`
	} `json:"workflows"`
}

// reviewStep returns the command of the last step, after checking the ones before it.
func (a atlantis) reviewStep(t *testing.T) string {
	t.Helper()
	steps := a.Workflows[a.Projects[0].Workflow].Plan.Steps
	if len(steps) != 3 || steps[0] != "init" || steps[1] != "plan" {
		t.Fatalf("the steps are %v", steps)
	}
	run := attributes(attributes(steps[2])["run"])
	if run["output"] != "show" || len(run) != 2 {
		t.Fatalf("the step is %v", run)
	}
	return run["command"].(string)
}

// TestAtlantis parses the example, and runs its step with a stub that prints a plan. The output
// is put into the block of code in which Atlantis shows the output of all steps
// (plan_success_unwrapped.tmpl).
func TestAtlantis(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "examples", "atlantis", "atlantis.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var config atlantis
	if err := yaml.UnmarshalStrict(text, &config); err != nil {
		t.Fatal(err)
	}
	if config.Version != 3 || len(config.Projects) != 1 {
		t.Fatalf("the configuration is %+v", config)
	}
	s := newSandbox(t, newProgram(t), "0", "")
	plan, err := filepath.Abs(filepath.Join("testdata", "drift.plan.json"))
	if err != nil {
		t.Fatal(err)
	}
	s.write(t, "bin/terraform1.13.0", "#!/bin/sh\n[ \"$1 $2\" = \"show -json\" ] && exec cat \"$3\"\n")
	out, ok := s.run(t, "exec sh -c \"$STEP\"", "STEP="+config.reviewStep(t), "PLANFILE="+plan,
		"ATLANTIS_TERRAFORM_VERSION=1.13.0", "PROJECT_NAME=control-plane", "REPO_REL_DIR=.")
	if !ok {
		t.Fatal(out)
	}
	comment := "```diff\nPlan: 0 to add, 4 to change, 0 to destroy.\n" + out + "```\n"
	open, outside := false, ""
	for line := range strings.Lines(comment) {
		if strings.HasPrefix(line, "```") {
			if open && strings.TrimSpace(line) != "```" {
				t.Errorf("a block begins inside another one: %q", line)
			}
			open = !open
			continue
		}
		if !open {
			outside += line
		}
	}
	begins := strings.Contains(outside, "### Review: control-plane\n\n**5 findings on 3 machines**")
	if open || !begins || strings.Contains(outside, "flowchart") {
		t.Errorf("the comment is:\n%s", comment)
	}
}
