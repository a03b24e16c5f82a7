package client

import (
	"context"
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
)

// ViaVoter runs f with healthy voters, the leader first, until one accepts the call. It
// tries another voter only if the previous one could not be reached.
func (c *Clients) ViaVoter(ctx context.Context, v membership.View, not uint64, f func(address string) error) error {
	voters := slices.DeleteFunc(membership.Except(v.Voters(), not), func(m membership.Member) bool { return !m.Healthy })
	slices.SortStableFunc(voters, func(a, b membership.Member) int {
		switch v.Leader {
		case a.ID:
			return -1
		case b.ID:
			return 1
		}
		return 0
	})
	err := ErrNoAnswer
	for _, m := range voters {
		if err = f(m.Address()); err == nil || !unavailable(err) || ctx.Err() != nil {
			return err
		}
	}
	return err
}
