package external

import (
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
)

func TestValidate(t *testing.T) {
	good := Spec{
		Address: "api.example.com", Targets: map[string]string{"cp1": "10.0.0.11", "cp2": "fd00::12"},
		HealthCheck: HealthCheck{Interval: 2 * time.Second, Threshold: 3},
	}
	if err := good.validate(); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]struct {
		change func(*Spec)
		want   string
	}{
		"address":            {func(s *Spec) { s.Address = "api_example" }, "neither an IP address nor a DNS name"},
		"loopback":           {func(s *Spec) { s.Address = "127.0.0.1" }, "other machines can reach"},
		"no target":          {func(s *Spec) { s.Targets = nil }, "at least one target"},
		"target by name":     {func(s *Spec) { s.Targets = map[string]string{"cp1": "cp1.test"} }, "not an IP address"},
		"target is endpoint": {func(s *Spec) { s.Address = "10.0.0.11" }, "the endpoint's own address"},
		"same address": {func(s *Spec) {
			s.Targets = map[string]string{"cp1": "10.0.0.11", "cp2": "10.0.0.11"}
		}, "targets cp1 and cp2 have the same address"},
		"interval":  {func(s *Spec) { s.HealthCheck.Interval = 0 }, "shorter than 100ms"},
		"threshold": {func(s *Spec) { s.HealthCheck.Threshold = 0 }, "less than 1"},
		"slow check": {func(s *Spec) {
			s.HealthCheck = HealthCheck{Interval: 30 * time.Second, Threshold: 3}
		}, "each stop of an API server takes that long"},
		"no way back":   {func(s *Spec) { s.Hooks.Drain = []string{"./pool"} }, "drain without register"},
		"negative":      {func(s *Spec) { s.HealthCheck.Healthy = -1 }, "less than 1"},
		"slow to enter": {func(s *Spec) { s.HealthCheck.Healthy = 200 }, "each change of a replica takes that long"},
	} {
		t.Run(name, func(t *testing.T) {
			s := good
			c.change(&s)
			if err := s.validate(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("validate gives %v, want %q", err, c.want)
			}
		})
	}
}

// TestValidateRegistration: what a machine has recorded is data of that machine.
func TestValidateRegistration(t *testing.T) {
	good := Spec{
		Address: "api.example.com", Targets: map[string]string{"cp1": "10.0.0.11"},
		HealthCheck: HealthCheck{Interval: 2 * time.Second, Threshold: 3},
	}.Registration()
	if err := ValidateRegistration(good); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*endpoint.Registration){
		"address":     func(r *endpoint.Registration) { r.Address = "$(reboot)" },
		"target":      func(r *endpoint.Registration) { r.Hosts = map[string]string{"cp1": "; reboot"} },
		"port":        func(r *endpoint.Registration) { r.Port = 70000 },
		"target port": func(r *endpoint.Registration) { r.TargetPort = -1 },
		"detection":   func(r *endpoint.Registration) { r.DetectionTime = 300 * time.Hour },
		"healthy":     func(r *endpoint.Registration) { r.HealthyTime = 300 * time.Hour },
		"negative":    func(r *endpoint.Registration) { r.HealthyTime = -time.Second },
		"probe":       func(r *endpoint.Registration) { r.ProbeFrom = "operator.example.com" },
	} {
		r := good
		change(&r)
		if err := ValidateRegistration(r); err == nil {
			t.Errorf("%s: accepted: %+v", name, r)
		}
	}
}
