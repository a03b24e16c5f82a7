package controlplane

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// DeletedNodeBootstrap is what a delete has left.
type DeletedNodeBootstrap struct {
	Kept   []string // objects that others manage too
	Tokens []string // bootstrap tokens that still exist
}

// DeleteNodeBootstrap deletes the objects that the provider alone manages. cluster-info goes first, so that
// nobody begins to join.
func (r *Replicas) DeleteNodeBootstrap(ctx context.Context, s NodeBootstrap) (DeletedNodeBootstrap, error) {
	api, err := r.api(ctx, s.Bundle, s.Registrar)
	if err != nil {
		return DeletedNodeBootstrap{}, err
	}
	defer api.Close()
	current, err := observeObjects(ctx, api, s.Settings)
	if err != nil {
		return DeletedNodeBootstrap{}, err
	}
	var left DeletedNodeBootstrap
	for _, e := range slices.Backward(current) {
		switch {
		case e.current == nil:
		case e.unwanted && !e.owned:
		case !e.ownedAlone():
			left.Kept = append(left.Kept, fmt.Sprintf("%s, managed by %s", e.wanted.Label(), strings.Join(e.others, ", ")))
		default:
			if err := api.Delete(ctx, e.wanted, uidOf(e.current)); err != nil {
				return left, err
			}
		}
	}
	left.Tokens, err = api.Tokens(ctx)
	return left, err
}
