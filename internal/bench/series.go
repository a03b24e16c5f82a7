package bench

import (
	"fmt"
	"slices"
)

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

// inRounds measures one round after the other. It returns the times of the rounds that ended, also before an error:
// nothing if the first one fails.
func (b *bench) inRounds(count int, measure func(round int) (times, error)) (times, error) {
	all := times{}
	for round := range count {
		fmt.Fprintf(b.log, "round %d of %d\n", round+1, count)
		took, err := measure(round)
		if err != nil {
			return all, fmt.Errorf("round %d: %w", round+1, err)
		}
		all.add(took)
	}
	return all, nil
}
