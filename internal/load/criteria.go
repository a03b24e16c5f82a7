package load

import (
	"fmt"
	"slices"
	"time"
)

// Criteria are how many requests clients send, and what they must observe. Lost writes, members of
// etcd that differ, and events that a watch misses, repeats or has out of order always violate them.
type Criteria struct {
	Rate    int // requests per second of each client of the API
	Watches int // every second one shares the kept connection
	// MostFailed is how many requests of each client of the API may fail in addition to the excused
	// ones.
	MostFailed int
	Longest    Gaps
	Excuses    []Excuse
}

// mostUnavailable is how many writes into etcd may meet a member that stops: those of a second, for
// each of three members.
const mostUnavailable = 3 * putRate

// Gaps limit how long a client may be without a success. 0 means no limit.
type Gaps struct {
	Any           time.Duration // requests to the API, reads and writes together
	Reads, Writes time.Duration // requests to the API
	Events        time.Duration // of a watch
}

// Unnoticed returns the criteria for a change that clients of the control plane must not notice.
// The soak and the acceptance tests share them.
func Unnoticed() Criteria {
	const (
		longest  = 500 * time.Millisecond
		stopping = "a member that stops or hands over leadership ends the writes that it has not finished, and etcd's " +
			"client does not repeat writes"
	)
	return Criteria{
		Rate: 50, Watches: 4,
		Longest: Gaps{Any: longest, Events: longest},
		Excuses: []Excuse{
			{Operation: EtcdWrite, Kinds: []string{"gRPC Unavailable"}, Most: mostUnavailable, Reason: stopping},
			{
				Operation: EtcdWrite, Kinds: []string{"gRPC Unknown"}, Texts: []string{"raft: stopped"}, Most: mostUnavailable,
				Reason: stopping,
			},
			{
				Operation: WatchOpening, Kinds: []string{"HTTP 503"},
				Reason: "an API server that shuts down ends its watches before its GOAWAY arrives, and refuses a client that " +
					"opens one on the same connection at that moment; the next attempt must miss no event",
			},
		},
	}
}

// Excusing returns the same criteria with more excuses.
func (c Criteria) Excusing(more ...Excuse) Criteria {
	c.Excuses = slices.Concat(c.Excuses, more)
	return c
}

// Words returns the criteria in words, one in each. direct is whether there is a direct writer to etcd.
func (c Criteria) Words(direct bool) []string {
	words := []string{fmt.Sprintf("each client of the API sends %d requests per second; %d watches", c.Rate, c.Watches)}
	if c.MostFailed == 0 {
		words = append(words, "no request of a client of the API fails")
	} else {
		words = append(words, fmt.Sprintf("at most %d requests of each client of the API fail", c.MostFailed))
	}
	for _, limit := range []struct {
		of      string
		longest time.Duration
	}{
		{"successful request", c.Longest.Any},
		{"successful read", c.Longest.Reads},
		{"successful write", c.Longest.Writes},
	} {
		if limit.longest > 0 {
			words = append(words, fmt.Sprintf("no client of the API is without a %s for more than %s", limit.of, limit.longest))
		}
	}
	if c.Longest.Events > 0 {
		words = append(words, fmt.Sprintf("no watch is without an event for more than %s", c.Longest.Events))
	}
	words = append(words, "no watch misses an event, repeats one, has one out of order, or fails")
	if direct {
		words = append(words, "no write into etcd fails", "no acknowledged write is lost, and the members of etcd agree")
	} else {
		words = append(words, "no acknowledged write is lost")
	}
	for _, e := range c.Excuses {
		if direct || e.Operation != EtcdWrite {
			words = append(words, "excused are "+e.String())
		}
	}
	return words
}
