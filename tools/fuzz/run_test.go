// Package fuzz tests the script that runs the fuzz targets.
package fuzz

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// standIn takes the place of the go command: there is one package with one target, whose run prints $REPORT. Without
// -short, it fails: as root, packages would make labs.
const standIn = `#!/bin/sh
case "$*" in
list*) echo example.com/rules ;;
*-short*-list*) if [ -n "${BROKEN:-}" ]; then exit 1; fi; echo FuzzParse ;;
*-short*-fuzz=*) printf '%b' "$REPORT" ;;
*) exit 2 ;;
esac
`

// TestRun: a target passes only if it has executed inputs. go test passes one without any.
func TestRun(t *testing.T) {
	const (
		idle = "fuzz: elapsed: 3s, execs: 0 (0/sec), new interesting: 0 (total: 2)\n"
		busy = "fuzz: elapsed: 6s, execs: 5546 (1084/sec), new interesting: 30 (total: 32)\n"
	)
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "go"), []byte(standIn), 0o755); err != nil {
		t.Fatal(err)
	}
	run := func(variable string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "./run", "1s")
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), variable)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run("BROKEN=yes"); err == nil {
		t.Errorf("a package that does not compile passes: %s", out)
	}
	for report, want := range map[string]string{
		idle + busy + "PASS\n": "2 fuzz targets, 1s each",
		idle + "PASS\n":        "example.com/rules FuzzParse: no input was executed",
		"fuzz: elapsed: 0s, gathering baseline coverage: 0/2 completed\nPASS\n": "no input was executed",
		"ok": "no input was executed",
	} {
		out, err := run("REPORT=" + report)
		if passes := strings.HasSuffix(want, "each"); (err == nil) != passes || !strings.Contains(out, want) {
			t.Errorf("%q: %v\n%s\nwant: %s", report, err, out, want)
		}
	}
}
