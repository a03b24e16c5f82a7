package etcd

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// TestRefusedBy: a refusal keeps the error of the machine, and does not ask for free space if the time is over.
func TestRefusedBy(t *testing.T) {
	f := newSmallFleet(t)
	s := f.specs("cp1")["cp1"]
	f.machine("cp1").refuses = host.ErrAuth
	cl := f.clusters.of(s)
	entry := membership.Member{
		ID: 1, Name: "cp1", ClientURLs: []string{membership.ClientURL(s.Host.Address())}, Healthy: true,
	}
	view := membership.View{Members: []membership.Member{entry}}
	change := updating{cl: cl, s: s, step: versionStep{From: "3.5.21", To: "3.6.16"}}
	ended, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	for name, refused := range map[string]func(ctx context.Context) error{
		"the last member": func(ctx context.Context) error {
			return (&removal{cl: cl, s: s}).last(ctx, view, entry.ID)
		},
		"an upgrade": func(ctx context.Context) error {
			return change.prepareUpgrade(ctx, view, upgradePreparation{Save: &entry})
		},
	} {
		for ctx, space := range map[context.Context]bool{t.Context(): true, ended: false} {
			err := refused(ctx)
			if !errors.Is(err, host.ErrAuth) || !problem.Untouched(err) ||
				strings.Contains(nextOf(err), "free space") != space {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// nextOf returns the next step of a problem.
func nextOf(err error) string {
	if p := (*problem.Problem)(nil); errors.As(err, &p) {
		return p.Next
	}
	return ""
}
