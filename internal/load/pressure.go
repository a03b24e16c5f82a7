package load

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	// pressureFile has the pressure stall information of the processors of this computer. Machines of a lab share
	// them with the clients. See Documentation/accounting/psi.rst of Linux.
	pressureFile = "/proc/pressure/cpu"
	// pressureInterval is how often it is read. The kernel updates the total when it is read.
	pressureInterval = 100 * time.Millisecond
)

// Pressure is for how much of a time something on this computer waited for a processor, from 0 to 1. Where it is high,
// a gap may be the computer's.
type Pressure struct {
	Run float64 `json:"run"` // of the whole run
	Gap float64 `json:"gap"` // of the longest gap of the clients
}

// String returns a text such as "a processor was waited for in 41% of the time and 97% of the longest gap".
func (p Pressure) String() string {
	return fmt.Sprintf("a processor was waited for in %.0f%% of the time and %.0f%% of the longest gap",
		100*p.Run, 100*p.Gap)
}

// psiSample is for how long something had waited for a processor at a time since the start of a run.
type psiSample struct{ at, total time.Duration }

// pressureLog reads the pressure until its context ends. It is empty on a kernel without that information.
type pressureLog struct{ samples []psiSample }

// work reads the pressure at once, at every interval, and at the end.
func (l *pressureLog) work(ctx context.Context, begun time.Time) {
	tick := time.NewTicker(pressureInterval)
	defer tick.Stop()
	for {
		text, err := os.ReadFile(pressureFile)
		if err != nil {
			return // such as ENOENT, or EOPNOTSUPP with psi=0
		}
		total, err := parsePressure(string(text))
		if err != nil {
			return
		}
		l.samples = append(l.samples, psiSample{at: time.Since(begun), total: total})
		if ctx.Err() != nil {
			return
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// parsePressure returns the total of the line "some" of pressureFile, in which it counts microseconds.
func parsePressure(text string) (time.Duration, error) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != "some" {
			continue
		}
		micros, ok := strings.CutPrefix(fields[len(fields)-1], "total=")
		n, err := strconv.ParseInt(micros, 10, 64)
		if ok && err == nil {
			return time.Duration(n) * time.Microsecond, nil
		}
	}
	return 0, fmt.Errorf("%s has no total of the line some: %q", pressureFile, text)
}

// pressure returns the pressure of a run with this longest gap; nil without samples. The share of a gap is that of the
// samples around it.
func (l *pressureLog) pressure(longest Gap) *Pressure {
	if len(l.samples) < 2 {
		return nil
	}
	last := len(l.samples) - 1
	from, to := 0, last
	for i, s := range l.samples {
		if s.at <= longest.At {
			from = i
		}
		if s.at >= longest.At+longest.Length {
			to = i
			break
		}
	}
	to = max(to, min(from+1, last))
	return &Pressure{Run: share(l.samples[0], l.samples[last]), Gap: share(l.samples[from], l.samples[to])}
}

// share is for how much of the time between two samples something waited. The file counts what has ended since it was
// read last, so that a sum of short waits can be slightly longer than the time.
func share(a, b psiSample) float64 {
	if b.at <= a.at {
		return 0
	}
	return min(1, float64(b.total-a.total)/float64(b.at-a.at))
}
