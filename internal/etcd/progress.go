package etcd

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

const (
	// watchInterval is between two looks at the machine of a member.
	watchInterval = time.Second
	// startRate is what a server surely reads of its database in a second, when it
	// starts: the index of all keys is made anew.
	startRate = 16 << 20
	// largestDatabase is beyond what any machine would truthfully report.
	largestDatabase = 1 << 40
	// loopRestarts is how often etcd may end before it counts as one that never
	// will serve. It has no reason to end: a member without quorum waits.
	loopRestarts = 3
)

// sample is what was seen, at one moment, of a member that was started and
// does not serve yet. What is not known is zero.
type sample struct {
	Index, Applied uint64 // of the raft log, as the member reports them
	DBSize         int64  // the same
	Ready          bool   // it has the log of the leader: etcd would promote it

	// As its machine shows them.
	Bytes     int64 // below its data directory
	Database  int64 // of these, what it reads when it starts
	WrittenAt int64 // when its log was last written, in nanoseconds
	Restarts  int   // of the unit
}

// progress decides from sightings whether a member gets on. There is no limit
// to how long one may take that does: gigabytes over a slow line are ordinary.
// It is pure: whoever feeds it says what time it is.
type progress struct {
	last     sample
	seen     bool
	restarts int           // before the first sighting
	moved    time.Duration // when it was last seen to move, or first seen
	ever     bool          // it has moved
}

// add compares s with the sighting before.
//
// A log that grows is progress only until the member has all of the leader's:
// from then on it is the traffic of the cluster. And what a machine shows of a
// unit that ends again and again is that it begins anew.
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

// limit is how long nothing may move: so much, and as long as it takes to read
// the database at a start, which shows nowhere.
func (p *progress) limit(serving time.Duration) time.Duration {
	return serving + startTime(max(p.last.DBSize, p.last.Database))
}

// stuck reports whether nothing has moved for too long.
func (p *progress) stuck(at, serving time.Duration) bool {
	return p.seen && at-p.moved > p.limit(serving)
}

// startTime is what a member may take to read its database.
func startTime(size int64) time.Duration {
	return time.Duration(min(size, largestDatabase)/startRate) * time.Second
}

// movementScript shows the files of the member on a machine: how large they are
// and when they were last written. Where its data is stands in its unit.
const movementScript = `dir=$(sed -n 's|^.*--data-dir=\(/[A-Za-z0-9._/-]*\).*$|\1|p' ` + unitPath + ` | head -n 1)
[ -z "$dir" ] || find "$dir/member" -type f -printf '%s %T@ %P\n'
`

// readMovement reads what movementScript prints. A line that is none of it
// counts for nothing.
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

// nanoseconds reads "1700000000.1234567890", as find prints a time; 0 where it
// is none.
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

// progressWatch is the watch over one member until it serves, or is stuck.
type progressWatch struct {
	cl      *cluster
	id      uint64
	machine machine              // nil: it is not known here
	clock   func() time.Duration // of the turn in which the wait is

	// failOnRestarts: a unit that ends again and again is not waited for. One that is
	// to join has a reason to end: it asks the others first.
	failOnRestarts bool

	progress
	looked time.Time // at the machine
	shown  sample    // what the machine showed last
	unit   host.UnitState
	first  *host.UnitState // the unit when it was first seen
}

// watchProgress begins to watch the member with an id, on one of the machines of s.
func (cl *cluster) watchProgress(s Spec, id uint64, peerURLs []string, clock func() time.Duration) *progressWatch {
	w := &progressWatch{cl: cl, id: id, clock: clock}
	for _, h := range append([]*host.Host{s.Host}, cl.hosts()...) {
		for _, u := range peerURLs {
			if w.machine == nil && u == membership.PeerURL(h.Address()) {
				w.machine = cl.machine(h)
			}
		}
	}
	return w
}

// sample sees the member as v has it, and its machine.
func (w *progressWatch) sample(ctx context.Context, v *membership.View) {
	w.sampleMachine(ctx)
	s := w.shown
	if v != nil {
		m, _ := v.Member(w.id)
		leader, _ := v.Member(v.Leader)
		s.Index, s.Applied, s.DBSize = m.Index, m.Applied, m.DBSize
		s.Ready = m.Healthy && leader.Index > 0 && float64(m.Index) >= readyShare*float64(leader.Index)
	}
	w.add(w.clock(), s)
}

// readyShare of the leader's log is what etcd wants a learner to have
// (readyPercentThreshold of its server).
const readyShare = 0.9

// sampleMachine asks the machine, now and then. That it cannot be seen for a moment
// is no reason to give up.
func (w *progressWatch) sampleMachine(ctx context.Context) {
	if w.machine == nil || time.Since(w.looked) < min(watchInterval, w.cl.pace.StallTimeout/5) {
		return
	}
	w.looked = time.Now()
	facts, err := w.machine.Observe(ctx, host.Query{Units: []string{unitName}, Script: movementScript})
	if err != nil {
		return
	}
	w.unit = facts.Units[unitName]
	if w.first == nil {
		first := w.unit
		w.first = &first
	}
	w.shown = sample{Restarts: w.unit.Restarts}
	w.shown.readMovement(facts.Output)
}

// unitFailure says why the unit will not serve, or "".
func (w *progressWatch) unitFailure() string {
	if w.first == nil {
		return ""
	}
	return unitFailure(*w.first, w.unit)
}

func (w *progressWatch) stuck() bool { return w.progress.stuck(w.clock(), w.cl.pace.StallTimeout) }

// moving reports whether the member was seen to get on, and still does.
func (w *progressWatch) moving() bool { return w != nil && w.ever && !w.stuck() }

// bytesOnDisk is how much of the data is there, as far as it is known.
func (w *progressWatch) bytesOnDisk() int64 { return max(w.last.DBSize, w.last.Bytes) }

// stalledText says in words for how long nothing has moved.
func (w *progressWatch) stalledText() string {
	return fmt.Sprintf("nothing of it has moved for %s", (w.clock() - w.moved).Round(time.Second))
}

// until asks the member at an address until done takes what it says, or it is
// stuck. What done says, when it does not take it, is the trouble.
func (w *progressWatch) until(ctx context.Context, clients *client.Clients, address string, done func(membership.Member) string) (membership.View, error) {
	for {
		v, err := clients.View(ctx, []string{address})
		var trouble string
		if err != nil {
			trouble = err.Error()
			w.sample(ctx, nil)
		} else {
			entry, listed := v.Member(w.id)
			if trouble = "the cluster does not list it"; listed {
				trouble = done(entry)
			}
			if trouble == "" {
				return v, nil
			}
			w.sample(ctx, &v)
		}
		if reason := w.unitFailure(); w.failOnRestarts && reason != "" {
			return v, fmt.Errorf("%w: %s", errNotServing, reason)
		}
		if w.stuck() {
			return v, fmt.Errorf("%w, and %s: %s", errNotServing, w.stalledText(), trouble)
		}
		if err := pause(ctx, w.cl.pace.Poll); err != nil {
			return v, fmt.Errorf("the wait for it to serve ended: %w; last seen: %s", err, trouble)
		}
	}
}
