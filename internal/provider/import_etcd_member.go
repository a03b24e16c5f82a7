package provider

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
)

func (r *etcdMemberResource) IdentitySchema(
	_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse,
) {
	resp.IdentitySchema = addressIdentity("IP address of the machine, at which the member's peers reach it.")
}

// ImportState reads the member from its target.
func (r *etcdMemberResource) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	target := r.machineFor(ctx, req, &resp.Diagnostics)
	if target == nil {
		return
	}
	ctx, cancel := operation(ctx, importTime, "kube_etcd_member", target.Address())
	defer cancel()
	observed, err := r.session.clusters.Import(ctx, target)
	if err != nil {
		addError(&resp.Diagnostics, path.Empty(), "etcd member not imported", err)
		return
	}
	if observed.Alone {
		resp.Diagnostics.AddWarning(fmt.Sprintf("Peers of etcd member %q not read", observed.Name),
			"Its cluster did not return its member list, so peers contains only this member, or those that kubeadm has "+
				"named in its manifest. A change of peers does not affect a machine.\nNext step: check in the plan that the "+
				"configuration lists all members. A member of kubeadm is asked by curl: if the machine has none, you can "+
				"also install it and import again.")
	}
	warnInherited(&resp.Diagnostics, "etcd member "+observed.Name, observed.Added)
	i := importer{ctx, resp}
	i.set("name", observed.Name)
	i.set("host.address", target.Address())
	i.set("peers", observed.Peers)
	i.set("version", observed.Version)
	if observed.Runtime == machine.StaticPod {
		i.set("runtime", string(observed.Runtime))
		if observed.Image != machine.DefaultImage(observed.Version) {
			i.set("image", observed.Image)
		}
		i.set("patch", stringOrNull(observed.Patch))
	}
	i.set("extra_args", observed.ExtraArgs)
	i.set("environment", observed.Environment)
	i.set("data_dir", observed.DataDir)
	i.setVolume(observed.Volume)
	i.set("upgrade_snapshots_kept", int64(observed.SnapshotsKept))
	i.set("archives_kept", int64(observed.ArchivesKept))
	i.setSnapshots(observed.Snapshots)
	i.set("liveness_probe", observed.LivenessProbe || observed.Runtime == machine.StaticPod)
	if observed.MetricsAddress != "" {
		i.set("metrics.address", observed.MetricsAddress)
	}
	if observed.TextfileDirectory != "" {
		i.set("metrics.textfile_directory", observed.TextfileDirectory)
	}
	i.set("early_renewal", durationText(observed.EarlyRenewal))
	i.set("resources", limitsOfMember(observed))
	i.set("on_destroy", string(machine.Archive))
	i.set("client_url", membership.ClientURL(target.Address()))
	i.set("peer_url", membership.PeerURL(target.Address()))
	i.keepCluster(observed.ClusterID)
	identify(ctx, resp.Identity, addressValue(target), &resp.Diagnostics)
}
