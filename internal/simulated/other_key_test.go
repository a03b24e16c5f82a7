package simulated

import (
	"context"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// stored is an etcd that has one object.
type stored struct {
	controlplane.Store
	value string
}

func (s stored) Scan(_ context.Context, prefix string, see func(key string, value []byte)) error {
	if prefix == "/registry/secrets/" {
		see(prefix+"a/b", []byte(s.value))
	}
	return nil
}

func (stored) Versions(context.Context) (map[string]string, error) {
	return map[string]string{"cp1": "3.6.16"}, nil
}

// TestCreateWithAnotherKey: the machines of all replicas were rebuilt, and the bundle lacks the key of the Secrets that
// etcd still has. An API server would start, and write new ones with another key.
func TestCreateWithAnotherKey(t *testing.T) {
	fleet, p := bareOn(t, 1)
	s, m := p.servers[0], fleet.clusters[0].machines[0]
	p.servers = nil
	p.create(t)
	s.Store = stored{value: "k8s:enc:secretbox:v1:key2:xx"}
	_, err := p.replicas.Create(t.Context(), s)
	if !problem.Untouched(err) || !strings.Contains(err.Error(), `the secretbox key "key2"`) {
		t.Errorf("created with another key: %v", err)
	}
	if m.active("kube-apiserver.service") || m.content("/etc/kubernetes/pki/sa.key") != "" {
		t.Error("the machine was changed")
	}
	s.Store = stored{value: "k8s\x00"}
	if _, err := p.replicas.Create(t.Context(), s); err != nil {
		t.Errorf("created with a key for what is not encrypted: %v", err)
	}
}
