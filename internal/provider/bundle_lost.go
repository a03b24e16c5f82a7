package provider

import (
	"context"
	"fmt"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// plannedBundles are the bundles that a plan creates and keeps. A bundle is planned before the resources that use it.
type plannedBundles struct {
	mu       sync.Mutex
	created  bool
	kept     map[string]tftypes.Value // their configuration, by cluster ID
	replaced map[string]bool          // by cluster ID
}

// keeps records that a plan keeps the bundle of a cluster, perhaps with changes.
func (p *plannedBundles) keeps(clusterID string, config tftypes.Value) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kept == nil {
		p.kept = map[string]tftypes.Value{}
	}
	p.kept[clusterID] = config
}

// creates records that a plan creates a bundle. To replace a bundle, Terraform first plans to keep it, and then to
// create one of the same configuration.
func (p *plannedBundles) creates(config tftypes.Value) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.created = true
	for id, of := range p.kept {
		if of.Equal(config) {
			if p.replaced == nil {
				p.replaced = map[string]bool{}
			}
			p.replaced[id] = true
		}
	}
}

// lost reports whether the plan creates a bundle, and replaces that of the cluster or does not have it.
func (p *plannedBundles) lost(clusterID string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, kept := p.kept[clusterID]
	return p.created && (!kept || p.replaced[clusterID])
}

// refuseLostBundle refuses a plan in which a resource of a cluster that exists gets a bundle which is not created yet.
// Its kube_pki_bundle is replaced, is not in the state, or has another address. Other keys than those of the cluster
// cannot manage it, and an apply would keep them in the state before it fails at each machine. before is the bundle in
// the state of the resource; it is null if the resource was imported, and private then has the cluster's ID.
func (s *session) refuseLostBundle(
	ctx context.Context, before, planned types.String, private privateState, diags *diag.Diagnostics,
) {
	if s == nil || !planned.IsUnknown() {
		return
	}
	var id, name string
	next := "import the kube_pki_bundle of the cluster, from the copy in this resource's state: write the value of pki, " +
		"which terraform state pull prints, to a file, and terraform import the kube_pki_bundle with the ID " +
		backupPrefix + "FILE"
	if prior := s.prior(before); prior != nil {
		id, name = prior.ClusterID, fmt.Sprintf("%q (%s)", prior.ClusterName, prior.ClusterID)
	} else if before.IsNull() {
		id = clusterImported(ctx, private, diags)
		name, next = id, "import the kube_pki_bundle of the cluster too, from one of its machines or from a backup"
	}
	if id == "" || !s.plannedBundles.lost(id) {
		return
	}
	diags.AddAttributeError(attributePath("pki"), "PKI bundle would be a new one", fmt.Sprintf(
		"Cause: this resource belongs to the cluster %s, and the plan creates another PKI bundle, with new keys and another "+
			"cluster ID. The kube_pki_bundle of the cluster is replaced, is not in the state, or is at another address in the "+
			"configuration.\nUnchanged: nothing was changed.\nNext step: if it is at another address, add a moved block. If it "+
			"is not in the state, %s. If the new bundle is another cluster's, create it with an apply of its own. To destroy "+
			"this cluster without its kube_pki_bundle, use terraform destroy -refresh=false.", name, next))
}
