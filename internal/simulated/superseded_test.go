package simulated

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/haproxy"
)

// TestSupersededBeforeCleaning: a Create of the same endpoint begins after its Delete has seen that no replica is left.
// The Delete cleans no host, neither before nor after it has cleaned those that only records name.
func TestSupersededBeforeCleaning(t *testing.T) {
	fleet, p := bareOn(t, 1)
	if _, err := haproxy.Create(t.Context(), p.endpoint); err != nil {
		t.Fatal(err)
	}
	for _, step := range []int{2, 3} {
		received := watched(fleet)
		asked := 0
		o := haproxy.DeleteOptions{Superseded: func() bool { asked++; return asked == step }}
		if err := haproxy.Delete(t.Context(), p.endpoint, o); !errors.Is(err, endpoint.ErrSuperseded) {
			t.Errorf("before step %d: %v", step, err)
		}
		if strings.Contains(received.text(), cleaning) {
			t.Errorf("before step %d: a host was cleaned", step)
		}
	}
}

// TestSupersededEndpoint: a Create of the same endpoint begins while its Delete waits for replicas. The Delete ends and
// cleans no host, also if no replica is left by then.
func TestSupersededEndpoint(t *testing.T) {
	fleet, p := planeOn(t, 1)
	fleet.Count()
	asked := 0
	o := haproxy.DeleteOptions{WaitForReplicas: time.Hour, Superseded: func() bool { asked++; return asked > 2 }}
	if err := haproxy.Delete(t.Context(), p.endpoint, o); !errors.Is(err, endpoint.ErrSuperseded) || asked != 3 {
		t.Errorf("asked %d times: %v", asked, err)
	}
	empty := p.endpoint
	empty.Hosts = nil
	o.Superseded = func() bool { return true }
	if err := haproxy.Delete(t.Context(), empty, o); !errors.Is(err, endpoint.ErrSuperseded) {
		t.Errorf("without replicas: %v", err)
	}
	if c := fleet.Count(); c.Commands != c.Kinds["observe"] {
		t.Errorf("hosts were changed: %v", c.Kinds)
	}
	o.Superseded, o.WaitForReplicas = nil, 0
	err := haproxy.Delete(t.Context(), p.endpoint, o)
	if err == nil || !slices.ContainsFunc(strings.Split(err.Error(), "\n"), func(line string) bool {
		return strings.HasPrefix(line, "Next step:") && strings.Contains(line, "terraform state rm")
	}) {
		t.Errorf("not superseded: %v", err)
	}
}
