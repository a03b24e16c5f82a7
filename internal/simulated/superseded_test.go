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
