// Package bench measures the provider on lab machines, each figure against a
// reference from the same run.
package bench

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/cache"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

const (
	labName = "bench"
	rounds  = 3 // each figure is the median of so many
	few     = 3 // machines of the control plane that is measured
	many    = 5 // machines of the one that it is scaled to
)

// part is a measurement that needs none of the others. It finds bare machines;
// only the last one on machines need not leave them so.
type part struct {
	name    string
	measure func(context.Context, *bench) ([]Result, error)
}

func parts() []part {
	return []part{
		{"upgrade", func(ctx context.Context, b *bench) ([]Result, error) { return b.upgrades(ctx) }},
		{"control plane", func(ctx context.Context, b *bench) ([]Result, error) { return b.controlPlane(ctx) }},
		{"certificates", func(ctx context.Context, b *bench) ([]Result, error) { return certificates(ctx, b.log) }},
	}
}

// Run measures the parts whose names match only, or all for nil, prints the table
// on out and writes it as JSON to the file named by BENCH_OUT. Progress goes to log.
func Run(ctx context.Context, only *regexp.Regexp, out, log io.Writer) (err error) {
	if _, err := build.Components(ctx, newer.Etcd, newer.Kubernetes, older.Etcd, older.Kubernetes); err != nil {
		return err
	}
	l, err := lab.Up(ctx, lab.Config{
		Name:     labName,
		Subnet:   netip.MustParsePrefix("10.98.0.0/24"),
		Machines: []string{"cp1", "cp2", "cp3", "cp4", "cp5"},
	}, log)
	if err != nil {
		return err
	}
	if err := lab.Enter(l); err != nil { // everything needed from outside is there
		return err
	}
	defer func() {
		if down := l.Destroy(context.WithoutCancel(ctx)); err == nil {
			err = down
		}
	}()
	base, err := cache.Dir()
	if err != nil {
		return err
	}
	dir := filepath.Join(base, "workspaces", labName)
	defer os.RemoveAll(dir)
	w, err := workspace.Open(ctx, l, dir, "")
	if err != nil {
		return err
	}
	if err := w.Make(ctx, "control-plane", log); err != nil {
		return err
	}
	b := &bench{lab: l, work: w, log: log}
	results, err := b.measure(ctx, only)
	if err != nil {
		return err
	}
	fmt.Fprint(out, Table(results))
	return write(os.Getenv("BENCH_OUT"), results)
}

type bench struct {
	lab  *lab.Lab
	work *workspace.Workspace
	log  io.Writer
}

// measure takes the parts one after the other.
func (b *bench) measure(ctx context.Context, only *regexp.Regexp) ([]Result, error) {
	var results []Result
	for _, p := range parts() {
		if only != nil && !only.MatchString(p.name) {
			continue
		}
		found, err := p.measure(ctx, b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		results = append(results, found...)
	}
	if len(results) == 0 {
		return nil, fmt.Errorf("no part is named like %q", only)
	}
	return results, nil
}

// controlPlane measures the first apply, plans, memory, and the steps of day 2.
func (b *bench) controlPlane(ctx context.Context) ([]Result, error) {
	memory := watch(b.work.ProviderPath())
	applies, err := b.applies(ctx)
	if err != nil {
		return nil, err
	}
	plans, err := b.plans(ctx)
	if err != nil {
		return nil, err
	}
	peak := memory.stop()
	ours, err := b.dayTwo(ctx)
	if err != nil {
		return nil, err
	}
	theirs, err := b.byHand(ctx)
	if err != nil {
		return nil, err
	}
	lowest, err := b.floors(ctx)
	if err != nil {
		return nil, err
	}
	bare, err := b.terraformData(ctx)
	if err != nil {
		return nil, err
	}
	return slices.Concat([]Result{
		figure("floor: processes started by a script, until all API servers are ready", median(lowest.serving), "s"),
		figure("floor: the same, until everything is ready and the virtual IP answers", median(lowest.whole), "s"),
		ratio("terraform apply, three replicas, against the first floor", median(applies), median(lowest.serving), 1.5, "s"),
		difference("terraform plan, nothing to do", median(plans), median(bare), 1, "s"),
		figure("peak memory of the provider", peak, "MiB"),
	}, compare(ours, theirs)), nil
}

// applies measures the apply of the whole control plane on bare machines with
// the programs and packages there, destroyed between the rounds.
func (b *bench) applies(ctx context.Context) ([]float64, error) {
	if err := b.want(few, map[string]string{}); err != nil {
		return nil, err
	}
	var took []float64
	for round := range rounds {
		if round > 0 {
			if _, err := b.work.Apply(ctx, io.Discard, "-destroy"); err != nil {
				return nil, err
			}
		}
		if err := b.prepare(ctx, b.first(few), newer); err != nil {
			return nil, err
		}
		seconds, err := timed(func() error {
			_, err := b.work.Apply(ctx, b.log)
			return err
		})
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(b.log, "apply, round %d of %d: %.2f s\n", round+1, rounds, seconds)
		took = append(took, seconds)
	}
	return took, nil
}

// first gives the first n machines.
func (b *bench) first(n int) []*lab.Machine { return b.lab.Machines()[:n] }

// want writes Terraform's variables: the control plane on the first n machines,
// its API servers with these further flags.
func (b *bench) want(n int, flags map[string]string) error {
	return b.work.WriteJSON("terraform.tfvars.json", map[string]any{"machines": b.work.Machines(n), "apiserver_extra_args": flags})
}

// plans measures a plan of the control plane with nothing to do.
func (b *bench) plans(ctx context.Context) ([]float64, error) {
	return b.planned(ctx, b.work)
}

func (b *bench) planned(ctx context.Context, w *workspace.Workspace) ([]float64, error) {
	var took []float64
	for range rounds {
		seconds, err := timed(func() error {
			_, err := w.Run(ctx, "plan", "-input=false", "-no-color", "-detailed-exitcode")
			return err
		})
		if err != nil {
			return nil, err
		}
		took = append(took, seconds)
	}
	return took, nil
}

// terraformData measures a plan of as many terraform_data resources: what
// Terraform needs for itself.
func (b *bench) terraformData(ctx context.Context) ([]float64, error) {
	dir := filepath.Join(b.work.Dir, "terraform-data")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make comparison: %w", err)
	}
	const text = "resource \"terraform_data\" \"this\" {\n  count = 9\n  input = count.index\n}\n"
	if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("make comparison: %w", err)
	}
	w, err := workspace.Open(ctx, b.lab, dir, "")
	if err != nil {
		return nil, err
	}
	if _, err := w.Run(ctx, "init", "-input=false"); err != nil {
		return nil, err
	}
	if _, err := w.Apply(ctx, io.Discard); err != nil {
		return nil, err
	}
	return b.planned(ctx, w)
}

func timed(act func() error) (float64, error) {
	begun := time.Now()
	err := act()
	return time.Since(begun).Seconds(), err
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}
