// Package bench measures the provider on lab machines. Each figure is compared with a reference
// from the same run.
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
	rounds  = 3 // each figure is the median of this many
	few     = 3 // machines of the measured control plane
	many    = 5 // machines that it is scaled to
)

// part is an independent measurement. One on machines starts with bare ones, and leaves them
// bare unless it is the last of these.
type part struct {
	name     string
	machines bool // it needs the lab
	measure  func(context.Context, *bench) ([]Result, error)
}

func parts() []part {
	return []part{
		{"fleet", false, func(ctx context.Context, b *bench) ([]Result, error) { return b.fleet(ctx) }},
		{"certificates", false, func(ctx context.Context, b *bench) ([]Result, error) { return certificates(ctx, b.log) }},
		{"upgrade", true, func(ctx context.Context, b *bench) ([]Result, error) { return b.upgrades(ctx) }},
		{"control plane", true, func(ctx context.Context, b *bench) ([]Result, error) { return b.controlPlane(ctx) }},
	}
}

// Run measures the parts whose names match only (nil means all), prints the table to out and
// writes it as JSON to the file named by BENCH_OUT. Progress is written to log.
func Run(ctx context.Context, only *regexp.Regexp, out, log io.Writer) error {
	chosen := slices.DeleteFunc(parts(), func(p part) bool { return only != nil && !only.MatchString(p.name) })
	if len(chosen) == 0 {
		return fmt.Errorf("no part matches %q", only)
	}
	base, err := cache.Dir()
	if err != nil {
		return err
	}
	b := &bench{dir: filepath.Join(base, "workspaces", labName), log: log}
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
		if err := b.open(ctx, l); err != nil {
			return err
		}
		return b.measure(ctx, chosen, out)
	})
}

type bench struct {
	dir  string
	lab  *lab.Lab             // nil if no part needs machines
	work *workspace.Workspace // as lab
	log  io.Writer
}

// open creates the workspace of the measured control plane.
func (b *bench) open(ctx context.Context, l *lab.Lab) (err error) {
	b.lab = l
	if b.work, err = workspace.Open(ctx, l, filepath.Join(b.dir, "control-plane"), ""); err != nil {
		return err
	}
	return b.work.Make(ctx, "control-plane", b.log)
}

// measure measures the parts one after the other and writes the results.
func (b *bench) measure(ctx context.Context, chosen []part, out io.Writer) error {
	var results []Result
	for _, p := range chosen {
		measured, err := p.measure(ctx, b)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		results = append(results, measured...)
	}
	fmt.Fprint(out, Table(results))
	return write(os.Getenv("BENCH_OUT"), results)
}

// controlPlane measures the first apply, plans, memory, and the day-2 operations.
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
	terraform, err := b.dayTwo(ctx)
	if err != nil {
		return nil, err
	}
	script, err := b.byHand(ctx)
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
	}, compare(terraform, script)), nil
}

// applies measures the apply of the whole control plane on bare machines that have the programs
// and packages. The control plane is destroyed between rounds.
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

// first returns the first n machines.
func (b *bench) first(n int) []*lab.Machine { return b.lab.Machines()[:n] }

// want writes Terraform's variables: the control plane on the first n machines, with these
// additional flags of its API servers.
func (b *bench) want(n int, flags map[string]string) error {
	return b.work.WriteJSON("terraform.tfvars.json",
		map[string]any{"machines": b.work.Machines(n), "apiserver_extra_args": flags})
}

// plans measures a plan of the control plane without changes.
func (b *bench) plans(ctx context.Context) ([]float64, error) {
	return b.planned(ctx, b.work)
}

// planned measures plans without changes.
func (b *bench) planned(ctx context.Context, w *workspace.Workspace, args ...string) ([]float64, error) {
	var took []float64
	for range rounds {
		seconds, err := timed(func() error {
			_, err := w.Run(ctx, append([]string{"plan", "-input=false", "-no-color", "-detailed-exitcode"}, args...)...)
			return err
		})
		if err != nil {
			return nil, err
		}
		took = append(took, seconds)
	}
	return took, nil
}

// terraformData measures a plan of the same number of terraform_data resources: the time that
// Terraform itself needs.
func (b *bench) terraformData(ctx context.Context) ([]float64, error) {
	return b.trivial(ctx, 1)
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
