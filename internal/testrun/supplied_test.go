package testrun

import (
	"os"
	"path/filepath"
	"testing"
)

func TestSupplied(t *testing.T) {
	const variable = "KUBE_TEST_SUPPLIED"
	list := filepath.Join(t.TempDir(), "skipped")
	t.Setenv(skippedEnv, list)
	t.Setenv(requireEnv, "1")
	supplied := func(t testing.TB) { Supplied(t, variable) }
	if got := endOf(supplied); got != "skipped: "+variable+" is not set to the path of a program" {
		t.Error(got)
	}
	if text, err := os.ReadFile(list); err != nil || len(text) == 0 {
		t.Errorf("the skipped test is not listed: %q, %v", text, err)
	}
	program := filepath.Join(t.TempDir(), "program")
	t.Setenv(variable, program)
	if got := endOf(supplied); got == "" || got[:7] != "failed:" {
		t.Errorf("a program that is not there: %s", got)
	}
	if err := os.WriteFile(program, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := Supplied(t, variable); got != program {
		t.Error(got)
	}
}
