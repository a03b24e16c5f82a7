package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// rules is a package with a rule, and a test that misses a part of it.
var rules = map[string]string{
	"go.mod": "module example.com/rules\n\ngo 1.24\n",
	"rules/rules.go": `package rules

import "errors"

type kind int

const (
	refuse kind = iota
	allow
)

// MayLeave refuses the last of a group, and a leader with a follower.
func MayLeave(n int, leads bool) error {
	if n <= 1 {
		return errors.New("it is the last")
	}
	if leads && n > 2 {
		return errors.New("it leads")
	}
	return nil
}

func decide(n int) kind {
	if MayLeave(n, false) != nil {
		return refuse
	}
	return allow
}

func words() string { return "words" }
`,
	"rules/rules_test.go": `package rules

import "testing"

func TestLast(t *testing.T) {
	if MayLeave(1, false) == nil || MayLeave(2, false) != nil || decide(1) != refuse || decide(2) != allow {
		t.Error("wrong")
	}
}
`,
	"tools/mutate/targets.txt": `# comment
package rules
score 100
rules.go -words
`,
	"tools/mutate/equivalent.txt": "rules/rules.go MayLeave: return nil → no such mutant | reason\n",
}

// TestMutants: the mutants of what the test checks are killed, those of the rest survive, and
// both lists are checked.
func TestMutants(t *testing.T) {
	root := t.TempDir()
	for name, text := range rules {
		at := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GOFLAGS", "")
	t.Setenv("GOWORK", "off")
	var out bytes.Buffer
	r := &report{out: &out}
	if err := run(t.Context(), root, "", nil, r); err != nil {
		t.Fatal(err)
	}
	if r.summary() {
		t.Error("a score below the minimum is accepted")
	}
	for _, want := range []string{
		`rules.go:15 MayLeave: return errors.New("it is the last") → return nil: killed by TestLast`,
		"rules.go:14 MayLeave: n <= 1 → n < 1: killed by TestLast",
		"rules.go:14 MayLeave: n <= 1 → … 1+1: killed by TestLast",
		"rules.go:14 MayLeave: n <= 1 → !(n <= 1): killed by TestLast",
		`rules.go:18 MayLeave: return errors.New("it leads") → return nil: SURVIVED, no test reaches it`,
		"rules.go:17 MayLeave: leads && n > 2 → leads || n > 2: SURVIVED",
		"rules.go:24 decide: MayLeave(n, false) != nil → MayLeave(n, false) == nil: killed by TestLast",
		"rules.go:25 decide: refuse → allow: killed by TestLast",
		"return nil → no such mutant is in equivalent.txt, but there is no such mutant",
		"the minimum is 100%",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in the report", want)
		}
	}
	if strings.Contains(out.String(), "words") {
		t.Error("a function is changed that does not decide")
	}
	if t.Failed() {
		t.Log(out.String())
	}
}

func TestTargetFile(t *testing.T) {
	only, without := fileOf("a.go", []string{"MayAdd"}), fileOf("a.go", []string{"-View.String"})
	if !only.includes("MayAdd") || only.includes("MayRemove") || !without.includes("MayAdd") ||
		without.includes("View.String") || !fileOf("a.go", nil).includes("MayAdd") {
		t.Error("a function counts that is not listed, or the reverse")
	}
}

func TestShort(t *testing.T) {
	if got := short("a &&\n\t\tb"); got != "a && b" {
		t.Errorf("%q", got)
	}
	if got := short(strings.Repeat("x", longest+1)); got != strings.Repeat("x", longest)+"…" {
		t.Errorf("%q", got)
	}
}

// TestLists verifies that the lists of this repository can be read.
func TestLists(t *testing.T) {
	targets, err := readTargets("targets.txt")
	if err != nil || !slices.ContainsFunc(targets, func(t target) bool { return t.pkg == "internal/etcd/membership" }) {
		t.Errorf("%v, %v", targets, err)
	}
	if _, err := readEquivalent("equivalent.txt"); err != nil {
		t.Error(err)
	}
}
