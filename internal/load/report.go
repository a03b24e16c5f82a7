package load

import (
	"fmt"
	"time"
)

// Report is the result of a load.
type Report struct {
	Run     string
	Took    time.Duration
	Late    time.Duration // the maximum delay of sending on this computer, which may account for that much of a gap
	Clients []Client      // kept and fresh
	Watches []Watch
	Etcd    *Client // the direct writer; nil without one
	Hashes  *Hashes // nil without direct access to etcd
	// Pressure is that of the processors of this computer; nil if its kernel does not know.
	Pressure *Pressure
}

// Client is one of the clients.
type Client struct {
	Name         string
	Dialled      int // connections
	DialsRefused int // of them refused: nobody listened at the address
	All          Requests
	Reads        Requests
	Writes       Requests
	Acknowledged int      // writes
	Lost         []string // acknowledged writes that cannot be read back
	Errors       []ErrorCount
	Series       Series
}

// Gap is the longest time between two successive successes, or between the last success and the
// end.
type Gap struct {
	Length time.Duration `json:"length"`
	At     time.Duration `json:"at"` // since the start
}

// String returns a text such as "31 ms at 12.345 s".
func (g Gap) String() string {
	return fmt.Sprintf("%d ms at %.3f s", g.Length.Milliseconds(), g.At.Seconds())
}

// Watch is one of the watches.
type Watch struct {
	Name       string
	Events     int
	Openings   Requests // attempts to open a stream, without Gap
	Resumed    int      // streams opened after an earlier one ended, which is normal
	Broken     int      // streams that ended without the server ending them, which is no failure if no event is missed
	Failed     int      // errors that the server sent in a stream
	Missed     []string // acknowledged writes that were not received
	Repeated   int      // received more than once
	Disordered int      // received after a later one
	Gap        Gap      // between events
	Errors     []ErrorCount
}

// Requests returns the sum of the requests of the clients of the API. It excludes the direct
// writer.
func (r Report) Requests() Requests {
	var sum Requests
	for _, c := range r.Clients {
		sum = sum.Plus(c.All)
	}
	return sum
}

// Openings returns the sum of the openings of watches.
func (r Report) Openings() Requests {
	var sum Requests
	for _, w := range r.Watches {
		sum = sum.Plus(w.Openings)
	}
	return sum
}

// EtcdWrites returns the writes of the direct writer; none without one.
func (r Report) EtcdWrites() Requests {
	if r.Etcd == nil {
		return Requests{}
	}
	return r.Etcd.Writes
}

// Failed returns the number of the clients' failed requests to the API, excused ones included.
func (r Report) Failed() int { return r.Requests().Failed }

// Tried returns the number of the clients' requests to the API.
func (r Report) Tried() int { return r.Requests().Tried }

// LongestGap returns the longest gap of the clients.
func (r Report) LongestGap() Gap { return r.Requests().Gap }

// Acknowledged returns the number of acknowledged writes, including those directly into etcd.
func (r Report) Acknowledged() int {
	n := 0
	for _, c := range r.writers() {
		n += c.Acknowledged
	}
	return n
}

// Lost returns the acknowledged writes that are missing.
func (r Report) Lost() []string {
	var lost []string
	for _, c := range r.writers() {
		lost = append(lost, c.Lost...)
	}
	return lost
}

func (r Report) writers() []Client {
	if r.Etcd == nil {
		return r.Clients
	}
	return append(r.Clients[:len(r.Clients):len(r.Clients)], *r.Etcd)
}

// HashesAgree reports whether every etcd member answered with the same hash.
func (r Report) HashesAgree() bool { return r.Hashes != nil && r.Hashes.Agree() }
