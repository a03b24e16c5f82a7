package membership

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/release"
)

// Roles are the ids of a list with what each of them is.
func Roles(v View) string {
	var all []string
	for _, m := range v.Members {
		role := "voter"
		if m.Learner {
			role = "learner"
		}
		all = append(all, fmt.Sprintf("%x (%s)", m.ID, role))
	}
	return strings.Join(all, ", ")
}

// MayBeginUpgrade says why no member may go to another version now, or nil. It is
// stricter than MayRestart: a restart of the same brings back what was there,
// an upgrade may not, so every member has to be able to stand in for every
// other one. The member itself may be the one that is mended by it.
func MayBeginUpgrade(v View, id uint64) error {
	if err := RequireStable(v); err != nil {
		return err
	}
	if learners := v.Learners(); len(learners) > 0 {
		return fmt.Errorf("%w: %s", ErrLearner, learners[0].Label())
	}
	if full := v.Raised(AlarmNoSpace); len(full) > 0 {
		return fmt.Errorf("%w: %s for %s", ErrAlarm, AlarmNoSpace, full[0].Label())
	}
	if gone := v.orphaned(AlarmNoSpace); len(gone) > 0 {
		return fmt.Errorf("%w: %s for member %x, which has left", ErrAlarm, AlarmNoSpace, gone[0].Member)
	}
	var words []string
	for _, m := range Except(v.Members, id) {
		if !m.Healthy {
			words = append(words, m.Label()+" "+m.Trouble)
		}
	}
	if len(words) > 0 {
		return fmt.Errorf("%w: %s", ErrUnhealthy, strings.Join(words, ", "))
	}
	return nil
}

// MemberStatus is a member of a cluster with what the cluster says of it.
type MemberStatus struct {
	Member
	ID      string // hex
	Address string // "" until it has served for the first time
	Leader  bool
}

// label names the member in messages.
func (r MemberStatus) label() string { return Label(cmp.Or(r.Name, "not there"), r.Address) }

// Survey is what the members of a cluster run.
type Survey struct {
	Members []MemberStatus // sorted by name
	// ClusterVersion is what the members have agreed on, as "3.5": etcd raises it
	// when the last member runs a newer minor version, and refuses to start an
	// older one from then on. "" when nobody tells.
	ClusterVersion string
}

// MayUpgrade says why the members of a cluster may not be brought to a version,
// or nil. It is about the versions alone: that all are healthy is asked when
// the upgrade begins. Every rule that is broken is named.
//
// etcd runs neighbouring minor versions in one cluster, and a member may go
// back to the older of the two as long as one other still runs it: only when
// the last one has left it do they agree on the newer one, and from then on an
// older server ends at its start (MustDetectDowngrade in etcd's
// etcdserver/version). So an upgrade that is not complete can be given up.
func MayUpgrade(s Survey, target string) error {
	to, _, err := release.Parse(target)
	if err != nil {
		return err
	}
	var refusals []string
	agreed, known := release.AgreedMinor(s.ClusterVersion)
	switch {
	case known && to < agreed:
		refusals = append(refusals, fmt.Sprintf("etcd %s cannot follow: all members have run 3.%d and agreed on it, and etcd refuses to start an older one "+
			"from then on; stay at 3.%d, or restore a snapshot from before", target, agreed, agreed))
	case known && to > agreed+1:
		refusals = append(refusals, fmt.Sprintf("etcd %s cannot follow: the members have agreed on 3.%d so far; upgrade all of them by one minor version at a time, 3.%d first",
			target, agreed, agreed+1))
	}
	if len(refusals) == 0 {
		for _, m := range s.Members {
			if err := mayFollow(s, m, target, known); err != nil {
				refusals = append(refusals, fmt.Sprintf("member %s runs %s: %s", m.label(), m.Version, err))
			}
		}
	}
	if len(refusals) == 0 {
		return nil
	}
	return errors.New(strings.Join(refusals, "; "))
}

// mayFollow says why target may not be beside or after what m runs, or nil.
func mayFollow(s Survey, m MemberStatus, target string, agreed bool) error {
	if m.Version == "" {
		return nil
	}
	err := release.ValidateUpgrade(m.Version, target)
	back := err != nil && release.ValidateUpgrade(target, m.Version) == nil
	if back && agreed && slices.ContainsFunc(s.Members, func(other MemberStatus) bool { return release.NotNewer(other.Version, target) }) {
		return nil
	}
	return err
}
