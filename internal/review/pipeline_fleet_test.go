package review

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// terragruntStub initializes and runs terraform, as terragrunt does.
const terragruntStub = `#!/bin/sh
terraform init >/dev/null && exec terraform "$@"
`

// TestFleetPipeline runs the jobs of the pipeline of examples/fleet for a fleet with every
// outcome: changes, nothing, a failed plan, and a job that did not hand on its plan.
func TestFleetPipeline(t *testing.T) {
	const file = "fleet/github-actions.yml"
	s := newSandbox(t, newProgram(t), "0", `[
		{"id":40,"user":{"login":"mallory"},"body":"<!-- kube-review: fleet-review -->"},
		{"id":41,"user":{"login":"github-actions[bot]"},"body":"<!-- kube-review: fleet-review -->"}]`)
	outcomes := map[string]string{"production/paris": "0", "staging/berlin": "2", "staging/lima": "2", "staging/oslo": "1"}
	for cluster, status := range outcomes {
		s.write(t, cluster+"/main.tf", configurations[status])
		s.write(t, cluster+"/terragrunt.hcl", "")
	}
	s.write(t, "bin/terragrunt", terragruntStub)
	env := []string{
		"RUNNER_TEMP=" + s.dir, "GITHUB_OUTPUT=" + filepath.Join(s.dir, "output"),
		"GITHUB_STEP_SUMMARY=" + filepath.Join(s.dir, "summary"), "GITHUB_SERVER_URL=https://x",
		"GITHUB_REPOSITORY=o/r", "GITHUB_RUN_ID=1", "NUMBER=7", "MARKER=fleet-review",
	}
	must := func(script string, more ...string) {
		t.Helper()
		if out, ok := s.run(t, script, append(env, more...)...); !ok || script == "" {
			t.Fatalf("a step fails:\n%s\n%s", script, out)
		}
	}
	prepare, plan, comment := steps(t, file, "prepare"), steps(t, file, "plan"), steps(t, file, "comment")
	must(prepare["list the clusters"])
	must(prepare["pack the programs"])
	clusters := strings.TrimPrefix(strings.TrimSpace(s.read(t, "output")), "clusters=")
	var matrix []string
	if err := json.Unmarshal([]byte(clusters), &matrix); err != nil {
		t.Fatal(err)
	}
	if want := slices.Sorted(maps.Keys(outcomes)); !slices.Equal(matrix, want) {
		t.Fatalf("the clusters are %q, want %q", matrix, want)
	}
	for _, cluster := range matrix {
		if _, ok := s.run(t, plan["plan"], append(env, "CLUSTER="+cluster)...); ok == (cluster == "staging/oslo") {
			t.Errorf("the plan of %s: success is %v", cluster, ok)
		}
		must(plan["reduce the plan"], "CLUSTER="+cluster)
		s.expectNoPlan(t)
		text := s.read(t, "plans/"+cluster+".json")
		if strings.Contains(text, secret) || (text == "") != (cluster == "staging/oslo") {
			t.Errorf("%s hands on %q", cluster, text)
		}
	}
	if err := os.Remove(filepath.Join(s.dir, "plans/staging/lima.json")); err != nil { // its job did not end
		t.Fatal(err)
	}
	must(comment["comment"], "CLUSTERS="+clusters)
	must(comment["post to the pull request"])
	must(comment["update the issue of scheduled plans"], `ANSWER=[{"number":9}]`)
	for _, want := range []string{
		"<!-- kube-review: fleet-review -->\n### Fleet: plan\n\n**4 clusters**", "[Log](<https://x/o/r/actions/runs/1>)",
		"| staging/lima | | **planning failed**", "| staging/oslo | | **planning failed**",
		"| staging/berlin | no drift | 1 to create |", "| production/paris | no drift | nothing to do |",
	} {
		if got := s.read(t, "comment.md"); !strings.Contains(got, want) || strings.Contains(got, secret) {
			t.Errorf("the comment lacks %q:\n%s", want, got)
		}
	}
	asked := s.read(t, "asked")
	updated := strings.Contains(asked, "--method PATCH repos/o/r/issues/comments/41")
	if !updated || !strings.Contains(asked, "issue edit 9") {
		t.Errorf("the forge was asked:\n%s", asked)
	}
	if _, ok := s.run(t, comment["result"], "STATUS=1"); ok {
		t.Error("the run succeeds without the plans of two clusters")
	}
}

// TestFleetPipelineTerragrunt checks that the pipeline installs the Terragrunt that is tested.
func TestFleetPipelineTerragrunt(t *testing.T) {
	module := readText(t, "..", "..", "tools", "terragrunt", "go.mod")
	_, version, _ := strings.Cut(module, "github.com/gruntwork-io/terragrunt ")
	version, _, _ = strings.Cut(version, "\n")
	workflow := readText(t, "..", "..", "examples", "fleet", "github-actions.yml")
	if version == "" || !strings.Contains(workflow, "\n      TERRAGRUNT_VERSION: "+version+"\n") {
		t.Errorf("the pipeline does not install Terragrunt %q", version)
	}
}

// TestFleetPipelineQuiet checks that the issue is closed when all plans are empty.
func TestFleetPipelineQuiet(t *testing.T) {
	comment := steps(t, "fleet/github-actions.yml", "comment")
	program := newProgram(t)
	for name, want := range map[string]string{"nothing": "issue close 9", "drift": "issue edit 9"} {
		s := newSandbox(t, program, "0", `[{"number":9}]`)
		text, err := os.ReadFile(filepath.Join("testdata", name+".plan.json"))
		if err != nil {
			t.Fatal(err)
		}
		s.write(t, "plans/a/b.json", string(text))
		script := "kube-review -format json plans >report.json\n" + comment["update the issue of scheduled plans"]
		if out, ok := s.run(t, script); !ok {
			t.Fatal(out)
		}
		if asked := s.read(t, "asked"); !strings.Contains(asked, want) {
			t.Errorf("%s: the forge was asked:\n%s", name, asked)
		}
	}
}
