package etcd

import (
	"fmt"
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/volume"
)

// sameMachine reports whether two observations are of one machine, which may have two addresses. Clones of an image may
// have the same machine ID, but not the same boot ID, or, as containers of one host, not the same name.
func sameMachine(a, b machine.Observed) bool {
	return a.Address == b.Address || a.Facts.MachineID != "" && a.Facts.MachineID == b.Facts.MachineID &&
		a.Facts.BootID == b.Facts.BootID && a.Facts.Hostname == b.Facts.Hostname
}

// sharedMachineID describes two machines that have the same one of the given machine IDs, or returns "". Such an ID
// does not tell which of them has mounted a volume.
func sharedMachineID(machines []machine.Observed, ids ...string) string {
	for i, a := range machines {
		for _, b := range machines[:i] {
			if a.Reached() && b.Reached() && a.Facts.MachineID == b.Facts.MachineID && !sameMachine(a, b) &&
				a.Facts.MachineID != "" && slices.Contains(ids, a.Facts.MachineID) {
				return fmt.Sprintf("%s and %s have the same machine ID (%s in /etc/machine-id), as clones of one image do, so "+
					"it does not tell which of them uses the volume", b.Label(), a.Label(), a.Facts.MachineID)
			}
		}
	}
	return ""
}

// mayUse returns the observed machines that may use the volume, or have used it: a machine with another member, such as
// a clone of the same image, does not.
func (t *taking) mayUse() []machine.Observed {
	return slices.DeleteFunc(slices.Clone(t.others), func(m machine.Observed) bool {
		return m.Record != nil && m.Data && !m.RecordedAs(t.s.Spec)
	})
}

// ownMachineIDNext is the next step for machines with the same ID.
const ownMachineIDNext = "give the one that has no member an ID of its own (rm -f /etc/machine-id " +
	"/var/lib/dbus/machine-id; systemd-machine-id-setup; reboot), and remove /etc/machine-id from the image; then apply " +
	"again. Do not change the ID of a machine with a volume: it would not mount it"

// checkMachineIDs returns an error if the machine ID in the identity of the volume may be that of more than one
// machine.
func (t *taking) checkMachineIDs() error {
	ids, i := []string{t.f.Facts.MachineID, t.s.LastMachine}, t.f.Volume.Identity
	if i != nil {
		ids = append(ids, i.MachineID)
	}
	if cause := sharedMachineID(t.mayUse(), ids...); cause != "" {
		return t.refuse(cause, ownMachineIDNext)
	}
	if t.s.Former == nil || t.s.Volume.Fenced || t.f.Volume.InPlace() || i == nil || i.State != volume.Member ||
		i.MachineID != t.f.Facts.MachineID || i.MachineID != t.s.LastMachine {
		return nil
	}
	for _, m := range t.others {
		if m.Address == t.s.Former.Address() && m.Reached() {
			return nil
		}
	}
	return t.refuse(fmt.Sprintf("the machine has the ID of the machine that the member leaves (%s in /etc/machine-id), "+
		"which does not answer at %s: it is that machine with another address, or a clone of it", i.MachineID,
		t.s.Former.Address()), "if it is that machine, mount its volume (systemctl start "+volume.Unit+"), and apply again; "+
		"otherwise make sure that the other one cannot write to the volume any more, and set volume.fenced = true")
}
