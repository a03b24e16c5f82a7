package external

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
)

// maxDetectionTime limits the time that every stop of an API server takes.
const maxDetectionTime = time.Minute

// maxHealthyTime limits the time that every return of a replica to rotation takes.
const maxHealthyTime = 2 * time.Minute

// ValidateRegistration checks a registration that a machine has recorded.
func ValidateRegistration(r endpoint.Registration) error {
	_, probeErr := netip.ParseAddr(r.ProbeFrom)
	if r.ProbeFrom == "" {
		probeErr = nil
	}
	check := HealthCheck{Interval: r.DetectionTime, Threshold: 1}
	return errors.Join(targets.ValidateAddress(r.Address), targets.Validate(r.Address, r.Hosts),
		endpoint.ValidatePort(r.Port), endpoint.ValidatePort(r.TargetPort), ValidateHealthCheck(check),
		validateHealthyTime(r.HealthyTime), probeErr)
}

// ValidateHealthCheck checks the balancer's settings.
func ValidateHealthCheck(h HealthCheck) error {
	switch {
	case h.Interval < 100*time.Millisecond:
		return fmt.Errorf("interval %s is shorter than 100ms", h.Interval)
	case h.Threshold < 1:
		return fmt.Errorf("threshold %d is less than 1", h.Threshold)
	case h.DetectionTime() > maxDetectionTime:
		return fmt.Errorf("the balancer takes %s to find out that a replica is not ready: each stop of an API server takes "+
			"that long, and more than %s is not supported", h.DetectionTime(), maxDetectionTime)
	case h.Healthy < 0:
		return fmt.Errorf("healthy_threshold %d is less than 1", h.Healthy)
	}
	return validateHealthyTime(h.HealthyTime())
}

// ValidateHooks checks that a replica that is drained returns to rotation.
func ValidateHooks(h endpoint.Hooks) error {
	if len(h.Drain) > 0 && len(h.Register) == 0 {
		return errors.New("drain without register: a replica that was drained would never return to rotation, and a change " +
			"of all replicas would leave none; if the balancer takes them back by itself, set register to a command that " +
			"does nothing, such as true")
	}
	return nil
}

func validateHealthyTime(d time.Duration) error {
	if d < 0 || d > maxHealthyTime {
		return fmt.Errorf("the balancer takes %s to find out that a replica is ready: each change of a replica takes that "+
			"long, and more than %s is not supported", d, maxHealthyTime)
	}
	return nil
}
