package controlplane

import (
	"context"
	"errors"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/nodebootstrap"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// CreateToken creates a new bootstrap token, which is valid until expires; zero means for ever. If it fails, no
// token is left, or the error names it.
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
	return token, createOrRevoke(ctx, token.ID,
		func(ctx context.Context) error { return api.Create(ctx, token.Object(expires, description)) },
		func(ctx context.Context) error { return api.Delete(ctx, nodebootstrap.TokenObject(token.ID), "") },
		func(ctx context.Context) error { return r.RevokeToken(ctx, b, registrar, token.ID) }, // by any API server
	)
}

// revocationTime limits each attempt to revoke a token of which nobody knows whether it was created.
const revocationTime = 10 * time.Second

// createOrRevoke creates a token. If the end of that is unknown, because the connection broke, the time was over or the
// user has interrupted the run, it tries the revocations in their order: nobody else would know of the token, which
// would be valid until it expires.
func createOrRevoke(
	ctx context.Context, id string, create func(context.Context) error, revocations ...func(context.Context) error,
) error {
	err := create(ctx)
	if err == nil || refusedByAPI(err) {
		return err
	}
	var failed []string
	for _, revoke := range revocations {
		again := within(context.WithoutCancel(ctx), revocationTime, revoke)
		if again == nil {
			return err
		}
		failed = append(failed, again.Error())
	}
	return &problem.Problem{
		Summary: "Bootstrap token may exist",
		Cause: "it is unknown whether bootstrap token " + id + " was created: " + err.Error() +
			". It could not be revoked: " + strings.Join(failed, "; "),
		Unchanged: "everything but bootstrap token " + id + ", which may exist and is then valid until it expires.",
		Next:      "run kubeadm token delete " + id + " when an API server answers, then apply again.", Err: err,
	}
}

func within(ctx context.Context, limit time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return do(ctx)
}

// refusedByAPI reports whether an API server has answered that it does not do what was asked. With other answers, such
// as that etcd did not answer in time, it may have done so.
func refusedByAPI(err error) bool {
	var answer apierrors.APIStatus
	return errors.As(err, &answer) && answer.Status().Code >= 400 && answer.Status().Code < 500
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
