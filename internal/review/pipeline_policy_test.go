package review

import (
	"cmp"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// terraformStub stands in for a terraform with the provider and its machines: TestPipelineRenews
// has the real ones. A plan has changes until that very plan was applied. What is left of it after a plan with
// targets was applied is another one.
const terraformStub = `#!/bin/sh
echo "terraform $*" >>"$ASKED"
for last; do :; done
case " $* " in
*" show "*) cat "$last" ;;
*" apply "*)
	after=$EMPTY
	if cmp -s "$last" "$DUE"; then after=$WAITING; else cmp -s "$last" "$PLANNED" || exit 9; fi
	[ "$APPLIES" = fail ] && exit 1
	cp "$after" "$PLANNED" ;;
*" plan "*)
	planned=$PLANNED
	case "$*" in *-target=*) planned=$DUE; for argument; do echo "argument $argument" >>"$ASKED"; done ;; esac
	for argument; do case "$argument" in -out=*) cp "$planned" "${argument#-out=}" ;; esac; done
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
	due     []string // targets of plans that are made of a part
	down    bool     // the Pushgateway, which fails the run at its end
}

// spaced is an address that a script has to quote.
const spaced = `module.m["a b"].kube_etcd_member.this["$(touch x) 'y'"]`

// renewingWithChange renews certificates of a member with a difficult name, beside a change that waits.
func renewingWithChange(t *testing.T) map[string]any {
	t.Helper()
	d := renewing(t)
	entry(member3, "address", spaced)(t, d)
	waiting(d)
	return d
}

// dueOnly is what a plan with the targets has.
func dueOnly(t *testing.T) map[string]any {
	t.Helper()
	return targeted(renewingWithChange(t), spaced, replica1)
}

// left is what waits for a person afterwards.
func left(t *testing.T) map[string]any {
	t.Helper()
	d := document(t, "nothing")
	waiting(d)
	return d
}

var targets = []string{"argument -target=" + spaced + "\n", "argument -target=" + replica1 + "\n"}

var applyings = []applying{
	{"a renewal", renewing, nil, "", false, true, false, "Nothing to apply.", nil, false},
	{"an apply that fails", renewing, nil, "", true, true, true, "**May be applied without a person**", nil, false},
	{"a repair of too many", repairing, nil, "", false, false, false, "**A person decides** (repair)", nil, false},
	{"a Pushgateway that is down", repairing, nil, "", false, false, false, "**A person decides** (repair)", nil, true},
	{"an argument", renewing, planned(replica1, "port", 7443), "", false, false, false, "`port` changes", nil, false},
	{"another policy", renewing, nil, "{}", false, false, false, "the policy does not allow a renewal", nil, false},
	{"a misspelled policy", renewing, nil, "renewals: {}", false, false, true, "", nil, false},
	{
		"renewals beside a change", renewingWithChange, nil, "",
		false, true, false, "`kube_kubeconfig.auditor`: the action is", targets, false,
	},
	{
		"renewals that fail beside a change", renewingWithChange, nil, "",
		true, true, true, "**A person decides** (other)", targets[:1], false,
	},
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
	for name, plan := range map[string]map[string]any{
		"planned.json": d, "empty.json": document(t, "nothing"), "part.json": dueOnly(t), "waiting.json": left(t),
	} {
		text, err := json.Marshal(plan)
		if err != nil {
			t.Fatal(err)
		}
		s.write(t, name, string(text))
	}
	s.env = append(s.env, "PUSHGATEWAY=https://push")
	if a.policy != "" {
		s.write(t, "policy.yaml", a.policy)
	}
	for variable, name := range map[string]string{
		"PLANNED": "planned.json", "EMPTY": "empty.json", "DUE": "part.json", "WAITING": "waiting.json",
	} {
		s.env = append(s.env, variable+"="+filepath.Join(s.dir, name))
	}
	if a.fails {
		s.env = append(s.env, "APPLIES=fail")
	}
	if a.down {
		s.env = append(s.env, "PUSHES=22")
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
	a.checkPlans(t, s)
	if succeeded == (a.failed || a.down) {
		t.Errorf("the run's success is %v", succeeded)
	}
	if !strings.Contains(comment, a.comment) {
		t.Errorf("the comment lacks %q:\n%s", a.comment, comment)
	}
	pushed := strings.Contains(asked, "curl --fail --silent --show-error --request PUT --data-binary @plan.prom "+
		"https://push/metrics/job/kube-review/cluster/prod")
	metrics := s.read(t, "plan.prom")
	wants := a.comment != ""
	if pushed != wants || wants && !strings.Contains(metrics, `kube_plan_success{cluster="prod"} 1`) ||
		wants && strings.Contains(metrics, `kube_plan_applied{cluster="prod"} 1`) != (a.applied && !a.fails) {
		t.Errorf("metrics were pushed: %v\n%s", pushed, metrics)
	}
	opened := strings.Contains(asked, "issue create") || strings.Contains(asked, "labels=kube-drift --data-urlencode")
	if want := a.comment != "" && a.comment != "Nothing to apply."; opened != want {
		t.Errorf("an issue was opened: %v\n%s", opened, asked)
	}
	s.expectNoPlan(t)
}

// checkPlans checks what was planned and applied.
func (a applying) checkPlans(t *testing.T, s sandbox) {
	t.Helper()
	asked, remains := s.read(t, "asked"), "empty.json"
	for _, target := range targets {
		if planned := strings.Contains(asked, target); planned != slices.Contains(a.due, target) {
			t.Errorf("a plan was made for %q: %v\n%s", target, planned, asked)
		}
	}
	if len(a.due) > 0 {
		remains = "waiting.json"
	}
	if done := s.read(t, "planned.json") == s.read(t, remains); done != (a.applied && !a.fails) {
		t.Errorf("the plan was applied: %v\n%s", done, asked)
	}
}

func TestGitHubApplies(t *testing.T) {
	const file = "drift-review/github-actions.yml"
	scripts, on := steps(t, file, "plan"), goingOn(t, file, "plan")
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
			succeeded, pushed := true, "skipped"
			for _, name := range []string{
				"plan", "apply what the policy allows", "comment", "push the metrics", "update the issue of scheduled plans",
				"result",
			} {
				outputs := outputsOf(s.read(t, "output"))
				out, ok := s.run(t, scripts[name], append(env, "STATUS="+outputs["status"],
					"APPLIED="+cmp.Or(outputs["applied"], "no"), "PUSHED="+pushed)...)
				if name == "push the metrics" {
					pushed = map[bool]string{true: "success", false: "failure"}[ok]
				}
				if succeeded = (ok || on[name]) && scripts[name] != ""; !succeeded {
					t.Logf("step %q: %s", name, out)
					break
				}
			}
			a.check(t, s, succeeded)
			summary, whole := s.read(t, "summary"), a.applied && a.due == nil
			if strings.Contains(summary, "### Control plane: what is applied") != whole ||
				a.due != nil && !strings.Contains(summary, "### Control plane: what is due") {
				t.Errorf("the summary is:\n%s", summary)
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

// TestGitHubConcurrency: a run that waits is cancelled by the next one of its group, so scheduled runs, which renew
// certificates, have a group of their own.
func TestGitHubConcurrency(t *testing.T) {
	for file, name := range map[string]string{
		"drift-review/github-actions.yml": "drift-review", "fleet/github-actions.yml": "fleet-review",
	} {
		var workflow struct {
			Concurrency struct{ Group string } `json:"concurrency"`
		}
		example(t, file, &workflow)
		want := name + "-${{ github.event_name == 'schedule' && 'apply' || github.event.pull_request.number || github.ref }}"
		if got := workflow.Concurrency.Group; got != want {
			t.Errorf("%s: the group is %q, want %q", file, got, want)
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
			env := []string{
				"RUNNER_TEMP=" + s.dir, "CLUSTER=staging/berlin", "GITHUB_STEP_SUMMARY=" + summary,
				"GITHUB_OUTPUT=" + filepath.Join(s.dir, "output"),
			}
			if out, ok := s.run(t, scripts["plan"], env...); !ok {
				t.Fatal(out)
			}
			out, ok := s.run(t, scripts["apply what the policy allows"], env...)
			asked, after := s.read(t, "asked"), s.read(t, "plan.bin")
			if tried := strings.Contains(asked, " apply "); tried != a.applied || ok == a.failed {
				t.Errorf("an apply was tried: %v; success is %v\n%s\n%s", tried, ok, asked, out)
			}
			if a.applied && !a.fails && after != s.read(t, "planned.json") {
				t.Error("the plan after the apply is not handed on")
			}
			a.checkPlans(t, s)
			text := s.read(t, "summary")
			if decides := strings.Contains(text, "**A person decides**"); decides != (a.due != nil || !a.applied && !a.failed) {
				t.Errorf("the summary is:\n%s", text)
			}
			applied := cmp.Or(outputsOf(s.read(t, "output"))["applied"], "no")
			out, ok = s.run(t, scripts["push the metrics"], append(env, "APPLIED="+applied)...)
			if ok == (a.policy == "renewals: {}" || a.down) {
				t.Errorf("the metrics: success is %v\n%s", ok, out)
			}
			if text := s.read(t, "plan.prom"); text != "" &&
				strings.Contains(text, `kube_plan_applied{cluster="staging-berlin"} 1`) != (a.applied && !a.fails) {
				t.Errorf("the metrics are:\n%s", text)
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
