package review

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// The pipelines of the examples are tested with their own scripts, the real terraform and the
// real kube-review. Stubs replace the programs that talk to a forge (gh, curl): they record
// their arguments and print the answer that the test provides, as JSON. internal/release tests
// the step that installs kube-review.
const forgeStub = `#!/bin/sh
echo "$(basename "$0") $*" >>"$ASKED"
filter=.
for argument; do
	if [ "$previous" = --jq ]; then filter=$argument; fi
	previous=$argument
done
case "$*" in
*/user) printf '{"id":3,"username":"project_5_bot"}' ;;
*https://push/*) exit "${PUSHES:-0}" ;;
*--paginate*|*"issue list"*|*per_page*|*state=opened*) printf '%s' "$ANSWER" | jq -r "$filter" ;;
esac
`

// sandbox is a directory with a configuration that produces a known plan.
type sandbox struct {
	dir   string
	env   []string
	asked string // file with the recorded arguments of the stubs
}

// configurations by the exit status of their "plan -detailed-exitcode".
var configurations = map[string]string{
	"0": `locals { x = "" }`,
	"1": `resource "terraform_data" "x" { input = file("not there") }`,
	"2": `resource "terraform_data" "x" { input = "` + secret + `" }`,
}

// newProgram builds kube-review, and Terraform if it is not installed. It skips the test if the pipelines cannot run
// here.
func newProgram(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("terraform"); err != nil {
		testrun.Slow(t) // it is built
		terraform, err := build.RealTerraform(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", os.Getenv("PATH")+":"+filepath.Dir(terraform))
	}
	for _, program := range []string{"bash", "jq", "ssh-agent", "ssh-keygen"} {
		if _, err := exec.LookPath(program); err != nil {
			testrun.Missing(t, program, " is not installed: the pipelines need it")
		}
	}
	program := filepath.Join(t.TempDir(), "kube-review")
	compile := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../../cmd/kube-review")
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("build kube-review: %v\n%s", err, out)
	}
	return program
}

func newSandbox(t *testing.T, program, status, answer string) sandbox {
	t.Helper()
	dir := t.TempDir()
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	s := sandbox{dir: dir, asked: filepath.Join(dir, "asked")}
	files := map[string]string{
		"main.tf": configurations[status], "cli.tfrc": "", "bin/gh": forgeStub, "bin/curl": forgeStub,
	}
	for name, text := range files {
		s.write(t, name, text)
	}
	s.write(t, "policy.yaml", "renewal: {max_machines: 3}\nrepair: {max_machines: 1, restarts: true}\n")
	if err := os.Symlink(program, filepath.Join(bin, "kube-review")); err != nil {
		t.Fatal(err)
	}
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "TF_") && !strings.HasPrefix(variable, "PATH=") {
			s.env = append(s.env, variable)
		}
	}
	s.env = append(s.env, "PATH="+bin+":"+os.Getenv("PATH"), "TF_CLI_CONFIG_FILE="+filepath.Join(dir, "cli.tfrc"),
		"CHECKPOINT_DISABLE=1", "ASKED="+s.asked, "ANSWER="+answer, "ROOT=.", "MARKER=drift-review", "POLICY=policy.yaml",
		"CLUSTER=prod", "PUSHGATEWAY=", "APPLIED=no")
	return s
}

// write writes an executable file of the sandbox.
func (s sandbox) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
}

// run runs a script of a pipeline. It returns whether the script succeeded.
func (s sandbox) run(t *testing.T, script string, env ...string) (string, bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-eo", "pipefail", "-c", script)
	cmd.Dir = s.dir
	cmd.Env = append(s.env, env...)
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

func (s sandbox) read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(text)
}

// expectation is the expected result of a pipeline run.
type expectation struct {
	name, status, answer string
	request              bool   // on a pull request
	asks                 string // expected request to the forge; "" if it must change nothing there
}

func example(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "examples", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}

// expectNoPlan checks that no plan is left on the runner.
func (s sandbox) expectNoPlan(t *testing.T) {
	t.Helper()
	for _, name := range []string{"plan.bin", "plan.json", "due.bin", "due.json", "plan.due.bin", "plan.due.json"} {
		if _, err := os.Stat(filepath.Join(s.dir, name)); err == nil {
			t.Errorf("%s is left behind", name)
		}
	}
}

