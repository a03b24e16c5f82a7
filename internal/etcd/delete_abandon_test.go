package etcd

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership/membershiptest"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// strange returns a machine that answers and is not trusted, or that rejects the login.
func strange(name string, err error) machine.Observed {
	f := blank(name)
	f.Err = fmt.Errorf("observe %s: %w", name, err)
	return f
}

func TestAbandon(t *testing.T) {
	named := func(names ...string) host.Abandoned {
		a := host.Abandoned{}
		for _, name := range names {
			a[blank(name).Address] = true
		}
		return a
	}
	view := func(letters string) *membership.View { v := membershiptest.ClusterOf(letters); return &v }
	changed := &host.HostKeyError{Address: "10.0.0.1", Seen: "ssh-ed25519 AAAA", Known: []string{"ssh-ed25519 BBBB"}}
	all := named("cp1", "cp2", "cp3")
	others := func(machines ...machine.Observed) []machine.Observed { return machines }
	unrecorded := established("cp2")
	unrecorded.Record = nil
	alien := established("cp2")
	alien.Record = &machine.Record{ClusterID: "other", ClusterName: "staging", Name: "cp2"}

	for _, c := range []struct {
		name      string
		self      machine.Observed
		others    []machine.Observed
		view      *membership.View
		abandon   host.Abandoned
		leaving   []string
		protected bool
		want      leaveKind
		otherwise leaveKind
		follows   bool
		reason    string
		next      string
		notNext   string
	}{
		// A survivor answers: the voter is removed first, and the machine abandoned only
		// afterwards.
		{
			name: "a voter that lives, behind the operator's network", self: lost("cp1"),
			others: others(runs(established("cp2")), runs(established("cp3"))),
			view:   view("hLh"), abandon: named("cp1"), want: leaveRemove,
		},
		{
			name: "a dead voter", self: lost("cp1"), others: others(runs(established("cp2")), runs(established("cp3"))),
			view: view("dLh"), abandon: named("cp1"), want: leaveRemove,
		},
		{
			name: "a dead voter whose machine hangs", self: strange("cp1", host.ErrNoAnswer),
			others: others(runs(established("cp2")), runs(established("cp3"))), view: view("dLh"), abandon: all,
			want: leaveRemove,
		},
		{
			name: "removed, its machine hangs", self: strange("cp9", host.ErrNoAnswer), view: view("Lhh"), abandon: named("cp9"),
			want: leaveRefuse, next: "why commands do not end there", notNext: "abandon",
		},
		{name: "removed", self: lost("cp9"), view: view("Lhh"), abandon: named("cp9"), want: leaveAbandon},
		{
			name: "removed, another one is named", self: lost("cp9"), view: view("Lhh"), abandon: named("cp1"),
			want: leaveRefuse, reason: "cannot be reached", next: `add "10.0.0.9" to abandon_unreachable_hosts`,
		},
		{
			name: "the only voter answers through another machine", self: lost("cp1"), others: others(blank("cp2")),
			view: view("L"), abandon: named("cp1"), want: leaveRefuse, reason: "still exists",
		},

		// No member answers.
		{
			name: "the operator's network is down, one is named", self: lost("cp1"), others: others(lost("cp2"), lost("cp3")),
			abandon: named("cp1"),
			want:    leaveRefuse, reason: "only the network is down",
			next: `add "10.0.0.2", "10.0.0.3" to abandon_unreachable_hosts`, notNext: `"10.0.0.1"`,
		},
		{
			name: "none is named", self: lost("cp1"), others: others(lost("cp2")), want: leaveRefuse, reason: "no route",
			next: `add "10.0.0.2", "10.0.0.1" to`,
		},
		{
			name: "the whole cluster is named", self: lost("cp1"), others: others(lost("cp2"), lost("cp3")), abandon: all,
			want: leaveAbandon,
		},
		{
			name: "the whole cluster is named, protected", self: lost("cp1"), others: others(lost("cp2"), lost("cp3")),
			abandon: all, protected: true, want: leaveRefuse, reason: "deletion_protection",
		},
		{
			name: "a survivor is stopped, one is not named", self: lost("cp1"), others: others(established("cp2"), lost("cp3")),
			abandon: named("cp1"), want: leaveRefuse, reason: "only the network is down",
		},
		{name: "a cluster of one", self: lost("cp1"), abandon: named("cp1"), want: leaveAbandon},
		{
			name: "the others are empty", self: lost("cp1"), others: others(blank("cp2"), blank("cp3")), abandon: named("cp1"),
			want: leaveAbandon,
		},
		{
			name: "the others are another cluster's", self: lost("cp1"), others: others(alien), abandon: named("cp1"),
			want: leaveAbandon,
		},
		{
			name: "an election is under way", self: lost("cp1"),
			others: others(runs(established("cp2")), runs(established("cp3"))), abandon: all,
			want: leaveWait, otherwise: leaveRefuse, reason: "there is a member on cp2",
		},
		{
			name: "an election is under way, nothing is named", self: lost("cp1"),
			others: others(runs(established("cp2")), lost("cp3")),
			want:   leaveWait, otherwise: leaveRefuse, reason: "only the network is down",
		},
		{
			name: "a survivor is stopped", self: lost("cp1"), others: others(established("cp2")), abandon: all, want: leaveWait,
			otherwise: leaveRefuse, reason: "cp2", next: "systemctl start",
		},
		{
			name: "a survivor without a record", self: lost("cp1"), others: others(unrecorded), abandon: all, want: leaveWait,
			otherwise: leaveRefuse, reason: "cp2",
		},
		{
			name: "the survivors leave too", self: lost("cp1"), others: others(runs(established("cp2")), lost("cp3")),
			abandon: all, leaving: []string{"cp1", "cp2", "cp3"},
			want: leaveWait, otherwise: leaveRefuse, follows: true,
		},
		{
			name: "one survivor leaves too, one stays", self: lost("cp1"),
			others: others(established("cp2"), established("cp3")), abandon: all, leaving: []string{"cp1", "cp2"},
			want: leaveWait, otherwise: leaveRefuse, reason: "cp3",
		},

		// A machine that answers is not gone, even if the user has named it.
		{
			name: "the host key changed", self: strange("cp1", changed),
			others: others(runs(established("cp2")), runs(established("cp3"))), view: view("dLh"),
			abandon: all, want: leaveRefuse, reason: "changed", next: "pin it on the provider",
		},
		{
			name: "the host key changed, nobody answers", self: strange("cp1", changed), others: others(lost("cp2")),
			abandon: all, want: leaveRefuse, next: "pin it",
		},
		{
			name: "the host key changed, removed before", self: strange("cp9", changed), view: view("Lhh"),
			abandon: named("cp9"), want: leaveRefuse, next: "pin it",
		},
		{
			name: "authentication", self: strange("cp1", host.ErrAuth), view: view("dLh"), abandon: all, want: leaveRefuse,
			next: "check ssh on the provider",
		},
		{
			name: "no root", self: strange("cp1", host.ErrNotRoot), view: view("dLh"), abandon: all, want: leaveRefuse,
			next: "check ssh on the provider",
		},
		{
			name: "it cannot be read", self: strange("cp1", errors.New("no shell")), view: view("dLh"), abandon: all,
			want: leaveRefuse, reason: "no shell",
		},
		{
			name: "another one's host key changed", self: lost("cp1"), others: others(strange("cp2", changed), lost("cp3")),
			abandon: all,
			want:    leaveRefuse, reason: "cp2 (10.0.0.2)", notNext: "abandon_unreachable_hosts",
		},
		{
			name: "another one accepts the login and hangs", self: lost("cp1"),
			others:  others(strange("cp2", fmt.Errorf("%w: %w", host.ErrUnreachable, host.ErrNoAnswer)), lost("cp3")),
			abandon: all,
			want:    leaveRefuse, reason: "cp2 (10.0.0.2)", notNext: "abandon_unreachable_hosts",
		},
		{
			name: "beside one whose host key changed", self: established("cp1"), others: others(strange("cp2", changed)),
			abandon: all,
			want:    leaveWait, otherwise: leaveRefuse, reason: "cp2 (10.0.0.2)", notNext: "abandon_unreachable_hosts",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := leaveInput{
				Name: c.self.Name, PeerURL: membership.PeerURL(c.self.Address), Cluster: testCluster,
				DataDir: layout.DefaultDataDir,
				View:    c.view, Self: c.self, Others: c.others, Abandon: c.abandon, Leaving: map[string]bool{},
				Protected: c.protected,
			}
			for _, name := range c.leaving {
				in.Leaving[name] = true
			}
			d := decideLeave(in)
			if d.Kind != c.want || d.Kind == leaveWait && d.Otherwise != c.otherwise || d.Follows != c.follows {
				t.Errorf("got %s (otherwise %s), follows %v: %s", d.Kind, d.Otherwise, d.Follows, d.Reason)
			}
			if !strings.Contains(d.Reason, c.reason) || !strings.Contains(d.Next, c.next) || c.notNext != "" &&
				strings.Contains(d.Next, c.notNext) {
				t.Errorf("because %q\nnext %q", d.Reason, d.Next)
			}
			if (d.Kind == leaveRefuse || d.Otherwise == leaveRefuse && d.Kind == leaveWait) && d.Next == "" {
				t.Error("a refusal without a next step")
			}
		})
	}
}
