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
	"strings"
	"syscall"
	"time"
)

// compile runs the go command on the pinned module. Its output goes to the
// log, which is removed again when all went well.
func compile(ctx context.Context, j job, programs []program, into string, show *progress) error {
	logName := j.work + ".log"
	log, err := os.Create(logName)
	if err != nil {
		return err
	}
	defer log.Close()

	ldflags := strings.Join(j.set.ldflags(j.version), " ")
	flags := []string{"-trimpath", "-ldflags", ldflags}
	var packages []string
	for _, p := range programs {
		packages = append(packages, p.pkg)
	}

	show.step("looking for what is to be compiled")
	list := append([]string{"list", "-deps", "-f", "{{if .Stale}}{{.ImportPath}}{{end}}"}, flags...)
	stale, err := goCommand(ctx, j.module, log, show, append(list, packages...))
	if err != nil {
		return fmt.Errorf("%w (whole output: %s)", err, logName)
	}
	show.expect(len(bytes.Fields(stale)))
	build := append([]string{"build", "-v", "-o", into + string(filepath.Separator)}, flags...)
	if _, err := goCommand(ctx, j.module, log, show, append(build, packages...)); err != nil {
		return fmt.Errorf("%w (whole output: %s)", err, logName)
	}
	return os.Remove(logName)
}

// ldflags are the linker's: no debugging tables, and the version stamp.
func (s set) ldflags(version string) []string {
	flags := []string{"-s", "-w"}
	if s.stamp != nil {
		flags = append(flags, s.stamp(version)...)
	}
	return flags
}

// goCommand runs the go command in dir, counts what it reports and returns its
// standard output. It can neither change the pins nor take sources from elsewhere.
func goCommand(ctx context.Context, dir string, log io.Writer, show *progress, args []string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-mod=readonly -buildvcs=false")
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
		fmt.Fprintln(log, lines.Text())
		switch classify(lines.Text()) {
		case downloaded:
			show.download()
		case compiled:
			show.compiled()
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

// report is what one line of the go command's standard error says.
type report int

const (
	heading    report = iota // "# package", before its complaints
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
