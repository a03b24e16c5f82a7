package controlplane

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// Ways is where a control plane may go from what runs.
type Ways struct {
	Settled       bool     // every replica tells its version, and all tell the same
	Oldest        string   // version among the replicas; "" when none tells
	Newest        string   // the same
	NextMinors    []string // "1.35": where all replicas may go now
	OldestKubelet string   // "" when none tells
	Blocks        string   // "1.38": the first minor that the oldest kubelet keeps the replicas from; "" when none tells
}

// WaysFrom tells where the replicas may go. Patches of the minor that all of
// them run are not listed: they may always follow.
func WaysFrom(s Skew) Ways {
	w := Ways{Settled: settled(s.Replicas)}
	w.Oldest, w.Newest = extremes(s.Replicas)
	w.OldestKubelet, _ = extremes(s.Kubelets)
	if minor, known := looseMinor(w.OldestKubelet); known {
		w.Blocks = fmt.Sprintf("1.%d", minor+kubeletLag+1)
	}
	oldest, err := minorOf(w.Oldest)
	for minor := oldest + 1; err == nil && minor <= newestMinor; minor++ {
		if len(Refusals(s.latest(minor), s)) == 0 {
			w.NextMinors = append(w.NextMinors, fmt.Sprintf("1.%d", minor))
		}
	}
	return w
}

// Refusals are the rules by which the replicas may not be brought to a version,
// one after the other from what runs, each said once. Of several, MayRun gives
// one to a line.
func Refusals(target string, s Skew) []string {
	names := slices.Sorted(maps.Keys(s.Replicas))
	if len(names) == 0 {
		names = []string{""} // the first one there will be
	}
	var refusals []string
	for _, name := range names {
		err := MayRun(target, name, s)
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

// latest is the version of a minor by which that minor is judged: what a
// replica runs of it already, because no replica goes back a patch for the
// sake of a question; and where none does, its first release.
func (s Skew) latest(minor int) string {
	of := map[string]string{}
	for name, running := range s.Replicas {
		if m, err := minorOf(running); err == nil && m == minor {
			of[name] = running
		}
	}
	if _, newest := extremes(of); newest != "" {
		return newest
	}
	return fmt.Sprintf("1.%d.0", minor)
}

func settled(versions map[string]string) bool {
	distinct := map[string]bool{}
	for _, v := range versions {
		distinct[v] = true
	}
	return len(distinct) == 1 && !distinct[""]
}

// extremes are the oldest and the newest of the versions that are told.
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

// older compares as semantic versions do: 1.35.0-rc.0 comes before 1.35.0. A
// vendor's form that is none is neither older nor newer.
func older(a, b string) bool {
	v, err := version.ParseSemantic(a)
	w, other := version.ParseSemantic(b)
	return err == nil && other == nil && v.LessThan(w)
}

// Untold says in words which versions are not known. Where nobody was asked,
// nothing is missing.
func (s Skew) Untold() []string {
	var words []string
	for _, kind := range []struct {
		what string
		of   map[string]string
	}{{"replica", s.Replicas}, {"etcd member", s.Etcd}, {"the kubelet of node", s.Kubelets}} {
		for _, name := range slices.Sorted(maps.Keys(kind.of)) {
			if kind.of[name] == "" {
				words = append(words, kind.what+" "+name+" does not tell its version")
			}
		}
	}
	if len(s.Replicas) > 0 && s.Kubelets == nil {
		words = append(words, "no API server tells which kubelets there are")
	}
	return words
}
