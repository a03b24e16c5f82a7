package client

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
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

const (
	// bindingTimeout limits ensuring the bindings once the API server is ready.
	bindingTimeout  = 20 * time.Second
	bindingInterval = 150 * time.Millisecond
)

// bindings returns the bindings that the certificates issued by the provider require.
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

// KubeletBinding is the name of the binding that allows the API server to use the kubelet API.
const KubeletBinding = "kubeadm:apiserver-kubelet-client"

// kubeletBinding allows the API server to use the kubelet API, and nothing else. Every API
// server ensures the role; the binding is kubeadm's since 1.36
// (cmd/kubeadm/app/phases/bootstraptoken/node/tlsbootstrap.go, AllowAPIServerToAccessKubeletAPI).
func kubeletBinding() *rbac.ClusterRoleBinding {
	return &rbac.ClusterRoleBinding{
		ObjectMeta: meta.ObjectMeta{Name: KubeletBinding},
		RoleRef:    rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: "system:kubelet-api-admin"},
		Subjects:   []rbac.Subject{{APIGroup: rbac.GroupName, Kind: rbac.UserKind, Name: pki.KubeletClientUser}},
	}
}

// EnsureBindings ensures the bindings, and the Lease of the endpoint with the rights to it. Every replica does so,
// because no replica is special.
func (c Client) EnsureBindings(ctx context.Context) error {
	if !c.hasAdminCertificate() {
		return nil // the replica only returns to rotation: the bindings exist since its creation
	}
	config, done, err := c.admin()
	if err != nil {
		return fmt.Errorf("bind roles on %s: %w", c.replica.Machine(), err)
	}
	defer done()
	api, err := typedrbac.NewForConfigAndClient(config.rest, config.web)
	if err != nil {
		return fmt.Errorf("bind roles on %s: %w", c.replica.Machine(), err)
	}
	var last error
	err = wait.PollUntilContextTimeout(ctx, bindingInterval, bindingTimeout, true,
		func(ctx context.Context) (bool, error) {
			last = nil
			for _, binding := range bindings() {
				if last = ensureBinding(ctx, api.ClusterRoleBindings(), binding); last != nil {
					return false, nil
				}
			}
			last = config.ensureEndpointLease(ctx, c.replica.EndpointLease, c.replica.LeaseHolders)
			return last == nil, nil
		})
	if last != nil {
		err = last
	}
	if err != nil {
		return fmt.Errorf("bind roles on %s: %w", c.replica.Machine(), err)
	}
	return nil
}

// store is the client of one kind of objects.
type store[T any] interface {
	Get(ctx context.Context, name string, options meta.GetOptions) (T, error)
	Create(ctx context.Context, object T, options meta.CreateOptions) (T, error)
}

// ensure returns an object as it is stored, and creates it if it is missing. What exists is only read: a database
// without space refuses each creation, also one of an object that is there, and its repair restarts API servers.
func ensure[T meta.Object](ctx context.Context, api store[T], wanted T) (T, error) {
	stored, err := api.Get(ctx, wanted.GetName(), meta.GetOptions{})
	if apierrors.IsNotFound(err) {
		return api.Create(ctx, wanted, meta.CreateOptions{})
	}
	return stored, err
}

// ensureBinding creates a binding, or adds its subject to the existing one.
func ensureBinding(
	ctx context.Context, api typedrbac.ClusterRoleBindingInterface, binding *rbac.ClusterRoleBinding,
) error {
	existing, err := ensure(ctx, api, binding)
	if err != nil || slices.Contains(existing.Subjects, binding.Subjects[0]) {
		return err
	}
	existing.Subjects = append(existing.Subjects, binding.Subjects[0])
	_, err = api.Update(ctx, existing, meta.UpdateOptions{})
	return err
}
