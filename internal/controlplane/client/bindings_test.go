package client

import (
	"slices"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// TestBindings: every certificate issued here has rights through one of the bindings, and the
// key for kubelets has only the rights for kubelets.
func TestBindings(t *testing.T) {
	roles := map[string]string{}
	for _, binding := range bindings() {
		for _, subject := range binding.Subjects {
			roles[subject.Kind+" "+subject.Name] = binding.RoleRef.Name
		}
	}
	kubelet := pki.APIServerKubeletClient()
	if roles["User "+kubelet.CommonName] != "system:kubelet-api-admin" || len(kubelet.Organizations) > 0 {
		t.Errorf("the kubelet client is %+v, bound to %q", kubelet, roles)
	}
	if roles["Group "+component.AdminGroup] != "cluster-admin" ||
		!slices.Equal(component.Admin().Organizations, []string{component.AdminGroup}) {
		t.Errorf("the administrators are %+v, bound to %q", component.Admin(), roles)
	}
}
