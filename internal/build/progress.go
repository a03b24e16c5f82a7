package build

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// A build shorter than quiet shows no progress. On a terminal, one line shows the elapsed
// seconds; otherwise whole lines are printed at longer intervals.
const (
	quiet          = 2 * time.Second
	terminalPeriod = time.Second
	plainPeriod    = 10 * time.Second
)

// progress shows the progress of one build, from its own goroutine, until stop.
type progress struct {
	out      io.Writer
	terminal bool
	name     string
	started  time.Time
	done     chan struct{}
	ended    sync.WaitGroup

	mu    sync.Mutex
	state state
}

// state is the content of a progress line.
type state struct {
	step       string // used while nothing is counted yet
	downloads  int    // modules
	packages   int    // compiled so far
	outOf      int    // packages to compile; 0 means not known yet
	lineIsOpen bool   // the terminal's line shows progress and must be cleared
}

func newProgress(out *os.File, name string) *progress {
	info, err := out.Stat()
	p := &progress{
		out: out, name: name, started: time.Now(), done: make(chan struct{}),
		terminal: err == nil && info.Mode()&os.ModeCharDevice != 0,
	}
	p.ended.Go(p.tick)
	return p
}

func (p *progress) tick() {
	period := plainPeriod
	if p.terminal {
		period = terminalPeriod
	}
	next := time.NewTimer(quiet)
	defer next.Stop()
	for {
		select {
		case <-p.done:
			return
		case <-next.C:
			p.show()
			next.Reset(period)
		}
	}
}

func (p *progress) show() {
	p.mu.Lock()
	defer p.mu.Unlock()
	line := fmt.Sprintf("%s: %s, %s", p.name, p.state, time.Since(p.started).Round(time.Second))
	if p.terminal {
		fmt.Fprintf(p.out, "\r\033[K%s", line)
		p.state.lineIsOpen = true
		return
	}
	fmt.Fprintln(p.out, line)
}

// String describes the current work.
func (s state) String() string {
	switch {
	case s.outOf > 0 && s.packages >= s.outOf:
		return fmt.Sprintf("all %d packages compiled, linking…", s.outOf)
	case s.outOf > 0:
		return fmt.Sprintf("%d of %d packages compiled", s.packages, s.outOf)
	case s.packages > 0:
		return fmt.Sprintf("%d packages compiled", s.packages)
	case s.downloads > 0:
		return fmt.Sprintf("%d modules downloaded", s.downloads)
	default:
		return s.step
	}
}

// step sets the current step, shown until there is something to count.
func (p *progress) step(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.step = what
}

func (p *progress) download() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.downloads++
}

func (p *progress) expect(packages int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.outOf = packages
}

func (p *progress) compiled() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state.packages++
}

// finish ends the progress with one final line.
func (p *progress) finish(format string, args ...any) {
	p.stop()
	fmt.Fprintf(p.out, "%s: %s\n", p.name, fmt.Sprintf(format, args...))
}

// stop ends the progress and leaves the cursor on an empty line. It may be called more than
// once.
func (p *progress) stop() {
	p.mu.Lock()
	select {
	case <-p.done:
	default:
		close(p.done)
	}
	p.mu.Unlock()
	p.ended.Wait()
	if p.state.lineIsOpen {
		fmt.Fprint(p.out, "\r\033[K")
		p.state.lineIsOpen = false
	}
}
