package provider

import (
	"cmp"
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/volume"
)

// volumeSchema describes the disk that has a member's data and identity.
func volumeSchema() schema.Attribute {
	return schema.SingleNestedAttribute{
		Optional: true,
		MarkdownDescription: "A disk with the member's data and identity, which moves from machine to machine. With it, a " +
			"change of `host.address` does not replace the member: your own provider attaches the volume to the new machine, " +
			"and the member starts there with its data, ID and vote. `data_dir` must be on it. A blank device gets an ext4 " +
			"file system; an existing ext4 or XFS is used if it is empty or has this member; anything else is refused and " +
			"never changed. The file system grows with its device. etcd starts only with its volume mounted. A destroy " +
			"leaves the data on the volume. Default: none: the data is on the machine. A change of `mount_path`, or removing " +
			"it, replaces the member. See [Replace machines and disks](../guides/volumes.md).",
		Attributes: map[string]schema.Attribute{
			"device": schema.StringAttribute{
				Optional: true, Validators: []validator.String{checked("device", volume.ValidateDevice)},
				MarkdownDescription: "Absolute path of the device, such as `/dev/disk/by-id/scsi-0QEMU_etcd1`: a name that " +
					"other disks never get. Exactly one of `device` and `uuid`. Default: none. A change restarts nothing; the " +
					"volume at the new path must have this member.",
			},
			"uuid": schema.StringAttribute{
				Optional: true, Validators: []validator.String{checked("uuid", volume.ValidateUUID)},
				MarkdownDescription: "UUID of the volume's file system, which exists already, as `blkid` shows it. Exactly one " +
					"of `device` and `uuid`. Default: none. A change is treated as that of `device`.",
			},
			"mount_path": schema.StringAttribute{
				Required: true, Validators: []validator.String{checked("mount path", volume.ValidateMountPath)},
				PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
				MarkdownDescription: "Where the volume is mounted: a directory for it alone, such as `/var/lib/etcd-volume`. " +
					"A change replaces the member.",
			},
			"fenced": schema.BoolAttribute{
				Optional: true,
				MarkdownDescription: "Confirms that the previous machine can no longer write to the volume: the machine is " +
					"deleted or powered off, or the volume is detached from it. It is required only to take a volume from a " +
					"machine that does not answer. Two machines that write to one volume destroy its data. Default `false`. A " +
					"change affects nothing on the machine.",
			},
		},
	}
}

// archivedSchema describes a data directory that was moved aside.
func archivedSchema() schema.Attribute {
	return schema.StringAttribute{
		Optional: true,
		MarkdownDescription: "A directory on the machine that the member's data (`member`) was moved to by hand. If " +
			"`data_dir` has no data, the next apply moves it back, on the same file system, and the member goes on with " +
			"its ID and vote. Refused if the cluster has removed that member since, as a destroy does; if the data is of " +
			"another member or cluster, by its write-ahead log; or if the member last ran on another machine. It must be " +
			"the data as it was when the member stopped last: an older copy has forgotten what the member has " +
			"acknowledged, and nothing can tell. Not together with `restore`. Default: none. A change affects nothing on a " +
			"machine that has data. See [Replace machines and disks](../guides/volumes.md#data-that-was-moved-aside).",
	}
}

// volumeOf decodes the volume attribute. Null is nil.
func volumeOf(object types.Object) *volume.Spec {
	if object.IsNull() || object.IsUnknown() {
		return nil
	}
	text := func(name string) string {
		value, _ := object.Attributes()[name].(types.String)
		return value.ValueString()
	}
	fenced, _ := object.Attributes()["fenced"].(types.Bool)
	return &volume.Spec{
		Device: text("device"), UUID: text("uuid"), MountPath: text("mount_path"), Fenced: fenced.ValueBool(),
	}
}

// validateVolume checks the volume together with the data directory.
func (m etcdMemberModel) validateVolume(diags *diag.Diagnostics) {
	s := volumeOf(m.Volume)
	if s == nil || m.DataDir.IsUnknown() {
		return
	}
	for _, value := range m.Volume.Attributes() {
		if value.IsUnknown() {
			return
		}
	}
	if err := s.Validate(cmp.Or(m.DataDir.ValueString(), layout.DefaultDataDir)); err != nil {
		addInvalid(diags, path.Root("volume"), "Invalid volume", err)
	}
}

