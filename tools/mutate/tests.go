package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// binary is the test binary of a package with all of its mutants.
type binary struct {
	dir, temporary string
	tests          []observedTest
}

// observedTest is a test of the original code.
type observedTest struct {
	name    string
	took    time.Duration
	reaches map[int]bool // mutants
}

const (
	// slow tests run only if the fast ones do not kill a mutant.
	slow = 500 * time.Millisecond
	// memory is the address space of a test in KiB: a mutant may allocate without end.
	memory = 8 << 20
)

func (b *binary) program() string { return filepath.Join(b.temporary, "mutants.test") }

// build compiles the tests with the changed files in place of the original ones.
func (b *binary) build(ctx context.Context, p *loaded, files map[string]string) error {
	replace := map[string]string{}
	for name, text := range files {
		at := filepath.Join(b.temporary, name)
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			return err
		}
		replace[filepath.Join(p.dir, name)] = at
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	at := filepath.Join(b.temporary, "overlay.json")
	if err := os.WriteFile(at, overlay, 0o600); err != nil {
		return err
	}
	command := exec.CommandContext(ctx, "go", "test", "-c", "-p=1", "-overlay", at, "-o", b.program(), ".")
	command.Dir = p.dir
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("go test -c: %w\n%s", err, output)
	}
	return nil
}

// observe runs each test once, and notes which mutants it reaches.
func (b *binary) observe(ctx context.Context, pattern string) error {
	output, err := b.run(ctx, time.Minute, nil, "-test.list", pattern)
	if err != nil {
		return fmt.Errorf("list the tests: %w\n%s", err, output)
	}
	for _, name := range strings.Fields(output) {
		if !strings.HasPrefix(name, "Test") || name == "TestMain" {
			continue
		}
		noted := filepath.Join(b.temporary, name)
		began := time.Now()
		output, err := b.run(ctx, time.Minute, []string{"MUTATE_REACHED=" + noted}, "-test.run", "^"+name+"$")
		if err != nil {
			return fmt.Errorf("%s fails without a mutant: %w\n%s", name, err, output)
		}
		t := observedTest{name: name, took: time.Since(began), reaches: map[int]bool{}}
		text, err := os.ReadFile(noted)
		if err != nil {
			return err
		}
		for _, line := range strings.Fields(string(text)) {
			id, _ := strconv.Atoi(line)
			t.reaches[id] = true
		}
		b.tests = append(b.tests, t)
	}
	return nil
}

// try runs the tests that reach a mutant. It returns their number, and those that fail.
func (b *binary) try(ctx context.Context, id int) (reached int, killers []string, err error) {
	var phases [2][]observedTest
	for _, t := range b.tests {
		if !t.reaches[id] {
			continue
		}
		reached++
		phase := 0
		if t.took > slow {
			phase = 1
		}
		phases[phase] = append(phases[phase], t)
	}
	for _, tests := range phases {
		if len(tests) == 0 || len(killers) > 0 {
			continue
		}
		if killers, err = b.kill(ctx, id, tests); err != nil {
			return 0, nil, err
		}
	}
	return reached, killers, nil
}

var failed = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)

func (b *binary) kill(ctx context.Context, id int, tests []observedTest) ([]string, error) {
	var names []string
	limit := 5 * time.Second
	for _, t := range tests {
		names, limit = append(names, t.name), limit+2*t.took
	}
	output, err := b.run(ctx, limit, []string{fmt.Sprint("MUTATE_MUTANT=", id)},
		"-test.run", "^("+strings.Join(names, "|")+")$")
	if err == nil {
		return nil, nil
	}
	var exit *exec.ExitError
	if ctx.Err() != nil || !errors.As(err, &exit) {
		return nil, errors.Join(err, ctx.Err())
	}
	var killers []string
	for _, f := range failed.FindAllStringSubmatch(output, -1) {
		killers = append(killers, f[1])
	}
	switch {
	case strings.Contains(output, "panic: test timed out"):
		killers = append(killers, "time limit")
	case strings.Contains(output, "\nout of memory") || strings.Contains(output, "cannot allocate memory"):
		killers = append(killers, "memory limit")
	case len(killers) == 0:
		killers = append(killers, "panic")
	}
	slices.Sort(killers)
	return slices.Compact(killers), nil
}

// run runs the test binary in the folder of the package.
func (b *binary) run(ctx context.Context, limit time.Duration, environment []string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit+time.Minute)
	defer cancel()
	args = append([]string{
		"-c", fmt.Sprintf(`ulimit -v %d && exec "$0" "$@"`, memory), b.program(),
		"-test.short", "-test.timeout", limit.String(),
	}, args...)
	command := exec.CommandContext(ctx, "sh", args...)
	command.Dir, command.Env = b.dir, append(os.Environ(), environment...)
	output, err := command.CombinedOutput()
	return string(output), err
}
