// Package testrun lets a test say why it does not run, so that a skip cannot count as a pass:
// either this computer lacks something, or another make target runs the test.
package testrun

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// The environment of the make targets.
const (
	requireEnv = "KUBE_TEST_REQUIRE" // "1": what is missing fails a test
	longEnv    = "KUBE_TEST_LONG"    // "1": long tests run
	skippedEnv = "KUBE_TEST_SKIPPED" // the file that lists skipped tests, one a line
)

// Missing skips a test because this computer lacks something. With KUBE_TEST_REQUIRE=1 it
// fails the test instead: a make target provides everything that its tests need.
func Missing(t testing.TB, what ...any) {
	t.Helper()
	text := fmt.Sprint(what...)
	if os.Getenv(requireEnv) == "1" {
		t.Fatalf("%s, and %s=1 requires it", text, requireEnv)
	}
	t.Skip(text)
}

// Elsewhere skips a test, and lists it with the reason, which says what runs it.
func Elsewhere(t testing.TB, reason string) {
	t.Helper()
	if err := list(t.Name(), reason); err != nil {
		t.Fatal(err)
	}
	t.Skip(reason)
}

// NotBuilt skips a test of a release that make test-long builds, and make test does not.
func NotBuilt(t testing.TB, release string) {
	t.Helper()
	if Longer() {
		Missing(t, release, " is not built")
	}
	Elsewhere(t, release+" is not built: make test-long builds it")
}

// Long skips a test unless KUBE_TEST_LONG=1. Everything it needs is then required.
func Long(t testing.TB) {
	t.Helper()
	if !Longer() {
		Elsewhere(t, "make test-long runs it")
	}
}

// Longer reports whether long tests run.
func Longer() bool { return os.Getenv(longEnv) == "1" }

// list appends a skipped test to the file that make prints at the end. One short write to a
// file that is open for appending is not mixed with those of other processes.
func list(test, reason string) error {
	path := os.Getenv(skippedEnv)
	if path == "" {
		return nil
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(file, "%s: %s\n", test, strings.ReplaceAll(reason, "\n", " ")); err != nil {
		_ = file.Close()
		return err
	}
	return file.Close()
}

// Slow skips a test with -short: make test runs it.
func Slow(t testing.TB) {
	t.Helper()
	if testing.Short() {
		Elsewhere(t, "make test runs it")
	}
}
