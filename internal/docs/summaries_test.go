package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// TestSummaries checks the summaries of diagnostics in the sources: sentence case without a full
// stop. etcd and the components of Kubernetes are written in lower case everywhere.
func TestSummaries(t *testing.T) {
	dir, files, count := filepath.Join(root(t), "internal"), token.NewFileSet(), 0
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasSuffix(path, "_test.go") || !strings.HasSuffix(path, ".go") {
			return err
		}
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, summary := range summariesIn(file) {
			count++
			if failure := casing(first(summary)); failure != "" {
				t.Errorf("%s: the summary %q %s", files.Position(summary.Pos()), first(summary), failure)
			}
			if text := last(summary); strings.HasSuffix(text, ".") {
				t.Errorf("%s: the summary ends with a full stop: %q", files.Position(summary.Pos()), text)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if count < 100 {
		t.Errorf("found only %d summaries: the test does not look where they are", count)
	}
}

// summaryArgument is the position of the summary among the arguments of functions that add or
// build a diagnostic.
var summaryArgument = map[string]int{
	"AddError": 0, "AddWarning": 0, "AddAttributeError": 1, "AddAttributeWarning": 1,
	"addError": 2, "addInvalid": 2, "addConfigError": 2, "asProblem": 0, "refusal": 0, "notObserved": 0,
}

// summariesIn returns the summaries in a file that contain a constant text.
func summariesIn(file *ast.File) []ast.Expr {
	var out []ast.Expr
	add := func(e ast.Expr) {
		if first(e) != "" || last(e) != "" {
			out = append(out, e)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			if of, ok := n.Type.(*ast.SelectorExpr); ok && of.Sel.Name == "Problem" {
				addField(n, add)
			}
		case *ast.AssignStmt:
			if field, ok := n.Lhs[0].(*ast.SelectorExpr); ok && len(n.Lhs) == 1 && field.Sel.Name == "Summary" {
				add(n.Rhs[0])
			}
		case *ast.CallExpr:
			if i, ok := summaryArgument[called(n)]; ok && i < len(n.Args) {
				add(n.Args[i])
			}
		}
		return true
	})
	return out
}

func addField(literal *ast.CompositeLit, add func(ast.Expr)) {
	for _, element := range literal.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok {
			if key, ok := pair.Key.(*ast.Ident); ok && key.Name == "Summary" {
				add(pair.Value)
			}
		}
	}
}

// called returns the name of the function or method that is called.
func called(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

// first returns the text at the beginning of an expression, "" if it is not constant.
func first(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(e.Value)
		return text
	case *ast.BinaryExpr:
		return first(e.X)
	case *ast.CallExpr:
		if called(e) == "Sprintf" {
			return first(e.Args[0])
		}
	}
	return ""
}

// last returns the text at the end of an expression, "" if it is not constant.
func last(e ast.Expr) string {
	if of, ok := e.(*ast.BinaryExpr); ok {
		return last(of.Y)
	}
	return first(e)
}

// casing describes what is wrong with the first word of a summary, or returns "".
func casing(text string) string {
	word, _, _ := strings.Cut(text, " ")
	switch {
	case text == "", strings.HasPrefix(text, "%"), word == "etcd", strings.HasPrefix(word, "kube-"):
		return ""
	case !unicode.IsUpper([]rune(text)[0]):
		return "does not begin with a capital letter"
	}
	return ""
}
