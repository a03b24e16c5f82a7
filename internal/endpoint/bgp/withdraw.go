package bgp

import (
	"context"
	"errors"
	"fmt"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// withdraw returns when no peer has the route from the machine any more.
func withdraw(ctx context.Context, r *registrar, t targets.Target, _ bool) error {
	m := r.ObserveMachine(ctx, t.Address)
	if m.Err != nil {
		return m.Err
	}
	for peer, s := range m.Report.Sessions {
		if s.Exported {
			return fmt.Errorf("%w (%s)", errStillAnnounced, peer)
		}
	}
	if err := r.Propagate(ctx); err != nil {
		return err
	}
	_, err := endpoint.RunOwned(ctx, r.Machine(t.Address), host.Command{Script: closeScript, Vars: map[string]string{
		"prefix": prefixOf(r.Registration).String(),
	}})
	return err
}

var errStillAnnounced = errors.New("its machine still announces the address")
