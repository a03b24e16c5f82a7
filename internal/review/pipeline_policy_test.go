package review

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// terraformStub stands in for a terraform with the provider and its machines: TestPipelineRenews
// has the real ones. A plan has changes until that very
// plan was applied.
const terraformStub = `#!/bin/sh
echo "terraform $*" >>"$ASKED"
for last; do :; done
case " $* " in
*" show "*) cat "$last" ;;
*" apply "*)
	cmp -s "$last" "$PLANNED" || exit 9
	[ "$APPLIES" = fail ] && exit 1
	cp "$EMPTY" "$PLANNED" ;;
*" plan "*)
	for argument; do case "$argument" in -out=*) cp "$PLANNED" "${argument#-out=}" ;; esac; done
	case "$*" in *-detailed-exitcode*) cmp -s "$EMPTY" "$PLANNED" || exit 2 ;; esac ;;
esac
`

// applying is a case of a scheduled run.
type applying struct {
	name    string
	plan    func(t *testing.T) map[string]any
	edit    edit
	policy  string // "" for the one of the sandbox
	fails   bool   // the apply fails
	applied bool   // an apply is tried
	failed  bool   // the run fails
	comment string
}

var applyings = []applying{
	{"a renewal", renewing, nil, "", false, true, false, "Nothing to apply."},
	{"an apply that fails", renewing, nil, "", true, true, true, "**May be applied without a person**"},
	{"a repair of too many machines", repairing, nil, "", false, false, false, "**A person decides** (repair)"},
	{"a changed argument", renewing, planned(replica1, "port", 7443), "", false, false, false, "`port` changes"},
	{"another policy", renewing, nil, "{}", false, false, false, "the policy does not allow a renewal"},
	{"a misspelled policy", renewing, nil, "renewals: {}", false, false, true, ""},
}

// sandbox returns a directory whose terraform plans the plan of the case.
func (a applying) sandbox(t *testing.T, program string) sandbox {
	t.Helper()
	s := newSandbox(t, program, "0", "[]")
	s.write(t, "bin/terraform", terraformStub)
	d := a.plan(t)
	if a.edit != nil {
		a.edit(t, d)
	}
	for name, plan := range map[string]map[string]any{"planned.json": d, "empty.json": document(t, "nothing")} {
		text, err := json.Marshal(plan)
		if err != nil {
			t.Fatal(err)
		}
		s.write(t, name, string(text))
	}
	if a.policy != "" {
		s.write(t, "policy.yaml", a.policy)
	}
	s.env = append(s.env, "PLANNED="+filepath.Join(s.dir, "planned.json"), "EMPTY="+filepath.Join(s.dir, "empty.json"))
	if a.fails {
		s.env = append(s.env, "APPLIES=fail")
	}
	return s
}

// check checks what a scheduled run did.
func (a applying) check(t *testing.T, s sandbox, succeeded bool) {
	t.Helper()
	asked, comment := s.read(t, "asked"), s.read(t, "comment.md")
	if tried := strings.Contains(asked, " apply "); tried != a.applied {
		t.Errorf("an apply was tried: %v\n%s", tried, asked)
	}
	if done := s.read(t, "planned.json") == s.read(t, "empty.json"); done != (a.applied && !a.fails) {
		t.Errorf("the plan was applied: %v\n%s", done, asked)
	}
	if succeeded == a.failed {
		t.Errorf("the run's success is %v", succeeded)
	}
	if !strings.Contains(comment, a.comment) {
		t.Errorf("the comment lacks %q:\n%s", a.comment, comment)
	}
	opened := strings.Contains(asked, "issue create") || strings.Contains(asked, "labels=kube-drift --data-urlencode")
	if want := a.comment != "" && a.comment != "Nothing to apply."; opened != want {
		t.Errorf("an issue was opened: %v\n%s", opened, asked)
	}
	s.expectNoPlan(t)
}

func TestGitHubApplies(t *testing.T) {
	scripts := steps(t, "drift-review/github-actions.yml", "plan")
	program := newProgram(t)
	for _, a := range applyings {
		t.Run(a.name, func(t *testing.T) {
			s := a.sandbox(t, program)
			output := filepath.Join(s.dir, "output")
			env := []string{
				"RUNNER_TEMP=" + s.dir, "GITHUB_OUTPUT=" + output, "GITHUB_STEP_SUMMARY=" + filepath.Join(s.dir, "summary"),
				"GITHUB_SERVER_URL=https://x", "GITHUB_REPOSITORY=o/r", "GITHUB_RUN_ID=1", "TITLE=Control plane: x",
				"GITHUB_EVENT_NAME=schedule",
			}
			succeeded := true
			for _, name := range []string{
				"plan", "apply what the policy allows", "comment", "update the issue of scheduled plans", "result",
			} {
				outputs := outputsOf(s.read(t, "output"))
				out, ok := s.run(t, scripts[name], append(env, "STATUS="+outputs["status"], "APPLIED="+outputs["applied"])...)
				if succeeded = ok && scripts[name] != ""; !succeeded {
					t.Logf("step %q: %s", name, out)
					break
				}
			}
			a.check(t, s, succeeded)
			if a.applied != strings.Contains(s.read(t, "summary"), "### Control plane: what is applied") {
				t.Errorf("the summary is:\n%s", s.read(t, "summary"))
			}
		})
	}
}

