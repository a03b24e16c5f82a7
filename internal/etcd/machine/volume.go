package machine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/volume"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// askForVolume adds what is to be known of the volume to the query.
func (s Spec) askForVolume(q *host.Query) {
	if s.Volume == nil {
		return
	}
	q.Contents = append(q.Contents, volume.UnitPath, volume.ScriptPath)
	q.Units = append(q.Units, volume.Unit)
	q.Script += s.Volume.Questions()
}

// volumeOf returns the recorded volume, if the unit is one that needs it.
func (c configured) volumeOf(unit string) *volume.Spec {
	if c.Volume == nil || !strings.Contains(unit, "\n"+strings.Join(c.Volume.UnitLines(), "\n")+"\n") {
		return nil
	}
	return c.Volume
}

// volumeFiles are the files by which the volume is mounted. No process of etcd reads them.
func (s Spec) volumeFiles() []host.File {
	if s.Volume == nil {
		return nil
	}
	return s.Volume.Files(s.Bundle.ClusterID, s.Name)
}

// VolumeIdentity returns the identity of a member on its volume.
func (s Spec) VolumeIdentity(f Observed, id ID) volume.Identity {
	i := volume.Identity{
		ClusterID: s.Bundle.ClusterID, ClusterName: s.Bundle.ClusterName, Name: s.Name,
		Restored: s.KeepRestored(f).RestoreID(), MachineID: f.Facts.MachineID,
		MountedAt: time.Now().UTC().Truncate(time.Second), State: volume.Member,
	}
	if id.Member != 0 {
		i.MemberID = fmt.Sprintf("%x", id.Member)
	}
	if id.Cluster != 0 {
		i.EtcdCluster = fmt.Sprintf("%x", id.Cluster)
	}
	if has := f.Volume.Identity; has != nil {
		i.From = has.MachineID
		if has.MachineID == i.MachineID {
			i.From = has.From
		}
		if has.Same(i) {
			i.MountedAt = has.MountedAt // so that it is not written again
		}
	}
	return i
}

// identityFiles returns the identity of a member that is about to start on a mounted volume.
func (s Spec) identityFiles(f Observed, id ID) []host.File {
	if s.Volume == nil {
		return nil
	}
	return []host.File{{
		Path: s.Volume.IdentityPath(), Content: s.VolumeIdentity(f, id).Content(), Mode: 0o644,
	}}
}

// identityRepair returns the identity if the one on the mounted volume says something else. That of another member
// stays, because it says whose the data is, unless the member is proven: it runs on the data, and the cluster lists it.
func (s Spec) identityRepair(f Observed, id ID, proven bool) []host.File {
	i := f.Volume.Identity
	if s.Volume == nil || i != nil && (i.Same(s.VolumeIdentity(f, id)) || !proven && namesOther(*i, id)) {
		return nil
	}
	return s.identityFiles(f, id)
}

// namesOther reports whether an identity names another member than id. Identities of earlier versions may lack the etcd
// cluster.
func namesOther(i volume.Identity, id ID) bool {
	cluster := membership.ParseID(i.EtcdCluster)
	return i.Has() && (membership.ParseID(i.MemberID) != id.Member ||
		cluster != 0 && id.Cluster != 0 && cluster != id.Cluster)
}

// volumeAfter returns the volume as it is once c is applied.
func (s Spec) volumeAfter(o volume.Observed, c host.Change) volume.Observed {
	for _, file := range c.Files {
		if s.Volume != nil && file.Path == s.Volume.IdentityPath() {
			o.Identity, o.IdentityErr = volume.ReadIdentity(string(file.Content))
		}
	}
	return o
}

// remountReason describes why the volume must be mounted again, or returns "".
func (s Spec) remountReason(f Observed) string {
	switch {
	case s.Volume == nil:
		return ""
	case !f.Volume.InPlace():
		return fmt.Sprintf("its volume %s is not mounted at %s", s.Volume.Name(), s.Volume.MountPath)
	case f.Volume.ReadOnly:
		return fmt.Sprintf("its volume %s is mounted read-only", s.Volume.Name())
	}
	return ""
}

