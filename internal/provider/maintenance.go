package provider

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// The argument maintenance is what the actions do, for every CLI: a new value requests it once, in
// the update that changes the value. It is not recorded on the machine. An update that fails leaves
// the former value in the state, so the next apply does it again.

var (
	minFreeAbout = fmt.Sprintf("Share of the database, in percent (0–99), that must be free pages: a member with less is "+
		"skipped. Default `%d`, as in etcd's own alert.", membership.DefaultMinFree)
	forceAbout = "Whether members are defragmented whatever their free share is, and although clients notice it, " +
		"because the cluster has one or two voters. Default `false`."
	holdAbout = fmt.Sprintf("How long the replica stays out of rotation, such as `10m`: from %s to %s.",
		controlplane.ShortestHold, durationText(controlplane.LongestHold).ValueString())
)

// requestAbout describes a key whose new value requests something.
const requestAbout = " Any text of up to 200 characters, such as a date or a ticket. A change to another text " +
	"requests it once, in that apply; removing the text does nothing. Default: none."

func requestSchema(what string) schema.StringAttribute {
	return schema.StringAttribute{
		Optional: true, Validators: []validator.String{stringvalidator.LengthBetween(1, 200)},
		MarkdownDescription: what + requestAbout,
	}
}

func memberMaintenanceSchema() schema.Attribute {
	return schema.SingleNestedAttribute{
		Optional: true,
		MarkdownDescription: "Maintenance on request, for OpenTofu and versions of Terraform without actions (before " +
			"1.14): the same as the actions `kube_etcd_snapshot`, `kube_etcd_defragment` and `kube_etcd_move_leader`, in " +
			"this order, after all other changes of the update. A new member needs none: when it is created, nothing is " +
			"done. After an import, the first values request it. Default: none.",
		Attributes: map[string]schema.Attribute{
			"snapshot": requestSchema("Saves a verified snapshot on the machine, in `data_dir`-archive/requested."),
			"defragment": requestSchema("Releases the free pages of the database, one member at a time and the leader last. " +
				"A replica whose API server uses only this member leaves rotation meanwhile."),
			"min_free_percent": schema.Int64Attribute{
				Optional: true, Validators: []validator.Int64{int64validator.Between(0, 99)},
				MarkdownDescription: minFreeAbout + " A change does nothing by itself.",
			},
			"force": schema.BoolAttribute{
				Optional: true, MarkdownDescription: forceAbout + " A change does nothing by itself.",
			},
			"move_leader": requestSchema("Moves the leadership of etcd to this member."),
		},
	}
}

func replicaMaintenanceSchema() schema.Attribute {
	return schema.SingleNestedAttribute{
		Optional: true,
		MarkdownDescription: "Maintenance on request, for OpenTofu and versions of Terraform without actions (before " +
			"1.14): the same as the action `kube_control_plane_drain`, after all other changes of the update. When the " +
			"replica is created, nothing is done. After an import, the first value requests it. Default: none.",
		Attributes: map[string]schema.Attribute{
			"drain": requestSchema("Takes the replica out of rotation for `hold`. " + drainAbout),
			"hold": schema.StringAttribute{
				Optional:   true,
				Validators: []validator.String{durationValidator(), holdValidator()},
				MarkdownDescription: holdAbout + " Default `" + durationText(defaultHold).ValueString() +
					"`. A change does nothing by itself.",
			},
		},
	}
}

const defaultHold = 5 * time.Minute

func holdValidator() validator.String {
	return checked("hold", func(text string) error {
		d, err := time.ParseDuration(text)
		if err == nil && (d < controlplane.ShortestHold || d > controlplane.LongestHold) {
			return fmt.Errorf("%s is not between %s and %s", text, controlplane.ShortestHold, controlplane.LongestHold)
		}
		return nil // durationValidator reports err
	})
}

// requested reports whether an update requests one kind of maintenance: its value is new.
func requested(before, after types.Object, name string) bool {
	was, _ := before.Attributes()[name].(types.String)
	is, _ := after.Attributes()[name].(types.String)
	return is.ValueString() != "" && is.ValueString() != was.ValueString()
}

func defragmentation(minFree types.Int64, force types.Bool) membership.Defragmentation {
	d := membership.Defragmentation{MinFree: membership.DefaultMinFree, Force: force.ValueBool()}
	if !minFree.IsNull() {
		d.MinFree = int(minFree.ValueInt64())
	}
	return d
}

// maintainer is a domain whose updates do maintenance on request.
type maintainer[M, S any] interface {
	maintain(ctx context.Context, before, after M, s S) error
	requested(before, after M) bool
}

func (r *etcdMemberResource) requested(before, after etcdMemberModel) bool {
	for _, name := range []string{"snapshot", "defragment", "move_leader"} {
		if requested(before.Maintenance, after.Maintenance, name) {
			return true
		}
	}
	return false
}

func (r *etcdMemberResource) maintain(ctx context.Context, before, after etcdMemberModel, s etcd.Spec) error {
	asked := func(name string) bool { return requested(before.Maintenance, after.Maintenance, name) }
	if asked("snapshot") {
		only := map[string]*host.Host{s.Name: s.Host}
		if _, err := r.session.clusters.SaveNow(ctx, only, s.Bundle, defaultSnapshotLabel); err != nil {
			return err
		}
	}
	if asked("defragment") {
		minFree, _ := after.Maintenance.Attributes()["min_free_percent"].(basetypes.Int64Value)
		force, _ := after.Maintenance.Attributes()["force"].(basetypes.BoolValue)
		defer changing(s)()
		if _, err := r.session.clusters.Defragment(ctx, s, defragmentation(minFree, force)); err != nil {
			return err
		}
	}
	if asked("move_leader") {
		_, err := r.session.clusters.MoveLeader(ctx, s, s.Name)
		return err
	}
	return nil
}

func (r *replicaResource) requested(before, after replicaModel) bool {
	return requested(before.Maintenance, after.Maintenance, "drain")
}

func (r *replicaResource) maintain(ctx context.Context, _, after replicaModel, s controlplane.Spec) error {
	text, _ := after.Maintenance.Attributes()["hold"].(types.String)
	hold := defaultHold
	if !text.IsNull() {
		var err error
		if hold, err = parseDuration(text); err != nil {
			return err
		}
	}
	return r.session.hold(ctx, s.Host, s.Bundle, hold)
}

// maintain does the maintenance that an update requests.
func (r *machineResource[M, P, S, T]) maintain(
	ctx context.Context, before, after M, spec S, diags *diag.Diagnostics,
) {
	domain, ok := r.domain.(maintainer[M, S])
	if !ok || !domain.requested(before, after) {
		return
	}
	ctx, cancel := operation(ctx, actionTime, r.kind, P(&after).name())
	defer cancel()
	r.session.begin()
	if err := domain.maintain(ctx, before, after, spec); err != nil {
		addError(diags, path.Root("maintenance"), "Maintenance of "+P(&after).label()+" not done", err)
	}
}
