package build

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// newJob returns a set of two small programs, to be built by the real go command.
func newJob(t *testing.T, source string) job {
	t.Helper()
	module, cacheDir := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"go.mod":      "module example.com/tiny\n\ngo 1.26.0\n",
		"one/main.go": source,
		"v2/main.go":  "package main\n\nfunc main() {}\n",

		"judge/judge.go":      "package judge\n\nconst Verdict = \"\"\n",
		"judge/judge_test.go": "package judge_test\n\n" + printsVerdict,
	} {
		file := filepath.Join(module, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s := set{
		name: "tiny", kind: component,
		programs: []program{
			{name: "one", pkg: "example.com/tiny/one"},
			{name: "two", pkg: "example.com/tiny/v2"},
			{name: "judge.test", pkg: "example.com/tiny/judge", test: true},
		},
		stamp: func(version string) []string { return []string{"-X", "main.version=" + version} },
	}
	return job{
		set: s, version: "1.2.3", module: module,
		dir:  s.directory(cacheDir, "1.2.3"),
		work: filepath.Join(cacheDir, "build", "tiny-v1.2.3"),
	}
}

const printsVersion = "package main\n\nvar version string\n\nfunc main() { print(version) }\n"

const printsVerdict = `import (
	"os"
	"testing"

	"example.com/tiny/judge"
)

func TestMain(*testing.M) { os.Stdout.WriteString("verdict" + judge.Verdict) }
`

func TestEnsureBuildsWhatIsMissing(t *testing.T) {
	j := newJob(t, printsVersion)
	ctx := t.Context()
	if err := os.MkdirAll(j.work+".part/left-behind", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := j.ensure(ctx); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(ctx, filepath.Join(j.dir, "one")).CombinedOutput()
	if err != nil || string(out) != "1.2.3" {
		t.Errorf("the built program says %q, %v", out, err)
	}
	out, err = exec.CommandContext(ctx, filepath.Join(j.dir, "judge.test")).CombinedOutput()
	if err != nil || string(out) != "verdict" {
		t.Errorf("the built tests say %q, %v", out, err)
	}
	if missing := j.missing(); len(missing) != 0 {
		t.Errorf("missing after the build: %v", missing)
	}
	for _, name := range []string{j.work + ".part", j.work + ".log"} {
		if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left behind", name)
		}
	}

	before := modified(t, j, "one")
	if err := os.Remove(filepath.Join(j.dir, "two")); err != nil {
		t.Fatal(err)
	}
	if err := j.ensure(ctx); err != nil {
		t.Fatal(err)
	}
	if len(j.missing()) != 0 || modified(t, j, "one") != before {
		t.Error("the second build did not build the missing program only")
	}
}

func modified(t *testing.T, j job, name string) int64 {
	t.Helper()
	info, err := os.Stat(filepath.Join(j.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return info.ModTime().UnixNano()
}

func TestEnsureByTwoAtOnce(t *testing.T) {
	j := newJob(t, printsVersion)
	var both sync.WaitGroup
	errs := make([]error, 2)
	for i := range errs {
		both.Go(func() { errs[i] = j.ensure(t.Context()) })
	}
	both.Wait()
	if err := errors.Join(errs...); err != nil || len(j.missing()) != 0 {
		t.Errorf("err %v, missing %v", err, j.missing())
	}
}

func TestEnsureFailure(t *testing.T) {
	j := newJob(t, "package main\n\nfunc main() { undefinedFunction() }\n")
	err := j.ensure(t.Context())
	if err == nil || !strings.Contains(err.Error(), "undefined: undefinedFunction") {
		t.Fatalf("the failure does not name its cause: %v", err)
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("the failure is more than one line: %v", err)
	}
	log, readErr := os.ReadFile(j.work + ".log")
	if readErr != nil || !strings.Contains(string(log), "undefinedFunction") ||
		!strings.Contains(err.Error(), j.work+".log") {
		t.Errorf("the failure does not lead to the whole output: %v, %v", err, readErr)
	}
	if len(j.missing()) != len(j.set.programs) {
		t.Error("a failed build left programs behind")
	}
}

func TestEnsureCancelled(t *testing.T) {
	j := newJob(t, printsVersion)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := j.ensure(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("ensure = %v, want %v", err, context.Canceled)
	}
}

func TestClassify(t *testing.T) {
	for line, want := range map[string]report{
		"go: downloading k8s.io/api v0.36.3":          downloaded,
		"k8s.io/kubernetes/cmd/kubectl":               compiled,
		"internal/goarch":                             compiled,
		"# example.com/tiny/one":                      heading,
		"one/main.go:3:15: undefined: missing":        complained,
		"go: example.com/x@v1.0.0: not found":         complained,
		"package example.com/x is not in std":         complained,
		"go: updates to go.mod needed; to update it:": complained,
	} {
		if got := classify(line); got != want {
			t.Errorf("classify(%q) = %v, want %v", line, got, want)
		}
	}
}

func TestStateString(t *testing.T) {
	for want, s := range map[string]state{
		"waiting":                            {step: "waiting"},
		"12 modules downloaded":              {step: "waiting", downloads: 12},
		"4 packages compiled":                {downloads: 12, packages: 4},
		"3 of 10 packages compiled":          {downloads: 12, packages: 3, outOf: 10},
		"all 10 packages compiled, linking…": {packages: 10, outOf: 10},
	} {
		if got := s.String(); got != want {
			t.Errorf("%+v says %q, want %q", s, got, want)
		}
	}
}
