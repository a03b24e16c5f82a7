package provider

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/action/schema"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// etcdActionModel has the attributes of all actions on etcd.
type etcdActionModel struct {
	PKI   types.String `tfsdk:"pki"`
	Peers types.Map    `tfsdk:"peers"`
}

// specs returns the members as far as maintenance needs them, by name. If the key of the etcd CA is held elsewhere, the
// client certificate is the one that a machine has: an action has no argument for another one.
func (m etcdActionModel) specs(ctx context.Context, s *session, diags *diag.Diagnostics) map[string]etcd.Spec {
	bundle := s.mustBundle(m.PKI, diags)
	peers := stringMapOf(ctx, m.Peers, diags)
	if diags.HasError() {
		return nil
	}
	if len(peers) == 0 {
		refuseAction(diags, "peers", "there are no peers")
	}
	for name, address := range peers {
		if err := machine.ValidatePeers(name, address, peers); err != nil {
			refuseAction(diags, "peers", err.Error())
			return nil
		}
	}
	leaves := clientLeaves()
	s.installedOnAny(ctx, bundle, leaves, slices.Sorted(maps.Values(peers))).into(bundle, leaves, time.Now())
	specs := map[string]etcd.Spec{}
	for name, address := range peers {
		specs[name] = s.memberSpec(name, address, bundle, peers)
	}
	return specs
}

// memberSpec describes an existing member for changes that do not depend on its configuration.
func (s *session) memberSpec(name, address string, bundle *pki.Bundle, peers map[string]string) etcd.Spec {
	target := s.machine(address)
	return etcd.Spec{
		Spec:  machine.Spec{Name: name, Host: target, Bundle: bundle},
		Peers: s.machines(peers), Outage: s.outage(target, bundle),
	}
}

func refuseAction(diags *diag.Diagnostics, attribute, cause string) {
	addInvalid(diags, path.Root(attribute), "Action not possible",
		&problem.Problem{Summary: "Action not possible", Cause: cause, Unchanged: problem.Nothing})
}

const (
	defaultSnapshotLabel = "requested"
	snapshotAbout        = "Snapshots are saved and verified in `data_dir`-archive/requested on the member's machine, " +
		"where the newest ones are kept (`upgrade_snapshots_kept` of the member)."
)

func newSnapshotAction() action.Action {
	return &maintenanceAction{
		name: "etcd_snapshot",
		description: "Saves a snapshot of etcd now, and verifies it: its digest, then its structure. " + snapshotAbout +
			" Nothing else changes. OpenTofu and older versions of Terraform have `maintenance.snapshot` of " +
			"`kube_etcd_member` instead.",
		attributes: map[string]schema.Attribute{
			"pki": actionBundle(), "peers": actionPeers(),
			"member": schema.StringAttribute{
				Optional: true, MarkdownDescription: "Name of the member on whose machine the snapshot is saved. Default: " +
					"the first healthy one by name.",
			},
			"label": schema.StringAttribute{
				Optional: true, Validators: []validator.String{checked("label", snapshot.ValidateLabel)},
				MarkdownDescription: "Part of the file's name, after the time. Default `" + defaultSnapshotLabel + "`.",
			},
		},
		invoke: saveSnapshot,
	}
}

func saveSnapshot(ctx context.Context, s *session, config tfsdk.Config, diags *diag.Diagnostics) {
	var m struct {
		etcdActionModel
		Member types.String `tfsdk:"member"`
		Label  types.String `tfsdk:"label"`
	}
	diags.Append(config.Get(ctx, &m)...)
	if diags.HasError() {
		return
	}
	specs := m.specs(ctx, s, diags)
	if diags.HasError() {
		return
	}
	hosts := etcd.First(specs).Peers
	if name := m.Member.ValueString(); name != "" {
		if _, known := specs[name]; !known {
			refuseAction(diags, "member", "member "+problem.Quote(name)+" is not in peers")
			return
		}
		maps.DeleteFunc(hosts, func(other string, _ *host.Host) bool { return other != name })
	}
	label := cmp.Or(m.Label.ValueString(), defaultSnapshotLabel)
	if _, err := s.clusters.SaveNow(ctx, hosts, etcd.First(specs).Bundle, label); err != nil {
		addError(diags, path.Root("peers"), "etcd snapshot not saved", err)
	}
}

