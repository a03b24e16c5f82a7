package controlplane

import (
	"context"
	"fmt"
	"slices"
	"time"

	rbac "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	typedrbac "k8s.io/client-go/kubernetes/typed/rbac/v1"
)

// adminTimeout bounds the binding once the API server is ready.
const adminTimeout = 20 * time.Second

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
// is the first one.
func ensureAdmins(ctx context.Context, s Spec) error {
	if !s.mayAsk() {
		return nil // a replica that only comes back: the binding was made when it was created
	}
	config, done, err := masters(s)
	if err != nil {
		return fmt.Errorf("bind %s on %s: %w", AdminGroup, s.machine(), err)
	}
	defer done()
	api, err := typedrbac.NewForConfigAndClient(config.rest, config.web)
	if err != nil {
		return fmt.Errorf("bind %s on %s: %w", AdminGroup, s.machine(), err)
	}
	bindings := api.ClusterRoleBindings()
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
