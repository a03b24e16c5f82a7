package main

import (
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
)

// report prints the mutants, and counts them by file.
type report struct {
	out        io.Writer
	quiet      bool // only survivors
	part       bool // not all mutants of the packages
	equivalent map[string]string

	counts   map[string]*count // by file
	minimum  map[string]int    // by package
	problems []string
	used     map[string]bool // of equivalent
}

// count is the result of one file.
type count struct{ killed, survived, equivalent, invalid int }

func (c count) score() float64 {
	if c.killed+c.survived == 0 {
		return 100
	}
	return 100 * float64(c.killed) / float64(c.killed+c.survived)
}

// add prints one mutant and counts it.
func (r *report) add(t target, m *mutant) {
	if r.counts == nil {
		r.counts, r.minimum, r.used = map[string]*count{}, map[string]int{}, map[string]bool{}
	}
	r.minimum[t.pkg] = t.score
	if r.counts[m.file] == nil {
		r.counts[m.file] = &count{}
	}
	c := r.counts[m.file]
	reason, equivalent := r.equivalent[m.name()]
	r.used[m.name()] = equivalent
	var result string
	switch {
	case m.invalid:
		c.invalid++
		result = "does not compile"
	case len(m.killers) > 0:
		c.killed++
		result = "killed by " + strings.Join(m.killers, ", ")
		if equivalent {
			r.problems = append(r.problems, m.name()+" is in equivalent.txt, but was "+result)
		}
	case equivalent:
		c.equivalent++
		result = "equivalent: " + reason
	case m.tests == 0:
		c.survived++
		result = "SURVIVED, no test reaches it"
	default:
		c.survived++
		result = "SURVIVED"
	}
	if !r.quiet || strings.HasPrefix(result, "SURVIVED") {
		fmt.Fprintf(r.out, "%s:%d %s: %s: %s\n", m.file, m.line, m.function, m.change, result)
	}
}

// unused finds the lines of equivalent.txt for a package that fit no mutant.
func (r *report) unused(t target) {
	for _, name := range slices.Sorted(maps.Keys(r.equivalent)) {
		file, _, _ := strings.Cut(name, " ")
		if path.Dir(file) == t.pkg && !r.part && !r.used[name] {
			r.problems = append(r.problems, name+" is in equivalent.txt, but there is no such mutant")
		}
	}
}

// summary prints the scores, and reports whether they are high enough.
func (r *report) summary() bool {
	packages := map[string]*count{}
	fmt.Fprintf(r.out, "\n%7s %7s %8s %10s  %s\n", "score", "killed", "survived", "equivalent", "file")
	line := func(name string, c *count) {
		fmt.Fprintf(r.out, "%6.1f%% %7d %8d %10d  %s\n", c.score(), c.killed, c.survived, c.equivalent, name)
	}
	for _, file := range slices.Sorted(maps.Keys(r.counts)) {
		c := r.counts[file]
		line(file, c)
		folder := path.Dir(file)
		if packages[folder] == nil {
			packages[folder] = &count{}
		}
		all := packages[folder]
		all.killed, all.survived = all.killed+c.killed, all.survived+c.survived
		all.equivalent, all.invalid = all.equivalent+c.equivalent, all.invalid+c.invalid
	}
	fmt.Fprintln(r.out)
	for _, folder := range slices.Sorted(maps.Keys(packages)) {
		line(folder, packages[folder])
		if score := packages[folder].score(); score < float64(r.minimum[folder]) && !r.part {
			r.problems = append(r.problems, fmt.Sprintf("%s: the score is %.1f%%, the minimum is %d%%", folder, score,
				r.minimum[folder]))
		}
	}
	for _, problem := range r.problems {
		fmt.Fprintln(r.out, problem)
	}
	return len(r.problems) == 0
}
