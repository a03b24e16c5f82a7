package health_test

import (
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/health"
	"github.com/kubequorum/terraform-provider-kube/internal/health/healthtest"
)

// TestCertificateDays checks that the argument sets the limit.
func TestCertificateDays(t *testing.T) {
	seen := healthtest.ControlPlane()
	seen.Etcd.Machines[0].CertificateExpiry = nearEnd
	// 3 members, and 3 components of 3 replicas.
	for days, want := range map[int64]int{0: 0, 9: 0, 10: 1, 365: 1, 366: 12} {
		if got := health.Issues(seen, days, healthtest.Now); len(got) != want {
			t.Errorf("within %d days: %v", days, got)
		}
	}
}

func TestDaysUntil(t *testing.T) {
	for left, want := range map[time.Duration]int64{
		0: 0, time.Hour: 0, 24 * time.Hour: 1, 47 * time.Hour: 1, -time.Hour: -1, -24 * time.Hour: -1, -25 * time.Hour: -2,
	} {
		if got := health.DaysUntil(healthtest.Now.Add(left), healthtest.Now); got != want {
			t.Errorf("%s are %d days, want %d", left, got, want)
		}
	}
}
