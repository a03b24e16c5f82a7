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

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// bindingTimeout bounds the bindings once the API server is ready.
const bindingTimeout = 20 * time.Second

// bindings are those without which certificates that are issued here have no
// rights.
func bindings() []*rbac.ClusterRoleBinding {
	return []*rbac.ClusterRoleBinding{adminBinding(), kubeletBinding()}
}

// adminBinding is kubeadm's (cmd/kubeadm/app/phases/kubeconfig/kubeconfig.go,
// EnsureAdminClusterRoleBinding): without it admin.conf has no rights.
func adminBinding() *rbac.ClusterRoleBinding {
	return &rbac.ClusterRoleBinding{
		ObjectMeta: meta.ObjectMeta{Name: component.AdminGroup},
		RoleRef:    rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbac.Subject{{APIGroup: rbac.GroupName, Kind: rbac.GroupKind, Name: component.AdminGroup}},
	}
}

// kubeletBinding lets the API server use the API of kubelets, and nothing else.
// The role is one of those that every API server makes sure of; the binding has
// the name that it has in upstream's cluster/addons/rbac.
func kubeletBinding() *rbac.ClusterRoleBinding {
	return &rbac.ClusterRoleBinding{
		ObjectMeta: meta.ObjectMeta{Name: "kube-apiserver-kubelet-api-admin"},
		RoleRef:    rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: "system:kubelet-api-admin"},
		Subjects:   []rbac.Subject{{APIGroup: rbac.GroupName, Kind: rbac.UserKind, Name: pki.KubeletClientUser}},
	}
}

// bindFirst makes sure of the bindings before the API server gets another client
// certificate for kubelets: it shows that one within a minute, and what of its
// rights the older one had from elsewhere is then gone. An API server that does not
// serve shows kubelets nothing; its bindings come once it is ready.
func bindFirst(ctx context.Context, s Spec, d changes) error {
	if !d.writes(component.KubeletClientCert) {
		return nil
	}
	for _, c := range component.Of(s.Replica) {
		if c.Name == release.APIServer && askOnce(ctx, s, c) == healthy {
			return ensureBindings(ctx, s)
		}
	}
	return nil
}

// ensureBindings makes sure of the bindings. Every replica does so, because none
// is the first one.
func ensureBindings(ctx context.Context, s Spec) error {
	if !s.hasAdminCertificate() {
		return nil // a replica that only comes back: the bindings were made when it was created
	}
	config, done, err := adminClient(s)
	if err != nil {
		return fmt.Errorf("bind roles on %s: %w", s.Machine(), err)
	}
	defer done()
	api, err := typedrbac.NewForConfigAndClient(config.rest, config.web)
	if err != nil {
		return fmt.Errorf("bind roles on %s: %w", s.Machine(), err)
	}
	var last error
	err = wait.PollUntilContextTimeout(ctx, askInterval, bindingTimeout, true, func(ctx context.Context) (bool, error) {
		last = nil
		for _, binding := range bindings() {
			if last = ensureBinding(ctx, api.ClusterRoleBindings(), binding); last != nil {
				return false, nil
			}
		}
		return true, nil
	})
	if last != nil {
		err = last
	}
	if err != nil {
		return fmt.Errorf("bind roles on %s: %w", s.Machine(), err)
	}
	return nil
}

// ensureBinding makes a binding, or adds its subject to the one that is there.
func ensureBinding(ctx context.Context, api typedrbac.ClusterRoleBindingInterface, binding *rbac.ClusterRoleBinding) error {
	_, err := api.Create(ctx, binding, meta.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	existing, err := api.Get(ctx, binding.Name, meta.GetOptions{})
	if err != nil || slices.Contains(existing.Subjects, binding.Subjects[0]) {
		return err
	}
	existing.Subjects = append(existing.Subjects, binding.Subjects[0])
	_, err = api.Update(ctx, existing, meta.UpdateOptions{})
	return err
}
