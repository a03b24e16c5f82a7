package controlplane

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// TestCreateOrRevoke: a token is revoked if nobody knows whether it was created, and only then: one that an API server
// has refused because it exists is somebody else's. If it cannot be revoked, the error says how to do it.
func TestCreateOrRevoke(t *testing.T) {
	secrets := schema.GroupResource{Resource: "secrets"}
	broken := errors.New("unexpected EOF")
	for name, test := range map[string]struct {
		create   error
		revoke   []error // of each attempt
		attempts int
		named    bool
	}{
		"created":     {nil, nil, 0, false},
		"forbidden":   {apierrors.NewForbidden(secrets, "x", nil), nil, 0, false},
		"exists":      {apierrors.NewAlreadyExists(secrets, "x"), nil, 0, false},
		"throttled":   {apierrors.NewTooManyRequests("wait", 1), nil, 0, false},
		"broken":      {broken, []error{nil}, 1, false},
		"no leader":   {apierrors.NewInternalError(broken), []error{nil}, 1, false},
		"timeout":     {apierrors.NewTimeoutError("etcd", 1), []error{nil}, 1, false},
		"interrupted": {context.Canceled, []error{nil}, 1, false},
		"by another":  {broken, []error{broken, nil}, 2, false},
		"left":        {broken, []error{broken, errors.New("no API server is ready")}, 2, true},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		attempts := 0
		revoke := func(ctx context.Context) error {
			attempts++
			if _, limited := ctx.Deadline(); ctx.Err() != nil || !limited {
				t.Errorf("%s: the revocation has no time of its own", name)
			}
			return test.revoke[attempts-1]
		}
		err := createOrRevoke(ctx, "abcdef", func(context.Context) error {
			cancel()
			if test.create == nil {
				return nil
			}
			return fmt.Errorf("create Secret: %w", test.create)
		}, revoke, revoke)
		if !errors.Is(err, test.create) || attempts != test.attempts {
			t.Errorf("%s: %d attempts: %v", name, attempts, err)
		}
		var p *problem.Problem
		if named := errors.As(err, &p) && strings.Contains(p.Next, "kubeadm token delete abcdef"); named != test.named {
			t.Errorf("%s: %v", name, err)
		}
	}
}