// steps returns the scripts of a job of a workflow by the names of its steps.
func steps(t *testing.T, file, job string) map[string]string {
	t.Helper()
	var workflow struct {
		Jobs map[string]struct {
			Steps []struct{ Name, Run string } `json:"steps"`
		} `json:"jobs"`
	}
	example(t, file, &workflow)
	scripts := map[string]string{}
	for _, step := range workflow.Jobs[job].Steps {
		scripts[step.Name] = step.Run
	}
	return scripts
}

// goingOn returns the names of the steps whose failure does not end their job.
func goingOn(t *testing.T, file, job string) map[string]bool {
	t.Helper()
	var workflow struct {
		Jobs map[string]struct {
			Steps []struct {
				Name   string
				GoesOn bool `json:"continue-on-error"`
			} `json:"steps"`
		} `json:"jobs"`
	}
	example(t, file, &workflow)
	names := map[string]bool{}
	for _, step := range workflow.Jobs[job].Steps {
		names[step.Name] = step.GoesOn
	}
	return names
}

func (e expectation) check(t *testing.T, s sandbox, succeeded bool) {
	t.Helper()
	comment, asked := s.read(t, "comment.md"), s.read(t, "asked")
	begins := strings.HasPrefix(comment, "<!-- kube-review: drift-review -->\n### Control plane: ")
	if !begins || strings.Contains(comment, secret) || !strings.Contains(comment, "[Log](<https://x/") {
		t.Errorf("the comment is:\n%s", comment)
	}
	judged := strings.Contains(comment, "**A person decides** (other): `terraform_data.x`: ")
	if judged != (e.status == "2" && !e.request) {
		t.Errorf("the comment has a verdict: %v\n%s", judged, comment)
	}
	wants := map[string]string{"0": "Nothing to do", "1": "**Planning failed", "2": "- create: `terraform_data.x`"}
	want := wants[e.status]
	if !strings.Contains(comment, want) {
		t.Errorf("the comment lacks %q:\n%s", want, comment)
	}
	if succeeded != (e.status != "1") {
		t.Errorf("the pipeline's success is %v with a plan of status %s", succeeded, e.status)
	}
	if e.asks == "" {
		for _, word := range []string{"PATCH", "POST", "PUT", "create", "edit", "close"} {
			if strings.Contains(asked, word) {
				t.Errorf("the forge was asked for something:\n%s", asked)
			}
		}
	} else if !strings.Contains(asked, e.asks) {
		t.Errorf("the forge was asked\n%s\nwant %q", asked, e.asks)
	}
}

func TestGitHubPipeline(t *testing.T) {
	scripts := steps(t, "drift-review/github-actions.yml", "plan")
	const foreign = `{"id":39,"user":{"login":"mallory"},"body":"<!-- kube-review: drift-review -->\nx"}`
	comments := `[` + foreign + `,{"id":40,"user":{"login":"github-actions[bot]"},"body":"<!-- kube-review: other -->\nx"},
		{"id":41,"user":{"login":"github-actions[bot]"},"body":"<!-- kube-review: drift-review -->\nx"}]`
	program := newProgram(t)
	for _, e := range []expectation{
		{
			"a first comment", "2", `[{"id":40,"user":{"login":"github-actions[bot]"},"body":"<!-- kube-review: other -->"}]`,
			true, "--method POST repos/o/r/issues/7/comments --field body=@comment.md",
		},
		{
			"somebody else's comment with the marker", "2", `[` + foreign + `]`, true,
			"--method POST repos/o/r/issues/7/comments --field body=@comment.md",
		},
		{"the same comment", "2", comments, true, "--method PATCH repos/o/r/issues/comments/41 --field body=@comment.md"},
		{"a request with an error", "1", "[]", true, "--method POST repos/o/r/issues/7/comments"},
		{
			"a first drift", "2", "[]", false,
			"issue create --title Control plane: drift --label kube-drift --body-file comment.md",
		},
		{"drift that lasts", "2", `[{"number":9}]`, false, "issue edit 9 --body-file comment.md"},
		{"drift that is gone", "0", `[{"number":9}]`, false, "issue close 9"},
		{"no drift", "0", "[]", false, ""},
		{"a plan with an error", "1", "[]", false, "issue create"},
	} {
		t.Run(e.name, func(t *testing.T) {
			s := newSandbox(t, program, e.status, e.answer)
			env := []string{
				"RUNNER_TEMP=" + s.dir, "GITHUB_OUTPUT=" + filepath.Join(s.dir, "output"),
				"GITHUB_STEP_SUMMARY=" + filepath.Join(s.dir, "summary"), "GITHUB_SERVER_URL=https://x",
				"GITHUB_REPOSITORY=o/r", "GITHUB_RUN_ID=1", "TITLE=Control plane: x", "NUMBER=7", "STATUS=" + e.status,
			}
			names := []string{"plan", "comment", "update the issue of scheduled plans"}
			event := "schedule"
			if e.request {
				names[2], event = "post to the pull request", "pull_request"
			} else if e.status == "2" {
				names = slices.Insert(names, 1, "apply what the policy allows")
			}
			env = append(env, "GITHUB_EVENT_NAME="+event)
			for _, name := range names {
				if out, ok := s.run(t, scripts[name], env...); !ok || scripts[name] == "" {
					t.Fatalf("step %q failed:\n%s", name, out)
				}
			}
			if got := s.read(t, "output"); got != "status="+e.status+"\n" {
				t.Errorf("the plan's status is %q, want %s", got, e.status)
			}
			s.expectNoPlan(t)
			_, ok := s.run(t, scripts["result"], env...)
			e.check(t, s, ok)
		})
	}
}

