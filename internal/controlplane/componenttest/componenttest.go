// Package componenttest provides a replica for tests.
package componenttest

import (
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
)

// Stacked returns a replica that runs on the same machine as its etcd member. Callers may
// modify it.
func Stacked(t *testing.T) component.Replica {
	t.Helper()
	return component.Replica{
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
