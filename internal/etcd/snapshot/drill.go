package snapshot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"regexp"
	"slices"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Drill is the result of a restore drill, as the machine records it. A failed one has a problem, and
// what was known by then. Times are in seconds since 1970, so that a script can read them.
type Drill struct {
	ClusterID   string `json:"cluster_id"`
	Member      string `json:"member"`
	Started     int64  `json:"started"`
	Finished    int64  `json:"finished"`
	Succeeded   bool   `json:"succeeded"`
	LastSuccess int64  `json:"last_success"` // when a drill on the machine last succeeded; 0: never
	Problem     string `json:"problem,omitempty"`

	Source   string `json:"source"`   // one of DrillSources
	Snapshot string `json:"snapshot"` // its name; "": not known
	Saved    int64  `json:"saved"`    // when it was saved; 0: not known
	Size     int64  `json:"size"`     // bytes
	Revision int64  `json:"revision"`
	SHA256   string `json:"sha256"`

	RPO   int64              `json:"rpo_seconds"` // the age of the snapshot when the drill started
	RTO   float64            `json:"rto_seconds"` // from the start until the API server was ready
	Steps map[string]float64 `json:"steps"`       // the seconds of each of DrillSteps

	Objects map[string]int64 `json:"objects"` // by resource: "secrets", "deployments.apps"
	// Uncounted are the resources that only a conversion webhook of the live cluster could read: not all of them are in
	// Objects, and none was compared.
	Uncounted []string `json:"uncounted,omitempty"`
	Compared  bool     `json:"compared"`  // with the objects of the live cluster
	Encrypted int64    `json:"encrypted"` // Secrets, if all that were looked at are encrypted; else 0
	Tokens    bool     `json:"tokens"`    // a token that the live cluster issued was accepted
}

// DrillSources are where the snapshot of a drill comes from.
var DrillSources = []string{"bucket", "fetch", "snapshot", "newest"}

// DrillSteps are the steps of a drill that make up its RTO, in their order.
var DrillSteps = []string{"fetch", "verify", "restore", "etcd", "apiserver"}

// Limits of what a machine may say about a drill.
const (
	longestDrill    = 1 << 20
	longestProblem  = 2000
	mostObjects     = 5000
	latestTime      = 1 << 34 // the year 2514
	longestDuration = 1e9
)

// Forms of what is recorded of a snapshot.
var (
	DigestForm   = regexp.MustCompile(`^[0-9a-f]{64}$`)
	NameForm     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$`)
	resourceForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,250}[a-z0-9])?$`)
)

// File returns the file with the record.
func (d Drill) File() host.File {
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		panic("snapshot: encode the record of a drill: " + err.Error()) // finite numbers and strings
	}
	return host.File{Path: layout.DrillPath, Content: append(text, '\n'), Mode: 0o644}
}

// ReadDrill parses the record of a drill. It accepts only what File writes.
func ReadDrill(text string) (Drill, error) {
	var d Drill
	if len(text) > longestDrill {
		return d, fmt.Errorf("%s has %d bytes, more than a record of a drill", layout.DrillPath, len(text))
	}
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&d)
	if err == nil {
		if _, more := decoder.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("something follows the record")
		}
	}
	if err == nil {
		err = d.validate()
	}
	if err != nil {
		return Drill{}, fmt.Errorf("%s: %w", layout.DrillPath, err)
	}
	d.Problem = problem.Block(d.Problem)
	return d, nil
}

// validate accepts values that a drill can have.
func (d Drill) validate() error {
	for name, at := range map[string]int64{
		"started": d.Started, "finished": d.Finished, "last_success": d.LastSuccess, "saved": d.Saved,
	} {
		if at < 0 || at > latestTime {
			return fmt.Errorf("%s is not a time", name)
		}
	}
	switch {
	case d.Finished == 0 || d.Finished < d.Started:
		return errors.New("it has not finished after it started")
	case d.Succeeded != (d.Problem == "") || d.Succeeded && d.LastSuccess != d.Finished || d.LastSuccess > d.Finished:
		return errors.New("it says both that it succeeded and that it failed")
	case !slices.Contains(DrillSources, d.Source):
		return errors.New("its source is not known")
	case d.Snapshot != "" && !NameForm.MatchString(d.Snapshot), d.SHA256 != "" && !DigestForm.MatchString(d.SHA256):
		return errors.New("its snapshot has no valid name or digest")
	case d.Size < 0 || d.Revision < 0 || d.RPO < 0 || d.Encrypted < 0:
		return errors.New("a number is negative")
	case len(d.Problem) > longestProblem || len(d.Member) > 64 || len(d.ClusterID) > 64:
		return errors.New("a text is too long")
	}
	return errors.Join(d.validateSteps(), d.validateObjects())
}

func (d Drill) validateSteps() error {
	if !duration(d.RTO) {
		return errors.New("rto_seconds is not a duration")
	}
	for name, seconds := range d.Steps {
		if !slices.Contains(DrillSteps, name) || !duration(seconds) {
			return fmt.Errorf("step %s is not known, or has no duration", problem.Quote(name))
		}
	}
	return nil
}

func (d Drill) validateObjects() error {
	if len(d.Objects) > mostObjects || len(d.Uncounted) > mostObjects {
		return errors.New("it counts too many resources")
	}
	for _, resource := range d.Uncounted {
		if !resourceForm.MatchString(resource) {
			return fmt.Errorf("%s is not a resource", problem.Quote(resource))
		}
	}
	for resource, n := range d.Objects {
		if !resourceForm.MatchString(resource) || n < 0 {
			return fmt.Errorf("%s is not a resource with a number of objects", problem.Quote(resource))
		}
	}
	return nil
}

func duration(seconds float64) bool {
	return !math.IsNaN(seconds) && seconds >= 0 && seconds < longestDuration
}

// SavedAt returns when a snapshot was saved, by its name; zero if the name does not say.
func SavedAt(name string) time.Time {
	name = path.Base(name)
	if !savedForm.MatchString(name) {
		return time.Time{}
	}
	at, err := time.Parse(TimeLayout, name[:len(TimeLayout)])
	if err != nil {
		return time.Time{}
	}
	return at
}

// Dirs are the directories of snapshots on a machine.
func Dirs(dataDir string) []string {
	return []string{scheduledDir(dataDir), RequestedDir(dataDir), UpgradesDir(dataDir)}
}

// MostAhead is how far the clock of a machine may be ahead of the others, as in kube-snapshot-store. A snapshot that is
// named after a later time is never the newest one: a clock was wrong.
const MostAhead = 10 * time.Minute

// Newest returns the name of the newest of the snapshots in directories; "" if there is none.
func Newest(dirs map[string][]string, now time.Time) string {
	newest := ""
	for _, names := range dirs {
		for _, name := range names {
			if at := SavedAt(name); !at.IsZero() && at.Sub(now) <= MostAhead {
				newest = max(newest, name)
			}
		}
	}
	return newest
}
