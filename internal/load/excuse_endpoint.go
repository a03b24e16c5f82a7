package load

import (
	"fmt"
	"time"
)

// Rerouted excuses requests and openings of watches behind a router that spreads connections. When a route is
// withdrawn, it sends the packets of existing connections to another machine, which resets them.
func Rerouted(most int) []Excuse {
	return endedFor(most, "a router sends the packets of a connection to another machine when the set of routes changes")
}

// Moved excuses requests and openings of watches at an address that moves between machines. New connections
// always find a machine that has it.
func Moved(most int) []Excuse {
	return endedFor(most, "the connections to a machine end when another one gets the address")
}

// endedFor excuses requests whose connection ends, at most that many, and at most eight openings of watches.
func endedFor(most int, reason string) []Excuse {
	return []Excuse{
		{Operation: APIRequest, Texts: ended, Most: most, Reason: reason},
		{Operation: WatchOpening, Texts: ended, Most: 8, Reason: reason},
	}
}

// ended are the errors of connections that another machine does not know. A refused connection is none: it was new.
var ended = []string{"connection reset by peer", "EOF", "force closed"}

// Away excuses openings of watches while nothing answers at an address, for at most that long. A watch pauses between
// two openings, which bounds how many there are.
func Away(longest time.Duration) Excuse {
	return Excuse{
		Operation: WatchOpening, Most: int(longest / reopenPause),
		Reason: fmt.Sprintf("nothing may answer for %s; the next attempt must miss no event", longest),
	}
}
