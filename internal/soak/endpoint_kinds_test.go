package soak

import (
	"testing"
	"time"
)

// TestAwayFor: a client that keeps its connection notices at the first retransmission after the address leads to a
// living machine: 0.2, 0.6, 1.4, 3.0, 6.2 and 12.6 s after the first packet that was lost.
func TestAwayFor(t *testing.T) {
	for _, test := range []struct{ back, want time.Duration }{
		{detectedByBFD, 2600 * time.Millisecond}, // etcd's election takes longer than the retransmission
		{1400 * time.Millisecond, 2600 * time.Millisecond},
		{1500 * time.Millisecond, 3600 * time.Millisecond},
		{holdTimeOver, 6800 * time.Millisecond},
		{leaseTaken, 13200 * time.Millisecond},
	} {
		if got := awayFor(test.back); got != test.want {
			t.Errorf("back after %s: %s, want %s", test.back, got, test.want)
		}
	}
}
