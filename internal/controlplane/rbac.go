package controlplane

import (
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"time"

	rbac "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	typedrbac "k8s.io/client-go/kubernetes/typed/rbac/v1"
	"k8s.io/client-go/rest"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

const (
	// adminTimeout bounds the binding once the API server is ready.
	adminTimeout = 20 * time.Second
	// breakGlass is how long the certificate lives that creates the binding.
	breakGlass = 10 * time.Minute
)

// adminBinding is kubeadm's (cmd/kubeadm/app/phases/kubeconfig/kubeconfig.go,
// EnsureAdminClusterRoleBinding): without it admin.conf has no rights.
func adminBinding() *rbac.ClusterRoleBinding {
	return &rbac.ClusterRoleBinding{
		ObjectMeta: meta.ObjectMeta{Name: AdminGroup},
		RoleRef:    rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbac.Subject{adminSubject()},
	}
}

func adminSubject() rbac.Subject {
	return rbac.Subject{APIGroup: rbac.GroupName, Kind: rbac.GroupKind, Name: AdminGroup}
}

// ensureAdmins makes sure of the binding. Every replica does so, because none
// is the first one; it needs system:masters, the group above RBAC, whose
// certificate is issued for this call and lives in memory only.
func ensureAdmins(ctx context.Context, s Spec) error {
	bindings, done, err := bindingsClient(s)
	if err != nil {
		return fmt.Errorf("bind %s on %s: %w", AdminGroup, s.machine(), err)
	}
	defer done()
	var last error
	err = wait.PollUntilContextTimeout(ctx, askInterval, adminTimeout, true, func(ctx context.Context) (bool, error) {
		last = ensureBinding(ctx, bindings)
		return last == nil, nil
	})
	if last != nil {
		err = last
	}
	if err != nil {
		return fmt.Errorf("bind %s on %s: %w", AdminGroup, s.machine(), err)
	}
	return nil
}

func ensureBinding(ctx context.Context, bindings typedrbac.ClusterRoleBindingInterface) error {
	_, err := bindings.Create(ctx, adminBinding(), meta.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	existing, err := bindings.Get(ctx, AdminGroup, meta.GetOptions{})
	if err != nil || slices.Contains(existing.Subjects, adminSubject()) {
		return err
	}
	existing.Subjects = append(existing.Subjects, adminSubject())
	_, err = bindings.Update(ctx, existing, meta.UpdateOptions{})
	return err
}

// bindingsClient speaks to the replica's own API server through SSH.
func bindingsClient(s Spec) (client typedrbac.ClusterRoleBindingInterface, done func(), err error) {
	config, err := verifiedTLS(s.Bundle, s.Host.Address())
	if err != nil {
		return nil, nil, err
	}
	pair, err := s.Bundle.Issue(pki.User("terraform-provider-kube", "system:masters"), time.Now(), breakGlass)
	if err != nil {
		return nil, nil, err
	}
	certificate, err := tls.X509KeyPair([]byte(pair.Certificate), []byte(pair.PrivateKey))
	if err != nil {
		return nil, nil, fmt.Errorf("load client certificate: %w", err)
	}
	config.Certificates = []tls.Certificate{certificate}
	web := tunnel(s.Host, config)
	api, err := typedrbac.NewForConfigAndClient(&rest.Config{Host: s.localURL()}, web)
	if err != nil {
		return nil, nil, err
	}
	return api.ClusterRoleBindings(), web.CloseIdleConnections, nil
}
