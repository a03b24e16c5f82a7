// Package release contains what is known of etcd's releases: which ones this provider
// manages, which may follow which, and which flags and feature gates each accepts. It is
// pure.
package release

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
)

// LeavesV2 reports whether a step leaves the last minor version that has a v2 store. 3.6
// exits at its start if the v2 store is not empty.
func LeavesV2(from, to string) bool {
	fromMinor, _, err := Parse(from)
	toMinor, _, toErr := Parse(to)
	return err == nil && toErr == nil && fromMinor <= 5 && toMinor > 5
}

// The minor versions of etcd 3 whose flags and upgrade rules are known here.
const (
	oldestMinor = 5
	NewestMinor = 7
)

// Parse returns the minor and patch version of an etcd 3 release.
func Parse(release string) (minor, patch int, err error) {
	v, err := version.ParseSemantic(release)
	if err != nil || v.String() != release || v.Major() != 3 || v.Minor() > 999 || v.Patch() > 999 ||
		v.PreRelease() != "" || v.BuildMetadata() != "" {
		return 0, 0, fmt.Errorf("etcd version %q is malformed: use a release such as \"3.6.16\", without a leading \"v\"",
			release)
	}
	return int(v.Minor()), int(v.Patch()), nil
}

// ValidateVersion accepts releases of the minor versions known here.
func ValidateVersion(release string) error {
	minor, _, err := Parse(release)
	if err != nil {
		return err
	}
	if minor < oldestMinor || minor > NewestMinor {
		return fmt.Errorf("etcd version %q is not supported: this provider manages etcd 3.%d to 3.%d", release, oldestMinor,
			NewestMinor)
	}
	return nil
}

// ValidateUpgrade returns why a running member may not be brought from one version to
// another, or nil. It allows at most one minor step forward and none back, 3.6 only from
// 3.5.26 on (older 3.5 can lose a promotion or keep removed members: etcd-io/etcd#19557,
// #20793, #20967), and 3.7 only from 3.6.11 on (etcd's guide for 3.7).
func ValidateUpgrade(from, to string) error {
	fromMinor, fromPatch, err := Parse(from)
	if err != nil {
		return err
	}
	toMinor, _, err := Parse(to)
	if err != nil {
		return err
	}
	switch {
	case toMinor < fromMinor:
		return fmt.Errorf("etcd %s cannot replace %s: its data format is older", to, from)
	case toMinor > fromMinor+1:
		return fmt.Errorf("etcd %s cannot replace %s: upgrade by one minor version at a time, to 3.%d first", to, from,
			fromMinor+1)
	case fromMinor == 5 && toMinor == 6 && fromPatch < 26:
		return fmt.Errorf("etcd %s cannot replace %s: upgrade to 3.5.26 or later first, which repairs member "+
			"records that 3.6 would misread", to, from)
	case fromMinor == 6 && toMinor == 7 && fromPatch < 11:
		return fmt.Errorf("etcd %s cannot replace %s: upgrade to 3.6.11 or later first, because earlier 3.6 releases "+
			"may not work with 3.7 members", to, from)
	}
	return nil
}

// oldestAfterDowngrade is, for each minor version that a cluster may return to, the oldest
// patch release that may follow a newer minor version: the way up again needs 3.5.26 and
// 3.6.11 (ValidateUpgrade), and before 3.5.32 and 3.6.12 a change of a peer URL makes a voter of a
// learner.
var oldestAfterDowngrade = map[int]int{5: 32, 6: 12}

// ValidateDowngrade returns why a cluster of one version may not return to an older minor
// version, or nil. etcd itself allows one minor version at a time, and none below 3.5.
func ValidateDowngrade(from, to string) error {
	fromMinor, _, err := Parse(from)
	if err != nil {
		return err
	}
	toMinor, toPatch, err := Parse(to)
	if err != nil {
		return err
	}
	oldest, known := oldestAfterDowngrade[toMinor]
	switch {
	case toMinor >= fromMinor:
		return fmt.Errorf("etcd %s after %s is no downgrade", to, from)
	case toMinor < fromMinor-1:
		return fmt.Errorf("etcd %s cannot replace %s: downgrade by one minor version at a time, to 3.%d first", to, from,
			fromMinor-1)
	case !known:
		return fmt.Errorf("etcd %s cannot replace %s: 3.%d is not a version to which this provider downgrades", to, from,
			toMinor)
	case toPatch < oldest:
		return fmt.Errorf("etcd %s cannot replace %s: downgrade to 3.%d.%d or later, because earlier 3.%d releases have "+
			"faults in how they keep members", to, from, toMinor, oldest, toMinor)
	}
	return nil
}

// ValidateChange returns why a cluster of one version may not be brought to another, by an upgrade
// or by a downgrade, or nil.
func ValidateChange(from, to string) error {
	if IsOlder(to, from) {
		return ValidateDowngrade(from, to)
	}
	return ValidateUpgrade(from, to)
}

// IsOlder reports whether a version is of an older minor version than another one.
func IsOlder(version, than string) bool {
	minor, _, err := Parse(version)
	other, _, otherErr := Parse(than)
	return err == nil && otherErr == nil && minor < other
}

// Precedes reports whether a version is older than another one.
func Precedes(release, than string) bool {
	minor, patch, err := Parse(release)
	otherMinor, otherPatch, otherErr := Parse(than)
	return err == nil && otherErr == nil && (minor < otherMinor || minor == otherMinor && patch < otherPatch)
}

// AgreedMinor parses the minor version of a cluster version such as "3.6". There is none yet for some seconds after a
// bootstrap: etcd says 3.0 until its leader has asked all members (MinClusterVersion, in server/etcdserver/version).
func AgreedMinor(version string) (minor int, ok bool) {
	if version == "" {
		return 0, false
	}
	minor, _, err := Parse(version + ".0")
	return minor, err == nil && minor > 0
}

// NotNewer reports whether a member with this version is of target's minor version or an
// older one.
func NotNewer(version, target string) bool {
	minor, _, err := Parse(version)
	to, _, toErr := Parse(target)
	return err == nil && toErr == nil && minor <= to
}
