package main

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// target is what targets.txt says about one package.
type target struct {
	pkg   string // folder
	tests string // regular expression of the tests that need no machine
	score int    // the minimum, in percent
	files []targetFile
	yes   map[string]string // type of a result → the expression that allows what is asked
}

// targetFile is a file with functions that decide.
type targetFile struct {
	name    string
	only    []string // functions; none: all
	without []string // functions
}

// includes reports whether the function decides.
func (f targetFile) includes(function string) bool {
	return (len(f.only) == 0 || slices.Contains(f.only, function)) && !slices.Contains(f.without, function)
}

// readTargets reads targets.txt: its head describes the form.
func readTargets(path string) ([]target, error) {
	lines, err := readLines(path)
	if err != nil {
		return nil, err
	}
	var targets []target
	for _, line := range lines {
		word, rest, _ := strings.Cut(line, " ")
		rest = strings.TrimSpace(rest)
		if word == "package" {
			targets = append(targets, target{pkg: rest, tests: ".", yes: map[string]string{}})
			continue
		}
		if len(targets) == 0 {
			return nil, fmt.Errorf("%s: %q comes before the first package", path, line)
		}
		t := &targets[len(targets)-1]
		switch word {
		case "tests":
			t.tests = rest
		case "score":
			if t.score, err = strconv.Atoi(rest); err != nil {
				return nil, fmt.Errorf("%s: %q: %w", path, line, err)
			}
		case "yes":
			kind, expression, _ := strings.Cut(rest, " ")
			t.yes[kind] = expression
		default:
			t.files = append(t.files, fileOf(word, strings.Fields(rest)))
		}
	}
	return targets, nil
}

func fileOf(name string, functions []string) targetFile {
	f := targetFile{name: name}
	for _, function := range functions {
		if without, excluded := strings.CutPrefix(function, "-"); excluded {
			f.without = append(f.without, without)
		} else {
			f.only = append(f.only, function)
		}
	}
	return f
}

// readEquivalent reads equivalent.txt: the mutants that behave as the original does, each with
// the reason.
func readEquivalent(path string) (map[string]string, error) {
	lines, err := readLines(path)
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, line := range lines {
		name, reason, ok := strings.Cut(line, " | ")
		if !ok || reason == "" {
			return nil, fmt.Errorf("%s: %q has no reason", path, line)
		}
		all[name] = reason
	}
	return all, nil
}

// readLines returns the lines of a file without comments and empty ones.
func readLines(path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	var lines []string
	scanner := bufio.NewScanner(f)
	for scanner.Scan() {
		if line := strings.TrimSpace(scanner.Text()); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines, scanner.Err()
}
