package provider

import (
	"context"
	"maps"
	"path"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	etcdclient "github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// TestActionOnEtcdWithAnExternalKey: an action, which has no argument signed, uses the client certificate that a member
// or a replica has on its machine, also while another machine hangs.
func TestActionOnEtcdWithAnExternalKey(t *testing.T) {
	here, external := bundles(t)
	for name, leaf := range map[string]pki.Leaf{
		"a member": pki.EtcdHealthcheckClient(), "a replica": pki.APIServerEtcdClient(),
	} {
		t.Run(name, func(t *testing.T) {
			fleet, machines, ssh := simulatedMachines(t)
			s := sessionOn(t, ssh)
			pair := signElsewhere(t, here, []pki.Leaf{leaf})[leaf.Name]
			at := path.Join(component.PKIDir, leaf.Name)
			if _, err := s.machine(machines["cp2"]).Apply(t.Context(), host.Change{Files: []host.File{
				{Path: at + ".crt", Content: []byte(pair.Certificate), Mode: 0o644},
				{Path: at + ".key", Content: []byte(pair.PrivateKey), Mode: 0o600},
			}}); err != nil {
				t.Fatal(err)
			}
			hangs(t, fleet, machines["cp1"])
			peers := map[string]attr.Value{}
			for name, address := range machines {
				peers[name] = types.StringValue(address)
			}
			m := etcdActionModel{PKI: bundleText(t, external), Peers: types.MapValueMust(types.StringType, peers)}
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			var diags diag.Diagnostics
			specs := m.specs(ctx, s, &diags)
			if diags.HasError() || !slices.Equal(slices.Sorted(maps.Keys(specs)), []string{"cp1", "cp2", "cp3"}) {
				t.Fatalf("%v: %s", specs, text(diags))
			}
			for member, spec := range specs {
				if _, err := etcdclient.TLS(spec.Bundle, time.Now); err != nil {
					t.Errorf("%s: %v", member, err)
				}
			}
		})
	}
}
