package volume

import (
	"errors"
	"strings"
	"testing"
	"time"
)

const (
	here  = "11111111111111111111111111111111"
	there = "22222222222222222222222222222222"
	third = "33333333333333333333333333333333"
)

// identity returns that of member cp1, on a machine, in a state.
// since returns the identity of a volume that was on the machine there before.
func since(i *Identity) *Identity {
	i.From = there
	return i
}

func identity(machine string, state State) *Identity {
	return &Identity{
		ClusterID: "c1", ClusterName: "prod", Name: "cp1", EtcdCluster: "a", MemberID: "b", MachineID: machine,
		MountedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), State: state,
	}
}

// attached returns an unmounted ext4 volume.
func attached(i *Identity) Observed {
	return Observed{Device: "/dev/sdb", Number: "8:16", Size: 1 << 30, Kind: Ext4, Readable: true, Identity: i}
}

func inPlace(i *Identity) Observed {
	o := attached(i)
	o.At, o.Used = o.Number, o.Size
	return o
}

// withoutCluster is an identity that an earlier version has written.
func withoutCluster(i *Identity) *Identity {
	i.EtcdCluster = ""
	return i
}

func TestDecide(t *testing.T) {
	stranger, other := identity(there, Member), identity(there, Member)
	stranger.ClusterID, other.Name = "c2", "cp2"
	moved := identity(here, Member)
	moved.From = there
	with := func(o Observed, change func(*Observed)) Observed {
		change(&o)
		return o
	}
	blank := Observed{Device: "/dev/sdb", Number: "8:16", Size: 1 << 30, Kind: Nothing}
	for name, c := range map[string]struct {
		o      Observed
		holder Holder
		last   string
		fenced bool
		anew   bool
		lastID string
		record Recorded
		empty  bool // its data directory is not there
		ahead  bool // the record is written before the data
		want   Action
		reason string
	}{
		"a copy is attached": {
			o:    with(attached(identity(here, Member)), func(o *Observed) { o.Copies = []string{"/dev/sdc"} }),
			last: here, reason: "names more than one disk of the machine, /dev/sdb and /dev/sdc",
		},
		"a copy is attached, to be released": {
			o:    with(attached(nil), func(o *Observed) { o.Copies = []string{"/dev/sdc"} }),
			last: there, holder: Leaving, reason: "names more than one disk",
		},
		"a copy of an empty file system is attached": {
			o: with(attached(nil), func(o *Observed) { o.Copies = []string{"/dev/sdc"} }), reason: "names more than one disk",
		},
		"not attached":                 {o: Observed{}, reason: "is not attached"},
		"not attached, to be released": {o: Observed{}, holder: Leaving, want: Release},
		"its log is not written yet":   {o: attached(nil), last: there, holder: Leaving, want: Release},
		"another disk than the one":    {o: blank, last: there, holder: Leaving, reason: "the member has data, but"},
		"another device is mounted": {
			o: with(blank, func(o *Observed) { o.At = "8:32" }), reason: "another device (8:32)",
		},
		"with errors": {
			o: with(attached(identity(here, Member)), func(o *Observed) { o.Damaged = true }), last: here,
			reason: "has found errors in the file system",
		},
		"with errors, and read-only": {
			o:    with(inPlace(identity(here, Member)), func(o *Observed) { o.Damaged, o.ReadOnly = true, true }),
			last: here, reason: "has found errors in the file system",
		},
		"with errors, in use": {
			o: with(inPlace(identity(here, Member)), func(o *Observed) { o.Damaged = true }), last: here, want: Keep,
		},
		"mounted elsewhere": {
			o: with(blank, func(o *Observed) { o.Elsewhere = "/mnt" }), reason: "mounted at /mnt",
		},

		"blank, new member":                           {o: blank, want: Format},
		"blank, member with data":                     {o: blank, last: here, reason: "the member has data, but"},
		"blank, member whose data a restore replaces": {o: blank, last: there, anew: true, want: Format},
		"empty, member whose data a restore replaces": {o: attached(nil), last: there, anew: true, want: Mount},
		"made for the restore": {
			o: inPlace(identity(here, Member)), last: there, anew: true, want: Keep,
		},
		"an older copy, member whose data is replaced": {
			o: attached(identity(third, Member)), last: there, anew: true, reason: "not the newest copy",
		},
		"files, member whose data a restore replaces": {
			o: with(attached(nil), func(o *Observed) { o.Files = 1 }), last: there, anew: true, reason: "has 1 entries",
		},
		"partitions": {
			o: with(blank, func(o *Observed) { o.Kind = "partitions" }), reason: "a partition table",
		},
		"data": {
			o: with(blank, func(o *Observed) { o.Kind = "data" }), reason: "data that is not zero",
		},
		"ambiguous": {
			o: with(blank, func(o *Observed) { o.Kind = "unclear" }), reason: "more than one kind",
		},
		"not recognized": {
			o: with(blank, func(o *Observed) { o.Kind = "" }), reason: "could not be recognized",
		},
		"another file system": {o: with(blank, func(o *Observed) { o.Kind = "btrfs" }), reason: "it has btrfs"},
		"damaged file system": {
			o: with(attached(nil), func(o *Observed) { o.Readable = false }), reason: "cannot be looked at",
		},
		"empty file system":       {o: attached(nil), want: Mount},
		"empty XFS":               {o: with(attached(nil), func(o *Observed) { o.Kind = XFS }), want: Mount},
		"file system with files":  {o: with(attached(nil), func(o *Observed) { o.Files = 1 }), reason: "has 1 entries"},
		"empty, member with data": {o: attached(nil), last: here, reason: "the member has data, but"},
		"invalid identity": {
			o: with(attached(nil), func(o *Observed) { o.IdentityErr = errors.New("x") }), reason: "is not an identity: x",
		},
		"in place, identity was lost": {o: inPlace(nil), last: here, want: Mount},
		"in place, another machine's": {o: inPlace(nil), last: there, reason: "the member has data, but"},

		"in place":              {o: inPlace(identity(here, Member)), last: here, want: Keep},
		"in place, released":    {o: inPlace(identity(here, Released)), last: here, want: Mount},
		"in place, of another":  {o: inPlace(identity(there, Released)), last: there, want: Mount},
		"own":                   {o: attached(identity(here, Member)), last: here, want: Mount},
		"own, interrupted move": {o: attached(moved), last: there, want: Mount},
		"own, and the member has run elsewhere since": {
			o: attached(identity(here, Member)), last: there, fenced: true, reason: "not the newest copy",
		},
		"own, from a third machine, and the member has run elsewhere since": {
			o: attached(moved), last: third, fenced: true, reason: "not the newest copy",
		},
		"own, but a machine with the same ID uses it": {
			o: attached(identity(here, Member)), last: here, holder: Using, fenced: true, reason: "still uses it",
		},
		"own, and it leaves a machine with the same ID": {
			o: attached(identity(here, Member)), last: here, holder: Leaving, want: Release,
		},
		"own, new state":          {o: attached(identity(here, Member)), want: Mount},
		"rebuilt at its address":  {o: attached(identity(there, Member)), last: here, reason: "does not answer"},
		"rebuilt and fenced":      {o: attached(identity(there, Member)), last: here, fenced: true, want: Mount},
		"another cluster's":       {o: attached(stranger), fenced: true, reason: "of another cluster"},
		"another member's":        {o: attached(other), fenced: true, reason: `belongs to member "cp2"`},
		"removed":                 {o: attached(identity(there, Removed)), want: Mount},
		"removed, still in place": {o: inPlace(identity(here, Removed)), want: Mount},
		"older copy": {
			o: attached(identity(third, Member)), last: there, fenced: true, reason: "not the newest copy",
		},
		"rebuilt twice, with a refresh before the first": {
			o: attached(since(identity(third, Member))), last: there, reason: "does not answer",
		},
		"rebuilt twice, and fenced": {
			o: attached(since(identity(third, Member))), last: there, fenced: true, want: Mount,
		},
		"older copy, released": {o: attached(identity(third, Released)), last: there, reason: "not the newest copy"},

		"released": {o: attached(identity(there, Released)), last: there, want: Mount},
		"released, but used again": {
			o: attached(identity(there, Released)), last: there, holder: Using, reason: "still uses it",
		},
		"the other machine is idle": {o: attached(identity(there, Member)), last: there, holder: Idle, want: Mount},
		"the other machine uses it": {
			o: attached(identity(there, Member)), holder: Using, fenced: true, reason: "still uses it",
		},
		"the machine that it leaves": {
			o: attached(identity(there, Member)), last: there, holder: Leaving, want: Release,
		},
		"silent":                         {o: attached(identity(there, Member)), last: there, reason: "does not answer"},
		"silent, new state":              {o: attached(identity(there, Member)), reason: "does not answer"},
		"silent and fenced":              {o: attached(identity(there, Member)), last: there, fenced: true, want: Mount},
		"silent, fenced, mounted here":   {o: inPlace(identity(there, Member)), last: there, fenced: true, want: Mount},
		"silent, but it had released it": {o: attached(identity(there, Released)), want: Mount},

		"own, by the state": {o: attached(identity(here, Member)), last: here, lastID: "b", want: Mount},
		"of a member that was replaced": {
			o: attached(identity(here, Member)), last: here, lastID: "c", record: Recorded{"c", "a"},
			reason: "has the data of member b, and the state has member c",
		},
		"of a member that was replaced, in place": {
			o: inPlace(identity(here, Member)), last: here, lastID: "c", record: Recorded{"c", "a"},
			reason: "has the data of member b, and the state has member c",
		},
		"of a member that was replaced, without a record": {
			o: attached(identity(there, Member)), last: there, lastID: "c", fenced: true, reason: "the state has member c",
		},
		"of a member that was replaced, where the replacement leaves": {
			o: attached(identity(there, Member)), last: there, lastID: "c", holder: Leaving, reason: "the state has member c",
		},
		"of a member that was replaced, new state": {
			o: attached(identity(here, Member)), record: Recorded{"c", "a"}, reason: "the machine records member c",
		},
		"of an earlier cluster, new state": {
			o: attached(identity(here, Member)), record: Recorded{"b", "c"}, reason: "the machine records member b",
		},
		"of this member, new state, in a record of an earlier version": {
			o: attached(identity(here, Member)), record: Recorded{MemberID: "b"}, want: Mount,
		},
		"of a member that was removed, new state": {
			o: attached(identity(here, Removed)), record: Recorded{"c", "a"}, want: Mount,
		},
		"removed, and the state has another": {o: attached(identity(here, Removed)), last: here, lastID: "c", want: Mount},
		"joined again, and the apply was cut off": {
			o: inPlace(identity(here, Member)), last: here, lastID: "c", record: Recorded{"b", "a"}, want: Keep,
		},
		"joins again, and the apply was cut off before the record": {
			o: inPlace(identity(here, Member)), last: here, lastID: "c", empty: true, want: Keep,
		},
		"the record is of a time before another machine had it": {
			o: attached(identity(there, Released)), last: there, lastID: "c", record: Recorded{"b", "a"},
			reason: "the state has member c",
		},
		"a survivor was restored, and the apply was cut off": {
			o: inPlace(identity(here, Member)), last: here, lastID: "c", record: Recorded{"b", "a"}, ahead: true, want: Keep,
		},
		"a restore has begun, and there is no state": {
			o: inPlace(identity(here, Member)), record: Recorded{"d", "e"}, ahead: true, want: Keep,
		},
		"this member, in an identity of an earlier version": {
			o: attached(withoutCluster(identity(here, Member))), record: Recorded{"b", "a"}, want: Mount,
		},
		"a restore replaces its data": {
			o: inPlace(identity(here, Member)), last: here, lastID: "c", anew: true, want: Keep,
		},
	} {
		w := Want{
			Spec:      Spec{Device: "/dev/sdb", MountPath: "/srv/etcd", Fenced: c.fenced},
			ClusterID: "c1", Name: "cp1", MachineID: here, Last: c.last, Restores: c.anew,
			LastID: c.lastID, Recorded: c.record, Data: c.o.InPlace() && !c.empty, Changes: c.ahead,
		}
		got := Decide(w, c.o, c.holder)
		if got.Action != c.want || !strings.Contains(got.Reason, c.reason) || (got.Reason == "") != (c.reason == "") ||
			(got.Next == "") != (c.reason == "") {
			t.Errorf("%s: %s (%s; %s), want %s (%s)", name, got.Action, got.Reason, got.Next, c.want, c.reason)
		}
	}
}

func TestGrown(t *testing.T) {
	for used, want := range map[int64]bool{
		0: false, 1 << 30: false, 1<<30 - growsFrom + 1: false, 1<<30 - growsFrom: true,
	} {
		o := inPlace(nil)
		o.Used = used
		if o.Grown() != want {
			t.Errorf("%d of %d: grown is %v", used, o.Size, o.Grown())
		}
		if o.At = ""; o.Grown() {
			t.Error("a volume that is not mounted does not grow")
		}
	}
}
