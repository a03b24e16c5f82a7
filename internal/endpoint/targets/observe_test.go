package targets

import (
	"context"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
)

// TestNamed: a replica that has left the endpoint for another one is still the target of its name, so that what it has
// there can be removed. Another one is not.
func TestNamed(t *testing.T) {
	for want, observed := range map[string]Replica{
		"itself": {Name: "cp1", ClusterID: "a", Port: 6443, Endpoints: []string{"haproxy 10.0.0.100"}},
		"shared": {Name: "cp9", ClusterID: "a", Port: 6443, Endpoints: []string{"dns api.example.com"}},
		"other":  {Name: "cp1", ClusterID: "b", Port: 6443, Endpoints: []string{"dns api.example.com"}},
	} {
		s := NewObserver(nil, func(context.Context, string) (Replica, error) { return observed, nil }).For(
			endpoint.Registration{
				Kind: endpoint.DNS, Address: "api.example.com", ClusterID: "a", Hosts: map[string]string{"cp1": "10.0.0.1"},
			})
		got := s.Named(t.Context(), "cp1")
		if (got.Other == "") != (want == "itself") || got.Shared != (want == "shared") {
			t.Errorf("%s: %+v", want, got)
		}
	}
}
