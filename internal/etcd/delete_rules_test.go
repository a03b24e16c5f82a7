package etcd

import (
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership/membershiptest"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

func runs(f machine.Observed) machine.Observed {
	f.Unit = host.UnitState{Active: "active"}
	f.Facts.Files = map[string]host.FileState{layout.UnitPath: {}}
	return f
}

// retiredFor is a machine whose member's data was archived for a restore.
func retiredFor(name, restore string) machine.Observed {
	f := blank(name)
	f.Record = &machine.Record{ClusterID: established(name).Record.ClusterID, Name: name, Restoring: restore}
	return f
}

func TestDecideLeave(t *testing.T) {
	all := []string{"cp1", "cp2", "cp3"}
	stranger := established("cp1")
	stranger.Record = &machine.Record{ClusterID: "other", ClusterName: "staging", Name: "cp1"}
	renamed := established("cp1")
	renamed.Record.Name = "db1"
	view := func(letters string) *membership.View { v := membershiptest.ClusterOf(letters); return &v }
	corrupt := func(letters string, ids ...uint64) *membership.View {
		var alarms []membership.Alarm
		for _, id := range ids {
			alarms = append(alarms, membership.Alarm{Member: id, Name: membership.AlarmCorrupt})
		}
		v := membershiptest.ClusterOf(letters).WithAlarms(alarms)
		return &v
	}
	joining := began("cp1", "cp1", "cp2", "cp3")
	joining.New = false
	unnamed := membershiptest.ClusterOf("Lhl")
	unnamed.Members[2].Name, unnamed.Members[2].ClientURLs = "", nil
	otherName := membershiptest.ClusterOf("Lhh")
	otherName.Members[0].Name = "db1"
	replacedBy9 := established("cp9")
	replacedBy9.Record.Name = "db9"
	unitOnly := blank("cp9")
	unitOnly.Facts.Files = map[string]host.FileState{layout.UnitPath: {}}
	unlisted := stranger
	unlisted.Name, unlisted.Address = "cp9", "10.0.0.9"
	elsewhere := func(letters string) *membership.View {
		v := membershiptest.ClusterOf(letters)
		v.Members[0].PeerURLs = []string{"https://cp1.example.com:2380"}
		return &v
	}
	served8 := func(letters string) *membership.View {
		v := membershiptest.ClusterOf(letters)
		v.ClusterID = 8
		return &v
	}
	unrecorded := runs(established("cp1"))
	unrecorded.Record = nil
	unrecorded9 := runs(established("cp9"))
	unrecorded9.Record = nil
	halfWritten := blank("cp1") // a Create was cut off
	halfWritten.Facts.Files = map[string]host.FileState{layout.UnitPath: {}}
	first := established("cp1")
	first.Record.MemberID = "1"
	liar := established("cp9")
	liar.Record.MemberID = "2"
	others := []machine.Observed{runs(established("cp2")), runs(established("cp3"))}
	stopped := []machine.Observed{established("cp2"), established("cp3")}
	three := func(f machine.Observed) leaveInput { return leaveInput{Self: f, Others: others} }
	following := func(in leaveInput) leaveInput {
		in.Pending, in.Following = []string{"a", "b"}, []string{"a"}
		return in
	}

	for _, c := range []struct {
		name      string
		in        leaveInput
		view      *membership.View
		leaving   []string
		abandon   host.Abandoned
		want      leaveKind
		otherwise leaveKind
		keep      bool
		reason    string
	}{
		{name: "one of three", in: three(runs(established("cp1"))), view: view("Lhh"), want: leaveRemove},
		{name: "a dead one of three", in: three(lost("cp1")), view: view("dLh"), want: leaveRemove},
		{
			name: "one joins in the place of another", in: following(three(runs(established("cp1")))), view: view("Lhh"),
			want: leaveWait, otherwise: leaveRemove, reason: "others join in their place: a",
		},
		{name: "a dead one, meanwhile", in: following(three(lost("cp1"))), view: view("dLh"), want: leaveRemove},
		{
			name: "beside a dead one", in: three(runs(established("cp1"))), view: view("Lhd"), want: leaveWait,
			otherwise: leaveRefuse, reason: "lose quorum",
		},
		{
			name: "beside a dead one, one is joining", in: three(runs(established("cp1"))), view: view("Lhdl"), want: leaveWait,
			otherwise: leaveRefuse, reason: "lose quorum",
		},
		{name: "listed at another peer URL", in: three(runs(first)), view: elsewhere("Lhh"), want: leaveRemove},
		{
			name: "listed at another peer URL, beside a dead one", in: three(runs(first)), view: elsewhere("Lhd"),
			want: leaveWait, otherwise: leaveRefuse, reason: "lose quorum",
		},
		{
			name: "all leave, protected, one is CORRUPT", view: corrupt("Lhh", 2), leaving: all, want: leaveWait,
			in:        leaveInput{Self: runs(established("cp1")), Others: others, Protected: true},
			otherwise: leaveRefuse, reason: "CORRUPT is raised for cp2",
		},
		{name: "its machine claims the ID of another member", in: three(runs(liar)), view: view("Lhh"), want: leaveClean},
		{name: "without its record", in: three(unrecorded), view: view("Lhh"), want: leaveRefuse, reason: "has etcd data"},
		{name: "without its record, dead", in: three(unrecorded), view: view("dLh"), want: leaveRefuse, reason: "not known"},
		{name: "the last, without its record", in: leaveInput{Self: unrecorded}, view: view("L"), want: leaveRefuse},
		{name: "without its record, removed", in: three(unrecorded9), view: view("Lhh"), want: leaveRefuse},
		{name: "without its record, silent", in: three(unrecorded), want: leaveRefuse},
		{
			name: "without its record, another member's address", in: three(unrecorded), view: &otherName,
			want: leaveOccupied, reason: `member "db1"`,
		},
		{name: "its Create was cut off", in: three(halfWritten), view: view("Lhh"), want: leaveRemove},
		{name: "the second of three", in: three(runs(established("cp2"))), view: view("Lhh"), want: leaveRemove},
		{name: "it has never started", in: three(blank("cp3")), view: &unnamed, want: leaveRemove},
		{
			name: "the address is another member's now", in: three(runs(established("cp1"))), view: &otherName,
			want: leaveOccupied, reason: `member "db1"`,
		},
		{
			name: "another member's machine now, removed", in: three(replacedBy9), view: view("Lhh"), want: leaveOccupied,
			reason: `now has member "db9"`,
		},
		{name: "only the unit is left", in: three(unitOnly), view: view("Lhh"), want: leaveClean},
		{
			name: "the last, another cluster's machine now", in: leaveInput{Self: runs(stranger)}, view: view("L"),
			want: leaveOccupied, reason: "staging",
		},
		{name: "it is CORRUPT", in: three(runs(established("cp1"))), view: corrupt("Lhh", 1), want: leaveRemove},
		{
			name: "another is CORRUPT", in: three(runs(established("cp1"))), view: corrupt("Lhh", 2), want: leaveWait,
			otherwise: leaveRefuse, reason: "CORRUPT is raised for cp2",
		},
		{
			name: "all leave, two are CORRUPT", in: three(runs(established("cp1"))), view: corrupt("Lhh", 2, 3), leaving: all,
			want: leaveRemove,
		},
		{
			name: "all leave, an unknown one is CORRUPT", in: three(runs(established("cp1"))), view: corrupt("Lhh", 0),
			leaving: all, want: leaveRemove,
		},
		{name: "the last, CORRUPT", in: leaveInput{Self: runs(established("cp1"))}, view: corrupt("L", 1), want: leaveLast},
		{name: "the last", in: leaveInput{Self: runs(established("cp1"))}, view: view("L"), want: leaveLast},
		{
			name: "the last, a dead learner left", in: leaveInput{Self: runs(established("cp1"))},
			view: func() *membership.View {
				v := membershiptest.ClusterOf("Ll")
				v.Members[1].Healthy = false
				return &v
			}(), want: leaveLast,
		},
		{
			name: "the last, one is joining", in: leaveInput{Self: runs(established("cp1"))}, view: view("Ll"), want: leaveWait,
			otherwise: leaveRefuse, reason: "joining",
		},
		{name: "already removed", in: three(established("cp9")), view: view("Lhh"), want: leaveClean},
		{
			name: "already removed, with data of the cluster", in: three(ofCluster("cp9", "8")), view: served8("Lhh"),
			want: leaveClean,
		},
		{
			name: "already removed, with data of an earlier cluster", in: three(ofCluster("cp9", "7")), view: served8("Lhh"),
			want: leaveClean, keep: true, reason: "has data of etcd cluster 7",
		},
		{
			name: "listed, with data of an earlier cluster", in: three(runs(ofCluster("cp1", "7"))), view: served8("Lhh"),
			want: leaveRemove,
		},
		{
			name: "already removed, machine unreachable", in: three(lost("cp9")), view: view("Lhh"), want: leaveRefuse,
			reason: "cannot be reached",
		},
		{
			name: "already removed, machine abandoned", in: three(lost("cp9")), view: view("Lhh"),
			abandon: host.AbandonedAt("10.0.0.9"), want: leaveAbandon,
		},
		{
			name: "nothing anywhere", in: leaveInput{Self: blank("cp1"), Others: []machine.Observed{blank("cp2")}},
			want: leaveClean, keep: true,
		},
		{name: "another cluster's machine now", in: three(runs(stranger)), view: view("dLh"), want: leaveRemove},
		{name: "another member's machine now", in: three(runs(renamed)), view: view("dLh"), want: leaveRemove},
		{
			name: "another cluster's machine now, removed", in: three(runs(unlisted)), view: view("Lhh"), want: leaveOccupied,
			reason: "staging",
		},
		{
			name: "another cluster's machine now, silent", in: three(runs(stranger)), want: leaveWait, otherwise: leaveRefuse,
			reason: "staging",
		},
		{
			name: "another cluster's machine now, nobody else",
			in:   leaveInput{Self: runs(stranger), Others: []machine.Observed{blank("cp2")}}, want: leaveOccupied,
			reason: "staging",
		},
		{
			name: "the last, protected", in: leaveInput{Self: runs(established("cp1")), Protected: true}, view: view("L"),
			want: leaveRefuse, reason: "deletion_protection",
		},
		{
			name: "the last, one is created", in: leaveInput{Self: runs(established("cp1")), Pending: []string{"cp2"}},
			view: view("L"), want: leaveWait, otherwise: leaveRefuse, reason: "creates others: cp2",
		},
		{
			name: "the last, one is created when another one has left", want: leaveWait, otherwise: leaveRefuse,
			in:   leaveInput{Self: runs(established("cp1")), Awaiting: []string{"cp2"}, Failed: []string{"cp3"}},
			view: view("L"), reason: "after a removal: cp2",
		},
		{
			name: "the last, one was not created", in: leaveInput{Self: runs(established("cp1")), Failed: []string{"cp2"}},
			view: view("L"), want: leaveRefuse, reason: "could not be created: cp2",
		},
		{
			name: "silent, protected", in: leaveInput{Self: established("cp1"), Others: stopped, Protected: true},
			want: leaveWait, otherwise: leaveRefuse, reason: "deletion_protection",
		},
		{
			name: "silent, protected, its data is on a volume that is not mounted", want: leaveWait, otherwise: leaveRefuse,
			in: leaveInput{Self: blank("cp1"), Others: stopped, Protected: true, OnVolume: true}, reason: "on its volume",
		},
		{
			name: "all rebuilt with their volumes, protected", want: leaveWait, otherwise: leaveRefuse,
			in: leaveInput{
				Self: blank("cp1"), Others: []machine.Observed{blank("cp2")}, Protected: true, OnVolume: true,
			}, reason: "on its volume",
		},
		{
			name: "all rebuilt with their volumes", want: leaveClean, keep: true, // which leaves the volume as it is
			in: leaveInput{Self: blank("cp1"), Others: []machine.Observed{blank("cp2")}, OnVolume: true},
		},
		{
			name: "nothing of it there, the others are stopped, protected",
			in:   leaveInput{Self: blank("cp1"), Others: stopped, Protected: true},
			want: leaveWait, otherwise: leaveRefuse, reason: "still has members on cp2 (10.0.0.2) [",
		},
		{
			name: "nothing of it there, the others are stopped", in: leaveInput{Self: blank("cp1"), Others: stopped},
			want: leaveWait, otherwise: leaveRefuse, reason: "still has members on cp2",
		},
		{
			name: "nothing of it there, the others are stopped and leave too", leaving: all,
			in: leaveInput{Self: blank("cp1"), Others: stopped}, want: leaveClean, keep: true,
		},
		{
			name: "nothing of it there, one of the others leaves too", leaving: []string{"cp1", "cp2"},
			in:   leaveInput{Self: blank("cp1"), Others: stopped},
			want: leaveWait, otherwise: leaveRefuse, reason: "still has members on cp3",
		},
		{
			name: "nothing of it there, the others run and are to leave too, protected", leaving: all,
			in:   leaveInput{Self: blank("cp1"), Others: others, Protected: true},
			want: leaveWait, otherwise: leaveRefuse, reason: "still has members on cp2",
		},
		{
			name: "nothing of it there, one is abandoned, another one is stopped", abandon: host.AbandonedAt("10.0.0.2"),
			in:   leaveInput{Self: blank("cp1"), Others: []machine.Observed{lost("cp2"), established("cp3")}},
			want: leaveWait, otherwise: leaveRefuse, reason: "still has members on cp3",
		},
		{
			name: "a restore was begun, protected", in: leaveInput{
				Self: retiredFor("cp1", "one"), Others: []machine.Observed{retiredFor("cp2", "one")}, Protected: true,
			}, want: leaveRefuse, reason: "a restore (one) was begun",
		},
		{
			name: "nothing of it there, and a restore was begun on the others",
			in:   leaveInput{Self: blank("cp1"), Others: []machine.Observed{retiredFor("cp2", "one")}},
			want: leaveClean, keep: true,
		},
		{
			name: "nothing of it there, beside another cluster's machine",
			in:   leaveInput{Self: blank("cp1"), Others: []machine.Observed{unlisted}}, want: leaveClean, keep: true,
		},
		{
			name: "never served, protected", in: leaveInput{Self: runs(began("cp1", "cp1")), Protected: true}, want: leaveClean,
			keep: true,
		},
		{
			name: "silent while it joined, protected", in: leaveInput{Self: runs(joining), Protected: true},
			want: leaveWait, otherwise: leaveRefuse, reason: "deletion_protection",
		},
		{
			name: "silent, one other runs",
			in: leaveInput{
				Self: runs(established("cp1")), Others: []machine.Observed{runs(established("cp2")), established("cp3")},
			},
			want: leaveWait, otherwise: leaveRefuse, reason: "still running on cp2",
		},
		{
			name: "silent and stopped, the others run and leave too", in: three(established("cp1")), leaving: all,
			want: leaveWait, otherwise: leaveClean, keep: true,
		},
		{
			name: "silent, others run", in: three(runs(established("cp1"))), want: leaveWait, otherwise: leaveRefuse,
			reason: "quorum lost",
		},
		{
			name: "silent, the others are leaving too", in: three(runs(established("cp1"))), leaving: all, want: leaveWait,
			otherwise: leaveClean, keep: true,
		},
		{
			name: "silent, the others are stopped", in: leaveInput{Self: runs(established("cp1")), Others: stopped},
			want: leaveWait, otherwise: leaveClean, keep: true,
		},
		{name: "all stopped", in: leaveInput{Self: established("cp1"), Others: stopped}, want: leaveClean, keep: true},
		{
			name: "silent, a machine unreachable",
			in:   leaveInput{Self: established("cp1"), Others: []machine.Observed{lost("cp2")}}, want: leaveWait,
			otherwise: leaveRefuse, reason: "cp2",
		},
		{
			name:    "silent, that machine abandoned",
			in:      leaveInput{Self: established("cp1"), Others: []machine.Observed{lost("cp2")}},
			abandon: host.AbandonedAt("10.0.0.2"), want: leaveClean, keep: true,
		},
		{name: "bootstrap cut off before quorum", in: leaveInput{
			Self: runs(began("cp1", "cp1", "cp2", "cp3", "cp4", "cp5")),
			Others: []machine.Observed{
				runs(began("cp2", "cp1", "cp2", "cp3", "cp4", "cp5")), blank("cp3"), blank("cp4"),
				blank("cp5"),
			},
		}, want: leaveClean, keep: true},
		{
			name: "nobody answers at all", in: leaveInput{Self: lost("cp1"), Others: []machine.Observed{lost("cp2")}},
			want: leaveRefuse, reason: "no route",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := c.in
			in.Name, in.PeerURL, in.Cluster, in.DataDir, in.View, in.Abandon = in.Self.Name, membership.PeerURL(in.Self.Address),
				testCluster, layout.DefaultDataDir, c.view, c.abandon
			in.Leaving = map[string]bool{}
			for _, name := range c.leaving {
				in.Leaving[name] = true
			}
			d := decideLeave(in)
			if d.Kind != c.want || d.Kind == leaveWait && d.Otherwise != c.otherwise || d.Keep != c.keep ||
				!strings.Contains(d.Reason, c.reason) {
				t.Errorf("got %s (otherwise %s), keep %v, %q", d.Kind, d.Otherwise, d.Keep, d.Reason)
			}
			if d.Kind == leaveRemove || d.Kind == leaveLast {
				if entry, listed := c.view.ByPeerURL(in.PeerURL); d.ID != entry.ID && (listed || d.ID != in.Self.MemberID()) {
					t.Errorf("member %x would be removed, not %x", d.ID, entry.ID)
				}
			}
			if strings.Contains(d.Reason, "CORRUPT") != (d.Next == corruptNext) {
				t.Errorf("next %q for %q", d.Next, d.Reason)
			}
			if (d.Kind == leaveRefuse || d.Kind == leaveWait && d.Otherwise == leaveRefuse) && d.Next == "" {
				t.Error("a refusal without a next step")
			}
		})
	}
}
