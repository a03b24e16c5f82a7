package client

import (
	"context"
	"reflect"

	coordination "k8s.io/api/coordination/v1"
	rbac "k8s.io/api/rbac/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcoordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	typedrbac "k8s.io/client-go/kubernetes/typed/rbac/v1"
)

// leaseMeta is the metadata of the Lease of an endpoint, of the role that permits to hold it, or of its binding.
func leaseMeta(name string) meta.ObjectMeta {
	return meta.ObjectMeta{
		Name: name, Namespace: meta.NamespaceSystem,
		Labels: map[string]string{"app.kubernetes.io/managed-by": "terraform-provider-kube"},
	}
}

// endpointLease is the Lease, which nobody holds yet.
func endpointLease(name string) *coordination.Lease {
	return &coordination.Lease{ObjectMeta: leaseMeta(name)}
}

// leaseRole permits what an elected leader needs, on one Lease. RBAC cannot limit a create to one name, so the
// Lease is created here.
func leaseRole(holders, lease string) *rbac.Role {
	return &rbac.Role{ObjectMeta: leaseMeta(holders), Rules: []rbac.PolicyRule{{
		APIGroups: []string{coordination.GroupName}, Resources: []string{"leases"}, ResourceNames: []string{lease},
		Verbs: []string{"get", "update"},
	}}}
}

// leaseBinding binds the role to the group of component.LeaseHolder.
func leaseBinding(holders string) *rbac.RoleBinding {
	return &rbac.RoleBinding{
		ObjectMeta: leaseMeta(holders),
		RoleRef:    rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "Role", Name: holders},
		Subjects:   []rbac.Subject{{APIGroup: rbac.GroupName, Kind: rbac.GroupKind, Name: holders}},
	}
}

// ensureEndpointLease ensures the Lease of an endpoint and the rights of its holders, and nothing if it has no
// name. A role or binding that somebody has widened is as wanted afterwards.
func (a adminAccess) ensureEndpointLease(ctx context.Context, name, holders string) error {
	if name == "" {
		return nil
	}
	roles, err := typedrbac.NewForConfigAndClient(a.rest, a.web)
	if err != nil {
		return err
	}
	leases, err := typedcoordination.NewForConfigAndClient(a.rest, a.web)
	if err != nil {
		return err
	}
	if err := ensureRole(ctx, roles.Roles(meta.NamespaceSystem), leaseRole(holders, name)); err != nil {
		return err
	}
	if err := ensureRoleBinding(ctx, roles.RoleBindings(meta.NamespaceSystem), leaseBinding(holders)); err != nil {
		return err
	}
	_, err = ensure(ctx, leases.Leases(meta.NamespaceSystem), endpointLease(name))
	return err
}

func ensureRole(ctx context.Context, api typedrbac.RoleInterface, role *rbac.Role) error {
	existing, err := ensure(ctx, api, role)
	if err != nil || reflect.DeepEqual(existing.Rules, role.Rules) {
		return err
	}
	existing.Rules = role.Rules
	_, err = api.Update(ctx, existing, meta.UpdateOptions{})
	return err
}

// ensureRoleBinding replaces a binding to another role, because the role of a binding cannot be changed.
func ensureRoleBinding(
	ctx context.Context, api typedrbac.RoleBindingInterface, binding *rbac.RoleBinding,
) error {
	existing, err := ensure(ctx, api, binding)
	switch {
	case err != nil:
		return err
	case existing.RoleRef != binding.RoleRef:
		if err := api.Delete(ctx, binding.Name, meta.DeleteOptions{}); err != nil {
			return err
		}
		_, err = api.Create(ctx, binding, meta.CreateOptions{})
		return err
	case reflect.DeepEqual(existing.Subjects, binding.Subjects):
		return nil
	}
	existing.Subjects = binding.Subjects
	_, err = api.Update(ctx, existing, meta.UpdateOptions{})
	return err
}
