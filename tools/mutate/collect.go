package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path"
	"strings"
)

// collector finds the mutants of the functions that decide.
type collector struct {
	*loaded
	yes     map[string]string
	mutants []*mutant
	sites   map[string][]site // by file

	// of the function that is being read
	fileName, function string
	changes            map[string]int
	done               map[ast.Expr]bool // operands of == and !=, and names that are part of a selector
}

// file collects the mutants of one file.
func (c *collector) file(f targetFile) error {
	missing := map[string]bool{}
	for _, name := range append(append([]string{}, f.only...), f.without...) {
		missing[name] = true
	}
	for _, d := range c.files[f.name].Decls {
		decl, ok := d.(*ast.FuncDecl)
		if !ok || decl.Body == nil {
			continue
		}
		name := functionName(decl)
		delete(missing, name)
		if f.includes(name) {
			c.fileName, c.function = f.name, name
			c.changes, c.done = map[string]int{}, map[ast.Expr]bool{}
			signature, _ := c.info.Defs[decl.Name].Type().(*types.Signature)
			c.body(decl.Body, signature)
		}
	}
	for name := range missing {
		return fmt.Errorf("%s has no function %s", f.name, name)
	}
	return nil
}

// functionName returns "MayAdd", or "View.Member" for a method.
func functionName(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return d.Name.Name
	}
	receiver := d.Recv.List[0].Type
	if star, ok := receiver.(*ast.StarExpr); ok {
		receiver = star.X
	}
	if generic, ok := receiver.(*ast.IndexExpr); ok {
		receiver = generic.X
	}
	if name, ok := receiver.(*ast.Ident); ok {
		return name.Name + "." + d.Name.Name
	}
	return d.Name.Name
}

// body collects the mutants of a function body. Function literals in it have results of
// their own.
func (c *collector) body(body ast.Node, signature *types.Signature) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			inner, _ := c.info.TypeOf(n).(*types.Signature)
			c.body(n.Body, inner)
			return false
		case *ast.CallExpr:
			return c.sourceOf(n.Fun) != "fmt.Errorf" // words
		case *ast.GenDecl:
			return n.Tok == token.VAR
		case *ast.ReturnStmt:
			c.returned(n, signature)
		case *ast.BlockStmt:
			c.statements(n.List)
		case *ast.CaseClause:
			c.statements(n.Body)
		case *ast.IfStmt:
			c.condition(n.Cond)
		case *ast.ForStmt:
			c.condition(n.Cond)
		case *ast.SwitchStmt:
			if n.Tag == nil {
				for _, clause := range n.Body.List {
					for _, e := range clause.(*ast.CaseClause).List {
						c.condition(e)
					}
				}
			}
		case *ast.BinaryExpr:
			c.binary(n)
		case *ast.Ident:
			c.constant(n, n)
		case *ast.SelectorExpr:
			c.constant(n, n.Sel)
			c.done[n.Sel] = true
		}
		return true
	})
}

// source renders a range with the mutants in it.
type source func(from, to token.Pos) string

// add registers a mutant: from and to are its description. render returns what replaces the
// range of n, for the number of the mutant.
func (c *collector) add(n ast.Node, splits bool, from, to string, render func(id int, inner source) string) {
	id := len(c.mutants) + 1
	change := short(from) + " → " + short(to)
	if c.changes[change]++; c.changes[change] > 1 {
		change += fmt.Sprintf(" #%d", c.changes[change])
	}
	c.mutants = append(c.mutants, &mutant{
		id: id, file: path.Join(c.folder, c.fileName), function: c.function, change: change,
		line: c.set.Position(n.Pos()).Line,
	})
	if c.sites == nil {
		c.sites = map[string][]site{}
	}
	c.sites[c.fileName] = append(c.sites[c.fileName], site{
		from: n.Pos(), to: n.End(), splits: splits, id: id,
		render: func(inner source) string { return render(id, inner) },
	})
}

// whole registers a mutant that wraps the range of a node: form has a verb for the number of
// the mutant and one for the source.
func (c *collector) whole(n ast.Node, from, to, form string) {
	c.add(n, false, from, to, func(id int, inner source) string {
		return fmt.Sprintf(form, id, inner(n.Pos(), n.End()))
	})
}

const longest = 90

// short returns source as one line, without the end of a long one.
func short(source string) string {
	text := []rune(strings.Join(strings.Fields(source), " "))
	if len(text) > longest {
		return string(text[:longest]) + "…"
	}
	return string(text)
}
