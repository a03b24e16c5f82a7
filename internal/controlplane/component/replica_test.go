package component

import (
	"errors"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

func testReplica(t *testing.T) Replica {
	t.Helper()
	return Replica{
		Name:         "cp1",
		Address:      "10.0.0.11",
		Bundle:       cptest.Bundle(t),
		Version:      "1.36.3",
		EndpointHost: "10.0.0.100",
		EndpointPort: 6443,
		EtcdURLs:     []string{"https://10.0.0.11:2379"},
		ServiceCIDRs: []string{"10.96.0.0/12"},
	}
}

// TestExtraSANs: the refusal names the attribute.
func TestExtraSANs(t *testing.T) {
	for san, refused := range map[string]bool{"api.example.com": false, "api.example.com:6443": true} {
		s := testReplica(t)
		s.ExtraSANs = []string{san}
		var p *problem.Problem
		if err := s.Validate(); (err != nil) != refused || refused && (!errors.As(err, &p) || p.Attribute != "extra_sans") {
			t.Errorf("%s: %v", san, err)
		}
	}
}
