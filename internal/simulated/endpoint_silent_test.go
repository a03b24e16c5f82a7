package simulated

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// silent is an endpoint that does not say whether a replica is in rotation.
type silent struct {
	controlplane.Registrar
	err error
}

func (s silent) Registered(context.Context, string, string) ([]string, error) { return nil, s.err }

// TestReadWithoutEndpoint: a replica is read although its endpoint does not say whether it is in rotation. A machine of
// the endpoint that answers and cannot be worked on is an error.
func TestReadWithoutEndpoint(t *testing.T) {
	_, p := planeOn(t, 1)
	for name, c := range map[string]struct {
		err  error
		read bool
	}{
		"a name server that is down":      {errors.New("no answer from the name server"), true},
		"balancers that are down":         {fmt.Errorf("dial: %w", host.ErrUnreachable), true},
		"a balancer that is not trusted":  {fmt.Errorf("dial: %w", host.ErrHostKey), false},
		"one that refuses the login":      {errors.Join(host.ErrUnreachable, host.ErrAuth), false},
		"one without rights for the user": {host.ErrNotRoot, false},
	} {
		s := p.servers[0]
		s.Registrar = silent{s.Registrar, c.err}
		status, err := p.replicas.Read(t.Context(), s)
		if !c.read {
			if !errors.Is(err, c.err) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil || !errors.Is(status.RotationErr, c.err) || status.Registered || len(status.Drift) > 0 ||
			status.MachineID == "" {
			t.Errorf("%s: %+v, %v", name, status, err)
		}
	}
}
