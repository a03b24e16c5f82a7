package external

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
)

// TestHealthyThreshold: a balancer that needs more checks to take a target in than to take it out. What does not need
// more has the registration of versions that knew one threshold, so that no record on a machine differs.
func TestHealthyThreshold(t *testing.T) {
	const interval = 2 * time.Second
	for healthy, want := range map[int]struct{ recorded, enters time.Duration }{
		0: {0, 6 * time.Second}, 3: {0, 6 * time.Second}, 1: {interval, interval}, 5: {10 * time.Second, 10 * time.Second},
	} {
		s := Spec{
			Address: "api.example.com", Targets: map[string]string{"cp1": "10.0.0.11"},
			HealthCheck: HealthCheck{Interval: interval, Threshold: 3, Healthy: healthy},
		}
		r := s.Registration()
		if r.HealthyTime != want.recorded || r.EntryTime() != want.enters || r.DetectionTime != 6*time.Second {
			t.Errorf("%d: %+v", healthy, r)
		}
		if strings.Contains(r.Key(), "healthy_time") != (want.recorded > 0) {
			t.Errorf("%d: recorded as %s", healthy, r.Key())
		}
		if err := ValidateRegistration(r); err != nil {
			t.Errorf("%d: %v", healthy, err)
		}
		for in, waits := range map[bool]time.Duration{true: want.enters, false: 6 * time.Second} {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				err := New(targets.NewObserver(nowhere, nil)).For(r).waitForRotation(t.Context(), targets.Target{}, in)
				if waited := time.Since(began); err != nil || waited != waits {
					t.Errorf("%d, in %t: waited %s, want %s: %v", healthy, in, waited, waits, err)
				}
			})
		}
	}
}

// TestHealthCheckOf: what an import reads has the times of the registration, whatever interval they came from.
func TestHealthCheckOf(t *testing.T) {
	const second = time.Second
	for times, want := range map[[2]time.Duration]HealthCheck{
		{6 * second, 0}:                   {2 * second, 3, 0},
		{6 * second, 10 * second}:         {2 * second, 3, 5},
		{30 * second, 45 * second}:        {15 * second, 2, 3},
		{second, 2500 * time.Millisecond}: {500 * time.Millisecond, 2, 5},
		{0, 0}:                            {0, 3, 0},
		{0, second}:                       {second, 0, 1},
	} {
		got := HealthCheckOf(endpoint.Registration{DetectionTime: times[0], HealthyTime: times[1]}, 3)
		if got != want {
			t.Errorf("%v: %+v, want %+v", times, got, want)
		}
		if got.DetectionTime() != times[0] || got.HealthyTime() != times[1] {
			t.Errorf("%v: %+v has other times", times, got)
		}
	}
}
