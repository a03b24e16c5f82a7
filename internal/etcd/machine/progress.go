package machine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/wait"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

const (
	// watchInterval is the time between two observations of a member's machine.
	watchInterval = time.Second
	// startRate is the minimum number of bytes of its database that a server reads per
	// second at its start, when it rebuilds the index of all keys.
	startRate = 16 << 20
	// largestDatabase is larger than any database size that a machine would truthfully
	// report.
	largestDatabase = 1 << 40
	// loopRestarts is how often etcd may exit before it counts as never going to serve. It
	// has no reason to exit: a member without quorum waits.
	loopRestarts = 3
)

// sample is what was observed, at one moment, of a member that was started and does not
// serve yet. Unknown values are zero.
type sample struct {
	Index, Applied uint64 // of the raft log, as the member reports them
	DBSize         int64  // as the member reports it, in bytes
	Ready          bool   // it has enough of the leader's log: etcd would promote it

	// As observed on its machine:
	Bytes     int64 // below its data directory
	Database  int64 // of these, what it reads when it starts
	WrittenAt int64 // when its log was last written, in nanoseconds
	Restarts  int   // of the unit
}

// progress decides from samples whether a member makes progress. A member that does may
// take any time: gigabytes over a slow line are normal. progress is pure: the caller
// passes the time.
type progress struct {
	last     sample
	seen     bool
	restarts int           // before the first sample
	moved    time.Duration // when it last made progress, or the time of the first sample
	ever     bool          // it has made progress
}

// add compares s with the previous sample.
//
// A growing log is progress only until the member has enough of the leader's log: from
// then on it is the regular traffic of the cluster. And files on the machine that change
// while the unit exits again and again only show that it starts over.
func (p *progress) add(at time.Duration, s sample) {
	if !p.seen {
		p.seen, p.last, p.restarts, p.moved = true, s, s.Restarts, at
		return
	}
	reports := !s.Ready && (s.Index > p.last.Index || s.Applied > p.last.Applied || s.DBSize > p.last.DBSize)
	shows := !s.Ready && s.Restarts-p.restarts < loopRestarts && (s.Bytes > p.last.Bytes || s.WrittenAt > p.last.WrittenAt)
	if reports || shows {
		p.moved, p.ever = at, true
	}
	p.last = s
}

// limit returns how long a member may make no progress: serving, plus the time to read the
// database at a start, during which no progress is visible.
func (p *progress) limit(serving time.Duration) time.Duration {
	return serving + StartTime(max(p.last.DBSize, p.last.Database))
}

// stuck reports whether the member has made no progress for longer than the limit.
func (p *progress) stuck(at, serving time.Duration) bool {
	return p.seen && at-p.moved > p.limit(serving)
}

// StartTime returns the longest time that a member may need to read a database of size
// bytes.
func StartTime(size int64) time.Duration {
	return time.Duration(min(size, largestDatabase)/startRate) * time.Second
}

// MovementScript prints the files of the member on a machine: their size and when they
// were last written. It reads the data directory from the unit.
const MovementScript = `dir=$(sed -n 's|^.*--data-dir=\(/[A-Za-z0-9._/-]*\).*$|\1|p' ` +
	layout.UnitPath + " " + layout.PodPath + ` 2>/dev/null | head -n 1)
[ -z "$dir" ] || find "$dir/member" -type f -printf '%s %T@ %P\n'
`

// readMovement parses the output of MovementScript. Other lines are ignored.
func (s *sample) readMovement(output string) {
	for line := range strings.Lines(output) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 3)
		if len(fields) != 3 {
			continue
		}
		size, err := strconv.ParseInt(fields[0], 10, 64)
		if err != nil || size < 0 || size > largestDatabase {
			continue
		}
		s.Bytes += size
		switch name := fields[2]; {
		case name == "snap/db" || strings.HasSuffix(name, ".snap.db"):
			s.Database = max(s.Database, size)
		case strings.HasSuffix(name, ".wal"):
			s.WrittenAt = max(s.WrittenAt, nanoseconds(fields[1]))
		}
	}
}

// nanoseconds parses "1700000000.1234567890", as find prints a time. It returns 0 for
// anything else.
func nanoseconds(text string) int64 {
	whole, fraction, _ := strings.Cut(text, ".")
	seconds, err := strconv.ParseInt(whole, 10, 33)
	if err != nil || seconds < 0 {
		return 0
	}
	rest, err := strconv.ParseInt((fraction + "000000000")[:9], 10, 64)
	if err != nil {
		return 0
	}
	return seconds*int64(time.Second) + rest
}

// Watch watches one member until it serves, or is stuck.
type Watch struct {
	poll    time.Duration // between two observations of the member
	stall   time.Duration // how long a member may make no progress
	Id      uint64
	Machine Machine              // nil: the machine is not known
	clock   func() time.Duration // of the turn in which the caller waits

	// FailOnRestarts means that a unit that exits again and again is not waited for. A
	// joining member does have a reason to exit: it queries the other members first.
	FailOnRestarts bool

	progress
	observedAt time.Time // when the machine was last observed
	shown      sample    // the last observation of the machine
	unit       host.UnitState
	first      *host.UnitState // the unit in the first observation
}

