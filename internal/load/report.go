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
}

// Client is one of the clients.
type Client struct {
	Name         string
	Dialled      int // connections
	All          Requests
	Reads        Requests
	Writes       Requests
	Acknowledged int      // writes
	Lost         []string // acknowledged writes that cannot be read back
	Errors       []ErrorCount
	Series       Series
}

// Requests counts requests of one kind. A request has failed if it had no 2xx answer within
// five seconds.
type Requests struct {
	Tried  int
	Failed int
	Gap    Gap
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
	Opened     int
	Resumed    int      // streams opened after an earlier one ended, which is normal
	Failed     int      // failed attempts to open a stream, and errors that the server sent in a stream
	Missed     []string // acknowledged writes that were not received
	Repeated   int      // received more than once
	Disordered int      // received after a later one
	Gap        Gap      // between events
	Errors     []ErrorCount
}

// Failed returns the number of the clients' failed requests. It excludes the direct writer,
// whose requests may fail while a member restarts.
func (r Report) Failed() int {
	n := 0
	for _, c := range r.Clients {
		n += c.All.Failed
	}
	return n
}

// RefusedWatches returns the number of failed attempts to open a watch. A server that shuts
// down ends its watches before its GOAWAY arrives, and answers a client that reconnects on the
// same connection at that moment with 503. The guarantee for a watch is to receive its events
// without a gap.
func (r Report) RefusedWatches() int {
	n := 0
	for _, w := range r.Watches {
		n += w.Failed
	}
	return n
}

// Tried returns the number of the clients' requests.
func (r Report) Tried() int {
	n := 0
	for _, c := range r.Clients {
		n += c.All.Tried
	}
	return n
}

// LongestGap returns the longest gap of the clients.
func (r Report) LongestGap() Gap {
	var longest Gap
	for _, c := range r.Clients {
		if c.All.Gap.Length > longest.Length {
			longest = c.All.Gap
		}
	}
	return longest
}

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

// Violations describes the violated guarantees: no failed request, no gap longer than longest,
// no lost write, no missed event, members that agree. It is empty if there are none.
func (r Report) Violations(longest time.Duration) []string {
	var broken []string
	violate := func(format string, args ...any) { broken = append(broken, fmt.Sprintf(format, args...)) }
	for _, c := range r.Clients {
		if c.All.Failed > 0 {
			violate("%s: %d of %d requests failed: %s", c.Name, c.All.Failed, c.All.Tried, join(c.Errors))
		}
		if c.All.Gap.Length > longest {
			violate("%s: no success for %s", c.Name, c.All.Gap)
		}
	}
	for _, w := range r.Watches {
		if w.Gap.Length > longest {
			violate("watch %s: no event for %s, %d times not opened: %s", w.Name, w.Gap, w.Failed, join(w.Errors))
		}
		if len(w.Missed)+w.Repeated+w.Disordered > 0 {
			violate("watch %s: of %d events %d missed, %d repeated, %d out of order", w.Name, w.Events, len(w.Missed),
				w.Repeated,
				w.Disordered)
		}
	}
	return append(broken, r.writeViolations()...)
}

func (r Report) writeViolations() []string {
	var broken []string
	for _, c := range r.writers() {
		if len(c.Lost) > 0 {
			broken = append(broken, fmt.Sprintf("%s: %d of %d acknowledged writes lost: %v", c.Name, len(c.Lost),
				c.Acknowledged, c.Lost))
		}
	}
	if r.Hashes != nil && !r.Hashes.Agree() {
		broken = append(broken, r.Hashes.String())
	}
	return broken
}
