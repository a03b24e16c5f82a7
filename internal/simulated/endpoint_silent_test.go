package simulated

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// silent is an endpoint that does not say whether a replica is in rotation, beside one that may say that it is not.
type silent struct {
	controlplane.Registrar
	others []string
	err    error
}

func (s silent) Registered(context.Context, string, string) ([]string, error) { return s.others, s.err }

// TestReadWithoutEndpoint: a replica is read although its endpoint does not say whether it is in rotation. A machine of
// the endpoint that answers and cannot be worked on is an error.
func TestReadWithoutEndpoint(t *testing.T) {
	_, p := planeOn(t, 1)
	others := []string{"endpoint haproxy 10.0.0.100: drained"}
	for name, c := range map[string]struct {
		others []string
		err    error
		read   bool
	}{
		"a name server that is down":        {nil, errors.New("no answer from the name server"), true},
		"balancers that are down":           {nil, fmt.Errorf("dial: %w", host.ErrUnreachable), true},
		"balancers of one of the endpoints": {others, fmt.Errorf("dial: %w", host.ErrUnreachable), true},
		"a balancer that is not trusted":    {nil, fmt.Errorf("dial: %w", host.ErrHostKey), false},
		"one that refuses the login":        {nil, errors.Join(host.ErrUnreachable, host.ErrAuth), false},
		"one without rights for the user":   {nil, host.ErrNotRoot, false},
	} {
		s := p.servers[0]
		s.Registrar = silent{s.Registrar, c.others, c.err}
		status, err := p.replicas.Read(t.Context(), s)
		if !c.read {
			if !errors.Is(err, c.err) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil || !errors.Is(status.RotationErr, c.err) || status.Registered || status.MachineID == "" ||
			!slices.Equal(status.Drift, c.others) {
			t.Errorf("%s: %+v, %v", name, status, err)
		}
	}
}
