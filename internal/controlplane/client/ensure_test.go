package client

import (
	"context"
	"errors"
	"testing"

	rbac "k8s.io/api/rbac/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"
)

// TestEnsureWithoutSpace: a database without space accepts no creation, not even one that would find the object.
// What exists as wanted is not written. client-go's fake clientset stands for the API server.
func TestEnsureWithoutSpace(t *testing.T) {
	const lease = "kube-vip-10.0.0.100"
	api := fake.NewClientset()
	leases := api.CoordinationV1().Leases(meta.NamespaceSystem)
	everything := func(ctx context.Context) error {
		var all []error
		for _, binding := range bindings() {
			all = append(all, ensureBinding(ctx, api.RbacV1().ClusterRoleBindings(), binding))
		}
		_, err := ensure(ctx, leases, endpointLease(lease))
		return errors.Join(append(all, err,
			ensureRole(ctx, api.RbacV1().Roles(meta.NamespaceSystem), leaseRole(lease, lease)),
			ensureRoleBinding(ctx, api.RbacV1().RoleBindings(meta.NamespaceSystem), leaseBinding(lease)))...)
	}
	if err := everything(t.Context()); err != nil {
		t.Fatal(err)
	}
	noSpace := errors.New("etcdserver: mvcc: database space exceeded")
	for _, verb := range []string{"create", "update", "delete"} {
		api.PrependReactor(verb, "*", func(kubetesting.Action) (bool, runtime.Object, error) { return true, nil, noSpace })
	}
	if err := everything(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestEnsureRepairs: what differs from what is wanted is written, and what somebody has added to a binding of
// administrators stays.
func TestEnsureRepairs(t *testing.T) {
	const lease = "kube-vip-10.0.0.100"
	role, wide := leaseRole(lease, lease), leaseRole(lease, lease)
	wide.Rules[0].Verbs = []string{"*"}
	other := adminBinding()
	other.Subjects = []rbac.Subject{{APIGroup: rbac.GroupName, Kind: rbac.GroupKind, Name: "operators"}}
	api := fake.NewClientset(wide, other)
	roles, admins := api.RbacV1().Roles(meta.NamespaceSystem), api.RbacV1().ClusterRoleBindings()
	err := errors.Join(ensureRole(t.Context(), roles, role), ensureBinding(t.Context(), admins, adminBinding()))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := roles.Get(t.Context(), role.Name, meta.GetOptions{}); err != nil || len(got.Rules[0].Verbs) != 2 {
		t.Errorf("the role is %+v, %v", got, err)
	}
	if got, err := admins.Get(t.Context(), other.Name, meta.GetOptions{}); err != nil || len(got.Subjects) != 2 {
		t.Errorf("the binding is %+v, %v", got, err)
	}
}