// outputsOf returns the outputs of steps. A later step's count, as in the workflow.
func outputsOf(text string) map[string]string {
	outputs := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		outputs[name] = value
	}
	return outputs
}

// TestGitHubEnvironments checks that only scheduled runs apply, and in which environment.
func TestGitHubEnvironments(t *testing.T) {
	for _, file := range []string{"drift-review/github-actions.yml", "fleet/github-actions.yml"} {
		var workflow struct {
			Jobs map[string]struct {
				Environment string `json:"environment"`
				Steps       []struct{ Name, If, Run string }
			} `json:"jobs"`
		}
		example(t, file, &workflow)
		job := workflow.Jobs["plan"]
		if job.Environment != "${{ github.event_name == 'schedule' && 'apply' || 'plan' }}" {
			t.Errorf("%s: the environment is %q", file, job.Environment)
		}
		applying := 0
		for _, step := range job.Steps {
			if !strings.Contains(step.Run, " apply -") {
				continue
			}
			applying++
			if only := "github.event_name == 'schedule'"; step.If != only && !strings.HasPrefix(step.If, only+" && ") {
				t.Errorf("%s: the step %q applies if %q", file, step.Name, step.If)
			}
		}
		if applying != 1 {
			t.Errorf("%s: %d steps apply", file, applying)
		}
	}
}

// TestFleetApplies runs the job of one cluster on a schedule.
func TestFleetApplies(t *testing.T) {
	scripts := steps(t, "fleet/github-actions.yml", "plan")
	program := newProgram(t)
	for _, a := range applyings {
		t.Run(a.name, func(t *testing.T) {
			s := a.sandbox(t, program)
			s.write(t, "bin/terragrunt", terragruntStub)
			s.write(t, "staging/berlin/terragrunt.hcl", "")
			summary := filepath.Join(s.dir, "summary")
			env := []string{"RUNNER_TEMP=" + s.dir, "CLUSTER=staging/berlin", "GITHUB_STEP_SUMMARY=" + summary}
			if out, ok := s.run(t, scripts["plan"], env...); !ok {
				t.Fatal(out)
			}
			out, ok := s.run(t, scripts["apply what the policy allows"], env...)
			asked, left := s.read(t, "asked"), s.read(t, "plan.bin")
			if tried := strings.Contains(asked, " apply "); tried != a.applied || ok == a.failed {
				t.Errorf("an apply was tried: %v; success is %v\n%s\n%s", tried, ok, asked, out)
			}
			if a.applied && !a.fails && left != s.read(t, "empty.json") {
				t.Error("the plan after the apply is not handed on")
			}
			text := s.read(t, "summary")
			if decides := strings.Contains(text, "**A person decides**"); decides == (a.applied || a.failed) {
				t.Errorf("the summary is:\n%s", text)
			}
			out, ok = s.run(t, scripts["reduce the plan"], env...)
			if text := s.read(t, "plans/staging/berlin.json"); !ok || !strings.Contains(text, `"kube_review_plan"`) {
				t.Errorf("the job hands on %.200q\n%s", text, out)
			}
			s.expectNoPlan(t)
		})
	}
}

func TestGitLabApplies(t *testing.T) {
	var pipeline struct {
		Review struct {
			Script []string `json:"script"`
		} `json:"drift-review"`
	}
	example(t, "drift-review/gitlab-ci.yml", &pipeline)
	program := newProgram(t)
	for _, a := range applyings {
		t.Run(a.name, func(t *testing.T) {
			s := a.sandbox(t, program)
			key := filepath.Join(s.dir, "key")
			keygen := exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
			if out, err := keygen.CombinedOutput(); err != nil {
				t.Fatalf("create a key: %v\n%s", err, out)
			}
			script := strings.ReplaceAll(pipeline.Review.Script[0], "/tmp/plan.", filepath.Join(s.dir, "plan."))
			out, ok := s.run(t, script, "SSH_PRIVATE_KEY="+key, "CI_PIPELINE_SOURCE=schedule", "CI_JOB_URL=https://x/1",
				"CI_API_V4_URL=https://x/api", "CI_PROJECT_ID=5", "GITLAB_TOKEN=t")
			a.check(t, s, ok)
			if t.Failed() {
				t.Log(out)
			}
		})
	}
}

// TestExamplePolicy reads the policy of the examples.
func TestExamplePolicy(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "examples", "drift-review", "policy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	policy, err := ParsePolicy(text)
	if err != nil {
		t.Fatal(err)
	}
	if policy.Renewal == nil || policy.Repair == nil || policy.Repair.MaxMachines != 1 || policy.Renewal.Hours == nil {
		t.Errorf("the example is %+v", policy)
	}
}
