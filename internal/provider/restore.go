package provider

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
)

// restoreSources are the arguments of which a restore has exactly one.
var restoreSources = []string{"member", "snapshot", "file", "bucket", "fetch"}

// restoreSchema describes the restore of a cluster without quorum.
func restoreSchema() schema.Attribute {
	return schema.SingleNestedAttribute{
		Optional: true,
		MarkdownDescription: "Restores a cluster that has lost its quorum or all of its data, once for each `id`: from a " +
			"survivor (`member`) or from a snapshot (`snapshot`, `file`, `bucket` or `fetch`, exactly one). Use the same " +
			"settings for every member and apply all members together. The plan warns of what is lost. A cluster that serves " +
			"is never restored, and every machine of `peers` must be reachable or listed in the provider's " +
			"`abandon_unreachable_hosts`. The source is verified before anything changes: its hash and structure, that " +
			"this version of etcd serves it, and that the bundle's keys decrypt its Secrets and ConfigMaps. Then the API " +
			"servers on the members' machines stop, all members' data is archived, one member starts with the restored data " +
			"as a new cluster, and the others join it. An interrupted restore continues with the next apply. Default: none. A " +
			"change of `id` on a cluster that serves is refused; removing it changes nothing. See [When everything is " +
			"lost](../guides/restore.md).",
		Attributes: map[string]schema.Attribute{
			"id": schema.StringAttribute{
				Required: true, Validators: []validator.String{checked("restore id", machine.ValidateRestoreID)},
				MarkdownDescription: "Name of this restore, such as the day. It is recorded on the machines, so that the same " +
					"configuration restores once. A machine that joins later just joins.",
			},
			"member": schema.StringAttribute{
				Optional: true, Validators: []validator.String{checked("member name", machine.ValidateName)},
				MarkdownDescription: "Name of the survivor whose data is used. Nothing that it knows to be committed is lost. " +
					"The freshest one is required, unless `accept_older` is set. Default: none.",
			},
			"snapshot": schema.StringAttribute{
				Optional: true, Validators: []validator.String{checked("snapshot", validateMachinePath)},
				MarkdownDescription: "Absolute path of a snapshot on the machine of a member. Default: none.",
			},
			"file": schema.StringAttribute{
				Optional: true, Validators: []validator.String{stringvalidator.LengthAtLeast(1)},
				MarkdownDescription: "Path of a snapshot on the computer that runs Terraform. Default: none.",
			},
			"bucket": schema.StringAttribute{
				Optional: true, Validators: []validator.String{checked("snapshot in the bucket", validateStored)},
				MarkdownDescription: "Snapshot in the bucket of `snapshots.s3`: `newest` for the newest verified one, or a name " +
					"as `kube-snapshot-store list` shows it. `newest` is refused if that one is much smaller than the newest one " +
					"of the etcd cluster before. The machine of one member fetches it, with the variables of " +
					"`snapshots.environment_file`. Default: none.",
			},
			"identity_file": schema.StringAttribute{
				Optional: true, Validators: []validator.String{checked("identity file", validateIdentityFile)},
				MarkdownDescription: "Path of a file with an age identity, on the computer that runs Terraform, for `bucket` " +
					"with encrypted snapshots (`snapshots.s3.recipients`). The machine gets it as the input of a program: it is " +
					"in no file there, and in no state or plan. Default: none.",
			},
			"fetch": schema.StringAttribute{
				Optional: true, Validators: []validator.String{checked("fetch command", validateFetch)},
				MarkdownDescription: "Commands that fetch a snapshot to the path in their variable `SNAPSHOT`. They run on the " +
					"machine of one member with `/bin/sh -eu` as root, for at most an hour, with the variables of " +
					"`environment_file`. They are stored in the state and in plans: put secrets into `environment_file`. " +
					"Default: none.",
			},
			"environment_file": schema.StringAttribute{
				Optional: true, Validators: []validator.String{checked("environment file", snapshot.ValidateEnvironmentFile)},
				MarkdownDescription: "Absolute path of a file on the machine with lines `NAME=value` for `fetch`. Default: none.",
			},
			"revision_bump": schema.Int64Attribute{
				Optional: true, Validators: []validator.Int64{int64validator.Between(0, 1<<53)},
				MarkdownDescription: "How far the restore raises etcd's revision, so that clients do not treat restored objects " +
					"as older than those they have seen: watches end, and clients list again. `0` lets the revision go back, and " +
					"clients may keep deleted objects for hours. Default: until the revision exceeds the milliseconds since 1970, " +
					"so that it exceeds every earlier restore; by 1000000000 if it already does.",
			},
			"accept_older": schema.BoolAttribute{
				Optional:            true,
				MarkdownDescription: "Use `member` although another survivor knows more. Default `false`.",
			},
			"accept_other_ca": schema.BoolAttribute{
				Optional: true,
				MarkdownDescription: "Use data of a cluster whose root certificate is not in the bundle, for example from before " +
					"a rotation of the Kubernetes CA. Default `false`.",
			},
		},
	}
}

// validateMachinePath accepts an absolute path on a machine.
func validateMachinePath(file string) error {
	if !strings.HasPrefix(file, "/") || !layout.PlainPath.MatchString(file) {
		return fmt.Errorf("%q is not an absolute path of letters, digits and . _ - /", file)
	}
	return nil
}

func validateFetch(commands string) error {
	if err := snapshot.ValidateUpload(commands); err != nil {
		return fmt.Errorf("%s", strings.ReplaceAll(err.Error(), "upload command", "fetch command"))
	}
	return nil
}

// validateStored accepts what names a snapshot in a bucket.
func validateStored(name string) error {
	if name == machine.NewestInBucket {
		return nil
	}
	_, err := snapshot.StoredAt(name)
	return err
}

