package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// testdata has plans that were recorded from real control planes.
const testdata = "../../internal/review/testdata/"

// files writes files below a directory. A file with a plan is a copy from testdata.
func files(t *testing.T, plans map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, plan := range plans {
		var text []byte
		if plan != "" {
			var err error
			if text, err = os.ReadFile(testdata + plan + ".plan.json"); err != nil {
				t.Fatal(err)
			}
		}
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestRun(t *testing.T) {
	stdin, err := os.ReadFile(testdata + "drift.plan.json")
	if err != nil {
		t.Fatal(err)
	}
	dir := files(t, map[string]string{
		"berlin.json": "drift", "paris.plan.json": "replace", "production/oslo/tfplan.json": "nothing",
		"failed/plan.json": "", "log.txt": "",
	})
	policy := filepath.Join(dir, "policy.yaml")
	for path, text := range map[string]string{
		policy:                            "repair: {max_machines: 3, restarts: true}",
		filepath.Join(dir, "none.policy"): "repair: {machines: 3}",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write := func(path string) string {
		if err := os.WriteFile(path, repairing(t), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	repair := write(filepath.Join(t.TempDir(), "repair.json"))
	oslo := dir + "/production/oslo/tfplan.json"
	fleet := []string{"| berlin |", "| paris |", "| production/oslo |", "| failed | | **planning failed**"}
	for name, test := range map[string]struct {
		args   []string
		status int
		want   []string // in the output, or in the messages if there is no output
	}{
		"standard input": {nil, 0, []string{"### Control plane: plan\n\n**5 findings on 3 machines**"}},
		"dash":           {[]string{"-"}, 0, []string{"**5 findings"}},
		"file": {
			[]string{"-title", "A", dir + "/paris.plan.json"},
			0,
			[]string{"### A\n\n**No drift** · 2 to replace"},
		},
		"named": {[]string{"a=" + dir + "/berlin.json"}, 0, []string{"**1 cluster**", "| a | 5 findings"}},
		"two files": {
			[]string{dir + "/berlin.json", dir + "/paris.plan.json"},
			0,
			[]string{"| berlin |", "| paris |"},
		},
		"directory": {[]string{dir}, 1, fleet},
		"missing file": {
			[]string{"a=" + dir + "/berlin.json", "b=" + dir + "/none.json"},
			1,
			[]string{"| a |", "| b | | **cannot be read**: `open "},
		},
		"missing plan": {[]string{dir + "/none.json"}, 1, []string{"**The plan cannot be read:** `open "}},
		"marker and log": {[]string{"-marker", "x/y", "-log", "https://x/1"}, 0, []string{
			"<!-- kube-review: x/y -->\n### ",
			"\n[Log](<https://x/1>)\n",
		}},
		"JSON": {
			[]string{"-format", "json", dir},
			1,
			[]string{`"format_version": "1.2"`, `"name": "production/oslo"`},
		},
		"reduced":               {[]string{"-format", "reduced"}, 0, []string{`{"kube_review_plan":"1","plan":{`}},
		"reduced fleet":         {[]string{"-format", "reduced", dir}, 2, []string{"for one plan, not 4"}},
		"reduced, no plan":      {[]string{"-format", "reduced", dir + "/failed/plan.json"}, 2, []string{"planning failed"}},
		"limit":                 {[]string{"-limit", "4096", dir}, 1, []string{"limited to 4096 characters"}},
		"policy, nothing to do": {[]string{"-policy", policy, oslo}, 0, []string{"\nNothing to apply.\n"}},
		"policy, applied":       {[]string{"-policy", policy, repair}, 3, []string{"**May be applied without a person**"}},
		"policy, asked":         {[]string{"-policy", policy}, 4, []string{"**A person decides** (other)"}},
		"policy, both applied":  {[]string{"-policy", policy, "a=" + oslo, "b=" + repair}, 3, []string{"**May be applied"}},
		"policy, one asked": {
			[]string{"-policy", policy, "-format", "json", "a=" + dir + "/berlin.json", "b=" + repair},
			4,
			[]string{`"automatic": true`, `"automatic": false`},
		},
		"policy, no plan":    {[]string{"-policy", policy, "a=" + repair, "b=" + dir + "/failed/plan.json"}, 1, nil},
		"policy, misspelled": {[]string{"-policy", dir + "/none.policy"}, 2, []string{`unknown field "machines"`}},
		"policy, missing":    {[]string{"-policy", dir + "/no.policy"}, 2, []string{"no such file"}},
		"policy, reduced":    {[]string{"-policy", policy, "-format", "reduced"}, 2, []string{"has no verdict"}},
		"version":            {[]string{"-version"}, 0, []string{"dev\n"}},
		"help":               {[]string{"-h"}, 0, []string{"Usage: kube-review", "Exit status:"}},
		"unknown flag":       {[]string{"-x"}, 2, []string{"flag provided but not defined: -x", "Usage:"}},
		"unknown format":     {[]string{"-format", "yaml"}, 2, []string{`unknown format "yaml"`}},
		"invalid marker":     {[]string{"-marker", "a-->"}, 2, []string{`invalid marker "a-->"`}},
		"invalid URL":        {[]string{"-log", "x"}, 2, []string{`invalid URL "x"`}},
		"small limit":        {[]string{"-limit", "1"}, 2, []string{"it must be at least 4096"}},
		"same name": {
			[]string{"a=" + dir + "/berlin.json", "a=" + dir + "/paris.plan.json"},
			2,
			[]string{`both plans of the cluster "a"`},
		},
		"no plan in there": {[]string{t.TempDir()}, 2, []string{"has no file *.json"}},
	} {
		var stdout, stderr bytes.Buffer
		status := run(test.args, bytes.NewReader(stdin), &stdout, &stderr)
		got := stdout.String()
		if got == "" {
			got = stderr.String()
		}
		if status != test.status {
			t.Errorf("%s: status %d, want %d: %s", name, status, test.status, stderr.String())
		}
		if status == 2 && stdout.Len() > 0 {
			t.Errorf("%s: it fails, and writes %.100s", name, stdout.String())
		}
		for _, want := range test.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: the output lacks %q:\n%.2000s", name, want, got)
			}
		}
	}
}

// TestDueTargets: each line is an argument, whatever a name has, and each plan's end with an empty one. The metrics
// are a file that others may read, and nothing is left beside it.
func TestDueTargets(t *testing.T) {
	var plan map[string]any
	if err := json.Unmarshal(repairing(t), &plan); err != nil {
		t.Fatal(err)
	}
	changes := plan["resource_changes"].([]any)
	const address = `module.m["a 'b'"].kube_control_plane_replica.this["$(cp2)"]`
	for _, r := range changes {
		r := r.(map[string]any)
		switch r["address"] {
		case `kube_control_plane_replica.this["cp2"]`:
			r["address"] = address
		case "kube_kubeconfig.admin": // somebody destroys it
			r["change"].(map[string]any)["actions"] = []any{"delete"}
		}
	}
	text, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	policy, metrics := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "plan.prom")
	if err := os.WriteFile(policy, []byte("repair: {max_machines: 1, restarts: true}"), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	if status := run([]string{"-policy", policy, "-due"}, bytes.NewReader(text), &stdout, &stderr); status != 0 {
		t.Fatalf("status %d: %s", status, stderr.String())
	}
	if want := "-target=" + address + "\n\n"; stdout.String() != want {
		t.Errorf("the targets are %q, want %q", stdout.String(), want)
	}
	args := []string{"-policy", policy, "-metrics", metrics, "-applied", "failed", "prod=-"}
	if status := run(args, bytes.NewReader(text), &stdout, &stderr); status != 4 {
		t.Fatalf("status %d: %s", status, stderr.String())
	}
	written, err := os.ReadFile(metrics)
	if err != nil || !strings.Contains(string(written), `kube_plan_apply_failed{cluster="prod"} 1`) {
		t.Errorf("the metrics are %s, %v", written, err)
	}
	info, err := os.Stat(metrics)
	entries, err2 := os.ReadDir(dir)
	if err != nil || err2 != nil || info.Mode().Perm() != 0o644 || len(entries) != 2 {
		t.Errorf("%v, %v, %v, %v", info.Mode(), entries, err, err2)
	}
}

// TestNames checks the names of clusters for the layouts that pipelines have.
func TestNames(t *testing.T) {
	dir := files(t, map[string]string{
		"a.json": "", "b.plan.json": "", "c/tfplan.json": "", "d/e/plan.json": "", "f/g.json": "",
	})
	paths, err := sourcesOf([]string{dir})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range paths {
		got = append(got, s.name)
	}
	if want := []string{"a", "b", "c", "d/e", "f/g"}; !slices.Equal(got, want) {
		t.Errorf("the names are %q, want %q", got, want)
	}
}

// repairing returns a plan that repairs one replica, with the values that this version of the
// provider plans.
func repairing(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile(testdata + "nothing.plan.json")
	if err != nil {
		t.Fatal(err)
	}
	var plan map[string]any
	if err := json.Unmarshal(text, &plan); err != nil {
		t.Fatal(err)
	}
	for _, r := range plan["resource_changes"].([]any) {
		r := r.(map[string]any)
		if r["address"] != `kube_control_plane_replica.this["cp2"]` {
			continue
		}
		change := r["change"].(map[string]any)
		before := change["before"].(map[string]any)
		before["drift"] = []any{"cp2 (10.89.0.12): kube-scheduler: kube-scheduler.service is inactive"}
		after := maps.Clone(before)
		after["drift"] = []any{}
		delete(after, "config_digest")
		change["actions"], change["after"] = []any{"update"}, after
		change["after_unknown"] = map[string]any{"config_digest": true}
	}
	if text, err = json.Marshal(plan); err != nil {
		t.Fatal(err)
	}
	return text
}
