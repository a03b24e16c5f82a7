package controlplane

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// DeletedNodeBootstrap is what a delete has left.
type DeletedNodeBootstrap struct {
	Kept   []string // objects that others manage too
	Tokens []string // bootstrap tokens that still exist
}

// DeleteNodeBootstrap deletes the objects that the provider alone manages. cluster-info goes first, so that
// nobody begins to join. superseded reports whether a Create of the same objects has begun: it is asked before each of
// them, and then the rest stays, and there is nothing to report.
func (r *Replicas) DeleteNodeBootstrap(
	ctx context.Context, s NodeBootstrap, superseded func() bool,
) (DeletedNodeBootstrap, error) {
	left, err := r.deleteNodeBootstrap(ctx, s, superseded)
	if superseded() {
		problem.Progress(ctx, "the objects for joining workers stay: another resource in this run has taken them over")
		return DeletedNodeBootstrap{}, nil
	}
	return left, err
}

func (r *Replicas) deleteNodeBootstrap(
	ctx context.Context, s NodeBootstrap, superseded func() bool,
) (DeletedNodeBootstrap, error) {
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
	left.Kept, err = deleteObjects(ctx, api, current, superseded)
	if err == nil {
		left.Tokens, err = api.Tokens(ctx)
	}
	return left, err
}

// deleteObjects deletes what the provider alone manages, and describes what others manage too.
func deleteObjects(
	ctx context.Context, api objectsAPI, current []existing, superseded func() bool,
) (kept []string, err error) {
	for _, e := range slices.Backward(current) {
		switch {
		case e.current == nil:
		case e.unwanted && !e.owned:
		case !e.ownedAlone():
			kept = append(kept, fmt.Sprintf("%s, managed by %s", e.wanted.Label(), strings.Join(e.others, ", ")))
		case superseded():
			return nil, errSuperseded
		default:
			if err := api.Delete(ctx, e.wanted, uidOf(e.current)); err != nil {
				return nil, err
			}
		}
	}
	return kept, nil
}