// volumeDrift describes how the volume differs from what it should be.
func (s Spec) volumeDrift(f Observed) []string {
	if s.Volume == nil {
		return nil
	}
	o, name := f.Volume, s.Volume.Name()
	switch {
	case o.Device == "":
		return []string{fmt.Sprintf("the volume %s is not attached to the machine", name)}
	case o.At != "" && !o.InPlace():
		return []string{fmt.Sprintf("another device (%s) is mounted at %s, wanted the volume %s", o.At, s.Volume.MountPath,
			name)}
	case !o.InPlace():
		return []string{fmt.Sprintf("the volume %s is not mounted at %s", name, s.Volume.MountPath)}
	case o.ReadOnly:
		return []string{fmt.Sprintf("the volume %s is mounted read-only at %s", name, s.Volume.MountPath)}
	}
	var words []string
	switch {
	case o.Identity == nil && o.IdentityErr != nil:
		words = append(words, fmt.Sprintf("%s is invalid: %s", s.Volume.IdentityPath(), o.IdentityErr))
	case o.Identity == nil:
		words = append(words, s.Volume.IdentityPath()+" is missing")
	case !o.Identity.Same(s.VolumeIdentity(f, f.identity(nil, nil))):
		words = append(words, fmt.Sprintf("%s describes member %q (%s) on machine %s, which is %s, or another cluster",
			s.Volume.IdentityPath(), o.Identity.Name, o.Identity.MemberID, o.Identity.MachineID, o.Identity.State))
	}
	if o.Damaged {
		words = append(words, fmt.Sprintf("the kernel has found errors in the file system of the volume %s", name))
	}
	if o.Grown() {
		words = append(words, fmt.Sprintf("the volume %s has %s, and its file system %s", name, membership.Bytes(o.Size),
			membership.Bytes(o.Used)))
	}
	return words
}

// VolumeRemedy returns what to do about a file system that an update cannot repair, or has left smaller than its
// device; "" if there is nothing to do.
func (s Spec) VolumeRemedy(f Observed) string {
	o := f.Volume
	switch {
	case s.Volume != nil && o.Damaged:
		return fmt.Sprintf("if all other members are healthy, run systemctl stop etcd etcd-volume; e2fsck -f %s on the "+
			"machine, then apply again. Without that, it is not mounted at the next boot", o.Device)
	case s.Volume == nil || !o.Grown():
		return ""
	case o.Kind == volume.XFS:
		return fmt.Sprintf("the file system did not grow: run xfs_growfs %s on the machine, which says why",
			s.Volume.MountPath)
	}
	return fmt.Sprintf("the file system did not grow: run resize2fs %s on the machine, which says why. If the kernel "+
		"grows it only while nothing has it mounted, and all other members are healthy, run "+
		"systemctl stop etcd etcd-volume; e2fsck -f %s; resize2fs %s; then apply again", o.Device, o.Device, o.Device)
}

// prefixed adds the name of the member to each word.
func (s Spec) prefixed(words []string) []string {
	for i := range words {
		words[i] = s.Name + ": " + words[i]
	}
	return words
}

// HoldsVolume reports whether the machine has the volume of the member, mounted or not.
func (f Observed) HoldsVolume(s Spec) bool {
	return f.hasVolumeOf(s) && f.Volume.Identity.State != volume.Removed
}

// VolumeSaysRemoved reports whether the machine has the volume of the member, and the member has left its cluster.
func (f Observed) VolumeSaysRemoved(s Spec) bool {
	return f.hasVolumeOf(s) && f.Volume.Identity.State == volume.Removed
}

func (f Observed) hasVolumeOf(s Spec) bool {
	i := f.Volume.Identity
	return s.Volume != nil && i != nil && i.ClusterID == s.Bundle.ClusterID && i.Name == s.Name
}

// WantVolume returns whose volume the machine should have. last is the machine that the member was on before. restores
// says that a restore was requested that replaces its data.
func (s Spec) WantVolume(f Observed, last string, restores bool) volume.Want {
	if last == "" && f.Data && f.RecordedAs(s) {
		last = f.Facts.MachineID // its record says so
	}
	return volume.Want{
		Spec: *s.Volume, ClusterID: s.Bundle.ClusterID, Name: s.Name, MachineID: f.Facts.MachineID, Last: last,
		Recorded: s.recordedMember(f), Data: f.Data, Restores: restores,
		Changes: f.Record != nil && (f.Record.Restoring != "" || s.ArchivedDataDir != ""),
	}
}

// recordedMember returns the member of the record, if it is that of s.
func (s Spec) recordedMember(f Observed) volume.Recorded {
	if !f.RecordedAs(s) || f.MemberID() == 0 {
		return volume.Recorded{}
	}
	return volume.Recorded{MemberID: f.Record.MemberID, EtcdCluster: f.Record.EtcdCluster}
}

// takenIdentity returns the identity of a volume that the machine takes: the member that it has is kept.
func (s Spec) takenIdentity(f Observed) volume.Identity {
	var id ID
	if i := f.Volume.Identity; i != nil && i.Has() {
		id = ID{Member: membership.ParseID(i.MemberID), Cluster: membership.ParseID(i.EtcdCluster)}
	} else if i == nil {
		id = f.identity(nil, nil) // it was lost
	}
	taken := s.VolumeIdentity(f, id)
	if i := f.Volume.Identity; i != nil && i.Has() {
		taken.Restored = i.Restored
	}
	return taken
}

