package disruption

import (
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// TestRefusals: which way out a refusal names, and that it comes once.
func TestRefusals(t *testing.T) {
	const kind, a, b, c = "etcd members", "cp1 (10.0.0.1)", "cp2 (10.0.0.2)", "cp3 (10.0.0.3)"
	var (
		everyone = []string{a, b, c}
		bundle   = &pki.Bundle{ClusterID: "1", Deletable: true}
	)
	member := func(id string, peers ...string) Object {
		return Object{Kind: kind, ID: id, Bundle: bundle, Serving: true, Peers: peers}
	}
	created := func(id string, bundle *pki.Bundle) Object { return Object{Kind: kind, ID: id, Bundle: bundle} }
	type problems = []*problem.Problem
	const each, single, another = "add a moved block for each", "if only the key was renamed", "destroy this one first"
	for _, c := range []struct {
		name  string
		steps func(*Plan) problems
		want  string   // "": no error
		not   []string // of the errors
	}{
		{
			name: "all keys are renamed", want: each, not: []string{single, another},
			steps: func(p *Plan) (all problems) {
				for _, id := range everyone {
					all = append(all, p.Replaced(member(id, everyone...), id)...)
				}
				return all
			},
		},
		{
			name: "both keys are renamed", want: each, not: []string{single},
			steps: func(p *Plan) problems {
				return append(p.Replaced(member(a, a, b), a), p.Replaced(member(b, a, b), b)...)
			},
		},
		{
			name: "the only key is renamed", want: single, not: []string{each, another},
			steps: func(p *Plan) problems { return p.Replaced(member(a, a), a) },
		},
		{
			name: "all names change", want: "none of the serving ones would remain", not: []string{each, single},
			steps: func(p *Plan) problems {
				return append(p.Replaced(member(a, a, b), "x (10.0.0.1)"), p.Replaced(member(b, a, b), "y (10.0.0.2)")...)
			},
		},
		{
			name: "the only name changes", want: "none of the serving ones would remain", not: []string{each, single},
			steps: func(p *Plan) problems { return p.Replaced(member(a, a), "x (10.0.0.1)") },
		},
		{
			name: "all keys are renamed, and one that does not serve leaves", want: single, not: []string{each},
			steps: func(p *Plan) problems {
				stopped := member("cp9 (10.0.0.9)")
				stopped.Serving = false
				return append(append(p.Destroyed(stopped), p.Replaced(member(a, a, b), a)...),
					p.Replaced(member(b, a, b), b)...)
			},
		},
		{
			name: "one comes, the only one leaves", want: "none of the serving ones would remain",
			steps: func(p *Plan) problems {
				return append(p.Created(created(b, bundle)), p.Destroyed(member(a, a, b))...)
			},
		},
		{
			name: "all are replaced, the bundle planned later", want: another,
			steps: func(p *Plan) problems {
				return append(p.Created(created(a, nil)), p.Destroyed(member(a, a))...)
			},
		},
		{
			name: "all are replaced, the bundle planned before", want: another,
			steps: func(p *Plan) problems {
				return append(p.Destroyed(member(a, a)), p.Created(created(a, nil))...)
			},
		},
		{
			name: "tainted after a Read", want: single, not: []string{another},
			steps: func(p *Plan) problems {
				p.Observed(member(a, a))
				return p.Created(created(a, bundle))
			},
		},
		{
			name: "one without an identity keeps nothing", want: "none of the serving ones would remain",
			steps: func(p *Plan) problems {
				return append(p.Kept(member("")), p.Replaced(member(a, a), "x (10.0.0.1)")...)
			},
		},
		{
			name: "one without a bundle",
			steps: func(p *Plan) problems {
				return p.Kept(Object{Kind: kind, ID: a, Serving: true})
			},
		},
		{
			name: "an old key beside the new one", want: "Two resources describe",
			steps: func(p *Plan) problems {
				return append(append(p.Kept(member(a, a, b)), p.Destroyed(member(a, a, b))...), p.Kept(member(a, a, b))...)
			},
		},
		{
			name: "another cluster", want: "beside its cluster",
			steps: func(p *Plan) problems {
				other := created(b, bundle)
				other.Peers = []string{b}
				return append(append(p.Kept(member(a, a)), p.Created(other)...), p.Kept(member(a, a))...)
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			text, times := "", map[string]int{}
			for _, refused := range c.steps(&Plan{}) {
				text += refused.Error() + "\n"
				times[refused.Summary]++
			}
			if c.want == "" && text != "" || !strings.Contains(text, c.want) {
				t.Errorf("refused with %q, want %q", text, c.want)
			}
			for _, other := range c.not {
				if strings.Contains(text, other) {
					t.Errorf("refused with %q, which contains %q", text, other)
				}
			}
			for summary, n := range times {
				if n > 1 {
					t.Errorf("%q comes %d times", summary, n)
				}
			}
		})
	}
}

// TestNoPlan: nothing is refused once nothing is tracked.
func TestNoPlan(t *testing.T) {
	var none *Plan
	o := Object{Kind: "etcd members", ID: ID("cp1", "10.0.0.1"), Bundle: &pki.Bundle{ClusterID: "1"}, Serving: true}
	if o.ID != "cp1 (10.0.0.1)" {
		t.Errorf("the ID is %q", o.ID)
	}
	if refused := append(none.Destroyed(o), none.Created(o)...); len(refused) > 0 {
		t.Error(refused)
	}
	if refused := new(Plan).Created(Object{Kind: o.Kind, Bundle: o.Bundle}); len(refused) > 0 {
		t.Error(refused)
	}
}
