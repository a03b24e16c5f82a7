package component

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Validate rejects an invalid replica before any machine is reached. The schema reports the
// same errors at plan time for known values.
func (s Replica) Validate() error {
	type check struct {
		attribute string
		err       error
	}
	checks := []check{
		{"name", ValidateName(s.Name)},
		{"host.address", ValidateAddress(s.Address)},
		{"port", ValidatePort(s.APIPort())},
		{"endpoint", s.validateEndpoint()},
		{"version", release.ValidateVersion(s.Version)},
		{"etcd", ValidateEtcd(s.EtcdURLs)},
		{"service_cidrs", ValidateCIDRs(s.ServiceCIDRs, s.PodCIDRs)},
		{"service_cidrs", ValidateNetwork(s.Address, s.ServiceCIDRs, s.PodCIDRs, s.ExtraArgs)},
		{"cluster_domain", ValidateDomain(s.Domain())},
		{"extra_sans", pki.ValidateHosts(s.ExtraSANs...)},
		{"pki", s.validateBundle()},
		{"audit", ValidateAudit(s.Audit, s.ExtraArgs[release.APIServer])},
		{"supplementary_groups", s.validateGroups()},
		{"files", ValidateConfigFiles(s.ConfigFiles, s.ExtraArgs)},
		{"konnectivity", s.validateKonnectivity()},
		{"authentication", ValidateAuthentication(s.Authentication, s.Version, s.ExtraArgs[release.APIServer])},
	}
	for _, component := range slices.Sorted(maps.Keys(s.ExtraArgs)) {
		checks = append(checks, check{"extra_args", ValidateExtraArgs(component, s.Version, s.ExtraArgs[component])})
	}
	for _, check := range checks {
		if check.err != nil {
			return &problem.Problem{
				Summary:   "Invalid control-plane replica",
				Attribute: check.attribute,
				Host:      s.Machine(),
				Cause:     check.err.Error(),
				Unchanged: problem.Nothing,
				Err:       check.err,
			}
		}
	}
	return nil
}

func (s Replica) validateEndpoint() error {
	if s.EndpointHost == "" {
		return errors.New("the endpoint has no address: administrators' kubeconfigs and the serving certificate name it")
	}
	return nil
}

// validateBundle requires every key that is written to the machine and, for each CA, either its
// key or the certificates that were signed externally for this replica.
func (s Replica) validateBundle() error {
	b := s.Bundle
	switch {
	case b == nil:
		return errors.New("there is no PKI bundle")
	case b.ServiceAccount.PrivateKey == "" || b.ServiceAccount.PublicKey == "":
		return errors.New("the PKI bundle lacks the service-account keys")
	}
	for _, leaf := range s.leaves() {
		if _, signed := b.Signed[leaf.Name]; b.External(leaf.Authority) && !signed {
			return fmt.Errorf("the key of the %s authority is held elsewhere, and no signed certificate is given for %q",
				leaf.Authority, leaf.Name)
		}
	}
	return s.validateSockets()
}
