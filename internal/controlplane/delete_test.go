package controlplane

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

func TestDeleteOfAnUnreachableReplica(t *testing.T) {
	for _, c := range []struct {
		name      string
		options   DeleteOptions
		protected bool
		registrar *recordingRegistrar
		want      string
		calls     []string
	}{
		{
			"kept",
			DeleteOptions{},
			true, &recordingRegistrar{},
			`add "127.0.0.1" to abandon_unreachable_hosts of the provider`,
			[]string{"drain for delete", "deregister"},
		},
		{
			"kept, its balancer unreachable too",
			DeleteOptions{},
			false, &recordingRegistrar{fail: host.ErrUnreachable},
			`add "127.0.0.1" to abandon_unreachable_hosts of the provider`,
			[]string{"drain for delete"},
		},
		{
			"abandoned",
			DeleteOptions{Abandon: host.AbandonedAt("127.0.0.1")},
			true, &recordingRegistrar{}, "",
			[]string{"drain for delete", "deregister"},
		},
		{
			"abandoned together with its balancers",
			DeleteOptions{Abandon: host.AbandonedAt("127.0.0.1")},
			false,
			&recordingRegistrar{fail: host.ErrUnreachable}, "",
			[]string{"drain for delete"},
		},
		// It is unknown whether another replica serves.
		{
			"protected, its balancers unreachable",
			DeleteOptions{Abandon: host.AbandonedAt("127.0.0.1")},
			true,
			&recordingRegistrar{fail: host.ErrUnreachable}, "unreachable",
			[]string{"drain for delete"},
		},
		// A machine that cannot be reached through SSH may still serve.
		{
			"protected, and the last that serves",
			DeleteOptions{Abandon: host.AbandonedAt("127.0.0.1")},
			true,
			&recordingRegistrar{last: true}, "set deletion_protection = false on the kube_pki_bundle, apply, then destroy",
			[]string{"drain for delete"},
		},
		{
			"the last that serves",
			DeleteOptions{Abandon: host.AbandonedAt("127.0.0.1")},
			false,
			&recordingRegistrar{last: true}, "",
			[]string{"drain for delete", "deregister"},
		},
		{
			"still registered",
			DeleteOptions{Abandon: host.AbandonedAt("127.0.0.1")},
			false,
			&recordingRegistrar{fail: errors.New("lb1 refuses")}, "lb1 refuses",
			[]string{"drain for delete"},
		},
		{
			"another one abandoned",
			DeleteOptions{Abandon: host.AbandonedAt("127.0.0.2")},
			true, &recordingRegistrar{},
			"not deleted",
			[]string{"drain for delete", "deregister"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := unreachable(t)
			bundle := *s.Bundle
			bundle.Deletable = !c.protected
			s.Bundle, s.Registrar = &bundle, c.registrar
			c.registrar.members = map[string]string{"cp1": s.ServingAddress()}
			err := NewReplicas(nil).Delete(t.Context(), s, c.options)
			if (c.want == "") != (err == nil) || !strings.Contains(cptest.Text(err), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if calls := c.registrar.take(); !slices.Equal(calls, c.calls) {
				t.Errorf("calls %q", calls)
			}
		})
	}
}
