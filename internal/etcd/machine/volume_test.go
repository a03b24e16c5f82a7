package machine

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/volume"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

const (
	thisMachine  = "11111111111111111111111111111111"
	otherMachine = "22222222222222222222222222222222"
)

func onVolume(t *testing.T) Spec {
	t.Helper()
	s := specAt(t, "10.0.0.11")
	s.Volume = &volume.Spec{Device: "/dev/sdb", MountPath: "/srv/etcd"}
	s.DataDir = "/srv/etcd/data"
	return s
}

// has returns a machine that has the volume in place, with an identity, and the data on it.
func has(s Spec, i *volume.Identity, record bool) Observed {
	out := "volume at 8:16 rw\nvolume device /dev/sdb\nvolume number 8:16\nvolume size 1073741824\nvolume kind ext4\n" +
		"volume readable\n"
	if i != nil {
		out += "volume identity " + base64.StdEncoding.EncodeToString(i.Content()) + "\n"
	}
	facts := host.Facts{
		MachineID: thisMachine, Output: out, Dirs: map[string][]string{s.Directory(): {"member"}},
		Files: map[string]host.FileState{},
	}
	if record {
		content := recordFile(s, ID{Member: 0xb, Cluster: 0xa}, nil).Content
		facts.Files[layout.RecordPath] = host.FileState{Content: string(content)}
	}
	return Interpret(s.Name, s.Host.Address(), s.Directory(), facts, nil)
}

func TestUnitNeedsItsVolume(t *testing.T) {
	s := onVolume(t)
	unit := renderUnit(s)
	for _, line := range []string{"Requires=" + volume.Unit, "After=" + volume.Unit, "AssertPathIsMountPoint=/srv/etcd"} {
		if !strings.Contains(unit, "\n"+line+"\n") {
			t.Errorf("the unit lacks %s:\n%s", line, unit)
		}
	}
	if got := s.configured().volumeOf(unit); got == nil || *got != *s.Volume {
		t.Errorf("imported as %+v", got)
	}
	if got := s.configured().volumeOf(renderUnit(specAt(t, "10.0.0.11"))); got != nil {
		t.Errorf("a unit without a volume is imported with %+v", got)
	}
}

// TestRecordOfVolume: a volume brings the record of its member to a machine that has none.
func TestRecordOfVolume(t *testing.T) {
	s := onVolume(t)
	i := s.VolumeIdentity(Observed{}, ID{Member: 0xb, Cluster: 0xa})
	i.MachineID, i.Restored = otherMachine, "one"
	f := has(s, &i, false)
	c, due := s.RecordOfVolume(f)
	if !due {
		t.Fatal("nothing is recorded")
	}
	m, err := ReadRecord(string(c.Files[0].Content))
	if err != nil || m.ID() != 0xb || m.EtcdCluster != "a" || m.Name != "cp1" || m.ClusterID != testID ||
		m.Restored != "one" {
		t.Errorf("recorded as %+v, %v", m, err)
	}
	removed, unknown := i, i
	removed.State, unknown.MemberID = volume.Removed, ""
	for name, f := range map[string]Observed{
		"recorded": has(s, &i, true), "removed": has(s, &removed, false), "never established": has(s, &unknown, false),
		"no identity": has(s, nil, false),
	} {
		if _, due := s.RecordOfVolume(f); due {
			t.Errorf("%s: recorded again", name)
		}
	}
	f.Volume.At = ""
	if _, due := s.RecordOfVolume(f); due {
		t.Error("recorded before the volume is mounted")
	}
}

