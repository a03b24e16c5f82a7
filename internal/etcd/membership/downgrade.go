package membership

import (
	"errors"
	"fmt"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/release"
)

// MayChangeVersion returns why the members that run may not be brought to a version, by an upgrade
// or by a downgrade, or nil. Like MayUpgrade, it checks the versions alone.
func MayChangeVersion(s Survey, target string) error {
	if s.Downgrades(target) {
		return mayDowngrade(s, target)
	}
	return MayUpgrade(s, target)
}

// Downgrades reports whether members reach a version by a downgrade of the cluster: their cluster
// version is of a newer minor version, or such a downgrade is enabled already. Members that
// give up an upgrade on which the cluster has not agreed need none.
func (s Survey) Downgrades(target string) bool {
	to, _, err := release.Parse(target)
	agreed, known := release.AgreedMinor(s.ClusterVersion)
	return err == nil && (known && to < agreed || s.Downgrade != "" && s.Downgrade == MinorReported(target))
}

// mayDowngrade returns why the cluster may not be downgraded to a version, or nil. etcd lowers the
// cluster version by one minor version at a time, and a member of yet another minor version
// could not follow: an upgrade that has not ended must end first.
func mayDowngrade(s Survey, target string) error {
	var refusals []string
	if agreed, known := release.AgreedMinor(s.ClusterVersion); known && s.Downgrade == "" {
		if err := release.ValidateDowngrade(fmt.Sprintf("3.%d.%d", agreed, anyPatch), target); err != nil {
			return fmt.Errorf("the cluster version is 3.%d: %w", agreed, err)
		}
	}
	for _, m := range s.Members {
		minor := MinorReported(m.Version)
		if minor == "" || minor == MinorReported(target) {
			continue // what does not answer is found when the downgrade begins
		}
		if err := release.ValidateDowngrade(m.Version, target); err != nil {
			refusals = append(refusals, fmt.Sprintf("member %s runs %s: %s", m.label(), m.Version, err))
		}
	}
	if len(refusals) > 0 {
		return errors.New(strings.Join(refusals, "; "))
	}
	return nil
}

// DowngradeStep is what a downgrade needs before a member may be restarted with the older version.
type DowngradeStep int

// The steps.
const (
	DowngradeNone   DowngradeStep = iota // nothing: the member may be restarted
	DowngradeEnable                      // the downgrade must be enabled
	DowngradeWait                        // the member still converts its data
)

// NextDowngradeStep returns what is missing before a member of a cluster with a cluster version may
// be restarted with a target of an older minor version. etcd's guide wants the data of every
// member in the older form before the first one is restarted.
func NextDowngradeStep(v View, agreed, target string) DowngradeStep {
	wanted := MinorReported(target)
	if release.IsOlder(wanted+".0", agreed+".0") && v.Downgrade != wanted {
		return DowngradeEnable
	}
	if agreed != wanted {
		return DowngradeWait // for the leader, or for a member that reports the cluster version
	}
	for _, m := range v.Members {
		if m.Storage != "" && m.Storage != wanted {
			return DowngradeWait
		}
	}
	return DowngradeNone
}

// AbandonedDowngrade returns the minor version to which a downgrade is enabled that a member which
// is to run another version does not follow, or "". An upgrade cannot continue then, because
// etcd holds the cluster version down.
func AbandonedDowngrade(v *View, target string) string {
	if v == nil || v.Downgrade == "" || !release.IsOlder(v.Downgrade+".0", target) {
		return ""
	}
	return v.Downgrade
}

// DowngradeDrift describes a downgrade that a member which is to run another version does not follow.
func DowngradeDrift(name string, v *View, version string) []string {
	minor := AbandonedDowngrade(v, version)
	if minor == "" {
		return nil
	}
	return []string{fmt.Sprintf("%s: a downgrade of the cluster to etcd %s is enabled and has not ended, so every member "+
		"works as %[2]s; apply cancels it, or set version of every member to a %[2]s release to complete it", name, minor)}
}

// MayJoinAs returns why no member of a version may join the members that run, or nil. A member of
// the older version cannot join during a downgrade: etcd 3.5 refuses a cluster of its own version
// in which one is enabled (allowedVersionRange in etcdserver/cluster_util.go).
func MayJoinAs(s Survey, version string) error {
	if s.Downgrade != "" && s.Downgrade == MinorReported(version) {
		return fmt.Errorf("a downgrade to etcd %s is enabled, and no member of that version can join until it ends: let the "+
			"other members complete it first, or set version of every member back, which cancels it", s.Downgrade)
	}
	return MayUpgrade(s, version)
}

// DowngradeEnded reports whether every member runs the minor version of target, so that the
// downgrade to it has ended.
func DowngradeEnded(v View, target string) bool {
	for _, m := range v.Members {
		if MinorReported(m.Version) != MinorReported(target) {
			return false
		}
	}
	return true
}
