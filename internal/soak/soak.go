// Package soak runs long tests on lab machines: a control plane is changed, interrupted and
// broken in many ways, and must converge each time.
package soak

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/cache"
	"github.com/kubequorum/terraform-provider-kube/internal/jsonfile"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
)

// The lab, if no other is named.
const (
	DefaultName   = "soak"
	DefaultSubnet = "10.99.0.0/24"
)

var machineNames = []string{"cp1", "cp2", "cp3"}

// errFailed means that some attempts failed.
var errFailed = errors.New("not everything passed")

// Scenario is one test. To add a test, add an entry to Scenarios.
type Scenario struct {
	Name   string
	Builds []string // what it needs in addition to one release of each product, by package build's names
	// Run returns one result per attempted operation. If it cannot be completed, it returns an
	// error and the results so far.
	Run func(ctx context.Context, e *Env) ([]Result, error)
}

// Env is the environment of a scenario.
type Env struct {
	Lab    *lab.Lab // three bare machines; more can be added
	Dir    string   // empty, for workspaces; removed afterwards
	Log    io.Writer
	Random *rand.Rand
	Sample int // number of attempts, for tests that are never exhaustive
	Points int // number of points at which each operation is interrupted; 0: all
	Steps  int // number of edits in a random sequence
	Every  int // interrupt at every n-th command or request; 1: all

	record *record // of the points that were cut; may be nil
}

// defaultSample is the number of attempts of tests that are never exhaustive.
const defaultSample = 5

// Options select what is run.
type Options struct {
	Name   string         // of the lab
	Subnet netip.Prefix   // of its network
	Only   *regexp.Regexp // matches scenarios' names; nil: all
	Sample int            // 0: the default of tests that are never exhaustive, and every point of the others
	Steps  int
	Every  int
	Seed   uint64
	Out    string // file for the results as JSON; "" for none
	Cursor string // file with the points that were cut; "" for none
}

// Run runs scenarios one after the other, each on fresh machines, and prints the results to
// out. Progress is written to log.
func Run(ctx context.Context, o Options, out, log io.Writer) error {
	chosen := choose(Scenarios(), o.Only)
	if len(chosen) == 0 {
		return fmt.Errorf("no scenario matches %q", o.Only)
	}
	run, err := newRun(ctx, o)
	if err != nil {
		return err
	}
	if _, err := build.Components(ctx, needed(chosen)...); err != nil {
		return err
	}
	unlock, err := lockRecord(ctx, o.Cursor)
	if err != nil {
		return err
	}
	defer unlock()
	record, err := openRecord(ctx, o.Cursor)
	if err != nil {
		return err
	}
	config := lab.Config{Name: o.Name, Subnet: o.Subnet, Machines: machineNames, Log: log}
	return lab.With(ctx, config, func(l *lab.Lab) error { return runAll(ctx, chosen, l, o, run, record, out, log) })
}

// runAll runs scenarios, and writes the results after each of them. If the checkout changes meanwhile, they are of no
// commit. A run that is cancelled before it has any leaves the file of an earlier one.
func runAll(
	ctx context.Context, chosen []Scenario, l *lab.Lab, o Options, run jsonfile.Run[Result], points *record,
	out, log io.Writer,
) error {
	fmt.Fprintf(log, "soak: %d scenarios, seed %d\n%s", len(chosen), o.Seed, points)
	for i, s := range chosen {
		run.Results = append(run.Results, runScenario(ctx, s, l, o, points, log)...)
		if i == 0 && ctx.Err() != nil {
			break
		}
		if err := write(context.WithoutCancel(ctx), o.Out, &run); err != nil {
			return err
		}
		if ctx.Err() != nil {
			break
		}
	}
	fmt.Fprint(out, Table(run.Results), skipped(run.Results))
	if n := failed(run.Results); n > 0 {
		return fmt.Errorf("%w: see %d of %d lines", errFailed, n, len(run.Results))
	}
	return context.Cause(ctx) // if it ended, so did the run
}

// newRun returns a run without results. A run that is written to a file has a commit.
func newRun(ctx context.Context, o Options) (run jsonfile.Run[Result], err error) {
	run.Date = time.Now().UTC().Truncate(time.Second)
	if o.Out != "" {
		run.Commit, err = build.Commit(ctx)
	}
	return run, err
}

func choose(all []Scenario, only *regexp.Regexp) []Scenario {
	var chosen []Scenario
	for _, s := range all {
		if only == nil || only.MatchString(s.Name) {
			chosen = append(chosen, s)
		}
	}
	return chosen
}

// needed returns the releases that the machines of the scenarios run.
func needed(chosen []Scenario) []string {
	names := build.ComponentNames()
	for _, s := range chosen {
		names = append(names, s.Builds...)
	}
	return names
}

// runScenario runs a scenario on new machines. Its random numbers depend only on the seed and
// its name, so that it can be repeated on its own.
func runScenario(ctx context.Context, s Scenario, l *lab.Lab, o Options, points *record, log io.Writer) []Result {
	fmt.Fprintf(log, "\n== %s\n", s.Name)
	begun := time.Now()
	results, err := func() ([]Result, error) {
		if err := rebuild(ctx, l); err != nil {
			return nil, err
		}
		base, err := cache.Dir()
		if err != nil {
			return nil, err
		}
		dir := filepath.Join(base, "workspaces", o.Name)
		defer os.RemoveAll(dir)
		if err := os.RemoveAll(dir); err != nil { // left by a soak that was killed
			return nil, err
		}
		e := &Env{
			Lab: l, Dir: dir, Log: log, Sample: cmp.Or(o.Sample, defaultSample), Points: o.Sample, Steps: o.Steps,
			Every: o.Every, Random: rand.New(rand.NewPCG(o.Seed, seedOf(s.Name))), record: points,
		}
		return s.Run(ctx, e)
	}()
	if err != nil {
		results = append(results, incompleteResult(s.Name, err))
	}
	for i := range results {
		results[i].conclude(s.Name)
	}
	fmt.Fprintf(log, "== %s: %s\n%s", s.Name, time.Since(begun).Round(time.Second), Table(results))
	return results
}

func seedOf(name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails (hash.Hash)
	return h.Sum64()
}

// rebuild gives all machines empty disks, so that nothing is left of an earlier scenario.
func rebuild(ctx context.Context, l *lab.Lab) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, m := range l.Machines() {
		group.Go(func() error { return m.Rebuild(ctx) })
	}
	return group.Wait()
}
