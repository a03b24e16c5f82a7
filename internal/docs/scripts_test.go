package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// quoting lists the files that may build scripts from variable text: those of package
// host, and the manual scripts that bench measures and no provider runs.
var quoting = []string{"internal/host/script.go", "internal/host/lease.go", "internal/bench/byhand.go"}

// TestScriptsAreQuoted checks a promise of DESIGN: text from a machine never becomes
// code. host.Script ensures that at compile time, unless a package converts a string
// to a script, or quotes on its own.
func TestScriptsAreQuoted(t *testing.T) {
	root := filepath.Join("..", "..")
	scanned := 0
	err := filepath.WalkDir(filepath.Join(root, "internal"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		scanned++
		for _, problem := range unquoted(t, path) {
			if !slices.Contains(quoting, filepath.ToSlash(name)) &&
				(problem != quotesItself || filepath.Dir(name) != filepath.Join("internal", "host")) {
				t.Errorf("%s: %s: pass the value in Vars, or as host.Words", name, problem)
			}
		}
		return nil
	})
	if err != nil || scanned < 100 {
		t.Errorf("%d files were read: %v", scanned, err)
	}
}

const (
	quotesItself = "it imports shellescape"
	converts     = "it converts a string to a script"
)

// unquoted returns the problems of a file.
func unquoted(t *testing.T, path string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var problems []string
	for _, imported := range file.Imports {
		if strings.Contains(imported.Path.Value, "shellescape") {
			problems = append(problems, quotesItself)
		}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		if call, is := node.(*ast.CallExpr); is && isScript(call.Fun, file.Name.Name) {
			problems = append(problems, converts)
		}
		return true
	})
	return problems
}

// isScript reports whether an expression is the type host.Script.
func isScript(e ast.Expr, pkg string) bool {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return isScript(e.X, pkg)
	case *ast.SelectorExpr:
		from, is := e.X.(*ast.Ident)
		return is && from.Name == "host" && e.Sel.Name == "Script"
	case *ast.Ident:
		return pkg == "host" && e.Name == "Script"
	}
	return false
}
