package drill

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// started is what start.sh reports: the restored data, and where it is served.
type started struct {
	staged machine.Staged
	port   int
	source string
	name   string // of the snapshot; "" if it is not known
	digest string
	steps  map[string]float64 // in seconds
}

// longestStep is in milliseconds: more than the machine gives a drill.
const longestStep = 1 << 40

// readStarted parses the report of start.sh.
func readStarted(output string) (started, error) {
	staged, err := machine.ReadStaged(output)
	if err != nil {
		return started{}, err
	}
	s := started{staged: staged, steps: map[string]float64{}}
	for line := range strings.Lines(output) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if err := s.set(key, value); err != nil {
			return started{}, fmt.Errorf("read the report of the drill: %s %s: %w", key, problem.Quote(value), err)
		}
	}
	if s.port == 0 || s.source == "" || s.digest == "" {
		return started{}, errors.New("read the report of the drill: it is incomplete")
	}
	return s, nil
}

func (s *started) set(key, value string) error {
	switch key {
	case "step":
		name, text, _ := strings.Cut(value, " ")
		ms, err := strconv.ParseInt(text, 10, 64)
		if err != nil || ms < 0 || ms > longestStep || !slices.Contains(snapshot.DrillSteps, name) {
			return errors.New("not a step with its duration")
		}
		s.steps[name] = float64(ms) / 1000
	case "port":
		port, err := strconv.Atoi(value)
		if err != nil || port < firstPort || port >= firstPort+20 {
			return errors.New("not a port of a drill")
		}
		s.port = port
	case "source":
		if !slices.Contains(snapshot.DrillSources, value) {
			return errors.New("not a source")
		}
		s.source = value
	case "name":
		if snapshot.NameForm.MatchString(value) { // a file of another name has none that can be recorded
			s.name = value
		}
	case "digest":
		if !snapshot.DigestForm.MatchString(value) {
			return errors.New("not a digest")
		}
		s.digest = value
	}
	return nil
}

// fill adds what is known of the snapshot to the result.
func (s started) fill(r *snapshot.Drill) {
	r.Source, r.Snapshot, r.SHA256, r.Steps = s.source, s.name, s.digest, s.steps
	r.Size, r.Revision = s.staged.Size, s.staged.Revision
	setSaved(r, savedAt(s.source, s.name, s.staged.Saved))
}

// setSaved sets when the snapshot was saved, and how old it was when the drill started.
func setSaved(r *snapshot.Drill, at time.Time) {
	if at.IsZero() {
		return
	}
	r.Saved, r.RPO = at.Unix(), max(0, r.Started-at.Unix())
}