func TestGitLabPipeline(t *testing.T) {
	var pipeline struct {
		Review struct {
			Script []string `json:"script"`
		} `json:"drift-review"`
	}
	example(t, "drift-review/gitlab-ci.yml", &pipeline)
	if len(pipeline.Review.Script) != 1 {
		t.Fatalf("the job has %d scripts", len(pipeline.Review.Script))
	}
	const foreign = `{"id":38,"author":{"id":9},"body":"<!-- kube-review: drift-review -->\nx"}`
	note := `[` + foreign + `,{"id":39,"author":{"id":9},"body":"by hand"},
		{"id":40,"author":{"id":3},"body":"<!-- kube-review: other -->"},
		{"id":41,"author":{"id":3},"body":"<!-- kube-review: drift-review -->\nx"}]`
	const (
		notes  = " --data-urlencode body@comment.md https://x/api/projects/5/merge_requests/7/notes"
		issues = " --data-urlencode description@comment.md https://x/api/projects/5/issues"
		drift  = "--request POST --data title=Control plane: drift --data labels=kube-drift"
		closed = "--request PUT --data state_event=close https://x/api/projects/5/issues/9"
	)
	program := newProgram(t)
	for _, e := range []expectation{
		{"a first comment", "2", `[{"id":40,"author":{"id":9},"body":"by hand"}]`, true, "--request POST" + notes},
		{"somebody else's comment with the marker", "2", `[` + foreign + `]`, true, "--request POST" + notes},
		{"the same comment", "2", note, true, "--request PUT" + notes + "/41"},
		{"a first drift", "2", `[]`, false, drift + issues},
		{"drift that lasts", "2", `[{"iid":9}]`, false, "--request PUT" + issues + "/9"},
		{"drift that is gone", "0", `[{"iid":9}]`, false, closed},
		{"no drift", "0", `[]`, false, ""},
		{"a plan with an error", "1", `[]`, false, drift},
	} {
		t.Run(e.name, func(t *testing.T) {
			s := newSandbox(t, program, e.status, e.answer)
			key := filepath.Join(s.dir, "key")
			keygen := exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
			if out, err := keygen.CombinedOutput(); err != nil {
				t.Fatalf("create a key: %v\n%s", err, out)
			}
			source := "schedule"
			if e.request {
				source = "merge_request_event"
			}
			script := strings.ReplaceAll(pipeline.Review.Script[0], "/tmp/plan.", filepath.Join(s.dir, "plan."))
			out, ok := s.run(t, script, "SSH_PRIVATE_KEY="+key, "CI_PIPELINE_SOURCE="+source, "CI_JOB_URL=https://x/1",
				"CI_API_V4_URL=https://x/api", "CI_PROJECT_ID=5", "CI_MERGE_REQUEST_IID=7", "GITLAB_TOKEN=t")
			s.expectNoPlan(t)
			e.check(t, s, ok)
			if t.Failed() {
				t.Log(out)
			}
		})
	}
}
