package controlplane

import (
	"errors"
	"maps"
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// validate refuses a replica that cannot exist, before any machine is asked.
// Terraform's schema says the same at plan time, where it knows the values.
func (s Spec) validate() error {
	checks := []struct {
		attribute string
		err       error
	}{
		{"name", ValidateName(s.Name)},
		{"host.address", ValidateAddress(s.Host.Address())},
		{"port", ValidatePort(s.port())},
		{"endpoint", s.validateEndpoint()},
		{"version", ValidateVersion(s.Version)},
		{"etcd", ValidateEtcdURLs(s.EtcdURLs)},
		{"service_cidrs", ValidateCIDRs(s.ServiceCIDRs, s.PodCIDRs)},
		{"cluster_domain", ValidateDomain(s.domain())},
		{"pki", s.validateBundle()},
	}
	for _, component := range slices.Sorted(maps.Keys(s.ExtraArgs)) {
		checks = append(checks, struct {
			attribute string
			err       error
		}{"extra_args", ValidateExtraArgs(component, s.ExtraArgs[component])})
	}
	for _, check := range checks {
		if check.err != nil {
			return &problem.Problem{
				Summary:   "control-plane replica is not possible as it is described",
				Attribute: check.attribute,
				Host:      s.machine(),
				Cause:     check.err.Error(),
				Unchanged: problem.Nothing,
				Err:       check.err,
			}
		}
	}
	return nil
}

func (s Spec) validateEndpoint() error {
	if s.EndpointHost == "" {
		return errors.New("the endpoint has no address: administrators' kubeconfigs and the serving certificate name it")
	}
	return nil
}

// validateBundle wants every key that is written to the machine or issues
// certificates for it: an imported bundle might lack one.
func (s Spec) validateBundle() error {
	switch b := s.Bundle; {
	case b == nil:
		return errors.New("there is no PKI bundle")
	case b.CA.PrivateKey == "" || b.EtcdCA.PrivateKey == "" || b.FrontProxyCA.PrivateKey == "":
		return errors.New("the PKI bundle lacks the private key of an authority")
	case b.ServiceAccount.PrivateKey == "" || b.ServiceAccount.PublicKey == "":
		return errors.New("the PKI bundle lacks the service-account keys")
	}
	return nil
}
