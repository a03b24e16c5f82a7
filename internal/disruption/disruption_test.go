package disruption

import (
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

func TestDisruption(t *testing.T) {
	const kind = "etcd members"
	everyone := []string{"cp1 (10.0.0.1)", "cp2 (10.0.0.2)", "cp3 (10.0.0.3)"}
	type step func(p *Plan, b *pki.Bundle) []*problem.Problem
	member := func(b *pki.Bundle, id string, serving bool) Object {
		return Object{Kind: kind, ID: id, Bundle: b, Serving: serving, Peers: everyone}
	}
	created := func(b *pki.Bundle, id string, peers []string) Object {
		return Object{Kind: kind, ID: id, Bundle: b, Peers: peers}
	}
	keep := func(id string) step {
		return func(p *Plan, b *pki.Bundle) []*problem.Problem { return p.Kept(member(b, id, true)) }
	}
	read := keep
	destroy := func(id string) step {
		return func(p *Plan, b *pki.Bundle) []*problem.Problem { return p.Destroyed(member(b, id, true)) }
	}
	create := func(id string) step {
		return func(p *Plan, b *pki.Bundle) []*problem.Problem { return p.Created(created(b, id, nil)) }
	}
	replace := func(id, by string) step {
		return func(p *Plan, b *pki.Bundle) []*problem.Problem { return p.Replaced(member(b, id, true), by) }
	}
	failed := func(id string) step { // a Create that never served: tainted, and planned as new
		return func(p *Plan, b *pki.Bundle) []*problem.Problem {
			p.Observed(member(b, id, false))
			return p.Created(created(b, id, nil))
		}
	}
	joins := func(id string, peers ...string) step {
		return func(p *Plan, b *pki.Bundle) []*problem.Problem { return p.Created(created(b, id, peers)) }
	}
	unplaced := func(id string) step { // the plan changes the bundle too
		return func(p *Plan, _ *pki.Bundle) []*problem.Problem { return p.Created(created(nil, id, everyone)) }
	}
	const cp4, cp5 = "cp4 (10.0.0.4)", "cp5 (10.0.0.5)"
	each := func(f func(string) step) (all []step) {
		for _, id := range everyone {
			all = append(all, f(id))
		}
		return all
	}
	for _, c := range []struct {
		name      string
		deletable bool
		steps     []step
		want      string // of the error; "": none
	}{
		{name: "nothing changes", steps: each(keep)},
		{name: "a new cluster", steps: each(create)},
		{name: "a new cluster whose first apply failed", steps: each(failed)},
		{name: "one is replaced", steps: append(each(read), create(everyone[0]), keep(everyone[1]), keep(everyone[2]))},
		{name: "two of three leave", steps: []step{destroy(everyone[0]), destroy(everyone[1]), keep(everyone[2])}},
		{name: "one of three, with -target", steps: []step{destroy(everyone[0])}},
		{name: "terraform destroy", steps: each(destroy), want: "deletion_protection is enabled"},
		{name: "terraform destroy, allowed", deletable: true, steps: each(destroy)},
		{name: "-replace of all", deletable: true, steps: append(each(keep), each(create)...), want: "moved"},
		{name: "all names change", deletable: true, steps: []step{
			replace(everyone[0], "a (10.0.0.1)"), replace(everyone[1], "b (10.0.0.2)"), replace(everyone[2], "c (10.0.0.3)"),
		}, want: "two applies"},
		{name: "all keys and names change", steps: append(append([]step{create("a (10.0.0.1)")}, each(destroy)...),
			create("b (10.0.0.2)")), want: "two applies"},
		{name: "all keys change, names do not", steps: append(each(create), each(destroy)...), want: "moved"},
		{name: "one of three keys changes", steps: []step{
			create(everyone[0]), destroy(everyone[0]), keep(everyone[1]),
			keep(everyone[2]),
		}},
		{name: "one more", steps: append(each(keep), joins(cp4, append(everyone, cp4)...))},
		{name: "one more, planned first", steps: append([]step{joins(cp4, append(everyone, cp4)...)}, each(keep)...)},
		{name: "one more that knows one", steps: append(each(keep), joins(cp4, everyone[2], cp4))},
		{name: "one more that knows one, planned first", steps: append([]step{joins(cp4, everyone[2], cp4)}, each(keep)...)},
		{name: "another cluster", steps: append(each(keep), joins(cp4, cp4, cp5)), want: "beside its cluster"},
		{name: "another cluster, planned first", steps: append([]step{joins(cp4, cp4)}, each(keep)...), want: "use another"},
		{name: "another cluster beside one that leaves", deletable: true, steps: append([]step{
			joins(cp4, everyone[0], cp4),
			destroy(everyone[0]),
		}, keep(everyone[1]), keep(everyone[2])), want: "beside its cluster"},
		{
			name: "an old key beside the new one", deletable: true, steps: append(each(keep), destroy(everyone[0])),
			want: "terraform state rm",
		},
		{
			name: "an old key, planned before the new one", deletable: true, steps: append(each(destroy), each(keep)...),
			want: "Two resources describe cp1",
		},
		{
			name: "all keys change, and the bundle does", deletable: true,
			steps: append(each(unplaced), each(destroy)...), want: "moved",
		},
		{
			name: "all keys change, planned after the old ones, and the bundle does", deletable: true,
			steps: append(each(destroy), each(unplaced)...), want: "moved",
		},
		{
			name: "-replace of all, and the bundle changes", deletable: true,
			steps: append(each(keep), each(unplaced)...), want: "destroy this one first",
		},
		{name: "one is replaced, and the bundle changes", steps: append(each(keep), unplaced(everyone[0]))},
		{name: "one more, and the bundle changes", steps: append(each(keep), unplaced(cp4))},
		{name: "a cluster leaves, another one comes", deletable: true, steps: append(each(destroy), unplaced(cp4))},
		{name: "tainted, all of them", steps: append(each(read), each(create)...), want: "moved"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bundle := &pki.Bundle{ClusterID: "1", Deletable: c.deletable}
			var p Plan
			text := ""
			for _, step := range c.steps {
				for _, refused := range step(&p, bundle) {
					text += refused.Error() + "\n"
				}
			}
			if c.want == "" && text != "" || !strings.Contains(text, c.want) {
				t.Errorf("refused with %q, want %q", text, c.want)
			}
		})
	}
}

