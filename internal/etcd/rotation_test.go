package etcd

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/etcdtest"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

func TestMayTake(t *testing.T) {
	at := func(who string, generation int) rotationStatus {
		return rotationStatus{Who: who, Generation: generation}
	}
	silent := rotationStatus{Who: "cp9", Unknown: "no route to host", Remedy: "bring it back"}
	between := rotationStatus{Who: "cp8", Generation: 1, Between: "cut off", Remedy: "apply"}
	for _, c := range []struct {
		name   string
		target int
		joins  bool
		others []rotationStatus
		cause  []string // none: allowed
		next   string
	}{
		{name: "alone", target: 2},
		{name: "all one behind", target: 2, others: []rotationStatus{at("a", 1), at("b", 1)}},
		{name: "all there", target: 2, others: []rotationStatus{at("a", 2), at("b", 2)}},
		{name: "going back", target: 1, others: []rotationStatus{at("a", 2), at("b", 1)}},
		{name: "the one that is two behind goes first", target: 2, others: []rotationStatus{at("a", 1), at("b", 1)}},
		{
			name: "the others wait for it", target: 2, others: []rotationStatus{at("a", 1), at("b", 0)},
			cause: []string{"b is still at generation 0"}, next: "back to 1",
		},
		{
			name: "two that are two behind", target: 2, others: []rotationStatus{at("a", 0), at("b", 0)},
			cause: []string{"a is still", "b is still"}, next: "back to 1",
		},
		{
			name: "two ahead", target: 1, others: []rotationStatus{at("a", 2), at("b", 3)},
			cause: []string{"b is already at generation 3"}, next: "to 2 and apply, then lower",
		},
		{
			name: "silent", target: 1, others: []rotationStatus{at("a", 1), silent}, cause: []string{"cp9", "no route"},
			next: "bring it back",
		},
		{name: "silent and two behind", target: 2, others: []rotationStatus{at("a", 0), silent}, cause: []string{
			"a is still",
			"cp9",
		}, next: "back to 1"},
		{name: "between", target: 2, others: []rotationStatus{at("a", 2), between}, cause: []string{
			"cp8 is between",
			"cut off",
		}, next: "apply"},
		{
			name: "too far away, and between", target: 3, others: []rotationStatus{between}, cause: []string{"cp8 is still"},
			next: "back to 2",
		},
		{name: "joins the same", target: 3, joins: true, others: []rotationStatus{at("a", 3)}},
		{name: "joins neighbours", target: 3, joins: true, others: []rotationStatus{at("a", 2), at("b", 3)}},
		{
			name: "joins one that is two behind", target: 3, joins: true, others: []rotationStatus{at("a", 1), at("b", 2)},
			cause: []string{"a is still"}, next: "back to 2",
		},
		{
			name: "joins one that is two ahead", target: 3, joins: true, others: []rotationStatus{at("a", 5)},
			cause: []string{"a is already"}, next: "of generation 5 or 4 of etcd. Do not raise rotation.etcd",
		},
		{name: "joins its like beside a silent one", target: 3, joins: true, others: []rotationStatus{at("a", 3), silent}},
		{
			name: "joins neighbours beside a silent one", target: 3, joins: true,
			others: []rotationStatus{at("a", 3), at("b", 2), silent}, cause: []string{"cp9"}, next: "bring it back",
		},
		{
			name: "joins a silent one", target: 0, joins: true, others: []rotationStatus{silent}, cause: []string{"cp9"},
			next: "bring it back",
		},
	} {
		o := mayTakeGeneration(c.target, c.joins, c.others)
		if o == nil {
			if len(c.cause) > 0 {
				t.Errorf("%s: allowed", c.name)
			}
			continue
		}
		if len(c.cause) == 0 || !strings.Contains(o.Next, c.next) {
			t.Errorf("%s: refused: %s; next: %s", c.name, o.Cause, o.Next)
		}
		for _, word := range c.cause {
			if !strings.Contains(o.Cause, word) {
				t.Errorf("%s: %q is not in %q", c.name, word, o.Cause)
			}
		}
	}
}

