package cut

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// Key identifies a step, so that it is the same step in each run of one operation. The number of
// the step in the run is not the same: machines are worked on in parallel, and waiting takes a
// varying number of commands.
type Key struct {
	Machine    string `json:"machine"`    // address
	Command    string `json:"command"`    // summary, see Normalize
	Occurrence int    `json:"occurrence"` // of this command on this machine in this run, from 1
}

// Observation reports whether the step only observes a machine. It changes nothing.
func (k Key) Observation() bool { return strings.HasPrefix(k.Command, host.ObserveSummary) }

func (k Key) String() string { return fmt.Sprintf("%s: %s (%d)", k.Machine, k.Command, k.Occurrence) }

// varying are the parts of a summary that differ between runs: staged files and the tokens in
// their names, identifiers, digests, dates with times, and numbers that are too long for a port, a
// version or an address.
var varying = regexp.MustCompile(strings.Join([]string{
	`\.kube-[0-9]+-[0-9a-f]+`,
	`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`,
	`[0-9]{4}-?[0-9]{2}-?[0-9]{2}T[0-9]{2}[-:]?[0-9]{2}[-:]?[0-9]{2}(\.[0-9]+)?(Z|[-+][0-9]{2}:?[0-9]{2})?`,
	`\b[0-9a-f]{12,}\b`,
	`[0-9]{6,}`,
}, "|"))

// Normalize returns a summary without the parts that differ between runs, on one line.
func Normalize(summary string) string {
	return varying.ReplaceAllString(strings.Join(strings.Fields(summary), " "), "*")
}
