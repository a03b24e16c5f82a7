package provider

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/combined"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/external"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// TestRegistrarOfARecord: whatever cluster a machine's record names or leaves out, it leads to endpoints of the
// machine's own cluster only.
func TestRegistrarOfARecord(t *testing.T) {
	bundle := &pki.Bundle{ClusterID: strings.Repeat("0a", 16), ClusterName: "prod"}
	s := &session{registrars: registrars{external: external.New(targets.NewObserver(nil, nil)), hooks: &sync.Map{}}}
	at := func(address, cluster string) endpoint.Registration {
		return endpoint.Registration{
			Kind: endpoint.External, Address: address, Port: 6443, TargetPort: 6443, ClusterID: cluster,
			DetectionTime: time.Second, Hosts: map[string]string{"cp1": "10.0.0.11"},
		}
	}
	for cluster, refused := range map[string]bool{
		bundle.ClusterID: false, "": false, strings.Repeat("f", 32): true,
	} {
		recorded := at("api.example.com", cluster)
		recorded.Additional = []endpoint.Registration{at("api.example.org", cluster)}
		r, err := s.registrar(registrationText(recorded), bundle)
		if refused {
			if err == nil {
				t.Errorf("a record of the cluster %q is believed", cluster)
			}
			continue
		}
		both, ok := r.(*combined.Registrar)
		if err != nil || !ok || len(both.Endpoints) != 2 {
			t.Fatalf("a record of the cluster %q: %+v, %v", cluster, r, err)
		}
		for _, each := range both.Endpoints {
			if one, ok := each.Registrar.(*external.Registrar); !ok || one.ClusterID != bundle.ClusterID {
				t.Errorf("a record of the cluster %q leads to %+v", cluster, each.Registrar)
			}
		}
	}
}
