package etcd

import (
	"fmt"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
)

// describe combines the observed state of the machine with the cluster's view; v is nil if
// no member answered.
func describe(s Spec, f machine.Observed, v *membership.View) Status {
	out := Status{
		Unit:              f.Unit.Active,
		MachineID:         f.Facts.MachineID,
		ConfigDigest:      machine.ConfigDigest(f.Facts.Files),
		CertificateExpiry: machine.Expiry(f.Facts.Files),
		NewID:             machine.Rebuilt(f) || replaced(s, f, v),
		unmanaged:         unmanaged(s, v),
	}
	var entry *membership.Member
	if v != nil {
		if m, ok := v.ByPeerURL(s.PeerURL()); ok {
			entry = &m
			out.ID, out.Version, out.Learner = fmt.Sprintf("%x", m.ID), m.Version, m.Learner
			out.Healthy = m.Healthy && len(m.Alarms) == 0
			out.Leader, out.DBSize, out.Alarms = m.ID == v.Leader, m.DBSize, m.Alarms
		}
	}
	switch {
	case v != nil && entry == nil: // nothing else is reported then
		out.Drift = []string{s.Name + ": the cluster no longer lists this member, but its machine still has its files"}
	case f.Reached():
		out.Drift = append(machine.Drift(s.Spec, f, entry, time.Now()), membership.AlarmDrift(s.Name, v, entry)...)
	}
	return out
}
