package provider

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

// recorded decodes the settings in a record. Settings that cannot be decoded are empty.
func recorded[R any](text json.RawMessage) settings[R] {
	var s settings[R]
	if json.Unmarshal(text, &s) != nil {
		return settings[R]{}
	}
	return s
}

// settingsOfReplica returns the settings of a replica. Each setting is as it was configured if
// that produces what the machine has, and otherwise as observed on the machine.
func settingsOfReplica(observed controlplane.Imported) settings[resourcesModel] {
	s := recorded[resourcesModel](observed.Settings)
	if !observed.SameAudit(s.Audit.audit()) {
		s.Audit = observedAudit(observed.Audit)
	}
	if !observed.SameAuthentication(s.Authentication.authentication()) {
		s.Authentication = observedAuthentication(observed.Authentication)
	}
	supplied := (&resourcesModel{}).limits()
	maps.Copy(supplied, s.Resources.limits())
	if !maps.Equal(supplied, observed.Limits) {
		s.Resources = &resourcesModel{
			observedLimits(systemd.Limits(observed.Limits[release.APIServer])),
			observedLimits(systemd.Limits(observed.Limits[release.ControllerManager])),
			observedLimits(systemd.Limits(observed.Limits[release.Scheduler])),
		}
		if *s.Resources == (resourcesModel{}) {
			s.Resources = nil
		}
	}
	if !slices.Equal(slices.Sorted(slices.Values(s.Groups)), observed.SupplementaryGroups) {
		s.Groups = observed.SupplementaryGroups
	}
	s.Konnectivity = observedKonnectivity(s.Konnectivity, observed.Konnectivity)
	return s
}

// limitsOfMember returns the limits of a member, as recorded or as observed.
func limitsOfMember(observed machine.Imported) *limitsModel {
	s := recorded[limitsModel](observed.Settings)
	if s.Resources.limits() != observed.Limits {
		return observedLimits(observed.Limits)
	}
	return s.Resources
}

func observedAudit(a component.Audit) *auditModel {
	if a == (component.Audit{}) {
		return nil
	}
	m := auditModel{
		Policy: unlessZero(a.Policy), MaxAgeDays: unlessZero(a.MaxAgeDays),
		MaxBackups: unlessZero(a.MaxBackups), MaxSizeMB: unlessZero(a.MaxSizeMB),
	}
	if a.Off {
		m.Enabled = new(bool)
	}
	return &m
}

func observedAuthentication(a component.Authentication) *authenticationModel {
	if a.JWT == "" && a.AnonymousPaths == nil {
		return nil
	}
	return &authenticationModel{JWT: unlessZero(a.JWT), AnonymousPaths: a.AnonymousPaths}
}

func observedLimits(l systemd.Limits) *limitsModel {
	if l == (systemd.Limits{}) {
		return nil
	}
	return &limitsModel{
		MemoryHigh: unlessZero(l.MemoryHigh), MemoryMax: unlessZero(l.MemoryMax),
		CPUQuota: unlessZero(l.CPUQuota), MemoryMin: unlessZero(l.MemoryMin),
		CPUWeight: unlessZero(l.CPUWeight), IOWeight: unlessZero(l.IOWeight),
	}
}

// unlessZero returns a pointer to value, or nil for the zero value.
func unlessZero[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}
