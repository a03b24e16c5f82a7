package main

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

var neighbours = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.EQL: token.NEQ, token.NEQ: token.EQL, token.LAND: token.LOR, token.LOR: token.LAND,
}

// condition negates the condition of a statement.
func (c *collector) condition(e ast.Expr) {
	if e == nil || isEquality(e) || c.info.Types[e].Value != nil {
		return
	}
	text := c.sourceOf(e)
	c.whole(e, text, "!("+short(text)+")", "(mutant__(%d) != (%s))")
}

func isEquality(e ast.Expr) bool {
	b, ok := ast.Unparen(e).(*ast.BinaryExpr)
	return ok && (b.Op == token.EQL || b.Op == token.NEQ)
}

// binary replaces a comparison or a logical operator by its neighbour, and negates the operands
// of the latter.
func (c *collector) binary(b *ast.BinaryExpr) {
	if c.info.Types[b].Value != nil {
		return
	}
	c.number(b, b.X, b.Y)
	c.number(b, b.Y, b.X)
	other, ok := neighbours[b.Op]
	if !ok {
		return
	}
	x, y := c.sourceOf(b.X), c.sourceOf(b.Y)
	from, to := short(x)+" "+b.Op.String()+" "+short(y), short(x)+" "+other.String()+" "+short(y)
	switch b.Op {
	case token.EQL, token.NEQ:
		c.done[b.X], c.done[b.Y] = true, true
		c.whole(b, from, to, "(mutant__(%d) != (%s))")
		return
	case token.LAND, token.LOR:
		for _, operand := range []ast.Expr{b.X, b.Y} {
			inner, binary := ast.Unparen(operand).(*ast.BinaryExpr)
			if !binary || inner.Op != token.LAND && inner.Op != token.LOR {
				c.condition(operand)
			}
		}
		helper := map[token.Token]string{token.LAND: "mutantAnd__", token.LOR: "mutantOr__"}[b.Op]
		c.add(b, true, from, to, func(id int, inner source) string {
			return fmt.Sprintf("%s(%d, %s, func() bool { return %s })", helper, id, inner(b.X.Pos(), b.X.End()),
				inner(b.Y.Pos(), b.Y.End()))
		})
	default:
		c.add(b, true, from, to, func(id int, inner source) string {
			x, y := inner(b.X.Pos(), b.X.End()), inner(b.Y.Pos(), b.Y.End())
			return fmt.Sprintf("(func() bool { if mutant__(%d) { return %s %s %s }; return %s %s %s })()",
				id, x, other, y, x, b.Op, y)
		})
	}
}

var counted = []token.Token{
	token.ADD, token.SUB, token.MUL, token.QUO, token.REM,
	token.LSS, token.LEQ, token.GTR, token.GEQ, token.EQL, token.NEQ,
}

// number changes an integer constant in arithmetic or a comparison by one.
func (c *collector) number(b *ast.BinaryExpr, e, other ast.Expr) {
	known := c.info.Types[e]
	basic, ok := known.Type.(*types.Basic)
	if !slices.Contains(counted, b.Op) || known.Value == nil || !ok || basic.Info()&types.IsInteger == 0 ||
		basic.Info()&types.IsUntyped != 0 || known.Value.Kind() != constant.Int {
		return
	}
	text := c.sourceOf(e)
	whole := c.sourceOf(b)
	for _, by := range []string{"+", "-"} {
		length := strings.HasPrefix(c.sourceOf(other), "len(")
		if by == "-" && text == "0" && length {
			continue // no length is negative
		}
		changed := text + by + "1"
		kind := basic.Name()
		c.add(e, false, whole, "… "+changed, func(id int, inner source) string {
			return fmt.Sprintf("mutantPick__[%s](%d, %s, (%s)%s1)", kind, id, inner(e.Pos(), e.End()), text, by)
		})
	}
}

// constant replaces a constant of an enumeration by the next one, and a boolean one by the
// other. The operands of == and != are left alone: to negate the comparison does the same.
func (c *collector) constant(e ast.Expr, name *ast.Ident) {
	object, ok := c.info.Uses[name].(*types.Const)
	if !ok || c.done[e] {
		return
	}
	if object.Pkg() == nil { // of the language
		if other := map[string]string{"true": "false", "false": "true"}[name.Name]; other != "" {
			c.pick(e, other)
		}
		return
	}
	if next := c.following(object); next != "" {
		c.pick(e, next)
	}
}

func (c *collector) pick(e ast.Expr, other string) {
	text := c.sourceOf(e)
	c.add(e, false, text, other, func(id int, _ source) string {
		return fmt.Sprintf("mutantPick__(%d, %s, %s)", id, text, other)
	})
}

// following returns the next constant of an enumeration of this module, or "".
func (c *collector) following(object *types.Const) string {
	named, ok := object.Type().(*types.Named)
	if !ok || named.Obj().Pkg() == nil || !strings.HasPrefix(named.Obj().Pkg().Path(), c.module) ||
		object.Parent() != object.Pkg().Scope() {
		return ""
	}
	var all []*types.Const
	for _, name := range object.Pkg().Scope().Names() {
		other, ok := object.Pkg().Scope().Lookup(name).(*types.Const)
		if ok && types.Identical(other.Type(), named) && (other.Exported() || object.Pkg() == c.types) {
			all = append(all, other)
		}
	}
	slices.SortStableFunc(all, func(a, b *types.Const) int {
		switch {
		case constant.Compare(a.Val(), token.LSS, b.Val()):
			return -1
		case constant.Compare(a.Val(), token.GTR, b.Val()):
			return 1
		}
		return 0
	})
	i := slices.IndexFunc(all, func(o *types.Const) bool { return o.Name() == object.Name() })
	if len(all) < 2 || i < 0 {
		return ""
	}
	next := all[(i+1)%len(all)].Name()
	if object.Pkg() != c.types {
		next = object.Pkg().Name() + "." + next
	}
	return next
}
