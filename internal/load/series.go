package load

import (
	"slices"
	"time"
)

const (
	// Interval is the length of one interval of a Series.
	Interval = 500 * time.Millisecond
	// notableGap is the shortest time without a success that a Series lists.
	notableGap = 200 * time.Millisecond
)

// Series is what one client observed over time, for a plot. Times count from the start of the
// run.
type Series struct {
	Name      string `json:"name"`
	Succeeded []int  `json:"succeeded"` // successful requests in each Interval
	Failed    []int  `json:"failed"`    // failed requests in each Interval; as long as Succeeded
	Gaps      []Gap  `json:"gaps"`      // times without a success of at least 200 ms
}

// count adds the result of one request, which was known at that time. Times never run
// backwards.
func (s *Series) count(at, last time.Duration, ok bool) {
	for len(s.Succeeded) <= int(at/Interval) {
		s.Succeeded, s.Failed = append(s.Succeeded, 0), append(s.Failed, 0)
	}
	if !ok {
		s.Failed[at/Interval]++
		return
	}
	s.Succeeded[at/Interval]++
	if length := at - last; last > 0 && length >= notableGap {
		s.Gaps = append(s.Gaps, Gap{Length: length, At: last})
	}
}

// named returns a copy with a client's name.
func (s Series) named(name string) Series {
	return Series{
		Name: name, Succeeded: slices.Clone(s.Succeeded), Failed: slices.Clone(s.Failed),
		Gaps: slices.Clone(s.Gaps),
	}
}

// Series returns what each client observed over time.
func (r Report) Series() []Series {
	var all []Series
	for _, c := range r.Clients {
		all = append(all, c.Series)
	}
	return all
}
