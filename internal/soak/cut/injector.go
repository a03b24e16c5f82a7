package cut

import (
	"fmt"
	"io"
	"sync"
)

// Injector counts commands from Open on, writes each to its log, and calls kill at its point.
// It is safe for concurrent use.
type Injector struct {
	at   Point
	log  io.Writer
	kill func()

	mu       sync.Mutex
	open     bool
	commands int
}

// NewInjector returns an injector that does not count yet. kill is called once, and nothing is
// counted or logged while it runs.
func NewInjector(at Point, log io.Writer, kill func()) *Injector {
	return &Injector{at: at, log: log, kill: kill}
}

// Open starts counting. Earlier commands do not change machines.
func (k *Injector) Open() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.open = true
}

// Around counts one command. It can be used as host.Config.AroundCommand.
func (k *Injector) Around(address, summary string) (ended func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.open {
		return func() {}
	}
	k.commands++
	r := record{command: k.commands, address: address, summary: summary}
	k.reach(Before, r)
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.reach(After, r)
	}
}

// reach records one side of a command and ends the process there if that is its point.
func (k *Injector) reach(side Side, r record) {
	fmt.Fprintln(k.log, r.line(string(side)))
	if k.at == (Point{Side: side, Command: r.command}) {
		fmt.Fprintln(k.log, r.line(hasCut))
		k.kill()
	}
}
