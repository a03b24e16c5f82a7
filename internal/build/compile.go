package build

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// compile runs the go command on the pinned module. Its output goes to the log, which is
// removed if the build succeeds.
func compile(ctx context.Context, j job, programs []program, into string, show *progress) error {
	logName := j.work + ".log"
	log, err := os.Create(logName)
	if err != nil {
		return err
	}
	defer log.Close()

	// Without cgo, the programs run on machines with any C library.
	command := goCommand{dir: j.module, env: []string{"CGO_ENABLED=0"}, log: log, show: show}
	ldflags := strings.Join(j.set.ldflags(j.version), " ")
	flags := []string{"-trimpath", "-ldflags", ldflags}
	into += string(filepath.Separator)
	mains, tests := packagesOf(programs)
	if len(mains) > 0 {
		if _, err := command.expectStale(ctx, nil, flags, mains); err != nil {
			return fmt.Errorf("%w (whole output: %s)", err, logName)
		}
		build := append([]string{"build", "-v", "-o", into}, flags...)
		if _, err := command.run(ctx, append(build, mains...)); err != nil {
			return fmt.Errorf("%w (whole output: %s)", err, logName)
		}
	}
	if len(tests) > 0 {
		if err := command.compileTests(ctx, flags, tests, into); err != nil {
			return fmt.Errorf("%w (whole output: %s)", err, logName)
		}
	}
	return os.Remove(logName)
}

// packagesOf returns the main packages of programs, and the packages whose tests are one.
func packagesOf(programs []program) (mains, tests []string) {
	for _, p := range programs {
		if p.test {
			tests = append(tests, p.pkg)
		} else {
			mains = append(mains, p.pkg)
		}
	}
	return mains, tests
}

// expectStale lists the packages that must be compiled, and shows how many there are.
func (c goCommand) expectStale(ctx context.Context, more, flags, packages []string) ([]string, error) {
	c.show.step("listing the packages to compile")
	list := slices.Concat([]string{"list", "-deps", "-f", "{{if .Stale}}{{.ImportPath}}{{end}}"}, more, flags, packages)
	out, err := c.run(ctx, list)
	if err != nil {
		return nil, err
	}
	stale := stalePackages(string(out))
	c.show.expect(len(stale))
	return stale, nil
}

// stalePackages reads what go list prints. Variants of packages for a test, and the program of a test, have
// no import path of their own.
func stalePackages(list string) []string {
	var stale []string
	for line := range strings.Lines(list) {
		if line = strings.TrimSpace(line); line != "" && !strings.Contains(line, " ") && !strings.HasSuffix(line, ".test") {
			stale = append(stale, line)
		}
	}
	return stale
}

// compileTests makes the programs of tests. What they import is compiled first, because go test does not report
// what it compiles.
func (c goCommand) compileTests(ctx context.Context, flags, packages []string, into string) error {
	stale, err := c.expectStale(ctx, []string{"-test"}, flags, packages)
	if err != nil {
		return err
	}
	if len(stale) > 0 {
		build := append([]string{"build", "-v", "-o", os.DevNull}, flags...)
		if _, err := c.run(ctx, append(build, stale...)); err != nil {
			return err
		}
	}
	c.show.step("linking the tests")
	test := append([]string{"test", "-c", "-vet=off", "-o", into}, flags...)
	_, err = c.run(ctx, append(test, packages...))
	return err
}

// ldflags returns the linker flags: no debugging tables, and the version stamp.
func (s set) ldflags(version string) []string {
	flags := []string{"-s", "-w"}
	if s.stamp != nil {
		flags = append(flags, s.stamp(version)...)
	}
	return flags
}

// goCommand defines how the go command is run. It can neither change the pins nor take sources
// from elsewhere.
type goCommand struct {
	dir  string
	env  []string
	log  io.Writer // receives its whole standard error
	show *progress
}

// run counts what the go command reports and returns its standard output.
func (c goCommand) run(ctx context.Context, args []string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = c.dir
	cmd.Env = slices.Concat(os.Environ(), []string{"GOWORK=off", "GOFLAGS=-mod=readonly -buildvcs=false"}, c.env)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = 5 * time.Second
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	complaint := ""
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		fmt.Fprintln(c.log, lines.Text())
		switch classify(lines.Text()) {
		case downloaded:
			c.show.download()
		case compiled:
			c.show.compiled()
		case complained:
			if complaint == "" {
				complaint = lines.Text()
			}
		}
	}
	if err := cmd.Wait(); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("go %s: %w: %s", args[0], err, complaint)
	}
	return stdout.Bytes(), nil
}

// report is the kind of a line in the go command's standard error.
type report int

const (
	heading    report = iota // "# package", before its errors
	downloaded               // "go: downloading module version"
	compiled                 // "package", by -v
	complained
)

func classify(line string) report {
	switch {
	case strings.HasPrefix(line, "go: downloading "):
		return downloaded
	case strings.HasPrefix(line, "# "):
		return heading
	case line != "" && !strings.ContainsAny(line, " \t:"):
		return compiled
	default:
		return complained
	}
}
