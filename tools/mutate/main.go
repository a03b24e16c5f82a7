// Command mutate checks that the tests notice when a rule is wrong. It makes one small change
// at a time to the functions that decide (a mutant), and runs the tests that reach it:
//
//	go run ./tools/mutate                            # everything in targets.txt
//	go run ./tools/mutate internal/etcd/membership   # one package
//
// A mutant is killed if a test fails. One that survives shows a missing test, or it behaves as
// the original does; those are in equivalent.txt, with the reason.
//
// The checkout is not edited. Each package is compiled once, with all of its mutants
// (go test -overlay), and an environment variable selects one of them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("mutate: ")
	if err := start(); err != nil {
		log.Fatal(err)
	}
}

// errScore means that a score is too low, or that equivalent.txt is out of date.
var errScore = errors.New("see the end of the report")

func start() error {
	dir := flag.String("C", ".", "root `directory` of the module")
	survivors := flag.Bool("survivors", false, "print only the mutants that survive, and the scores")
	function := flag.String("func", "", "only the mutants of one function, such as MayAdd or View.Member")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r := &report{out: os.Stdout, quiet: *survivors, part: *function != ""}
	if err := run(ctx, *dir, *function, flag.Args(), r); err != nil {
		return err
	}
	if !r.summary() {
		return errScore
	}
	return nil
}

// run tests the mutants of the packages of targets.txt, or of those that are named.
func run(ctx context.Context, root, function string, only []string, r *report) error {
	targets, err := readTargets(filepath.Join(root, "tools/mutate/targets.txt"))
	if err != nil {
		return err
	}
	if r.equivalent, err = readEquivalent(filepath.Join(root, "tools/mutate/equivalent.txt")); err != nil {
		return err
	}
	for _, name := range only {
		if !slices.ContainsFunc(targets, func(t target) bool { return t.pkg == name }) {
			return fmt.Errorf("targets.txt has no package %s", name)
		}
	}
	for _, t := range targets {
		if len(only) > 0 && !slices.Contains(only, t.pkg) {
			continue
		}
		if err := runPackage(ctx, root, function, t, r); err != nil {
			return fmt.Errorf("%s: %w", t.pkg, err)
		}
	}
	return nil
}

// runPackage tests the mutants of one package.
func runPackage(ctx context.Context, root, function string, t target, r *report) error {
	p, err := load(ctx, root, t)
	if err != nil {
		return err
	}
	mutants, files, err := p.mutate(t)
	if err != nil {
		return err
	}
	temporary, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temporary) }()
	b := binary{dir: p.dir, temporary: temporary}
	if err := b.build(ctx, p, files); err != nil {
		return err
	}
	if err := b.observe(ctx, t.tests); err != nil {
		return err
	}
	for _, m := range mutants {
		if function != "" && m.function != function {
			continue
		}
		if !m.invalid {
			if m.tests, m.killers, err = b.try(ctx, m.id); err != nil {
				return err
			}
		}
		r.add(t, m)
	}
	r.unused(t)
	return nil
}
