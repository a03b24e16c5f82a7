package volume

import (
	"fmt"
	"strings"
	"time"
)

// Action is what a machine is to do with a volume.
type Action int

// The actions.
const (
	Refuse  Action = iota
	Keep           // it is mounted, and its identity fits
	Format         // make a file system on the blank device, and mount it
	Mount          // mount it, and write its identity
	Release        // stop the member on the machine that it has left, and unmount the volume there
)

func (a Action) String() string {
	return [...]string{"refuse", "keep", "format", "mount", "release"}[a]
}

// Holder is what is known of the machine that mounted a volume last, if that is another machine.
type Holder int

// What is known of it.
const (
	Unknown Holder = iota // no machine that answers is that machine
	Idle                  // it answers: neither is the volume mounted there, nor does etcd run
	Using                 // it answers, and may write to the volume
	Leaving               // the same, and it is the machine that the member leaves: it can be stopped there
)

// Want is whose volume it should be, and where.
type Want struct {
	Spec

	ClusterID string // of the bundle
	Name      string // of the member
	MachineID string // of the machine on which it should be
	// Last is the machine on which the member was last, by the state; "" if there is no state. A member with a state
	// has data.
	Last string
	// LastID is the ID of the member by the state, in hex; "" if there is no state. A state may be older than the data,
	// because an apply that was cut off has joined the member again: then Recorded has the other ID.
	LastID   string
	Recorded Recorded // by the machine; empty if there is no record
	// Changes says that the record is written before the data and its identity, so that it may be ahead of them: a restore
	// is under way, or data is taken up.
	Changes bool
	Data    bool // the data directory on the machine has data of a member
	// Restores says that a restore was requested that replaces this data.
	Restores bool
}

// Recorded is a member by the record of a machine, in hex.
type Recorded struct {
	MemberID    string
	EtcdCluster string // "" in records of earlier versions
}

// names reports whether the record is of the member in an identity, which may lack the etcd cluster as well.
func (r Recorded) names(i Identity) bool {
	return r.MemberID == i.MemberID &&
		(r.EtcdCluster == "" || i.EtcdCluster == "" || r.EtcdCluster == i.EtcdCluster)
}

// Decision is the next step, or a refusal.
type Decision struct {
	Action Action
	Reason string // of a refusal
	Next   string
}

// Decide decides from what is observed what the machine does with the volume next. It is called again after each
// step.
//
// Two invariants: a file system is only made where nothing is, and only for a member that has no data yet, or whose
// data a restore replaces. And a volume is only mounted for writing if no other machine can have it: this machine had
// it last, the other one was seen to have stopped, or the user vouches for that.
func Decide(w Want, o Observed, holder Holder) Decision {
	switch {
	case len(o.Copies) > 0:
		return refuse(fmt.Sprintf("%s names more than one disk of the machine, %s and %s: they are copies, "+
			"and an older one lacks what the member has acknowledged", w.Spec.Name(), o.Device, strings.Join(o.Copies, ", ")),
			"detach those that are not the member's volume, or give them another UUID (tune2fs -U random, xfs_admin -U "+
				"generate), label or partition table, then apply again")
	case holder == Leaving && (o.Device == "" || o.Identity == nil && (o.Kind == Ext4 || o.Kind == XFS)):
		// What the other machine has only in its log cannot be seen until it has unmounted the volume.
		return Decision{Action: Release}
	case o.Device == "":
		return refuse(fmt.Sprintf("the volume %s is not attached to the machine", w.Spec.Name()),
			"attach it to this machine, then apply again")
	case o.At != "" && !o.InPlace():
		return refuse(fmt.Sprintf("another device (%s) is mounted at %s", o.At, w.MountPath),
			"unmount it, or use another mount_path, then apply again")
	case o.Elsewhere != "":
		return refuse(fmt.Sprintf("the volume %s is mounted at %s", w.Spec.Name(), o.Elsewhere),
			"unmount it there and remove what mounts it (fstab), or, if only a process has it in a mount namespace of its "+
				"own (/proc/*/mountinfo), stop that; then apply again")
	}
	if o.Damaged && (!o.InPlace() || o.ReadOnly) {
		return refuse(fmt.Sprintf("the kernel has found errors in the file system of the volume %s", w.Spec.Name()),
			fmt.Sprintf("on the machine, stop what uses it (systemctl stop etcd; umount %s) and repair it (e2fsck -f %s), then "+
				"apply again. If it lost data, replace the member (terraform apply -replace=…), which then gets that of the "+
				"others", w.MountPath, o.Device))
	}
	if d := contents(w, o); d != nil {
		return *d
	}
	return whose(w, o, holder)
}

func refuse(reason, next string) Decision {
	return Decision{Action: Refuse, Reason: reason, Next: next}
}

// nothingTaken is the next step for a volume that has something else.
const nothingTaken = "attach the volume of the member. If what is on this one is not needed, remove it yourself " +
	"(wipefs --all, then dd if=/dev/zero bs=1M count=1 to it): the provider deletes nothing there"