func newDefragmentAction() action.Action {
	return &maintenanceAction{
		name: "etcd_defragment",
		description: "Releases the free pages of etcd's databases, one member at a time and the leader last. Leadership " +
			"moves away from a member first, and a replica whose API server uses only that member leaves rotation, so " +
			"that no client depends on it. Writes may wait for seconds meanwhile. All members must be healthy. A member " +
			"whose free share is below the limit is skipped. OpenTofu and older versions of Terraform have " +
			"`maintenance.defragment` of `kube_etcd_member` instead.",
		attributes: map[string]schema.Attribute{
			"pki": actionBundle(), "peers": actionPeers(), "endpoint": actionEndpoint(),
			"additional_endpoints": actionAdditional(),
			"members": schema.SetAttribute{
				Optional: true, ElementType: types.StringType, Validators: []validator.Set{setvalidator.SizeAtLeast(1)},
				MarkdownDescription: "Names of the members to defragment. Default: all.",
			},
			"min_free_percent": schema.Int64Attribute{
				Optional: true, Validators: []validator.Int64{int64validator.Between(0, 99)},
				MarkdownDescription: minFreeAbout,
			},
			"force": schema.BoolAttribute{Optional: true, MarkdownDescription: forceAbout},
		},
		invoke: defragment,
	}
}

func defragment(ctx context.Context, s *session, config tfsdk.Config, diags *diag.Diagnostics) {
	var m struct {
		etcdActionModel
		hookedEndpoints
		Members types.Set   `tfsdk:"members"`
		MinFree types.Int64 `tfsdk:"min_free_percent"`
		Force   types.Bool  `tfsdk:"force"`
	}
	diags.Append(config.Get(ctx, &m)...)
	if diags.HasError() {
		return
	}
	specs, selected := m.specs(ctx, s, diags), stringsOf(ctx, m.Members, diags)
	if !m.Members.IsNull() && len(selected) == 0 {
		refuseAction(diags, "members", "it has no member: leave it out to defragment all")
	}
	for _, name := range selected {
		if _, known := specs[name]; !known {
			refuseAction(diags, "members", "member "+problem.Quote(name)+" is not in peers")
		}
	}
	if diags.HasError() {
		return
	}
	if len(selected) > 0 {
		maps.DeleteFunc(specs, func(name string, _ etcd.Spec) bool { return !slices.Contains(selected, name) })
	}
	s.knowHooks(ctx, m.hooked(), etcd.First(specs).Bundle, diags)
	s.defragmentAll(ctx, specs, defragmentation(m.MinFree, m.Force), diags)
}

// defragmentAll requests all members at once: they wait for each other, and the leader comes last.
func (s *session) defragmentAll(
	ctx context.Context, specs map[string]etcd.Spec, d membership.Defragmentation, diags *diag.Diagnostics,
) {
	var mu sync.Mutex
	var group sync.WaitGroup
	for _, spec := range specs {
		group.Go(func() {
			defer changing(spec)()
			if _, err := s.clusters.Defragment(ctx, spec, d); err != nil {
				mu.Lock()
				defer mu.Unlock()
				addError(diags, path.Root("peers"), "etcd member not defragmented", err)
			}
		})
	}
	group.Wait()
}

func newMoveLeaderAction() action.Action {
	return &maintenanceAction{
		name: "etcd_move_leader",
		description: "Moves the leadership of etcd to another member. Writes that are in progress may be repeated by " +
			"clients. OpenTofu and older versions of Terraform have `maintenance.move_leader` of `kube_etcd_member` " +
			"instead.",
		attributes: map[string]schema.Attribute{
			"pki": actionBundle(), "peers": actionPeers(),
			"to": schema.StringAttribute{
				Optional: true, MarkdownDescription: "Name of the member that leads then. If it leads already, nothing " +
					"happens. Default: the healthy voter that is furthest in the log, other than the leader.",
			},
		},
		invoke: moveLeader,
	}
}

func moveLeader(ctx context.Context, s *session, config tfsdk.Config, diags *diag.Diagnostics) {
	var m struct {
		etcdActionModel
		To types.String `tfsdk:"to"`
	}
	diags.Append(config.Get(ctx, &m)...)
	if diags.HasError() {
		return
	}
	specs := m.specs(ctx, s, diags)
	if diags.HasError() {
		return
	}
	if _, err := s.clusters.MoveLeader(ctx, etcd.First(specs), m.To.ValueString()); err != nil {
		addError(diags, path.Root("to"), "etcd leadership not moved", err)
	}
}
