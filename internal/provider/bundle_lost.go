package provider

import (
	"fmt"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// plannedBundles are the bundles that a plan creates and changes. A bundle is planned before the resources that use it.
type plannedBundles struct {
	mu      sync.Mutex
	created map[string]bool // by cluster name
	changed map[string]bool // by cluster ID
}

// creates records that a plan creates a bundle. A name that is not known yet cannot be compared, and is not recorded.
func (p *plannedBundles) creates(clusterName types.String) {
	if clusterName.IsUnknown() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.created == nil {
		p.created = map[string]bool{}
	}
	p.created[clusterName.ValueString()] = true
}

// changes records that a plan changes the text of a bundle.
func (p *plannedBundles) changes(clusterID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.changed == nil {
		p.changed = map[string]bool{}
	}
	p.changed[clusterID] = true
}

// lost reports whether a new bundle takes the place of this one: the plan creates one of the same name, and changes
// this one nowhere.
func (p *plannedBundles) lost(b *pki.Bundle) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.created[b.ClusterName] && !p.changed[b.ClusterID]
}

// refuseLostBundle refuses a plan in which a resource of a cluster that exists gets a bundle which is not created yet.
// Its kube_pki_bundle is not in the state any more, is replaced, or has another address. Other keys than those of the
// cluster cannot manage it, and an apply would keep them in the state before it fails at each machine.
func (s *session) refuseLostBundle(before *pki.Bundle, planned types.String, diags *diag.Diagnostics) {
	if before == nil || !planned.IsUnknown() || !s.plannedBundles.lost(before) {
		return
	}
	diags.AddAttributeError(attributePath("pki"), "PKI bundle would be a new one", fmt.Sprintf(
		"Cause: this resource belongs to cluster %q (%s), and the plan creates another PKI bundle for it, with new keys "+
			"and another cluster ID. The kube_pki_bundle of the cluster is replaced, was removed from the state, or is at "+
			"another address in the configuration.\nUnchanged: nothing was changed.\nNext step: if it is at another address, "+
			"add a moved block. If it was removed from the state, import it from the copy in this resource's state: write "+
			"the value of pki, which terraform state pull prints, to a file, and terraform import the kube_pki_bundle with "+
			"the ID %sFILE. To create a cluster anew, destroy this one first.",
		before.ClusterName, before.ClusterID, backupPrefix))
}
