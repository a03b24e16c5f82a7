package review

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// plans are recorded from real control planes by TestMakePlans.
var plans = []string{"create", "nothing", "drift", "upgrade", "replace", "grow", "shrink", "dead", "asked", "deferred"}

// document returns a plan of testdata that a test may change.
func document(t *testing.T, name string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".plan.json"))
	if err != nil {
		t.Fatal(err)
	}
	var d map[string]any
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// comment returns the comment on a plan.
func comment(t *testing.T, d map[string]any) string {
	t.Helper()
	return Markdown(Report{Title: "Plan", Plans: []NamedPlan{readPlan(t, "", d)}}, MaxComment)
}

// readPlan reads a plan as the plan of a cluster.
func readPlan(t *testing.T, name string, d map[string]any) NamedPlan {
	t.Helper()
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	plan := Read(name, text)
	if plan.Err != nil {
		t.Fatal(plan.Err)
	}
	return plan
}

// changeOf returns the change of one resource of a plan.
func changeOf(t *testing.T, d map[string]any, address string) map[string]any {
	t.Helper()
	for _, r := range d["resource_changes"].([]any) {
		if r := r.(map[string]any); r["address"] == address {
			return r["change"].(map[string]any)
		}
	}
	t.Fatalf("the plan has no %s", address)
	return nil
}

var update = flag.Bool("update", false, "write the golden files")

// TestComments compares comments with those of testdata.
func TestComments(t *testing.T) {
	for _, name := range plans {
		t.Run(name, func(t *testing.T) { golden(t, name+".md", comment(t, document(t, name))) })
	}
}

// golden compares a text with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the output differs from %s:\n%s", file, got)
	}
}

func TestUnreadable(t *testing.T) {
	const member = `"address": "kube_etcd_member.a", "mode": "managed", "type": "kube_etcd_member", ` +
		`"provider_name": "r/kubequorum/kube"`
	const source = `"address": "data.kube_control_plane.a", "mode": "data", "type": "kube_control_plane", ` +
		`"provider_name": "r/kubequorum/kube"`
	for name, text := range map[string]string{
		"nothing":  ``,
		"not JSON": `Terraform will perform the following actions`,
		"no plan":  `{"values": {}}`,
		"a state":  `{"format_version": "9.0"}`,
		"another drift": `{"format_version": "1.2", "resource_changes": [{` + member + `,
			"change": {"actions": ["no-op"], "before": {"drift": "LEAK"}}}]}`,
		"another data source": `{"format_version": "1.2", "prior_state": {"format_version": "1.0",
			"values": {"root_module": {"resources": [{` + source + `, "values": {"issues": "LEAK"}}]}}}}`,
	} {
		if _, err := Parse([]byte(text)); err == nil || strings.Contains(err.Error(), "LEAK") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// data adds the result of a data source in a module, where Terraform stores it.
func data(d map[string]any, kind string, values map[string]any) {
	root := d["prior_state"].(map[string]any)["values"].(map[string]any)["root_module"].(map[string]any)
	children, _ := root["child_modules"].([]any)
	root["child_modules"] = append(children, map[string]any{"address": "module.m", "resources": []any{map[string]any{
		"address": "module.m.data." + kind + ".this", "mode": "data", "type": kind, "name": "this",
		"provider_name": "registry.terraform.io/kubequorum/kube", "values": values,
	}}})
}

func TestDataSources(t *testing.T) {
	d := document(t, "nothing")
	data(d, "kube_production_readiness", map[string]any{"score": 17, "total": 20})
	issues := []any{"cp2: etcd does not answer @everyone", "the virtual IP is held by nobody"}
	data(d, "kube_control_plane", map[string]any{"healthy": false, "issues": issues})
	got := comment(t, d)
	for _, want := range []string{
		" · health: **2 issues** · production readiness **17 of 20**",
		"`module.m.data.kube_control_plane.this`: **2 issues**",
		"- `cp2: etcd does not answer @everyone`\n", "- `the virtual IP is held by nobody`\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the comment lacks %q:\n%s", want, got)
		}
	}
	d = document(t, "nothing")
	data(d, "kube_control_plane", map[string]any{"healthy": true, "issues": []any{}})
	if got := comment(t, d); !strings.Contains(got, "this`: healthy.\n") {
		t.Errorf("the comment does not say that the control plane is healthy:\n%s", got)
	}
}

