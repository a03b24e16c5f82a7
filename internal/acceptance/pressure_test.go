package acceptance

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// pressure is the part of the last minute, in percent, in which some process of this computer waited for a processor
// or for a disk (https://docs.kernel.org/accounting/psi.html).
type pressure struct{ processor, disk float64 }

// high reports whether what runs on this computer may be slow for its own reasons: lab machines do not make it wait
// longer than this, but for what else runs here.
func (p pressure) high() bool { return p.processor > 60 || p.disk > 40 }

func (p pressure) String() string {
	return fmt.Sprintf("%.0f %% for a processor, %.0f %% for a disk", p.processor, p.disk)
}

// max returns the larger values of both.
func (p pressure) max(o pressure) pressure {
	return pressure{max(p.processor, o.processor), max(p.disk, o.disk)}
}

// pressures are those of this computer since a time, every ten seconds.
type pressures struct {
	mu  sync.Mutex
	all map[time.Time]pressure
}

// watchPressure records the pressure on this computer until the test ends.
func watchPressure(t *testing.T) *pressures {
	t.Helper()
	p := &pressures{all: map[time.Time]pressure{}}
	ctx, cancel := context.WithCancel(t.Context())
	var recorder sync.WaitGroup
	recorder.Go(func() {
		for ctx.Err() == nil {
			now := pressure{pressureOf(t, "cpu"), pressureOf(t, "io")}
			p.mu.Lock()
			p.all[time.Now()] = now
			p.mu.Unlock()
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Second):
			}
		}
	})
	t.Cleanup(func() { cancel(); recorder.Wait() })
	return p
}

// before returns the highest pressure in the quarter of an hour before a time: alerts see rates over five minutes, and
// wait for ten.
func (p *pressures) before(at time.Time) pressure {
	p.mu.Lock()
	defer p.mu.Unlock()
	var highest pressure
	for when, value := range p.all {
		if when.Before(at) && at.Sub(when) < 15*time.Minute {
			highest = highest.max(value)
		}
	}
	return highest
}

// highest returns the highest pressure of all.
func (p *pressures) highest() pressure {
	p.mu.Lock()
	defer p.mu.Unlock()
	var highest pressure
	for _, value := range p.all {
		highest = highest.max(value)
	}
	return highest
}

// pressureOf reads "some avg10=A avg60=B …" of a resource.
func pressureOf(t *testing.T, resource string) float64 {
	t.Helper()
	var some, other float64
	text, err := os.ReadFile("/proc/pressure/" + resource)
	if err == nil {
		line, _, _ := strings.Cut(string(text), "\n")
		_, err = fmt.Sscanf(line, "some avg10=%f avg60=%f", &other, &some)
	}
	if err != nil {
		t.Errorf("the pressure for %s: %v", resource, err)
	}
	return some
}
