// Package bench measures the provider on lab machines. Each figure is compared with a reference
// from the same run.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/cache"
	"github.com/kubequorum/terraform-provider-kube/internal/jsonfile"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

const (
	labName = "bench"
	rounds  = 5 // of everything, each with the figure and its reference in turn; of the largest databases, see Size.rounds
	few     = 3 // machines of the measured control plane
	many    = 5 // machines that it is scaled to
)

// part is an independent measurement. One on machines replaces them first.
type part struct {
	name     string
	machines bool // it needs the lab
	// measure returns what it has measured, also before an error.
	measure func(context.Context, *bench) ([]Result, error)
}

func parts() []part {
	return []part{
		{"fleet", false, func(ctx context.Context, b *bench) ([]Result, error) { return b.fleet(ctx) }},
		{"certificates", false, func(ctx context.Context, b *bench) ([]Result, error) { return b.certificates(ctx) }},
		{"upgrade", true, func(ctx context.Context, b *bench) ([]Result, error) { return b.upgrades(ctx) }},
		{"control plane", true, func(ctx context.Context, b *bench) ([]Result, error) { return b.controlPlane(ctx) }},
		{"kubeadm", true, func(ctx context.Context, b *bench) ([]Result, error) { return b.kubeadm(ctx) }},
		{"restore", true, func(ctx context.Context, b *bench) ([]Result, error) { return b.restores(ctx) }},
		{"volume", true, func(ctx context.Context, b *bench) ([]Result, error) { return b.volumes(ctx) }},
		{"writes", true, func(ctx context.Context, b *bench) ([]Result, error) { return b.writes(ctx) }},
	}
}

// Run measures the parts whose names match only (nil means all), with databases of the sizes where they matter, prints
// the table to out and writes it as JSON to the file named by BENCH_OUT. Progress is written to log.
func Run(ctx context.Context, only *regexp.Regexp, sizes []Size, out, log io.Writer) error {
	chosen := slices.DeleteFunc(parts(), func(p part) bool { return only != nil && !only.MatchString(p.name) })
	if len(chosen) == 0 {
		return fmt.Errorf("no part matches %q", only)
	}
	base, err := cache.Dir()
	if err != nil {
		return err
	}
	b := &bench{dir: filepath.Join(base, "workspaces", labName), sizes: sizes, log: log}
	if b.run, err = newRun(ctx, os.Getenv("BENCH_OUT")); err != nil {
		return err
	}
	if err := os.RemoveAll(b.dir); err != nil { // state left by a run that was killed
		return fmt.Errorf("make room: %w", err)
	}
	defer os.RemoveAll(b.dir)
	if !slices.ContainsFunc(chosen, func(p part) bool { return p.machines }) {
		return b.measure(ctx, chosen, out)
	}
	if _, err := build.Components(ctx, newer.Etcd, newer.Kubernetes, older.Etcd, older.Kubernetes); err != nil {
		return err
	}
	config := lab.Config{
		Name:     labName,
		Subnet:   netip.MustParsePrefix("10.98.0.0/24"),
		Machines: []string{"cp1", "cp2", "cp3", "cp4", "cp5"},
		Log:      log,
	}
	return lab.With(ctx, config, func(l *lab.Lab) error {
		b.lab = l
		return b.measure(ctx, chosen, out)
	})
}

type bench struct {
	dir   string
	sizes []Size               // of the databases of "restore", "volume" and "writes"
	lab   *lab.Lab             // nil if no part needs machines
	work  *workspace.Workspace // of the measured control plane; as lab
	log   io.Writer
	run   jsonfile.Run[Result] // without results until the end

	maintenance map[string]any // of the members of "writes"; nil for none
}

// newRun returns a run without results. A run that is written to a file has a commit.
func newRun(ctx context.Context, file string) (run jsonfile.Run[Result], err error) {
	run.Date = time.Now().UTC().Truncate(time.Second)
	if file != "" {
		run.Commit, err = build.Commit(ctx)
	}
	return run, err
}

// renew replaces all machines by empty ones, and creates the workspace again: each round begins
// with nothing.
func (b *bench) renew(ctx context.Context) error {
	if err := b.rebuild(ctx); err != nil {
		return err
	}
	return b.open(ctx, "control-plane", func(w *workspace.Workspace) error { return w.Make(ctx, "control-plane", b.log) })
}

// rebuild replaces all machines by empty ones.
func (b *bench) rebuild(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, m := range b.lab.Machines() {
		group.Go(func() error { return m.Rebuild(ctx) })
	}
	return group.Wait()
}

// open makes the workspace again.
func (b *bench) open(ctx context.Context, name string, create func(*workspace.Workspace) error) error {
	dir := filepath.Join(b.dir, name)
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("make room: %w", err)
	}
	var err error
	if b.work, err = workspace.Open(ctx, b.lab, dir, ""); err != nil {
		return err
	}
	return create(b.work)
}

// measure measures the parts one after the other. It writes what there is after each part, and after one that fails:
// some take hours.
func (b *bench) measure(ctx context.Context, chosen []part, out io.Writer) error {
	var failed error
	for _, p := range chosen {
		measured, err := p.measure(ctx, b)
		b.run.Results = append(b.run.Results, measured...)
		if err != nil {
			failed = fmt.Errorf("%s: %w", p.name, err)
		}
		if failed != nil && len(b.run.Results) == 0 { // the file of an earlier run stays
			return failed
		}
		if err := errors.Join(failed, write(context.WithoutCancel(ctx), os.Getenv("BENCH_OUT"), &b.run)); err != nil {
			fmt.Fprint(out, Table(b.run.Results))
			return err
		}
	}
	fmt.Fprint(out, Table(b.run.Results))
	return nil
}

// first returns the first n machines.
func (b *bench) first(n int) []*lab.Machine { return b.lab.Machines()[:n] }

// want writes Terraform's variables: the control plane on the first n machines, with these
// additional flags of its API servers.
func (b *bench) want(n int, flags map[string]string) error {
	return b.work.WriteJSON("terraform.tfvars.json",
		map[string]any{"machines": b.work.Machines(n), "apiserver_extra_args": flags})
}

// planned measures a plan without changes.
func (b *bench) planned(ctx context.Context, w *workspace.Workspace, args ...string) (float64, error) {
	return timed(func() error {
		_, err := w.Run(ctx, append([]string{"plan", "-input=false", "-no-color", "-detailed-exitcode"}, args...)...)
		return err
	})
}

func timed(act func() error) (float64, error) {
	begun := time.Now()
	err := act()
	return time.Since(begun).Seconds(), err
}
