package cut

import (
	"fmt"
	"io"
	"sync"
)

// Knife counts commands from Open on, writes each to its log, and calls kill at
// its point. It may be used by many commands at the same time.
type Knife struct {
	at   Point
	log  io.Writer
	kill func()

	mu       sync.Mutex
	open     bool
	commands int
}

// NewKnife returns a knife that is not open. kill is called once, and nothing is
// counted or logged while it runs.
func NewKnife(at Point, log io.Writer, kill func()) *Knife {
	return &Knife{at: at, log: log, kill: kill}
}

// Open begins the count: what came before is none of the commands that change
// machines.
func (k *Knife) Open() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.open = true
}

// Around counts one command. It fits host.Config.AroundCommand.
func (k *Knife) Around(address, summary string) (ended func()) {
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

// reach notes one side of a command and ends the process there, if it is to end there.
func (k *Knife) reach(side Side, r record) {
	fmt.Fprintln(k.log, r.line(string(side)))
	if k.at == (Point{Side: side, Command: r.command}) {
		fmt.Fprintln(k.log, r.line(hasCut))
		k.kill()
	}
}
