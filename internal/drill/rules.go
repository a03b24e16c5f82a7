package drill

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
)

// mostDifferences limits the differences that a message lists.
const mostDifferences = 5

// restoredFrom is the least revision of a cluster that was restored: a restore lets the revision grow to the
// milliseconds since 1970 (machine.BumpAutomatically), which no other cluster reaches.
const restoredFrom = int64(1e12)

// differences compares the objects of a snapshot with those of the live cluster, by resource. It returns
// what cannot be explained by what was written since: each object that came or went has its own
// revision. "" means that nothing is missing.
func differences(saved map[string]int64, revision int64, live map[string]client.Count) string {
	newest := newestOf(live)
	if newest < revision {
		return fmt.Sprintf("the snapshot is of revision %d, and the cluster is at %d: it is not of what the cluster has now",
			revision, newest)
	}
	written := newest - revision
	type difference struct {
		resource    string
		saved, live int64
	}
	var all []difference
	sum := int64(0)
	for resource, c := range live {
		if d := (difference{resource, saved[resource], c.Objects}); d.saved != d.live {
			all = append(all, d)
			sum += distance(d.saved, d.live)
		}
	}
	if sum <= written {
		return ""
	}
	slices.SortFunc(all, func(a, b difference) int {
		return cmp.Or(cmp.Compare(distance(b.saved, b.live), distance(a.saved, a.live)),
			strings.Compare(a.resource, b.resource))
	})
	var words []string
	for _, d := range all[:min(len(all), mostDifferences)] {
		words = append(words, fmt.Sprintf("%s: %d in the snapshot, %d in the cluster", d.resource, d.saved, d.live))
	}
	return fmt.Sprintf("the numbers of objects differ by %d, and only %d changes were written since the snapshot: %s",
		sum, written, strings.Join(words, "; "))
}

// newestOf returns the newest revision that the live cluster says.
func newestOf(live map[string]client.Count) int64 {
	newest := int64(0)
	for _, c := range live {
		newest = max(newest, c.Revision)
	}
	return newest
}

// restoredSince reports whether the live cluster was restored after a snapshot of that revision was saved, at a time in
// seconds since 1970, or 0 if that is not known. The revisions of the two say nothing then of how much was written
// between them. Between restores, the revision lags behind the milliseconds since 1970, because a cluster writes less
// often; a restore lets it catch up.
func restoredSince(revision, saved int64, live map[string]client.Count) bool {
	passed := func(limit int64) bool { return revision < limit && newestOf(live) >= limit }
	return passed(restoredFrom) || saved > 0 && passed(saved*1000)
}

func distance(a, b int64) int64 { return max(a, b) - min(a, b) }

// missingKeys returns the keys of service accounts with which the live API server verifies tokens and
// that of the drill does not.
func missingKeys(drill, live []string) []string {
	return slices.DeleteFunc(slices.Clone(live), func(id string) bool { return slices.Contains(drill, id) })
}

// savedAt returns when a snapshot was saved: by its name, or else when its file was written, unless
// the drill has just written it.
func savedAt(source, name string, written time.Time) time.Time {
	if at := snapshot.SavedAt(name); !at.IsZero() {
		return at
	}
	if source == "snapshot" || source == "newest" {
		return written
	}
	return time.Time{}
}

// rto returns the sum of the steps, in seconds, to the millisecond.
func rto(steps map[string]float64) float64 {
	sum := 0.0
	for _, name := range slices.Sorted(maps.Keys(steps)) {
		sum += steps[name]
	}
	return rounded(sum)
}

// rounded returns seconds to the millisecond.
func rounded(seconds float64) float64 { return math.Round(seconds*1000) / 1000 }

// encrypted returns how many Secrets are encrypted in a snapshot, if all that were looked at are; 0 otherwise.
func encrypted(s machine.Staged) int64 {
	if s.Sealed < s.Secrets {
		return 0
	}
	return s.Sealed
}
