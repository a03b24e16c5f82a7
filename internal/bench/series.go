package bench

import "slices"

// series contains the values of one figure, one of each round.
type series []float64

func (s series) median() float64 {
	sorted := slices.Sorted(slices.Values(s))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

func (s series) min() float64 { return slices.Min(s) }
func (s series) max() float64 { return slices.Max(s) }

// times contains the seconds of each step, by its name.
type times map[string]series

// add appends those of another round.
func (t times) add(other times) {
	for name, values := range other {
		t[name] = append(t[name], values...)
	}
}
