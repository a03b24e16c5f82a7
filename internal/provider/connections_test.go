package provider

import (
	"fmt"
	"slices"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
)

func TestReplicaRules(t *testing.T) {
	hosts := map[string]string{"cp1": "10.0.0.11", "cp2": "10.0.0.12"}
	for name, c := range map[string]struct {
		etcd         []string
		registration endpoint.Registration
		want         []string
	}{
		"haproxy on the same machines, own member": {
			[]string{"https://10.0.0.11:2379"},
			endpoint.Registration{Hosts: hosts},
			[]string{"api-balancer 10.0.0.12 to 10.0.0.11:7443"},
		},
		"members elsewhere": {
			[]string{"https://10.0.0.21:2379", "https://127.0.0.1:2379", "https://etcd:2379", "https://10.0.0.22:12379", "::"},
			endpoint.Registration{Kind: endpoint.External, Hosts: hosts},
			[]string{"etcd-client 10.0.0.11 to 10.0.0.21:2379"},
		},
		"records of a zone": {
			nil,
			endpoint.Registration{Kind: endpoint.DNS, Hosts: hosts},
			[]string{"api-survivor 10.0.0.12 to 10.0.0.11:7443", "api-survivor 10.0.0.11 to 10.0.0.12:7443"},
		},
		"kinds with routers, or none": {nil, endpoint.Registration{Kind: endpoint.BGP, Hosts: hosts}, nil},
		"several endpoints": {
			nil,
			endpoint.Registration{Hosts: map[string]string{"lb": "10.0.0.31"}, Additional: []endpoint.Registration{
				{Hosts: map[string]string{"lb2": "10.0.0.32", "lb": "10.0.0.31"}, Port: 443},
			}},
			[]string{"api-balancer 10.0.0.31 to 10.0.0.11:7443", "api-balancer 10.0.0.32 to 10.0.0.11:7443"},
		},
		"names of machines": {nil, endpoint.Registration{Hosts: map[string]string{"lb": "lb.example"}}, nil},
	} {
		var got []string
		for _, r := range replicaRules("10.0.0.11", 7443, c.etcd, c.registration) {
			got = append(got, fmt.Sprintf("%s %s to %s:%d", r.Name, r.Remote.Addr(), r.Machine, r.Port))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if got := replicaRules("cp1.example", 0, nil, endpoint.Registration{Hosts: hosts}); got != nil {
		t.Errorf("a machine by name: %v", got)
	}
}
