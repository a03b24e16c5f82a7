package cut

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// Injector counts steps from Open on, writes each to its log, and calls kill at its point. It is
// safe for concurrent use.
type Injector struct {
	at   Point
	log  io.Writer
	kill func()

	mu     sync.Mutex
	open   bool
	number int
	counts map[Key]int    // of keys without an occurrence
	last   map[string]Key // the last step of each machine that was no observation
}

// NewInjector returns an injector that does not count yet. kill is called once, and nothing is
// counted or logged while it runs.
func NewInjector(at Point, log io.Writer, kill func()) *Injector {
	return &Injector{at: at, log: log, kill: kill, counts: map[Key]int{}, last: map[string]Key{}}
}

// NewInjectorOf returns the injector for the value of PointVariable.
func NewInjectorOf(point string, log io.Writer, kill func()) (*Injector, error) {
	at, err := parse(point)
	if err != nil {
		return nil, err
	}
	return NewInjector(at, log, kill), nil
}

// Open starts counting. Earlier steps do not change machines.
func (k *Injector) Open() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.open = true
}

// step is one step while it runs.
type step struct {
	record
	begun time.Time // when the machine started it
	ended bool
}

// Around counts one step. It can be used as host.Config.Around.
func (k *Injector) Around(address, summary string) (running, ended func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.open {
		return func() {}, func() {}
	}
	k.number++
	s := &step{record: record{number: k.number, key: k.key(address, summary)}}
	k.reach(Before, s)
	return func() { k.running(s) }, func() { k.ended(s) }
}

// key returns the key of a step that begins. Observations are counted from the last other step of their machine on: how
// many of them an apply takes while it waits varies between runs.
func (k *Injector) key(address, summary string) Key {
	key, observation := Key{Machine: address, Command: Normalize(summary)}, summary == host.ObserveSummary
	if last, ok := k.last[address]; observation && ok {
		key.Command += fmt.Sprintf(" after %s (%d)", last.Command, last.Occurrence)
	}
	k.counts[key]++
	key.Occurrence = k.counts[key]
	if !observation {
		k.last[address] = key
	}
	return key
}

// running waits for the moment of a cut during the step. Only the first run counts of a command
// that is repeated.
func (k *Injector) running(s *step) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !s.begun.IsZero() || s.ended {
		return
	}
	s.begun = time.Now()
	k.write(string(During), s)
	if k.at.at(During, s.key, s.number) {
		time.AfterFunc(k.at.Wait, func() {
			k.mu.Lock()
			defer k.mu.Unlock()
			if !s.ended {
				k.cut(s)
			}
		})
	}
}

func (k *Injector) ended(s *step) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s.ended = true; !s.begun.IsZero() {
		s.took = time.Since(s.begun)
	}
	k.reach(After, s)
}

// reach records one side of a step and ends the process there if that is its point.
func (k *Injector) reach(side Side, s *step) {
	k.write(string(side), s)
	if k.at.at(side, s.key, s.number) {
		k.cut(s)
	}
}

func (k *Injector) cut(s *step) {
	k.write(hasCut, s)
	k.kill()
}

func (k *Injector) write(what string, s *step) {
	r := s.record
	r.what = what
	fmt.Fprintln(k.log, r)
}
