package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/review"
)

// source is a file with the plan of a cluster. The name is "" if there is only one plan.
type source struct{ name, path string }

// read reads the plans that the arguments name. A plan that cannot be read is part of the
// report. An error means that the arguments are unusable.
func read(args []string, stdin io.Reader) ([]review.NamedPlan, error) {
	sources, err := sourcesOf(args)
	if err != nil {
		return nil, err
	}
	var plans []review.NamedPlan
	for _, s := range sources {
		text, err := s.read(stdin)
		if err != nil {
			plans = append(plans, review.NamedPlan{Name: s.name, Err: err})
			continue
		}
		plans = append(plans, review.Read(s.name, text))
	}
	return plans, nil
}

func (s source) read(stdin io.Reader) ([]byte, error) {
	if s.path == "-" {
		return io.ReadAll(stdin)
	}
	return os.ReadFile(s.path)
}

// sourcesOf expands directories and names the clusters.
func sourcesOf(args []string) ([]source, error) {
	if len(args) == 1 && !strings.Contains(args[0], "=") && !isDirectory(args[0]) {
		return []source{{"", args[0]}}, nil
	}
	var all []source
	paths := map[string]string{}
	for _, arg := range args {
		found, err := expand(arg)
		if err != nil {
			return nil, err
		}
		for _, s := range found {
			if other, ok := paths[s.name]; ok {
				return nil, fmt.Errorf("%s and %s are both plans of the cluster %q: name them, as in NAME=%s",
					other, s.path, s.name, s.path)
			}
			paths[s.name] = s.path
			all = append(all, s)
		}
	}
	return all, nil
}

// expand returns the plans of one argument.
func expand(arg string) ([]source, error) {
	if name, path, ok := strings.Cut(arg, "="); ok && name != "" && !exists(arg) {
		return []source{{name, path}}, nil
	}
	if isDirectory(arg) {
		return below(arg)
	}
	return []source{{nameOf(filepath.Base(arg)), arg}}, nil
}

// below returns the plans in a directory and its subdirectories.
func below(directory string) ([]source, error) {
	var all []source
	err := filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !entry.IsDir() && strings.HasSuffix(path, ".json") {
			name, err := filepath.Rel(directory, path)
			if err != nil {
				return err
			}
			all = append(all, source{nameOf(filepath.ToSlash(name)), path})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("the directory %s has no file *.json", directory)
	}
	return all, nil
}

// nameOf returns the cluster's name for a file: production/berlin.json and
// production/berlin/tfplan.json are both production/berlin.
func nameOf(file string) string {
	name := strings.TrimSuffix(strings.TrimSuffix(file, ".json"), ".plan")
	for _, generic := range []string{"/plan", "/tfplan"} {
		if shorter, ok := strings.CutSuffix(name, generic); ok {
			return shorter
		}
	}
	return name
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