// TestDisruptionOfAnotherCluster checks that clusters are judged independently.
func TestDisruptionOfAnotherCluster(t *testing.T) {
	var p Plan
	one, other := Object{Kind: "etcd members", ID: "cp1 (10.0.0.1)", Bundle: &pki.Bundle{ClusterID: "1"}, Serving: true},
		Object{Kind: "etcd members", ID: "cp1 (10.0.1.1)", Bundle: &pki.Bundle{ClusterID: "2"}, Serving: true}
	if refused := p.Kept(one); len(refused) > 0 {
		t.Error(refused)
	}
	if len(p.Destroyed(other)) == 0 {
		t.Error("the only member of a protected cluster is destroyed beside another cluster's")
	}
}

// TestServes: a replica that the run has seen serving, and that it creates again, may have peers that the plan does not
// know: with them, it is not the last one.
func TestServes(t *testing.T) {
	bundle := &pki.Bundle{ClusterID: "1"}
	kept := Object{Kind: "control-plane replicas", ID: ID("cp1", "10.0.0.1"), Bundle: bundle, Serving: true}
	created := Object{Kind: kept.Kind, ID: kept.ID, Bundle: bundle}
	var none *Plan
	if none.Serves(created) || new(Plan).Serves(created) {
		t.Error("a replica that nobody has seen serves")
	}
	for _, peers := range [][]string{nil, {ID("cp2", "10.0.0.2")}} {
		var p Plan
		if refused := p.Kept(kept); len(refused) > 0 || !p.Serves(created) {
			t.Errorf("kept: %v, serves %t", refused, p.Serves(created))
		}
		seen := created
		seen.Peers = peers
		p.Observed(seen)
		if refused := p.Created(created); (len(refused) > 0) != (peers == nil) {
			t.Errorf("with the peers %q: %v", peers, refused)
		}
	}
}