// TestNothingMoves verifies that an error with another text does not restart the waiting
// time.
func TestNothingMoves(t *testing.T) {
	at := func(s ...rotationStatus) *obstacle { return mayTakeGeneration(5, false, s) }
	silent, far, later := rotationStatus{Who: "a", Unknown: "port 4711"}, rotationStatus{Who: "b", Generation: 2},
		rotationStatus{Who: "b", Generation: 3}
	for _, c := range []struct {
		now, before *obstacle
		want        bool
	}{
		{at(silent, far), at(rotationStatus{Who: "a", Unknown: "port 4712"}, far), true},
		{at(silent, later), at(silent, far), false},
		{at(silent), at(silent, far), false},
		{at(silent), nil, false},
	} {
		if got := c.now.same(c.before); got != c.want {
			t.Errorf("%v after %v: same = %v", c.now, c.before, got)
		}
	}
}

// TestNeighboursOnly checks the guarantee of mayTakeGeneration: if members move in any
// order and only where it allows them, no two are ever more than one stage apart, and from
// every such state all of them can reach the next stage.
func TestNeighboursOnly(t *testing.T) {
	standings := func(generations []int, not int) []rotationStatus {
		var out []rotationStatus
		for i, g := range generations {
			if i != not {
				out = append(out, rotationStatus{Who: fmt.Sprint(i), Generation: g})
			}
		}
		return out
	}
	seen := map[string]bool{}
	var visit func(generations []int)
	visit = func(generations []int) {
		key := fmt.Sprint(generations)
		if seen[key] {
			return
		}
		seen[key] = true
		if slices.Max(generations)-slices.Min(generations) > 1 {
			t.Errorf("reached %v", generations)
		}
		for target := range 6 {
			for i := range generations {
				if mayTakeGeneration(target, false, standings(generations, i)) == nil {
					next := slices.Clone(generations)
					next[i] = target
					visit(next)
				}
			}
		}
	}
	visit([]int{0, 0, 0})
	if len(seen) != 6+5*6 { // all equal; one or two of three ahead by one
		t.Errorf("%d states", len(seen))
	}
}

