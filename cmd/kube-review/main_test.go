package main

import (
	"bytes"
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
			[]string{`"format_version": "1.0"`, `"name": "production/oslo"`},
		},
		"reduced":          {[]string{"-format", "reduced"}, 0, []string{`{"kube_review_plan":"1","plan":{`}},
		"reduced fleet":    {[]string{"-format", "reduced", dir}, 2, []string{"for one plan, not 4"}},
		"reduced, no plan": {[]string{"-format", "reduced", dir + "/failed/plan.json"}, 2, []string{"planning failed"}},
		"limit":            {[]string{"-limit", "4096", dir}, 1, []string{"limited to 4096 characters"}},
		"version":          {[]string{"-version"}, 0, []string{"dev\n"}},
		"help":             {[]string{"-h"}, 0, []string{"Usage: kube-review", "Exit status:"}},
		"unknown flag":     {[]string{"-x"}, 2, []string{"flag provided but not defined: -x", "Usage:"}},
		"unknown format":   {[]string{"-format", "yaml"}, 2, []string{`unknown format "yaml"`}},
		"invalid marker":   {[]string{"-marker", "a-->"}, 2, []string{`invalid marker "a-->"`}},
		"invalid URL":      {[]string{"-log", "x"}, 2, []string{`invalid URL "x"`}},
		"small limit":      {[]string{"-limit", "1"}, 2, []string{"it must be at least 4096"}},
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