// NewWatch begins to watch the member with an ID.
func NewWatch(id uint64, poll, stall time.Duration, clock func() time.Duration) *Watch {
	return &Watch{Id: id, poll: poll, stall: stall, clock: clock}
}

// StuckFor reports whether the member has made no progress for longer than limit, and the
// time to read its database.
func (w *Watch) StuckFor(limit time.Duration) bool { return w.stuck(w.clock(), limit) }

// Sample adds a sample of the member in v and of its machine.
func (w *Watch) Sample(ctx context.Context, v *membership.View) {
	w.sampleMachine(ctx)
	s := w.shown
	if v != nil {
		m, _ := v.Member(w.Id)
		leader, _ := v.Member(v.Leader)
		s.Index, s.Applied, s.DBSize = m.Index, m.Applied, m.DBSize
		s.Ready = m.Healthy && leader.Index > 0 && float64(m.Index) >= readyShare*float64(leader.Index)
	}
	w.add(w.clock(), s)
}

// readyShare is the share of the leader's log that etcd requires a learner to have
// (readyPercentThreshold of its server).
const readyShare = 0.9

// sampleMachine observes the machine, at most once per watchInterval. A machine that
// cannot be observed for a moment is no reason to give up.
func (w *Watch) sampleMachine(ctx context.Context) {
	if w.Machine == nil || time.Since(w.observedAt) < min(watchInterval, w.stall/5) {
		return
	}
	w.observedAt = time.Now()
	facts, err := w.Machine.Observe(ctx, host.Query{
		Files: RuntimePaths, Units: []string{layout.Unit}, Script: RuntimeQuestion() + MovementScript,
	})
	if err != nil {
		return
	}
	w.unit = UnitIn(facts)
	if w.first == nil {
		first := w.unit
		w.first = &first
	}
	w.shown = sample{Restarts: w.unit.Restarts}
	w.shown.readMovement(facts.Output)
}

// unitFailure describes why the unit will not serve, or returns "".
func (w *Watch) unitFailure() string {
	if w.first == nil {
		return ""
	}
	return UnitFailure(*w.first, w.unit)
}

// Stuck reports whether the member has made no progress for too long.
func (w *Watch) Stuck() bool { return w.stuck(w.clock(), w.stall) }

// Moving reports whether the member has made progress and is not stuck.
func (w *Watch) Moving() bool { return w != nil && w.ever && !w.Stuck() }

// BytesOnDisk returns how much of the data is on the member, as far as known.
func (w *Watch) BytesOnDisk() int64 { return max(w.last.DBSize, w.last.Bytes) }

// StalledText describes for how long there has been no progress.
func (w *Watch) StalledText() string {
	return fmt.Sprintf("it has made no progress for %s", (w.clock() - w.moved).Round(time.Second))
}

// Until queries the member at an address until done returns "", or the member is stuck.
// Otherwise done returns why the member is not done yet.
func (w *Watch) Until(
	ctx context.Context, clients *client.Clients, address string, done func(membership.Member) string,
) (membership.View, error) {
	for {
		v, err := clients.View(ctx, []string{address})
		var trouble string
		if err != nil {
			trouble = err.Error()
			w.Sample(ctx, nil)
		} else {
			entry, listed := v.Member(w.Id)
			if trouble = "it is not in the cluster's member list"; listed {
				trouble = done(entry)
			}
			if trouble == "" {
				return v, nil
			}
			w.Sample(ctx, &v)
		}
		if reason := w.unitFailure(); w.FailOnRestarts && reason != "" {
			return v, fmt.Errorf("%w: %s", ErrNotServing, reason)
		}
		if w.Stuck() {
			return v, fmt.Errorf("%w, and %s: %s", ErrNotServing, w.StalledText(), trouble)
		}
		if err := wait.Pause(ctx, w.poll); err != nil {
			return v, fmt.Errorf("the wait for it to serve ended: %w; last observed: %s", err, trouble)
		}
	}
}

// ErrNotServing means that etcd was started and does not serve.
var ErrNotServing = errors.New("it does not serve")

// UnitFailure describes why a unit will not serve, or returns "".
func UnitFailure(before, now host.UnitState) string {
	switch restarts := now.Restarts - before.Restarts; {
	case restarts >= loopRestarts:
		return fmt.Sprintf("it exited %d times after the start", restarts)
	case now.Queued: // its start waits for another unit, such as the one of its volume
		return ""
	case now.Active == "failed" || now.Active == "inactive":
		return fmt.Sprintf("%s is %s (%s)", layout.Unit, now.Active, cmp.Or(now.Result, "no result"))
	}
	return ""
}
