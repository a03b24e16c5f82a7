package client

import (
	"slices"
	"testing"

	rbac "k8s.io/api/rbac/v1"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
)

// TestLeaseRole: the group in the certificate of kube-vip may read and update one Lease, and nothing else.
func TestLeaseRole(t *testing.T) {
	const name = "kube-vip-10.0.0.100"
	const lease = "plndr-cp-lock"
	role, binding := leaseRole(name, lease), leaseBinding(name)
	if len(role.Rules) != 1 {
		t.Fatalf("the rules are %+v", role.Rules)
	}
	rule := role.Rules[0]
	if !slices.Equal(rule.Verbs, []string{"get", "update"}) || !slices.Equal(rule.Resources, []string{"leases"}) ||
		!slices.Equal(rule.ResourceNames, []string{lease}) || !slices.Equal(rule.APIGroups, []string{"coordination.k8s.io"}) {
		t.Errorf("the rule is %+v", rule)
	}
	groups := component.LeaseHolder("cp1", name).Organizations
	if len(groups) != 1 || len(binding.Subjects) != 1 || binding.Subjects[0].Kind != rbac.GroupKind ||
		binding.Subjects[0].Name != groups[0] {
		t.Errorf("the binding is to %+v, and the groups are %q", binding.Subjects, groups)
	}
	if binding.RoleRef.Kind != "Role" || binding.RoleRef.Name != role.Name || binding.Namespace != role.Namespace ||
		role.Namespace != "kube-system" {
		t.Errorf("%+v is not bound by %+v", role, binding)
	}
}
