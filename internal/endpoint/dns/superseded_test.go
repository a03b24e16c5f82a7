package dns

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// TestSupersededDelete: a Create of the same endpoint begins while its Delete looks at the targets, none of which has a
// replica. No name server is asked, and nothing is reported as left behind.
func TestSupersededDelete(t *testing.T) {
	pool, err := host.NewPool(host.Config{})
	if err == nil {
		err = pool.Close() // no machine answers
	}
	if err != nil {
		t.Fatal(err)
	}
	observer := targets.NewObserver(func(address string) *host.Host { return pool.Host(host.Target{Address: address}) },
		func(context.Context, string) (targets.Replica, error) { return targets.Replica{}, nil })
	for before := range 2 {
		asked := 0
		err := New(observer, nil).Delete(t.Context(),
			Spec{ClusterID: "a", Address: "api.example.com", Targets: map[string]string{"cp1": "10.0.0.1"}}, time.Hour,
			func() bool { asked++; return asked > before }, func(why string) { t.Errorf("%d: left: %s", before, why) })
		if !errors.Is(err, endpoint.ErrSuperseded) {
			t.Errorf("%d: %v", before, err)
		}
	}
}

// TestCreateFails: nothing that a failed Create has changed is left to a Delete, which would be refused while replicas
// have records.
func TestCreateFails(t *testing.T) {
	s := Spec{ClusterID: "a", Address: "api.example.com", Targets: map[string]string{"cp1": "10.0.0.1"}}
	observer := targets.NewObserver(func(string) *host.Host { return &host.Host{} }, nil)
	if _, err := New(observer, nil).Create(t.Context(), s); !errors.Is(err, endpoint.ErrAdopted) {
		t.Error(err)
	}
}
