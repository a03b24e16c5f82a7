package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// mutant is one change of a function that decides.
type mutant struct {
	id       int
	file     string
	line     int
	function string
	change   string
	invalid  bool // it does not compile

	tests   int      // that reach it
	killers []string // the tests that fail, or what else ended the run
}

// name identifies a mutant in equivalent.txt. It has no line, so that other changes of the file
// do not matter.
func (m mutant) name() string { return m.file + " " + m.function + ": " + m.change }

// site is a range of the source that is replaced by a choice between the original and a mutant.
type site struct {
	from, to token.Pos
	splits   bool // it renders parts of its range only, so it is the innermost one of that range
	id       int
	render   func(inner source) string
}

// helperFile is the name of the file that is added to a package.
const helperFile = "zz_mutants.go"

// helper selects the mutant, and notes which ones are reached.
const helper = `package %s

import (
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
)

var (
	mutantActive__ = func() int { n, _ := strconv.Atoi(os.Getenv("MUTATE_MUTANT")); return n }()
	mutantLog__    = func() *os.File {
		f, _ := os.OpenFile(os.Getenv("MUTATE_REACHED"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		return f
	}()
	mutantSeen__ [%d]atomic.Bool
)

func mutant__(id int) bool {
	if mutantLog__ != nil && mutantSeen__[id].CompareAndSwap(false, true) {
		fmt.Fprintln(mutantLog__, id)
	}
	return id == mutantActive__
}

func mutantPick__[T any](id int, original, changed T) T {
	if mutant__(id) {
		return changed
	}
	return original
}

func mutantAnd__(id int, a bool, b func() bool) bool {
	if mutant__(id) {
		return a || b()
	}
	return a && b()
}

func mutantOr__(id int, a bool, b func() bool) bool {
	if mutant__(id) {
		return a && b()
	}
	return a || b()
}
`

// mutate returns all mutants of a package, and the files that contain them.
func (p *loaded) mutate(t target) ([]*mutant, map[string]string, error) {
	c := &collector{loaded: p, yes: t.yes}
	for _, f := range t.files {
		if err := c.file(f); err != nil {
			return nil, nil, err
		}
	}
	invalid := map[int]bool{}
	for {
		files := p.render(c, t, invalid)
		problems := p.errorsIn(files)
		if len(problems) == 0 {
			return c.mutants, files, nil
		}
		before := len(invalid)
		for _, e := range problems {
			for _, id := range idsAt(e, files) {
				invalid[id], c.mutants[id-1].invalid = true, true
			}
		}
		if len(invalid) == before {
			return nil, nil, fmt.Errorf("the mutants do not compile: %w", problems[0])
		}
	}
}

// render returns the files with all valid mutants.
func (p *loaded) render(c *collector, t target, invalid map[int]bool) map[string]string {
	files := map[string]string{helperFile: fmt.Sprintf(helper, p.name, len(c.mutants)+1)}
	for _, f := range t.files {
		sites := slices.DeleteFunc(slices.Clone(c.sites[f.name]), func(s site) bool { return invalid[s.id] })
		slices.SortStableFunc(sites, func(a, b site) int {
			last := func(s site) int { return map[bool]int{true: 1}[s.splits] }
			return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to), cmp.Compare(last(a), last(b)))
		})
		file := p.files[f.name]
		files[f.name] = p.textOf(file.FileStart, file.FileEnd, sites)
	}
	return files
}

// textOf returns the source of a range with the sites in it.
func (p *loaded) textOf(from, to token.Pos, sites []site) string {
	var b strings.Builder
	at := from
	for i := 0; i < len(sites); {
		s, next := sites[i], i+1
		for next < len(sites) && sites[next].from < s.to {
			next++
		}
		inner := sites[i+1 : next]
		b.WriteString(p.source(at, s.from))
		b.WriteString(s.render(func(from, to token.Pos) string {
			outside := func(s site) bool { return s.from < from || s.to > to }
			return p.textOf(from, to, slices.DeleteFunc(slices.Clone(inner), outside))
		}))
		at, i = s.to, next
	}
	b.WriteString(p.source(at, to))
	return b.String()
}

// source returns the original source of a range.
func (p *loaded) source(from, to token.Pos) string {
	f := p.set.File(from)
	for name, file := range p.files {
		if p.set.File(file.FileStart) == f {
			return string(p.text[name][f.Offset(from):f.Offset(to)])
		}
	}
	return ""
}

// sourceOf returns the original source of a node.
func (p *loaded) sourceOf(n ast.Node) string { return p.source(n.Pos(), n.End()) }

var idForm = regexp.MustCompile(`mutant(?:Pick|And|Or)?__(?:\[[^\]]*\])?\((\d+)`)

// idsAt returns the mutant closest before a compile error, on its line.
func idsAt(problem interface{ Error() string }, files map[string]string) []int {
	place := regexp.MustCompile(`^(.*\.go):(\d+):(\d+)`).FindStringSubmatch(problem.Error())
	if place == nil {
		return nil
	}
	line, _ := strconv.Atoi(place[2])
	column, _ := strconv.Atoi(place[3])
	text := strings.Split(files[place[1]], "\n")[line-1]
	found := idForm.FindAllStringSubmatchIndex(text, -1)
	var ids []int
	for _, f := range found {
		id, _ := strconv.Atoi(text[f[2]:f[3]])
		if f[0] < column || len(ids) == 0 {
			ids = []int{id}
		}
	}
	return ids
}
