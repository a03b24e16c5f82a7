package release

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// UpgradePaths describes the versions that a control plane can be upgraded to.
type UpgradePaths struct {
	Uniform       bool     // all replicas run the same known version
	Oldest        string   // of the replicas; "" if unknown
	Newest        string   // of the replicas; "" if unknown
	NextMinors    []string // such as "1.35": what all replicas may be upgraded to now
	OldestKubelet string   // "" if unknown
	BlockedFrom   string   // such as "1.38": the first minor that the oldest kubelet does not allow; "" if unknown
}

// UpgradePathsFrom returns the upgrade paths from the running versions. Patch releases of a
// minor that all replicas run are always possible and not listed.
func UpgradePathsFrom(s Versions) UpgradePaths {
	paths := UpgradePaths{Uniform: uniform(s.Replicas)}
	paths.Oldest, paths.Newest = extremes(s.Replicas)
	paths.OldestKubelet, _ = extremes(s.Kubelets)
	if minor, known := looseMinor(paths.OldestKubelet); known {
		paths.BlockedFrom = fmt.Sprintf("1.%d", minor+maxKubeletSkew+1)
	}
	oldest, err := Minor(paths.Oldest)
	for minor := oldest + 1; err == nil && minor <= NewestMinor; minor++ {
		if len(Violations(s.latest(minor), s)) == 0 {
			paths.NextMinors = append(paths.NextMinors, fmt.Sprintf("1.%d", minor))
		}
	}
	return paths
}

// Violations returns the rules of the version skew policy that an upgrade of the replicas, one
// after the other, to a version would violate, without duplicates. CheckSkew puts each rule on
// a line of its own.
func Violations(target string, s Versions) []string {
	names := slices.Sorted(maps.Keys(s.Replicas))
	if len(names) == 0 {
		names = []string{""} // the first replica to be created
	}
	var refusals []string
	for _, name := range names {
		err := CheckSkew(target, name, s)
		if err == nil {
			continue
		}
		for rule := range strings.SplitSeq(err.Error(), "\n") {
			if !slices.Contains(refusals, rule) {
				refusals = append(refusals, rule)
			}
		}
	}
	return refusals
}

// latest returns the target version of a minor: the newest version of it that a replica already
// runs, so that no replica is downgraded by a patch, or otherwise its first release.
func (s Versions) latest(minor int) string {
	of := map[string]string{}
	for name, running := range s.Replicas {
		if m, err := Minor(running); err == nil && m == minor {
			of[name] = running
		}
	}
	if _, newest := extremes(of); newest != "" {
		return newest
	}
	return fmt.Sprintf("1.%d.0", minor)
}

func uniform(versions map[string]string) bool {
	distinct := map[string]bool{}
	for _, v := range versions {
		distinct[v] = true
	}
	return len(distinct) == 1 && !distinct[""]
}

// extremes returns the oldest and the newest of the known versions.
func extremes(versions map[string]string) (oldest, newest string) {
	for _, name := range slices.Sorted(maps.Keys(versions)) {
		v := versions[name]
		if _, known := looseMinor(v); !known {
			continue
		}
		if oldest == "" || older(v, oldest) {
			oldest = v
		}
		if newest == "" || older(newest, v) {
			newest = v
		}
	}
	return oldest, newest
}

// Unknown describes the unknown versions.
func (s Versions) Unknown() []string {
	var unknown []string
	for _, kind := range []struct {
		what string
		of   map[string]string
	}{{"replica", s.Replicas}, {"etcd member", s.Etcd}, {"the kubelet of node", s.Kubelets}} {
		for _, name := range slices.Sorted(maps.Keys(kind.of)) {
			if kind.of[name] == "" {
				unknown = append(unknown, kind.what+" "+name+" does not report its version")
			}
		}
	}
	if len(s.Replicas) > 0 && s.Kubelets == nil {
		unknown = append(unknown, "no API server reports which kubelets there are")
	}
	return unknown
}