// TestIssuesOnce checks that an issue that is already a finding is not repeated, and that a score
// names its data source.
func TestIssuesOnce(t *testing.T) {
	d := document(t, "asked")
	objects(d, func(holder map[string]any, values, _ string) {
		object := attributes(holder[values])
		if issues, ok := object["issues"].([]any); ok {
			object["issues"] = append(issues, "replica cp1 (10.89.0.11): kube-scheduler: kube-scheduler.service is inactive")
		}
	})
	data(d, "kube_production_readiness", map[string]any{"score": 19, "total": 20, "items": []any{
		map[string]any{"status": "pass", "title": "passes"},
		map[string]any{"status": "warn", "title": "warns <b>", "evidence": "`x`", "accepted": true},
		map[string]any{"status": "fail", "title": "fails", "evidence": "y"},
	}})
	got := comment(t, d)
	for _, want := range []string{
		"**1 finding on 1 machine** · 1 to change · health: **1 issue** · " +
			"production readiness **13 of 20**, **19 of 20**\n",
		"`data.kube_control_plane.this`: **2 issues**, 1 of them listed above. The others:\n\n- `replica cp1 (",
		"2 items not passed</summary>\n\n`module.m.data.kube_production_readiness.this`\n\n" +
			"- fail: fails: `y`\n- warn, accepted: warns &lt;b&gt;: `` `x` ``\n\n</details>\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the comment lacks %q:\n%s", want, got)
		}
	}
}

func TestOtherParts(t *testing.T) {
	d := document(t, "nothing")
	d["complete"] = false
	changes := d["resource_changes"].([]any)
	d["resource_changes"] = append(changes, map[string]any{
		"address": `random_password.a["x"]`, "mode": "managed", "type": "random_password", "name": "a",
		"provider_name": "registry.terraform.io/hashicorp/random",
		"change":        map[string]any{"actions": []any{"create"}, "before": nil, "after": map[string]any{"result": "LEAK"}},
	})
	member := changeOf(t, d, `kube_etcd_member.this["cp2"]`)
	member["actions"], member["before"] = []any{"create"}, nil
	d["resource_drift"] = []any{map[string]any{
		"address": `kube_etcd_member.this["cp2"]`, "mode": "managed", "type": "kube_etcd_member", "name": "this",
		"provider_name": "registry.terraform.io/kubequorum/kube",
		"change":        map[string]any{"actions": []any{"delete"}, "before": map[string]any{"name": "cp2"}, "after": nil},
	}}
	got := comment(t, d)
	for _, want := range []string{
		"The plan is **partial**", "- create: `random_password.a[\"x\"]`", "**1 finding on 1 machine** · 2 to create",
		"- **cp2**\n  - etcd: is missing: it existed after the last apply\n", "Members join one at a time",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the comment lacks %q:\n%s", want, got)
		}
	}
	d["errored"] = true
	if got := comment(t, d); !strings.Contains(got, "**Planning failed.**") || strings.Contains(got, "LEAK") {
		t.Errorf("the comment does not say that planning failed, or more than it may:\n%s", got)
	}
}

