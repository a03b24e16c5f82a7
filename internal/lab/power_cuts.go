package lab

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
)

// PowerCuts cuts the power of a machine after commands that change it, each time before
// whoever has sent the command does anything else. Nothing that such a command has changed
// may be lost.
type PowerCuts struct {
	machine *Machine
	dirs    []string
	ignored []string

	mu       sync.Mutex
	open     bool
	running  int             // changing commands on the machine
	ordinals map[string]int  // summary → how often this run has sent it
	done     map[string]bool // the commands that were followed by a power cut
	uncut    bool            // a command has ended after the last power cut
	cuts     int
	lost     []string
	err      error
}

// NewPowerCuts returns power cuts of a machine that is on an image. Everything below dirs is
// compared, but lines of Differences that contain an ignored text do not count.
func NewPowerCuts(m *Machine, dirs, ignored []string) *PowerCuts {
	return &PowerCuts{machine: m, dirs: dirs, ignored: ignored}
}

// readers begin the summaries of commands that change nothing on a disk.
var readers = []string{"observe", "read", "take the lease"}

// Around can be used as host.Config.Around. Requests to etcd and the API server, which are not
// commands of the machine, are followed by no power cut.
func (p *PowerCuts) Around(address, summary string) (running, ended func()) {
	for _, reader := range readers {
		if strings.HasPrefix(summary, reader) {
			return func() {}, func() {}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.open || address != p.machine.Address.String() {
		return func() {}, func() {}
	}
	p.running++
	isCommand := false
	if strings.HasPrefix(summary, "upload") {
		summary = "upload" // one of several programs is enough
	}
	p.ordinals[summary]++
	name := fmt.Sprintf("%s #%d", summary, p.ordinals[summary])
	running = func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		isCommand = true
	}
	ended = func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.running--
		if !isCommand {
			return
		}
		if !p.open || p.done[name] || p.running > 0 || p.err != nil {
			p.uncut = true
			return // another command may be about to flush
		}
		p.done[name] = true
		p.cut(context.Background(), name)
	}
	return running, ended
}

// cut cuts the power and remembers what that has lost.
func (p *PowerCuts) cut(ctx context.Context, name string) {
	p.cuts++
	p.uncut = false
	differences, err := p.machine.LosePower(ctx, p.dirs...)
	if err != nil {
		p.err = err
		return
	}
	for _, line := range differences {
		if !p.ignores(line) {
			p.lost = append(p.lost, "after "+name+": "+line)
		}
	}
}

func (p *PowerCuts) ignores(line string) bool {
	for _, text := range p.ignored {
		if strings.Contains(line, text) {
			return true
		}
	}
	return false
}

// During repeats run, as a person repeats an apply, until no power cut makes it fail. Then it
// cuts the power once more, unless nothing has changed since. It returns the number of cuts, and what was lost.
func (p *PowerCuts) During(ctx context.Context, run func() error) (cuts int, lost []string, err error) {
	p.done, p.lost, p.cuts = map[string]bool{}, nil, 0
	for {
		p.begin()
		before := p.cuts
		err := run()
		p.end()
		if p.err != nil || err != nil && p.cuts == before {
			return p.cuts, p.lost, fmt.Errorf("between power cuts: %w", cmp.Or(p.err, err))
		}
		if err == nil {
			break
		}
	}
	if p.uncut {
		p.cut(ctx, "the end")
	}
	return p.cuts, p.lost, p.err
}

func (p *PowerCuts) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open, p.ordinals, p.running = true, map[string]int{}, 0
}

func (p *PowerCuts) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = false
}
