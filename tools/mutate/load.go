package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// loaded is a package with its types.
type loaded struct {
	path, name, dir string
	module          string
	folder          string // as in targets.txt
	fileNames       []string
	set             *token.FileSet
	files           map[string]*ast.File // by name
	text            map[string][]byte
	info            *types.Info
	types           *types.Package
	importer        types.Importer
}

// listed is what go list says about a package.
type listed struct {
	ImportPath, Name, Dir, Export string
	GoFiles                       []string
	DepOnly                       bool
	Module                        *struct{ Path string }
}

// load parses a package and checks its types. The export data of its dependencies comes from
// the build cache.
func load(ctx context.Context, root string, t target) (*loaded, error) {
	command := exec.CommandContext(ctx, "go", "list", "-export", "-deps", "-p=1",
		"-json=ImportPath,Name,Dir,Export,GoFiles,DepOnly,Module", "./"+t.pkg, "fmt", "os", "strconv", "sync/atomic")
	command.Dir, command.Stderr = root, os.Stderr
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	exports := map[string]string{}
	p := &loaded{folder: t.pkg, set: token.NewFileSet(), files: map[string]*ast.File{}, text: map[string][]byte{}}
	decoder := json.NewDecoder(bytes.NewReader(output))
	for {
		var l listed
		if err := decoder.Decode(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		exports[l.ImportPath] = l.Export
		if !l.DepOnly && l.Module != nil { // the others are imported by the helper
			p.path, p.name, p.dir, p.fileNames, p.module = l.ImportPath, l.Name, l.Dir, l.GoFiles, l.Module.Path
		}
	}
	p.importer = importer.ForCompiler(p.set, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	return p, p.parse(t)
}

func (p *loaded) parse(t target) error {
	for _, f := range t.files {
		if !slices.Contains(p.fileNames, f.name) {
			return fmt.Errorf("there is no file %s", f.name)
		}
	}
	var all []*ast.File
	for _, name := range p.fileNames {
		text, err := os.ReadFile(filepath.Join(p.dir, name))
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(p.set, filepath.Join(p.dir, name), text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		p.files[name], p.text[name] = file, text
		all = append(all, file)
	}
	p.info = &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{},
	}
	var err error
	p.types, err = (&types.Config{Importer: p.importer}).Check(p.path, p.set, all, p.info)
	return err
}

// errorsIn returns the compile errors of the package with some of its files changed.
func (p *loaded) errorsIn(changed map[string]string) []types.Error {
	set := token.NewFileSet()
	var all []*ast.File
	for _, name := range append(slices.Clone(p.fileNames), helperFile) {
		text, ok := changed[name]
		if !ok {
			text = string(p.text[name])
		}
		file, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
		if err != nil {
			return []types.Error{{Fset: set, Msg: err.Error()}}
		}
		all = append(all, file)
	}
	var found []types.Error
	config := types.Config{Importer: p.importer, Error: func(err error) {
		var e types.Error
		if errors.As(err, &e) && !e.Soft {
			found = append(found, e)
		}
	}}
	_, _ = config.Check(p.path, set, all, nil) // the errors are in found
	return found
}