// TestHasMemberOf: which machine is the one that a member ran on last. Another one may have its address by now.
func TestHasMemberOf(t *testing.T) {
	s := onVolume(t)
	i := s.VolumeIdentity(Observed{Facts: host.Facts{MachineID: thisMachine}}, ID{Member: 0xb, Cluster: 0xa})
	elsewhere, removed, other, foreign := i, i, i, i
	elsewhere.MachineID, removed.State, other.Name, foreign.ClusterID = otherMachine, volume.Removed, "cp2", "x"
	unmounted := has(s, &i, true)
	unmounted.Volume.At = ""
	for name, c := range map[string]struct {
		f    Observed
		want bool
	}{
		"in place":                            {has(s, &i, false), true},
		"in place, its identity was lost":     {has(s, nil, true), true},
		"neither identity nor record":         {has(s, nil, false), false},
		"not mounted":                         {unmounted, false},
		"another machine has mounted it last": {has(s, &elsewhere, true), false},
		"it was removed":                      {has(s, &removed, true), false},
		"the volume of another member":        {has(s, &other, true), false},
		"the volume of another cluster":       {has(s, &foreign, true), false},
		"nothing":                             {Observed{Facts: host.Facts{MachineID: thisMachine}}, false},
	} {
		if got := c.f.HasMemberOf(s); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	s = specAt(t, "10.0.0.11")
	whole := Observed{Data: true, Record: &Record{ClusterID: s.Bundle.ClusterID, Name: s.Name}}
	emptied, unrecorded, renamed, alien := whole, whole, whole, whole
	emptied.Data, unrecorded.Record = false, nil
	renamed.Record = &Record{ClusterID: s.Bundle.ClusterID, Name: "cp9"}
	alien.Record = &Record{ClusterID: "x", Name: s.Name}
	for name, f := range map[string]Observed{
		"emptied": emptied, "unrecorded": unrecorded, "another member's": renamed, "another cluster's": alien,
	} {
		if f.HasMemberOf(s) {
			t.Errorf("%s: it has the member", name)
		}
	}
	if !whole.HasMemberOf(s) {
		t.Error("a machine with the data and the record does not have the member")
	}
}

// TestTakeVolumeWithAnOldRecord: a machine that had the member before does not keep what it knew of it.
func TestTakeVolumeWithAnOldRecord(t *testing.T) {
	s := onVolume(t)
	i := s.VolumeIdentity(Observed{}, ID{Member: 0xb, Cluster: 0xa})
	i.MachineID = otherMachine
	renewed, replaced, own := i, i, i
	renewed.EtcdCluster, replaced.MemberID = "c", "c"
	own.MachineID, own.EtcdCluster = thisMachine, "c"
	for name, c := range map[string]struct {
		identity volume.Identity
		record   bool
		removed  bool
	}{
		"the same member":            {i, true, false},
		"of a cluster made since":    {renewed, true, true},
		"replaced since":             {replaced, true, true},
		"no record":                  {renewed, false, false},
		"the machine had the volume": {own, true, false},
	} {
		f := has(s, &c.identity, c.record)
		f.Volume.At = ""
		change, _ := s.TakeVolume(f, false)
		if got := slices.Contains(change.Remove, layout.RecordPath); got != c.removed {
			t.Errorf("%s: the record is removed: %t, want %t", name, got, c.removed)
		}
	}
}

// TestTakenIdentity: the member of a volume stays when a machine takes, releases or removes it.
func TestTakenIdentity(t *testing.T) {
	s := onVolume(t)
	i := s.VolumeIdentity(Observed{}, ID{Member: 0xb, Cluster: 0xa})
	i.MachineID = otherMachine
	taken := s.takenIdentity(has(s, &i, false))
	if taken.MemberID != "b" || taken.EtcdCluster != "a" || taken.MachineID != thisMachine ||
		taken.From != otherMachine || taken.State != volume.Member {
		t.Errorf("taken as %+v", taken)
	}
	if again := s.takenIdentity(has(s, &taken, false)); again != taken {
		t.Errorf("taken again as %+v, before as %+v", again, taken)
	}
	if lost := s.takenIdentity(has(s, nil, true)); lost.MemberID != "b" {
		t.Errorf("a lost identity is written as %+v", lost)
	}
	removed := i
	removed.State = volume.Removed
	if again := s.takenIdentity(has(s, &removed, true)); again.MemberID != "" {
		t.Errorf("a removed member comes back as %+v", again)
	}
	left := s.leavingIdentity(has(s, &i, true), volume.Removed)
	if left == nil || left.State != volume.Removed || left.MemberID != "b" {
		t.Errorf("left as %+v", left)
	}
	i.Name = "cp2"
	if left := s.leavingIdentity(has(s, &i, true), volume.Removed); left != nil {
		t.Errorf("another member's volume is left as %+v", left)
	}
}

func TestVolumeDrift(t *testing.T) {
	s := onVolume(t)
	i := s.VolumeIdentity(Observed{}, ID{Member: 0xb, Cluster: 0xa})
	i.MachineID = thisMachine
	other := i
	other.MachineID = otherMachine
	for name, c := range map[string]struct {
		change  func(*Observed)
		want    string
		remount bool
	}{
		"none":         {func(*Observed) {}, "", false},
		"not attached": {func(o *Observed) { o.Volume = volume.Observed{} }, "is not attached", true},
		"not mounted":  {func(o *Observed) { o.Volume.At = "" }, "is not mounted at /srv/etcd", true},
		"another one":  {func(o *Observed) { o.Volume.At = "8:32" }, "another device (8:32)", true},
		"read-only":    {func(o *Observed) { o.Volume.ReadOnly = true }, "read-only", true},
		"no identity":  {func(o *Observed) { o.Volume.Identity = nil }, "kube-etcd-member.json is missing", false},
		"other":        {func(o *Observed) { o.Volume.Identity = &other }, "on machine " + otherMachine, false},
		"grown":        {func(o *Observed) { o.Volume.Used = 1 << 20 }, "its file system", false},
		"damaged":      {func(o *Observed) { o.Volume.Damaged = true }, "has found errors in the file system", false},
	} {
		f := has(s, &i, true)
		c.change(&f)
		words := strings.Join(s.volumeDrift(f), "\n")
		if !strings.Contains(words, c.want) || (words == "") != (c.want == "") {
			t.Errorf("%s: %q, want %q", name, words, c.want)
		}
		if (s.VolumeRemedy(f) != "") != (name == "grown" || name == "damaged") {
			t.Errorf("%s: what to do is %q", name, s.VolumeRemedy(f))
		}
		if (s.remountReason(f) != "") != c.remount {
			t.Errorf("%s: mounted again: %q", name, s.remountReason(f))
		}
	}
}

func TestIdentityIsWrittenBeforeTheRecord(t *testing.T) {
	s := onVolume(t)
	f := Observed{Facts: host.Facts{MachineID: thisMachine}}
	change, _ := NewMemberChange(s, f, Issued{}, ID{Member: 0xb, Cluster: 0xa}, "")
	at := func(path string) int {
		return slices.IndexFunc(change.Files, func(f host.File) bool { return f.Path == path })
	}
	if identity, record := at(s.Volume.IdentityPath()), at(layout.RecordPath); identity < 0 || identity > record {
		t.Errorf("the identity is file %d, the record %d", identity, record)
	}
}

// TestRestoredOnVolume: what the record of a member may have is read again from its volume.
func TestRestoredOnVolume(t *testing.T) {
	for _, id := range []string{"2026-11-24T10:00", "a.b_c-D", strings.Repeat("9", 64)} {
		if err := ValidateRestoreID(id); err != nil {
			t.Fatal(err)
		}
		identity := volume.Identity{
			ClusterID: "c", Name: "cp1", Restored: id, MachineID: strings.Repeat("0", 32), State: volume.Member,
		}
		if _, err := volume.ReadIdentity(string(identity.Content())); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// TestStartOnVolume: a member that is started on its volume records of restores what it did before, whatever is
// requested now. A machine that has a unit does not need its resource for that.
func TestStartOnVolume(t *testing.T) {
	s := onVolume(t)
	id := ID{Member: 0xb, Cluster: 0xa}
	f := has(s, nil, true)
	s.Restore = &Restore{ID: "begun", Silent: map[string]string{"10.0.0.12": "cp2"}}
	begun := restoringRecord(s, id, nil).Content
	var err error
	if f.Record, err = ReadRecord(string(begun)); err != nil || !f.OnVolumeOnly() {
		t.Fatalf("%+v, %v", f, err)
	}
	s.Restore = &Restore{ID: "wanted"}
	change, _ := StartOnVolumeChange(s, f, Issued{})
	last := change.Files[len(change.Files)-1]
	m, err := ReadRecord(string(last.Content))
	if err != nil || m.Restored != "" || m.Restoring != "begun" || m.Silent["10.0.0.12"] != "cp2" || m.ID() != 0xb {
		t.Errorf("recorded as %+v, %v", m, err)
	}
	for _, file := range change.Files {
		if file.Path == layout.EnvPath || strings.Contains(string(file.Content), "wanted") {
			t.Errorf("%s is %s", file.Path, file.Content)
		}
	}
	f.Facts.Files[layout.UnitPath] = host.FileState{}
	if f.OnVolumeOnly() || has(specAt(t, "10.0.0.11"), nil, true).OnVolumeOnly() {
		t.Error("a member with a unit, or without a volume, is on its volume only")
	}
}

// TestIdentityOfAnotherMember: an identity that names another member than the machine does is drift, and stays.
func TestIdentityOfAnotherMember(t *testing.T) {
	s := onVolume(t)
	id := ID{Member: 0xb, Cluster: 0xa}
	own := s.VolumeIdentity(Observed{Facts: host.Facts{MachineID: thisMachine}}, id)
	other, earlier, removed, unknown, older := own, own, own, own, own
	other.MemberID, earlier.EtcdCluster, unknown.MemberID, older.EtcdCluster = "c", "c", "", ""
	removed.MemberID, removed.State = "c", volume.Removed
	for name, c := range map[string]struct {
		identity *volume.Identity
		written  bool
	}{
		"its own":              {&own, false},
		"lost":                 {nil, true},
		"another member's":     {&other, false},
		"an earlier cluster's": {&earlier, false},
		"a removed member's":   {&removed, true},
		"no member's":          {&unknown, true},
		"without a cluster":    {&older, true},
	} {
		f := has(s, c.identity, true)
		if got := len(s.identityRepair(f, id, false)) > 0; got != c.written {
			t.Errorf("%s: written: %t, want %t", name, got, c.written)
		}
		if got := len(s.identityRepair(f, id, true)) > 0; got != (name != "its own") {
			t.Errorf("%s, and the member runs on the data: written: %t", name, got)
		}
		if drift := s.volumeDrift(f); (len(drift) > 0) != (name != "its own") {
			t.Errorf("%s: drift %q", name, drift)
		}
	}
}

// TestRecordedMember: what a record says of a volume's data, and when that is about to change.
func TestRecordedMember(t *testing.T) {
	s := onVolume(t)
	f := has(s, nil, true)
	want := func(what string, s Spec, f Observed, want volume.Recorded) {
		t.Helper()
		if got := s.WantVolume(f, "", false).Recorded; got != want {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
	}
	want("a record", s, f, volume.Recorded{MemberID: "b", EtcdCluster: "a"})
	takesUp := s
	takesUp.ArchivedDataDir = "/srv/etcd/archived"
	want("data is taken up", takesUp, f, volume.Recorded{MemberID: "b", EtcdCluster: "a"})
	other := s
	other.Name = "cp2"
	want("another member's record", other, f, volume.Recorded{})
	restoring, unknown := *f.Record, *f.Record
	restoring.Restoring, unknown.MemberID = "one", "0"
	if s.WantVolume(f, "", false).Changes || !takesUp.WantVolume(f, "", false).Changes {
		t.Error("the record is ahead of the data, or data that is taken up is not")
	}
	f.Record = &restoring
	want("a restore has begun", s, f, volume.Recorded{MemberID: "b", EtcdCluster: "a"})
	if !s.WantVolume(f, "", false).Changes {
		t.Error("a restore has begun, and the record is not ahead of the data")
	}
	f.Record = &unknown
	want("not established", s, f, volume.Recorded{})
	want("no record", s, has(s, nil, false), volume.Recorded{})
}