// TestHostileText checks text from a compromised machine.
func TestHostileText(t *testing.T) {
	d := document(t, "drift")
	before := changeOf(t, d, `kube_control_plane_replica.this["cp1"]`)["before"].(map[string]any)
	before["drift"] = []any{"cp1: x\n\n```\n<img src=https://example.com/a.png> @org/team " +
		"[click](https://example.com) `a` ``b``" + strings.Repeat("y", 5000)}
	objects(d, func(holder map[string]any, values, _ string) {
		if replicas := attributes(attributes(holder[values])["replicas"]); replicas != nil {
			replicas["cp1"].(map[string]any)["version"] = "1\"]\n```\nclick x href \"https://example.com\"<b>"
		}
	})
	got := comment(t, d)
	for line := range strings.Lines(got) {
		if strings.Contains(line, "<img") && !strings.HasPrefix(line, "  - replica: ```` x ``` <img") {
			t.Errorf("text of a machine is not code: %s", line)
		}
		label := strings.HasPrefix(line, `  p0r0["`) && strings.HasSuffix(line, "\"]:::drifted\n")
		label = label && !strings.Contains(line, "<b>") && strings.Count(line, `"`) == 2
		if strings.Contains(line, "click x href") && !label {
			t.Errorf("text of a machine leaves its label: %s", line)
		}
		if len(line) > 1000 {
			t.Errorf("text of a machine has %d characters", len(line))
		}
	}
	if strings.Count(got, "\n```mermaid\n") != 1 || strings.Count(got, "\n```\n") != 1 {
		t.Errorf("text of a machine ends the diagram:\n%s", got)
	}
}

// TestReasonsOfReplacements checks that a replacement names the changed argument that causes
// it.
func TestReasonsOfReplacements(t *testing.T) {
	d := document(t, "replace")
	change := changeOf(t, d, `kube_etcd_member.this["cp2"]`)
	change["after"].(map[string]any)["host"] = map[string]any{"address": "10.0.0.14"}
	got := comment(t, d)
	for _, want := range []string{
		"   - **cp2**: replaced\n", "   - **cp2**: replaced: machine address 10.89.0.12 → 10.0.0.14\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the comment lacks %q:\n%s", want, got)
		}
	}
}

// TestDowngradeIsNamed checks that an older minor version of etcd is called what it is, and an older patch
// release is not.
func TestDowngradeIsNamed(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"3.6.16", "3.5.35", "version 3.6.16 → 3.5.35 (the cluster is downgraded) (restarts)"},
		{"3.6.16", "3.6.15", "version 3.6.16 → 3.6.15 (restarts)"},
		{"3.5.35", "3.6.16", "version 3.5.35 → 3.6.16 (restarts)"},
		{"3.6.16", "older", "version 3.6.16 → older (restarts)"},
	} {
		d := document(t, "upgrade")
		change := changeOf(t, d, `kube_etcd_member.this["cp2"]`)
		change["actions"] = []any{"update"}
		change["before"].(map[string]any)["version"] = c.from
		change["after"].(map[string]any)["version"] = c.to
		if got := comment(t, d); !strings.Contains(got, c.want) {
			t.Errorf("the comment lacks %q:\n%s", c.want, got)
		}
	}
}

// TestExamples checks that the examples in the documents are a comment on the plan of testdata,
// with other addresses. The guide leaves lines out.
func TestExamples(t *testing.T) {
	replace := strings.NewReplacer("10.89.0.", "10.0.0.")
	want := replace.Replace(strings.TrimPrefix(comment(t, document(t, "drift")), "### Plan\n"))
	readme := readText(t, "..", "..", "examples", "drift-review", "README.md")
	if !strings.HasSuffix(readme, strings.ReplaceAll(want, "\n#### ", "\n##### ")) {
		t.Error("the example in examples/drift-review/README.md is not the comment of testdata/drift.md")
	}
	guide := readText(t, "..", "..", "templates", "guides", "drift-review.md")
	_, example, _ := strings.Cut(guide, "### Control plane: plan\n")
	example, _, _ = strings.Cut(example, "\n```\n")
	got := 0
	for line := range strings.Lines(example) {
		if line = strings.TrimSpace(line); line == "" || line == "…" {
			continue
		}
		got++
		if !strings.Contains(want, line) {
			t.Errorf("the guide's example has the line %q, which is not in the comment of testdata/drift.md", line)
		}
	}
	if got < 10 {
		t.Errorf("the guide's example has %d lines", got)
	}
}

func readText(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