// validateArchived checks the archived data directory together with the data directory, and that only one of it and a
// restore says where the data comes from.
func (m etcdMemberModel) validateArchived(diags *diag.Diagnostics) {
	if m.Archived.IsNull() || m.Archived.IsUnknown() || m.DataDir.IsUnknown() {
		return
	}
	at := path.Root("archived_data_dir")
	if !m.Restore.IsNull() && !m.Restore.IsUnknown() {
		diags.AddAttributeError(at, "Archived data with a restore", "A restore makes a new cluster, in which no archived "+
			"data directory has a vote.\nNext step: omit archived_data_dir or restore.")
	}
	if err := machine.ValidateArchivedDataDir(m.Archived.ValueString(),
		cmp.Or(m.DataDir.ValueString(), layout.DefaultDataDir)); err != nil {
		addInvalid(diags, at, "Invalid archived data directory", err)
	}
}

// moves reports whether m is the member of before on another machine, with its volume.
func (m etcdMemberModel) moves(before etcdMemberModel) bool {
	return !m.Volume.IsNull() && !before.Volume.IsNull() && !addressOf(m.Host).Equal(addressOf(before.Host))
}

// replacedWithoutVolume replaces a member whose machine changes, unless its volume goes there too.
func replacedWithoutVolume() planmodifier.String {
	const description = "If the value of this attribute changes, Terraform will destroy and recreate the resource, " +
		"unless it has a volume in the state and in the configuration."
	return stringplanmodifier.RequiresReplaceIf(func(
		ctx context.Context, req planmodifier.StringRequest, resp *stringplanmodifier.RequiresReplaceIfFuncResponse,
	) {
		resp.RequiresReplace = !hasVolume(ctx, req.State, &resp.Diagnostics) || !hasVolume(ctx, req.Plan, &resp.Diagnostics)
	}, description, description)
}

// attributed is a state or a plan.
type attributed interface {
	GetAttribute(ctx context.Context, at path.Path, target any) diag.Diagnostics
}

var (
	_ attributed = tfsdk.State{}
	_ attributed = tfsdk.Plan{}
)

func hasVolume(ctx context.Context, in attributed, diags *diag.Diagnostics) bool {
	var object types.Object
	diags.Append(in.GetAttribute(ctx, path.Root("volume"), &object)...)
	return !object.IsNull()
}

// planVolume says what moves, and replaces a member whose volume is removed.
func (m etcdMemberModel) planVolume(before etcdMemberModel, resp *resource.ModifyPlanResponse) {
	if m.Volume.IsNull() && !before.Volume.IsNull() {
		resp.RequiresReplace = append(resp.RequiresReplace, path.Root("volume"))
	}
	if !m.moves(before) {
		return
	}
	to := addressOf(m.Host).ValueString()
	if to == "" {
		to = "a machine with an address that is not known yet"
	}
	from := addressOf(before.Host).ValueString()
	resp.Diagnostics.AddAttributeWarning(path.Root("host"), fmt.Sprintf("etcd member %q moves with its volume", m.name()),
		fmt.Sprintf("It moves from %s to %s with its data, ID and vote, and is not replaced. Until it serves there, the "+
			"cluster has one member less. If %s answers, the member is stopped and its volume is unmounted there first, while "+
			"the others keep quorum.\nThe volume must be attached to the new machine by then. If your provider detaches it "+
			"from a machine that runs, use two applies, because it must be unmounted before: first this member alone "+
			"(terraform apply -target=…), which releases the volume and ends with that message; then everything.\nIf %s does "+
			"not answer, volume.fenced = true must say that it can no longer write to the volume.", from, to, from, from))
}

// recordedVolume returns what of a volume concerns the machine.
func recordedVolume(object types.Object) *volume.Spec {
	s := volumeOf(object)
	if s != nil {
		s.Fenced = false
	}
	return s
}

// setVolume sets the volume of an imported member. Whether a machine was fenced is in the configuration only.
func (i importer) setVolume(s *volume.Spec) {
	if s == nil {
		return
	}
	i.set("volume.device", stringOrNull(s.Device))
	i.set("volume.uuid", stringOrNull(s.UUID))
	i.set("volume.mount_path", s.MountPath)
}
