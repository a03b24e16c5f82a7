package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/load"
	"github.com/kubequorum/terraform-provider-kube/internal/soak/cut"
)

// healthInterval is how long a member must have been connected to all others after a change:
// before that, etcd refuses to remove a member (etcdserver.HealthInterval).
const healthInterval = 5 * time.Second

// waitHealthInterval waits until a member may leave immediately. Otherwise the provider would
// retry, each time with some commands, and most runs would not reach these points.
func (s *sweep) waitHealthInterval(ctx context.Context) error {
	return load.Sleep(ctx, time.Until(s.membersChanged.Add(healthInterval)))
}

// interrupt runs an operation up to the point, applies again if it was interrupted, and checks
// the result.
func (s *sweep) interrupt(ctx context.Context, t *track, p cut.Point) (cut.Log, error) {
	if err := s.put(ctx); err != nil {
		return cut.Log{}, fmt.Errorf("write a key: %w", err)
	}
	if err := s.prepare(ctx, t); err != nil {
		return cut.Log{}, err
	}
	h := s.newHunt()
	if err := h.collect(ctx, "before the apply"); err != nil {
		return cut.Log{}, err
	}
	log, output, err := s.operate(ctx, t, p)
	if err != nil {
		return log, err
	}
	h.texts["the output"] = []byte(output)
	if log.Cut {
		if err := h.collect(ctx, "after the cut"); err != nil {
			return log, err
		}
		if err := s.apply(ctx, t.repeatedArguments()...); err != nil {
			return log, fmt.Errorf("the apply after it: %w", err)
		}
	}
	s.resize(t.machines)
	if err := s.converged(ctx, t.operation); err != nil {
		return log, err
	}
	if err := h.collect(ctx, "after the next apply"); err != nil {
		return log, err
	}
	return log, h.search()
}

// prepare makes the conditions the same for each run of an operation: the steps on a machine depend
// on whether its member is the leader.
func (s *sweep) prepare(ctx context.Context, t *track) error {
	if t.afterHealthInterval {
		if err := s.waitHealthInterval(ctx); err != nil {
			return err
		}
	}
	if s.size > 0 {
		if err := eventually(ctx, clusterTimeout, time.Second, func(ctx context.Context) error {
			return s.machines(s.size).lead(ctx, t.leader)
		}); err != nil {
			return err
		}
	}
	if t.before != nil {
		if err := t.before(ctx); err != nil {
			return fmt.Errorf("before it: %w", err)
		}
	}
	return s.describe(t)
}

// operate runs the operation itself, with fault injection in the provider. It returns what the CLI
// wrote.
func (s *sweep) operate(ctx context.Context, t *track, p cut.Point) (log cut.Log, output string, err error) {
	path := filepath.Join(s.env.Dir, "commands.log")
	w := *s.work
	w.Log = filepath.Join(s.env.Dir, "trace.log")
	w.Env = append(p.Environment(path), "TMPDIR="+filepath.Join(s.env.Dir, temporaryDir))
	for _, file := range []string{path, w.Log} {
		if err := os.RemoveAll(file); err != nil {
			return log, "", err
		}
	}
	_, failure := w.Apply(ctx, io.Discard, append(t.repeatedArguments(), t.once...)...)
	s.membersChanged = time.Now()
	if failure != nil {
		output = failure.Error()
	}
	log, err = cut.ReadLog(path)
	switch {
	case err != nil:
		return log, output, err
	case log.Cut && failure == nil:
		return log, output, errors.New("the apply succeeded although its provider was killed")
	case !log.Cut && failure != nil:
		return log, output, fmt.Errorf("it failed although nothing was cut: %w", failure)
	case log.Commands == 0:
		return log, output, errors.New("it sent no command to any machine: nothing was tried")
	}
	return log, output, nil
}
