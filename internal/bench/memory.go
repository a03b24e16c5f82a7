package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// sampler records the peak memory of every process that runs one program.
type sampler struct {
	done   chan struct{}
	result chan float64
}

// watch samples until stop is called. The kernel records each process's peak itself (VmHWM), so
// only a process that ends within one interval is missed. The interval is long enough not to
// disturb the measurement.
func watch(program string) *sampler {
	s := &sampler{done: make(chan struct{}), result: make(chan float64, 1)}
	go func() {
		peak := 0.0
		tick := time.NewTicker(250 * time.Millisecond)
		defer tick.Stop()
		for {
			peak = max(peak, peakOf(program))
			select {
			case <-s.done:
				s.result <- peak
				return
			case <-tick.C:
			}
		}
	}()
	return s
}

// stop returns the highest peak, in MiB.
func (s *sampler) stop() float64 {
	close(s.done)
	return <-s.result
}

func peakOf(program string) float64 {
	peak := 0.0
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range links {
		if target, err := os.Readlink(link); err != nil || target != program {
			continue
		}
		status, err := os.ReadFile(filepath.Join(filepath.Dir(link), "status"))
		if err == nil {
			peak = max(peak, highWater(string(status)))
		}
	}
	return peak
}

// highWater parses VmHWM of a /proc/PID/status, in MiB.
func highWater(status string) float64 {
	_, rest, ok := strings.Cut(status, "VmHWM:")
	var kib float64
	if !ok {
		return 0
	}
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		return 0
	}
	return kib / 1024
}
