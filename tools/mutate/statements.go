package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// returned makes a refusal allow what is asked: it replaces an error, a list of problems or a
// pointer to one by nil, a reason by "", a bool by each of its values, and a type of targets.txt
// by the expression there.
func (c *collector) returned(r *ast.ReturnStmt, signature *types.Signature) {
	results := signature.Results()
	if len(r.Results) != results.Len() {
		c.returnedCall(r, results)
		return
	}
	for i, e := range r.Results {
		for _, yes := range c.allowed(e, results.At(i).Type(), results.Len() == 1) {
			changed := make([]string, len(r.Results))
			for j, other := range r.Results {
				changed[j] = c.sourceOf(other)
			}
			changed[i] = yes
			text := "return " + strings.Join(changed, ", ")
			c.add(r, false, c.sourceOf(r), text, func(id int, inner source) string {
				return fmt.Sprintf("{ if mutant__(%d) { %s }; %s }", id, text, inner(r.Pos(), r.End()))
			})
		}
	}
}

// returnedCall drops the error of a call that returns several values.
func (c *collector) returnedCall(r *ast.ReturnStmt, results *types.Tuple) {
	if len(r.Results) != 1 || results.Len() != 2 || results.At(1).Type().String() != "error" {
		return
	}
	text := fmt.Sprintf("first__, _ := %s; return first__, nil", c.sourceOf(r.Results[0]))
	c.add(r, false, c.sourceOf(r), "return …, nil", func(id int, inner source) string {
		return fmt.Sprintf("{ if mutant__(%d) { %s }; %s }", id, text, inner(r.Pos(), r.End()))
	})
}

// allowed returns the expressions that allow what is asked, in place of a result.
func (c *collector) allowed(e ast.Expr, result types.Type, alone bool) []string {
	source := c.sourceOf(e)
	kind := types.TypeString(result, types.RelativeTo(c.types))
	if yes := c.yes[kind]; yes != "" && yes != source {
		return []string{yes}
	}
	switch under := result.Underlying().(type) {
	case *types.Pointer, *types.Slice, *types.Map:
		if source != "nil" {
			return []string{"nil"}
		}
	case *types.Interface:
		if source != "nil" && kind == "error" {
			return []string{"nil"}
		}
	case *types.Basic:
		switch {
		case under.Info()&types.IsBoolean != 0 && source != "true" && source != "false":
			return []string{"true", "false"}
		case under.Info()&types.IsString != 0 && alone && source != `""`:
			return []string{`""`}
		}
	}
	return nil
}

// words are the fields and variables that only explain a decision.
var words = []string{
	"Reason", "Next", "next", "Cause", "cause", "Remedy", "Detail", "Summary", "Attribute", "Unchanged",
}

// statements removes each assignment and each call of a list of statements.
func (c *collector) statements(list []ast.Stmt) {
	for _, statement := range list {
		switch s := statement.(type) {
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE || !slices.ContainsFunc(s.Lhs, assigns) {
				continue
			}
		case *ast.IncDecStmt:
		case *ast.ExprStmt:
			if !decides(s.X) {
				continue
			}
		default:
			continue
		}
		c.whole(statement, c.sourceOf(statement), "nothing", "if !mutant__(%d) { %s }")
	}
}

// assigns reports whether something is assigned that is more than words.
func assigns(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name != "_" && !slices.Contains(words, e.Name)
	case *ast.SelectorExpr:
		return !slices.Contains(words, e.Sel.Name)
	}
	return true
}

// decides reports whether a call may matter for a decision: messages and locks do not.
func decides(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return true
	}
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return true
	}
	if slices.Contains([]string{"Lock", "Unlock", "RLock", "RUnlock"}, selector.Sel.Name) {
		return false
	}
	from, ok := selector.X.(*ast.Ident)
	return !ok || from.Name != "problem"
}