// validateRestore checks that a restore has exactly one source, and a bucket if it needs one. snapshots are the
// scheduled ones.
func validateRestore(object, snapshots types.Object, diags *diag.Diagnostics) {
	if object.IsNull() || object.IsUnknown() {
		return
	}
	sources := 0
	for _, name := range restoreSources {
		switch value := object.Attributes()[name]; {
		case value.IsUnknown():
			return
		case !value.IsNull():
			sources++
		}
	}
	at := path.Root("restore")
	if sources != 1 {
		addInvalid(diags, at, "Invalid restore", fmt.Errorf("it has %d sources: set exactly one of %s", sources,
			strings.Join(restoreSources, ", ")))
	}
	attributes := object.Attributes()
	if !attributes["environment_file"].IsNull() && attributes["fetch"].IsNull() {
		addInvalid(diags, at.AtName("environment_file"), "Invalid restore", fmt.Errorf("environment_file is for fetch "+
			"only: a snapshot in the bucket is fetched with snapshots.environment_file"))
	}
	if !attributes["identity_file"].IsNull() && attributes["bucket"].IsNull() {
		addInvalid(diags, at.AtName("identity_file"), "Invalid restore", fmt.Errorf("identity_file is for bucket only"))
	}
	if bucket := snapshots.Attributes()["s3"]; !attributes["bucket"].IsNull() && !snapshots.IsUnknown() &&
		(snapshots.IsNull() || bucket.IsNull()) {
		addInvalid(diags, at.AtName("bucket"), "Invalid restore",
			fmt.Errorf("the member has no bucket: set snapshots.s3, or use another source"))
	}
	if !attributes["accept_older"].IsNull() && attributes["member"].IsNull() {
		addInvalid(diags, at.AtName("accept_older"), "Invalid restore", fmt.Errorf("accept_older is for member only"))
	}
}

// restoreOf decodes the restore attribute. Null is nil.
func restoreOf(object types.Object) *machine.Restore {
	if object.IsNull() || object.IsUnknown() {
		return nil
	}
	text := func(name string) string {
		value, _ := object.Attributes()[name].(types.String)
		return value.ValueString()
	}
	accepts := func(name string) bool {
		value, _ := object.Attributes()[name].(types.Bool)
		return value.ValueBool()
	}
	r := &machine.Restore{
		ID: text("id"), Member: text("member"), Snapshot: text("snapshot"), File: text("file"), Fetch: text("fetch"),
		Bucket: text("bucket"), IdentityFile: text("identity_file"), EnvironmentFile: text("environment_file"),
		Bump: machine.BumpAutomatically, AcceptOlder: accepts("accept_older"), AcceptOtherCA: accepts("accept_other_ca"),
	}
	if bump, ok := object.Attributes()["revision_bump"].(types.Int64); ok && !bump.IsNull() && !bump.IsUnknown() {
		r.Bump = bump.ValueInt64()
	}
	return r
}

// restoreID returns the id of a restore; null if there is none.
func restoreID(object types.Object) types.String {
	if object.IsUnknown() {
		return types.StringUnknown()
	}
	if id, ok := object.Attributes()["id"].(types.String); ok {
		return id
	}
	return types.StringNull()
}

// restores remembers the restores that a run has warned of: each concerns all members.
type restores struct {
	mu   sync.Mutex
	seen map[string]bool // by cluster and restore ID, which is "" for a cluster that has lost its quorum
}

func (r *restores) first(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen == nil {
		r.seen = map[string]bool{}
	}
	before := r.seen[key]
	r.seen[key] = true
	return !before
}

// planRestore warns of a restore that the apply would do, and refuses one of a cluster that
// serves.
func (r *etcdMemberResource) planRestore(ctx context.Context, plan, before etcdMemberModel, diags *diag.Diagnostics) {
	id := restoreID(plan.Restore)
	if !plan.restoreDue(before) || id.IsUnknown() || !r.previews(ctx, plan) ||
		!r.session.restores.first(plan.bundle.ClusterID+"/"+id.ValueString()) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, planTimeout)
	defer cancel()
	spec := r.spec(ctx, plan, diags)
	if spec.Restore == nil || diags.HasError() {
		return
	}
	text, err := r.session.clusters.PreviewRestore(ctx, spec)
	switch {
	case err != nil:
		addError(diags, path.Root("restore"), "Restore refused", err)
	case text != "":
		diags.AddAttributeWarning(path.Root("restore"), "etcd will be restored", text)
	}
}

// previews reports whether a plan can ask the machines about the cluster of m.
func (r *etcdMemberResource) previews(ctx context.Context, m etcdMemberModel) bool {
	return r.session.asks() && m.bundle != nil && allKnown(m.Name, m.ClientURL) &&
		elementsKnown(ctx, m.Peers) && !r.session.versions.hasBegun()
}

// planLost warns of a cluster that has lost its quorum, if the plan does not restore it: what the members have is
// otherwise known only when an apply has failed.
func (r *etcdMemberResource) planLost(ctx context.Context, plan, before etcdMemberModel, diags *diag.Diagnostics) {
	if plan.restoreDue(before) || !r.previews(ctx, plan) || !r.session.clusters.Lost(plan.bundle.ClusterID) ||
		!r.session.restores.first(plan.bundle.ClusterID+"/") {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, planTimeout)
	defer cancel()
	spec := r.spec(ctx, plan, diags)
	if diags.HasError() {
		return
	}
	if text := r.session.clusters.PreviewLost(ctx, spec); text != "" {
		diags.AddWarning("etcd does not answer", text)
	}
}