// memberOn returns a machine with an established member made by a bundle.
func memberOn(t *testing.T, s Spec) machine.Observed {
	t.Helper()
	f := machine.Observed{Name: s.Name, Address: s.Host.Address()}
	c, err := machine.Certificates(s.Spec, f, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	change, _ := machine.NewMemberChange(s.Spec, f, c,
		machine.ID{Member: membership.StaticMemberID(s.PeerURL(), s.Bundle.ClusterID)}, "")
	change.Files = slices.DeleteFunc(change.Files, func(file host.File) bool { return file.Path == layout.EnvPath })
	return f.After(s.Spec, change)
}

func TestStandings(t *testing.T) {
	pool, err := host.NewPool(host.Config{})
	if err != nil {
		t.Fatal(err)
	}
	bundles := etcdtest.Lineage(t, etcdtest.Bundle(t), 2)
	spec := func(name string, generation int) Spec {
		return Spec{Spec: machine.Spec{
			Name: name, Host: pool.Host(host.Target{Address: "10.0.0." + name[2:]}),
			Bundle: bundles[generation], Version: "3.6.16",
		}}
	}
	s := spec("cp1", 1)
	view := &membership.View{Members: []membership.Member{
		{
			ID: 1, Name: "cp1", PeerURLs: []string{membership.PeerURL("10.0.0.1")},
			ClientURLs: []string{membership.ClientURL("10.0.0.1")},
		},
		{
			ID: 2, Name: "cp2", PeerURLs: []string{membership.PeerURL("10.0.0.2")},
			ClientURLs: []string{membership.ClientURL("10.0.0.2")},
		},
	}}
	with := func(f machine.Observed, path, content string) machine.Observed {
		f.Facts.Files = maps.Clone(f.Facts.Files)
		f.Facts.Files[path] = host.FileState{Content: content, SHA256: machine.Digest([]byte(content))}
		return f
	}
	without := func(f machine.Observed, path string) machine.Observed {
		f.Facts.Files = maps.Clone(f.Facts.Files)
		delete(f.Facts.Files, path)
		return f
	}
	other := memberOn(t, spec("cp2", 0))
	stopped := other
	stopped.Unit.Active = "inactive"
	bare := other
	bare.Record = nil
	elsewhere := &membership.View{Members: append(slices.Clone(view.Members),
		membership.Member{
			Name: "cp7", PeerURLs: []string{membership.PeerURL("10.0.0.7")},
			ClientURLs: []string{membership.ClientURL("10.0.0.7")},
		})}
	unlistedView := &membership.View{Members: view.Members[:1]}
	note := func(b *pki.Bundle) string {
		return systemd.StartNoteEntry(machine.Digest([]byte(b.Anchors(pki.Etcd))), layout.CAPath)
	}
	stranger := etcdtest.Bundle(t)
	strange, err := stranger.Issue(pki.EtcdPeer("cp2", "10.0.0.2"), time.Now(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		view    *membership.View
		machine machine.Observed
		want    string // "": no status; else the generation alone, or a word of Unknown or Between
	}{
		{"one behind", view, other, "0"},
		{"nobody answers", nil, other, "0"},
		{"not listed", unlistedView, other, ""},
		{"unreachable", view, lost("cp2"), "no route"},
		{"unreachable and not listed", unlistedView, lost("cp2"), ""},
		{"rebuilt", view, blank("cp2"), ""},
		{"no marker", view, bare, "no " + layout.RecordPath},
		{
			"started on the files before", view, with(memberOn(t, spec("cp2", 1)), layout.StartNote, note(bundles[0])),
			"is running with a different",
		},
		{
			"files of the next stage, not started on them", view, with(other, layout.CAPath, bundles[1].Anchors(pki.Etcd)),
			"is running with a different",
		},
		{"the same, and stopped", view, with(stopped, layout.CAPath, bundles[1].Anchors(pki.Etcd)), "0"},
		{"at the generation, a file edited that nobody has read", view, with(memberOn(t, spec("cp2", 1)), layout.CAPath,
			"edited"), "1"},
		{
			"shows what is not trusted", view, with(other, "/etc/kubernetes/pki/etcd/peer.crt", strange.Certificate),
			"does not trust",
		},
		{"without certificates", view, without(other, "/etc/kubernetes/pki/etcd/peer.crt"), "0"},
		{"not among peers", elsewhere, blank("cp2"), "which is not in peers"},
	} {
		if c.machine.Err != nil { // the same address as the others
			c.machine.Address = "10.0.0.2"
		}
		var words []string
		for _, at := range rotationStatuses(s, c.view, []machine.Observed{memberOn(t, s), c.machine}) {
			words = append(words, fmt.Sprintf("%s: %d %s%s", at.Who, at.Generation, at.Unknown, at.Between))
			if at.Between != "" && (at.Generation == 1) != strings.Contains(at.Remedy, "without -target") {
				t.Errorf("%s: remedy at generation %d: %q", c.name, at.Generation, at.Remedy)
			}
		}
		got := strings.Join(words, "\n")
		if len(c.want) == 1 && got != "cp2 (10.0.0.2): "+c.want+" " || (c.want == "") != (got == "") ||
			!strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestRotationIntroducedAgain: an introduced CA (B) is taken back and another one (C) is introduced. Both have the same
// generations. A member may move only where it and all others accept each other's certificates.
func TestRotationIntroducedAgain(t *testing.T) {
	pool, err := host.NewPool(host.Config{})
	if err != nil {
		t.Fatal(err)
	}
	first := etcdtest.Bundle(t)
	b, c := etcdtest.Lineage(t, first, 3), etcdtest.Lineage(t, first, 4)
	uncrossed := etcdtest.Rotated(t, c[1], 2) // as when the key of the first CA is external
	uncrossed.EtcdCARotation.Cross = ""
	spec := func(name string, bundle *pki.Bundle) Spec {
		return Spec{Spec: machine.Spec{
			Name: name, Host: pool.Host(host.Target{Address: "10.0.0." + name[2:]}), Bundle: bundle, Version: "3.6.16",
		}}
	}
	const lacksCA, presents = "without the CA that issues", "presents a certificate"
	for _, test := range []struct {
		name        string
		to, process *pki.Bundle
		want        string // "": allowed
	}{
		{"C is introduced, the other has nothing", c[1], first, ""},
		{"C is introduced, the other has B", c[1], b[1], ""},
		{"C is introduced, the other has adopted C", c[1], c[2], ""},
		{"C is adopted, the other has it", c[2], c[1], ""},
		{"C is adopted, the other has ended with C", c[2], c[3], ""},
		{"C is adopted, the other has B and accepts the cross certificate", c[2], b[1], ""},
		{"C is adopted, the other has B", uncrossed, b[1], lacksCA},
		{"C is adopted, the other has it, without a cross certificate", uncrossed, c[1], ""},
		{"C is adopted, the other has ended with B", c[2], b[3], lacksCA},
		{"it ended with C, the other has adopted it", c[3], c[2], ""},
		{"it ended with C, the other has adopted B", c[3], b[2], presents},
		{"it ended with C, as the other did with B", c[3], b[3], lacksCA},
		{"the next one is introduced, the other has ended with C", c[4], c[3], ""},
		{"the next one is introduced, the other has ended with B", c[4], b[3], lacksCA},
	} {
		s := spec("cp1", test.to)
		s.APIServers = &apiServers{
			t: t, at: map[string]int{"10.0.0.2": 0}, bundles: []*pki.Bundle{test.process},
		}
		for who, status := range map[string]rotationStatus{
			"member":     rotationStatusOf(s, memberOn(t, spec("cp2", test.process))),
			"API server": apiServerStatus(t.Context(), s, "10.0.0.2"),
		} {
			o := mayTakeGeneration(s.Generation(), false, []rotationStatus{status})
			switch {
			case test.want == "" && o != nil:
				t.Errorf("%s (%s): %s", test.name, who, o.Cause)
			case test.want != "" && (o == nil || !strings.Contains(o.Cause, test.want)):
				t.Errorf("%s (%s): %+v, want %q", test.name, who, o, test.want)
			}
		}
	}
}

func TestRotationInWords(t *testing.T) {
	bundles := etcdtest.Lineage(t, etcdtest.Bundle(t), 2)
	pool, err := host.NewPool(host.Config{})
	if err != nil {
		t.Fatal(err)
	}
	at := func(generation int) Spec {
		return Spec{Spec: machine.Spec{
			Name: "cp1", Host: pool.Host(host.Target{Address: "10.0.0.1"}),
			Bundle: bundles[generation], Version: "3.6.16",
		}}
	}
	words := func(f machine.Observed, generation int) string {
		return strings.Join(machine.Drift(at(generation).Spec, f, nil, time.Now()), "\n")
	}
	old := memberOn(t, at(0))
	if got := words(old, 0); got != "" {
		t.Errorf("the same generation: %q", got)
	}
	want := fmt.Sprintf(`cp1: %s trusts "etcd-ca" (%.8s), wanted "etcd-ca" (%.8s) and "etcd-ca-2" (`, layout.CAPath,
		fingerprint(t, bundles[0]), fingerprint(t, bundles[0]))
	if got := words(old, 1); !strings.HasPrefix(got, want) || strings.Contains(got, "\n") {
		t.Errorf("introduced: %q, want %q", got, want)
	}
	if got := words(memberOn(t, at(1)), 2); strings.Count(got,
		`is signed by another authority ("etcd-ca") than this cluster's "etcd-ca-2"`) != 3 {
		t.Errorf("adopted: %q", got)
	}
	// Interrupted before its last file.
	cut := memberOn(t, at(2))
	cut.Record.Generation = 1
	if got := words(cut, 2); got != "cp1: "+layout.RecordPath+" records generation 1 of the etcd CA, wanted 2" {
		t.Errorf("the marker alone: %q", got)
	}
	r, err := machine.Repairs(at(2).Spec, cut, nil, time.Now())
	if err != nil || len(r.Change.Files) != 1 || r.Change.Files[0].Path != layout.RecordPath || r.Restart != "" ||
		!strings.Contains(string(r.Change.Files[0].Content), `"generation": 2`) {
		t.Errorf("repair of the marker alone: %+v, %v", r, err)
	}
}

func fingerprint(t *testing.T, b *pki.Bundle) string {
	t.Helper()
	sum, err := pki.Fingerprint(b.Signing(pki.Etcd))
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

func TestClientCertificateFollowsTheRotation(t *testing.T) {
	cl := &cluster{}
	seen := map[any]bool{}
	for i, b := range etcdtest.Lineage(t, etcdtest.Bundle(t), 3) {
		once, err := cl.clientTLS(b)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := cl.clientTLS(b); err != nil || again != once {
			t.Errorf("generation %d: issued twice (%v)", i, err)
		}
		seen[once] = true
	}
	// From 1 to 2 only the signer changes; from 2 to 3 nothing, because the provider
	// continues to know both.
	if len(seen) != 3 {
		t.Errorf("%d client certificates, want 3", len(seen))
	}
	for range 2 { // an externally signed one, and then another one
		b := etcdtest.Bundle(t)
		leaf := pki.EtcdHealthcheckClient()
		pair, err := b.Issue(leaf, time.Now(), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		b.EtcdCA.PrivateKey, b.Signed = "", map[string]pki.KeyPair{leaf.Name: pair}
		config, err := cl.clientTLS(b)
		if err != nil {
			t.Fatal(err)
		}
		seen[config] = true
	}
	if len(seen) != 5 {
		t.Error("a certificate that was signed elsewhere is not used")
	}
}
