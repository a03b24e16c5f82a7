package provider

import (
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
)

// snapshotsSchema describes the scheduled snapshots.
func snapshotsSchema() schema.Attribute {
	return schema.SingleNestedAttribute{
		Optional: true,
		MarkdownDescription: "Scheduled snapshots by a systemd timer on the machine (`etcd-snapshot.timer`). Use " +
			"the same settings for every member: at each scheduled time, the machine of the leader saves one, " +
			"verifies it, and keeps it in `data_dir`-archive/scheduled, which a destroy does not remove. Default: " +
			"none; no units are created. A change restarts nothing. See [Scheduled " +
			"snapshots](../guides/scaling-and-repair.md#scheduled-snapshots).",
		Attributes: map[string]schema.Attribute{
			"schedule": schema.StringAttribute{
				Optional: true, Computed: true, Default: stringdefault.StaticString(snapshot.DefaultSchedule),
				Validators: []validator.String{checked("schedule", snapshot.ValidateSchedule)},
				MarkdownDescription: "Schedule, as a [calendar expression of " +
					"systemd](https://www.freedesktop.org/software/systemd/man/latest/systemd.time.html#Calendar%20Events), " +
					"such as `daily`, `*-*-* 00/6:00` or `Mon..Fri 02:30 Europe/Berlin`. A run that was missed " +
					"while the machine was off is done when it is back. Default `" + snapshot.DefaultSchedule + "`.",
			},
			"kept": schema.Int64Attribute{
				Optional: true, Computed: true, Default: int64default.StaticInt64(snapshot.DefaultScheduledKept),
				Validators: []validator.Int64{int64validator.Between(1, 1000)},
				MarkdownDescription: fmt.Sprintf("Number of snapshots kept on each machine, 1–1000. The oldest are "+
					"removed first; with `upload`, uploaded ones are removed before others. If more than this "+
					"number could not be uploaded, the oldest are removed and the run fails. Each uses as much "+
					"space as the database. Default `%d`.", snapshot.DefaultScheduledKept),
			},
			"upload": schema.StringAttribute{
				Optional: true, Validators: []validator.String{checked("upload command", snapshot.ValidateUpload)},
				MarkdownDescription: "Commands that upload a snapshot. They run on the machine with `/bin/sh -eu` " +
					"as root, for at most 45 minutes including the snapshot. Their environment has `SNAPSHOT` (the " +
					"file's path), `SNAPSHOT_NAME` (the file's unique name), `CLUSTER`, `MEMBER` (the member on the machine " +
					"that saved it) and the variables of `environment_file`. If they fail, the service fails, and " +
					"the next run tries again, newest first. They are stored in the state and in plans: put " +
					"secrets into `environment_file`. Conflicts with `s3`. Default: none; snapshots stay on the machines.",
			},
			"s3": storeSchema(),
			"environment_file": schema.StringAttribute{
				Optional: true, Validators: []validator.String{checked("environment file", snapshot.ValidateEnvironmentFile)},
				MarkdownDescription: "Absolute path of a file on each machine with lines `NAME=value`, such as " +
					"the credentials of `upload`, or `HTTPS_PROXY` for `s3`. systemd reads it when a run starts; Terraform never " +
					"reads it. It must exist before the apply. Default: none.",
			},
		},
	}
}

// snapshotsOf decodes the snapshots attribute. Null is nil.
func snapshotsOf(object types.Object) *snapshot.Settings {
	if object.IsNull() || object.IsUnknown() {
		return nil
	}
	text := func(name string) string {
		value, _ := object.Attributes()[name].(types.String)
		return value.ValueString()
	}
	kept, _ := object.Attributes()["kept"].(types.Int64)
	return &snapshot.Settings{
		Schedule: text("schedule"), Kept: int(kept.ValueInt64()), Upload: text("upload"),
		EnvironmentFile: text("environment_file"), S3: storeOf(object.Attributes()["s3"]),
	}
}

// setSnapshots writes the snapshot settings that an import has read to the state.
func (i importer) setSnapshots(observed *snapshot.Settings) {
	if observed == nil {
		return
	}
	i.set("snapshots.schedule", observed.Schedule)
	i.set("snapshots.kept", int64(observed.Kept))
	if observed.Upload != "" {
		i.set("snapshots.upload", observed.Upload)
	}
	if observed.EnvironmentFile != "" {
		i.set("snapshots.environment_file", observed.EnvironmentFile)
	}
	i.setStore(observed.S3)
}