// ownScript gives the data to the user of this machine: on another machine, it may have another number.
const ownScript host.Script = `if [ -n "$(find "$data" ! -user ` + layout.User + ` -print -quit 2>/dev/null)" ]; then
  chown -R ` + layout.User + ":" + layout.User + ` -- "$data"
fi
`

// TakeVolume returns the change that mounts the volume, with a file system if format is set.
func (s Spec) TakeVolume(f Observed, format bool) (host.Change, Action) {
	fileSystem := ""
	if format {
		fileSystem = volume.Ext4
	}
	own := host.Assignments(map[string]string{"data": s.Directory()}) + ownScript
	c := host.Change{Users: []host.User{{Name: layout.User}}}
	if f.outlivedRecord() {
		c.Remove = []string{layout.RecordPath}
	}
	return c, Action{Timers: s.Volume.TakeScript(fileSystem, s.takenIdentity(f)) + own}
}

// outlivedRecord reports whether the record is of an earlier time at which the machine had the member: the volume comes
// from another machine, with a member of another ID or another etcd cluster. The volume is right.
func (f Observed) outlivedRecord() bool {
	i := f.Volume.Identity
	return f.Record != nil && i != nil && i.Has() && i.MachineID != f.Facts.MachineID &&
		(f.Record.ID() != membership.ParseID(i.MemberID) || f.Record.EtcdCluster != i.EtcdCluster)
}

// RecordOfVolume returns the change that records the member whose mounted volume the machine has, if nothing records
// it.
// The machine has no files of an earlier generation.
func (s Spec) RecordOfVolume(f Observed) (c host.Change, due bool) {
	i := f.Volume.Identity
	if !f.Volume.InPlace() || i == nil || !i.Has() || !f.Data || f.Record != nil {
		return c, false
	}
	m := s.record(ID{Member: membership.ParseID(i.MemberID), Cluster: membership.ParseID(i.EtcdCluster)}, nil)
	m.Restored = i.Restored
	c.Dirs = []host.Dir{{Path: layout.ConfigDir, Mode: 0o755}}
	c.Files = []host.File{encodeRecord(m)}
	return c, true
}

// OnVolumeOnly reports whether the machine has nothing of an established member but its record and what is on its
// volume, so that only its resource can start it.
func (f Observed) OnVolumeOnly() bool {
	return f.Data && !f.HasUnit() && !f.Running() && !f.Pending && f.Record != nil && f.Record.recorded().Volume != nil
}

// StartOnVolumeChange returns the change that starts such a member. What the record says of restores stays: one that s
// requests is not done by that.
func StartOnVolumeChange(s Spec, f Observed, c Issued) (change host.Change, timers host.Script) {
	s.Restore = nil
	s = s.KeepRestored(f)
	id := f.identity(nil, nil)
	change, timers = NewMemberChange(s, f, c, id, "")
	change.Files = slices.DeleteFunc(change.Files, func(file host.File) bool {
		return file.Path == layout.EnvPath || file.Path == layout.RecordPath // there is nothing to form
	})
	m := s.record(id, c.Pairs)
	m.Restoring, m.Silent = f.Record.Restoring, f.Record.Silent
	change.Files = append(change.Files, encodeRecord(m))
	return change, timers
}

// leavingIdentity returns the identity of a volume that the machine f leaves in a state; nil if it is not the member's.
func (s Spec) leavingIdentity(f Observed, state volume.State) *volume.Identity {
	if f.Volume.Identity != nil && !f.HoldsVolume(s) {
		return nil
	}
	left := s.takenIdentity(f)
	left.State = state
	return &left
}

// LeaveAction stops the member on the machine f, and releases its volume.
func (s Spec) LeaveAction(f Observed) Action {
	left := s.leavingIdentity(f, volume.Released)
	return Action{
		Verb: Leave, DataDir: s.Directory(), Stage: s.Volume.StageScript(left), Volume: s.Volume.ReleaseScript(left),
	}
}

// ClearAction archives or wipes the data of the member, whose data stays on its volume, and removes the rest from the
// machine f.
func (s Spec) ClearAction(f Observed, keep bool) Action {
	a := s.ArchiveAction(Clear, keep)
	a.KeepRecord = f.HasNode()
	if s.Volume != nil {
		a.Volume = s.Volume.ReleaseScript(s.leavingIdentity(f, volume.Removed))
	}
	return a
}
