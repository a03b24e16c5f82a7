package membership

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/release"
)

// Roles describes the IDs of a member list with the role of each.
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

// MayBeginUpgrade returns why no member may change its version now, or nil. It is stricter
// than MayRestart: a restart with the same version restores the previous state, an upgrade
// may not, so every member must be able to replace every other one. The member itself may
// be unhealthy, because the upgrade may repair it.
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

// MemberStatus is a member with what the cluster reports about it.
type MemberStatus struct {
	Member
	ID      string // hex
	Address string // "" until it has served for the first time
	Leader  bool
}

// label returns the name of the member for messages.
func (r MemberStatus) label() string { return Label(cmp.Or(r.Name, "unnamed"), r.Address) }

// Survey is the versions that the members of a cluster run.
type Survey struct {
	Members []MemberStatus // sorted by name
	// ClusterVersion is etcd's cluster version, such as "3.5": etcd raises it when the
	// last member runs a newer minor version, and refuses to start an older one from then
	// on. "" if no member reports it.
	ClusterVersion string
	Downgrade      string // the minor version to which a downgrade is enabled: "3.5"; "" if none is
}

// MayUpgrade returns why the members of a cluster may not be brought to a version, or nil.
// It checks the versions alone: health is checked when the upgrade begins. The error
// contains every violated rule.
//
// etcd runs neighbouring minor versions in one cluster, and a member may return to the
// older of the two as long as one other member still runs it. Only when the last member
// has left the older version do they raise the cluster version, and from then on an older
// server exits at its start (MustDetectDowngrade in etcd's etcdserver/version). So an
// incomplete upgrade can be abandoned.
func MayUpgrade(s Survey, target string) error {
	to, _, err := release.Parse(target)
	if err != nil {
		return err
	}
	var refusals []string
	agreed, known := release.AgreedMinor(s.ClusterVersion)
	switch {
	case known && to < agreed:
		refusals = append(refusals, fmt.Sprintf("the cluster cannot change to etcd %s: its cluster version is 3.%d, "+
			"and etcd refuses to start an older minor version after that; stay on 3.%d", target, agreed, agreed))
	case known && to > agreed+1:
		refusals = append(refusals, fmt.Sprintf("the cluster cannot change to etcd %s: its cluster version is 3.%d; "+
			"upgrade all members by one minor version at a time, to 3.%d first",
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

// mayFollow returns why target may not run beside or after the version of m, or nil.
func mayFollow(s Survey, m MemberStatus, target string, agreed bool) error {
	if m.Version == "" {
		return nil
	}
	err := release.ValidateUpgrade(m.Version, target)
	back := err != nil && release.ValidateUpgrade(target, m.Version) == nil
	if back && agreed && slices.ContainsFunc(s.Members, func(other MemberStatus) bool {
		return release.NotNewer(other.Version, target)
	}) {
		return nil
	}
	return err
}