// contents decides about a volume without an identity of a member. It returns nil for one that has an identity.
func contents(w Want, o Observed) *Decision {
	name := w.Spec.Name()
	var d Decision
	switch {
	case o.Identity != nil:
		return nil
	case o.IdentityErr != nil:
		d = refuse(fmt.Sprintf("%s on the volume %s is not an identity: %s", IdentityFile, name, o.IdentityErr), nothingTaken)
	case o.Kind != Nothing && o.Kind != Ext4 && o.Kind != XFS:
		d = refuse(fmt.Sprintf("the volume %s is not blank: it has %s", name, kindText(o.Kind)), nothingTaken)
	case o.Kind != Nothing && !o.Readable:
		d = refuse(fmt.Sprintf("the %s file system of the volume %s cannot be looked at", o.Kind, name),
			"check it on the machine (fsck -n), then apply again")
	case o.InPlace() && w.Last == w.MachineID && w.Last != "":
		d = Decision{Action: Mount} // only its identity was lost
	case w.Last != "" && !w.Restores:
		d = refuse(fmt.Sprintf("the member has data, but the volume %s has no %s of it", name, IdentityFile),
			"attach the volume of the member; if it is lost, replace the member (terraform apply -replace=…), which then "+
				"gets the data of the others, or request a restore where no other member has data")
	case o.Kind != Nothing && o.Files > 0:
		d = refuse(fmt.Sprintf("the %s file system of the volume %s has %d entries and no %s", o.Kind, name, o.Files,
			IdentityFile), nothingTaken)
	case o.Kind == Nothing:
		d = Decision{Action: Format}
	default:
		d = Decision{Action: Mount}
	}
	return &d
}

func kindText(kind string) string {
	switch kind {
	case "":
		return "something that could not be recognized"
	case "partitions":
		return "a partition table"
	case "data":
		return "data that is not zero"
	case "unclear":
		return "signatures of more than one kind"
	}
	return kind
}

// whose decides about a volume with an identity.
func whose(w Want, o Observed, holder Holder) Decision {
	i := *o.Identity
	since := i.MountedAt.UTC().Format(time.RFC3339)
	// Also after a move that was cut off. Restores: this machine has made the file system for the restore.
	own := i.MachineID == w.MachineID && (w.Restores || w.Last == "" || w.Last == w.MachineID || w.Last == i.From)
	switch {
	case i.ClusterID != w.ClusterID:
		return refuse(fmt.Sprintf("the volume %s belongs to member %q of another cluster, %q (id %s)", w.Spec.Name(), i.Name,
			i.ClusterName, i.ClusterID), nothingTaken)
	case i.Name != w.Name:
		return refuse(fmt.Sprintf("the volume %s belongs to member %q", w.Spec.Name(), i.Name),
			"attach the volume of this member, then apply again")
	case i.State == Removed:
		return mounted(o, false) // its data is in an archive
	case !own && w.Last != "" && w.Last != w.MachineID && i.MachineID != w.Last && i.From != w.Last:
		return refuse(fmt.Sprintf("the volume %s was last mounted at %s by machine %s, but the member last ran on "+
			"machine %s: it is not the newest copy of its data", w.Spec.Name(), since, i.MachineID,
			w.Last), "attach the volume that the member used last; if it is lost, replace the member "+
			"(terraform apply -replace=…)")
	case w.otherMember(o) != "":
		return refuse(fmt.Sprintf("the volume %s has the data of member %s, and %s", w.Spec.Name(), i.MemberID,
			w.otherMember(o)), "attach the volume of this member. If it is attached, the state is older than its data: apply "+
			"while the cluster answers. If it is lost, replace the member (terraform apply -replace=…)")
	case holder == Leaving:
		return Decision{Action: Release}
	case holder == Using:
		return refuse(fmt.Sprintf("machine %s, which mounted the volume %s at %s, answers and still uses it", i.MachineID,
			w.Spec.Name(), since), "stop etcd there and unmount the volume (systemctl disable --now etcd; umount "+
			w.MountPath+"), then apply again")
	case own:
		return mounted(o, i.State == Member)
	case i.State == Released || holder == Idle || w.Fenced:
		return mounted(o, false)
	}
	return refuse(fmt.Sprintf("machine %s, which mounted the volume %s at %s, does not answer, so it may still write to "+
		"it", i.MachineID, w.Spec.Name(), since), "make sure that it cannot write any more: it is deleted or powered off, "+
		"or the volume is detached from it. Then set volume.fenced = true, and apply again")
}

// otherMember describes the member that the state or the machine has, if the volume has the data of another one:
// members that replace each other have the same name, and the same machine. It returns "" if it has not.
func (w Want) otherMember(o Observed) string {
	i := *o.Identity
	recorded := i.MachineID == w.MachineID && w.Recorded != (Recorded{}) // since this machine has had the volume
	switch {
	case !i.Has() || w.Restores || o.InPlace() && !w.Data:
		return ""
	case recorded && w.Recorded.names(i):
		return ""
	case w.LastID != "" && w.LastID != i.MemberID:
		return "the state has member " + w.LastID
	case w.LastID == "" && recorded && !w.Changes:
		return fmt.Sprintf("the machine records member %s of etcd cluster %q", w.Recorded.MemberID, w.Recorded.EtcdCluster)
	}
	return ""
}

// mounted returns what is left to do for a volume that may be mounted.
func mounted(o Observed, fits bool) Decision {
	if o.InPlace() && fits {
		return Decision{Action: Keep}
	}
	return Decision{Action: Mount}
}
