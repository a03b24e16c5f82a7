package testrun

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// recorder stands for a test that says why it does not run.
type recorder struct {
	testing.TB
	ended string
}

func (*recorder) Helper()      {}
func (*recorder) Name() string { return "TestRecorded" }

func (r *recorder) Skip(args ...any)          { r.end("skipped: " + fmt.Sprint(args...)) }
func (r *recorder) Fatal(args ...any)         { r.end("failed: " + fmt.Sprint(args...)) }
func (r *recorder) Fatalf(f string, a ...any) { r.end("failed: " + fmt.Sprintf(f, a...)) }
func (r *recorder) end(how string)            { r.ended = how; runtime.Goexit() }
func endOf(test func(testing.TB)) (how string) {
	r := &recorder{}
	done := make(chan struct{})
	go func() { defer close(done); test(r) }()
	<-done
	return r.ended
}

func TestMissing(t *testing.T) {
	missing := func(t testing.TB) { Missing(t, "no lab: ", "not root") }
	t.Setenv(requireEnv, "")
	if got := endOf(missing); got != "skipped: no lab: not root" {
		t.Error(got)
	}
	t.Setenv(requireEnv, "1")
	if got := endOf(missing); got != "failed: no lab: not root, and KUBE_TEST_REQUIRE=1 requires it" {
		t.Error(got)
	}
}

func TestLong(t *testing.T) {
	path := filepath.Join(t.TempDir(), "skipped")
	t.Setenv(requireEnv, "1")
	t.Setenv(skippedEnv, path)
	t.Setenv(longEnv, "")
	for range 2 {
		if got := endOf(Long); got != "skipped: make test-long runs it" {
			t.Error(got)
		}
	}
	const line = "TestRecorded: make test-long runs it\n"
	if text, err := os.ReadFile(path); err != nil || string(text) != line+line {
		t.Errorf("%q, %v", text, err)
	}
	t.Setenv(longEnv, "1")
	if got := endOf(Long); got != "" {
		t.Error(got)
	}
	t.Setenv(longEnv, "")
	t.Setenv(skippedEnv, t.TempDir())
	if got := endOf(Long); got == "" || got[:7] != "failed:" {
		t.Errorf("a list that cannot be written: %s", got)
	}
}
