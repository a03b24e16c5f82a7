package machine

import (
	"fmt"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// MemberDir is the entry of a data directory that has a member's data.
const MemberDir = "member"

// crowdDrift describes directories that have more entries than were read. Nothing repairs that: which entries may go is
// not known here. What decisions depend on is always read (host.Query.SharedEntries).
func crowdDrift(f Observed) []string {
	var words []string
	for _, dir := range f.crowded() {
		words = append(words, fmt.Sprintf("%s has more than %d entries: the others are not read", dir, host.MaxShared))
	}
	return words
}

// CrowdRemedy returns what to do about directories that have more entries than are read; "" if there are none.
func CrowdRemedy(f Observed) string {
	dirs := f.crowded()
	if len(dirs) == 0 {
		return ""
	}
	return "find out which user of the machine has made the entries of " + strings.Join(dirs, " and ") + ", and remove " +
		"what is neither etcd's data (member) nor an archive or a snapshot"
}
