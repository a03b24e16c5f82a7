// Package soak runs on lab machines what takes too long for every test run: a
// control plane is changed, interrupted and broken in many ways, and each time it has
// to converge.
package soak

import (
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
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
)

const labName = "soak"

var machineNames = []string{"cp1", "cp2", "cp3"}

// ErrFailed reports that some attempts failed.
var ErrFailed = errors.New("not everything passed")

// Scenario is something to try. A new one is a new entry in Scenarios.
type Scenario struct {
	Name   string
	Builds []string // what it needs beside one release of each product, by package build's names
	// Run gives one result for each thing that was tried; an error where it
	// could not be carried through, beside the results until then.
	Run func(ctx context.Context, e *Env) ([]Result, error)
}

// Env is what a scenario has.
type Env struct {
	Lab    *lab.Lab // three bare machines; more can be added
	Dir    string   // empty, for workspaces; removed afterwards
	Log    io.Writer
	Random *rand.Rand
	Sample int // how often to try what is not tried exhaustively
	Steps  int // how many edits a random sequence has
	Every  int // of what is tried exhaustively, every so many commands; 1: all
}

// Options choose what is run.
type Options struct {
	Only   *regexp.Regexp // of scenarios' names; nil: all
	Sample int
	Steps  int
	Every  int
	Seed   uint64
	Out    string // file for the results as JSON; "" for none
}

// Run runs scenarios one after the other, each on machines of its own, and
// prints the results on out. Progress goes to log.
func Run(ctx context.Context, o Options, out, log io.Writer) error {
	chosen := choose(Scenarios(), o.Only)
	if len(chosen) == 0 {
		return fmt.Errorf("no scenario is named like %q", o.Only)
	}
	if _, err := build.Components(ctx, needed(chosen)...); err != nil {
		return err
	}
	config := lab.Config{Name: labName, Subnet: netip.MustParsePrefix("10.99.0.0/24"), Machines: machineNames, Log: log}
	return lab.With(ctx, config, func(l *lab.Lab) error { return runAll(ctx, chosen, l, o, out, log) })
}

// runAll runs scenarios, and writes the results after each of them.
func runAll(ctx context.Context, chosen []Scenario, l *lab.Lab, o Options, out, log io.Writer) error {
	fmt.Fprintf(log, "soak: %d scenarios, seed %d\n", len(chosen), o.Seed)
	var results []Result
	for _, s := range chosen {
		results = append(results, runScenario(ctx, s, l, o, log)...)
		if err := write(o.Out, results); err != nil {
			return err
		}
		if ctx.Err() != nil {
			break
		}
	}
	fmt.Fprint(out, Table(results))
	if n := failed(results); n > 0 {
		return fmt.Errorf("%w: see %d of %d lines", ErrFailed, n, len(results))
	}
	return nil
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

// needed are the releases that the machines of some scenarios run.
func needed(chosen []Scenario) []string {
	names := build.ComponentNames()
	for _, s := range chosen {
		names = append(names, s.Builds...)
	}
	return names
}

// runScenario runs a scenario on new machines. Its random numbers depend on the seed and
// its name alone, so that it can be repeated by itself.
func runScenario(ctx context.Context, s Scenario, l *lab.Lab, o Options, log io.Writer) []Result {
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
		dir := filepath.Join(base, "workspaces", labName)
		defer os.RemoveAll(dir)
		if err := os.RemoveAll(dir); err != nil { // of a soak that was killed
			return nil, err
		}
		e := &Env{
			Lab: l, Dir: dir, Log: log, Sample: o.Sample, Steps: o.Steps, Every: o.Every,
			Random: rand.New(rand.NewPCG(o.Seed, seedOf(s.Name))),
		}
		return s.Run(ctx, e)
	}()
	if err != nil {
		results = append(results, incompleteResult(s.Name, err))
	}
	fmt.Fprintf(log, "== %s: %s\n%s", s.Name, time.Since(begun).Round(time.Second), Table(results))
	return results
}

func seedOf(name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails (hash.Hash)
	return h.Sum64()
}

// rebuild gives all machines empty disks: no scenario meets what another has left.
func rebuild(ctx context.Context, l *lab.Lab) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, m := range l.Machines() {
		group.Go(func() error { return m.Rebuild(ctx) })
	}
	return group.Wait()
}
