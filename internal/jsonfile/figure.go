package jsonfile

import (
	"slices"
	"time"
)

// Figure is one value of each time that something was done, in order. Values that are unknown are left out.
type Figure struct {
	Name   string `json:"name"`
	Unit   string `json:"unit,omitempty"`
	Limit  int    `json:"limit,omitempty"` // for the worst; 0: none
	Values []int  `json:"values"`
}

// Milliseconds returns a figure of times.
func Milliseconds(name string, limit time.Duration, times ...time.Duration) Figure {
	f := Figure{Name: name, Unit: "ms", Limit: int(limit.Milliseconds())}
	for _, d := range times {
		f.Add(d)
	}
	return f
}

// Add adds a time in milliseconds.
func (f *Figure) Add(d time.Duration) { f.Values = append(f.Values, int(d.Milliseconds())) }

// Median returns the value in the middle, the lower one of two. There must be a value.
func (f Figure) Median() int { return slices.Sorted(slices.Values(f.Values))[(len(f.Values)-1)/2] }

// Worst returns the largest value. There must be a value.
func (f Figure) Worst() int { return slices.Max(f.Values) }
