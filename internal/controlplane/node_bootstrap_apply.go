package controlplane

import (
	"context"
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/nodebootstrap"
)

// objectsAPI is what changes of the objects need of client.Applied.
type objectsAPI interface {
	Get(ctx context.Context, o nodebootstrap.Object) (map[string]any, error)
	Apply(ctx context.Context, o nodebootstrap.Object, force bool) error
	Delete(ctx context.Context, o nodebootstrap.Object, uid string) error
}

// applyObjects applies what differs, and returns the objects as they are then. What is missing then is applied once
// more: the Delete of a resource that was renamed without a moved block may have deleted what this Create had found as
// wanted. Once is enough: the Delete asks before each object whether a Create has begun.
func applyObjects(
	ctx context.Context, api objectsAPI, s nodebootstrap.Settings, current []existing,
) ([]existing, error) {
	for again := false; ; again = true {
		for _, e := range current {
			if err := applyObject(ctx, api, e); err != nil {
				return nil, err
			}
		}
		after, err := observeObjects(ctx, api, s)
		current = slices.DeleteFunc(slices.Clone(after), func(e existing) bool { return e.unwanted || e.current != nil })
		if err != nil || again || len(current) == 0 {
			return after, err
		}
	}
}
