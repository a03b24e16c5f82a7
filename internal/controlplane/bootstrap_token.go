package controlplane

import (
	"context"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/nodebootstrap"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// CreateToken creates a new bootstrap token, which is valid until expires; zero means for ever.
func (r *Replicas) CreateToken(
	ctx context.Context, b *pki.Bundle, registrar Registrar, expires time.Time, description string,
) (nodebootstrap.Token, error) {
	api, err := r.api(ctx, b, registrar)
	if err != nil {
		return nodebootstrap.Token{}, untouched(err)
	}
	defer api.Close()
	token, err := nodebootstrap.NewToken()
	if err != nil {
		return nodebootstrap.Token{}, untouched(err)
	}
	problem.Progress(ctx, "creating %s", token)
	return token, api.Create(ctx, token.Object(expires, description))
}

// TokenExists reports whether a bootstrap token still exists.
func (r *Replicas) TokenExists(ctx context.Context, b *pki.Bundle, registrar Registrar, id string) (bool, error) {
	api, err := r.api(ctx, b, registrar)
	if err != nil {
		return false, err
	}
	defer api.Close()
	current, err := api.Get(ctx, nodebootstrap.TokenObject(id))
	return current != nil, err
}

// RevokeToken deletes a bootstrap token. Workers that have joined with it stay.
func (r *Replicas) RevokeToken(ctx context.Context, b *pki.Bundle, registrar Registrar, id string) error {
	api, err := r.api(ctx, b, registrar)
	if err != nil {
		return err
	}
	defer api.Close()
	problem.Progress(ctx, "revoking bootstrap token %s", id)
	return api.Delete(ctx, nodebootstrap.TokenObject(id), "")
}
