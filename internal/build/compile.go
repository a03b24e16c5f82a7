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
		if err := command.expectStale(ctx, nil, flags, mains); err != nil {
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

// expectStale shows how many packages must be compiled. more are flags of go list.
func (c goCommand) expectStale(ctx context.Context, more, flags, packages []string) error {
	c.show.step("listing the packages to compile")
	list := slices.Concat([]string{"list", "-deps", "-f", "{{if .Stale}}{{.ImportPath}}{{end}}"}, more, flags, packages)
	stale, err := c.run(ctx, list)
	if err == nil {
		c.show.expect(len(bytes.Fields(stale)))
	}
	return err
}

// compileTests makes the programs of tests. "go list -export" compiles what they import, because it reports that as
// "go build -v" does, and "go test -c" does not.
func (c goCommand) compileTests(ctx context.Context, flags, packages []string, into string) error {
	if err := c.expectStale(ctx, []string{"-test"}, flags, packages); err != nil {
		return err
	}
	compile := slices.Concat([]string{"list", "-v", "-export", "-deps", "-test", "-f", `{{""}}`}, flags, packages)
	if _, err := c.run(ctx, compile); err != nil {
		return err
	}
	test := slices.Concat([]string{"test", "-c", "-vet=off", "-o", into}, flags, packages)
	_, err := c.run(ctx, test)
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
