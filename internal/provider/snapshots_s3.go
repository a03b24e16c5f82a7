package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/objectvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
)

// storeModel is snapshots.s3.
type storeModel struct {
	Endpoint        *string    `tfsdk:"endpoint"`
	Region          *string    `tfsdk:"region"`
	Bucket          *string    `tfsdk:"bucket"`
	Prefix          *string    `tfsdk:"prefix"`
	CredentialsFile *string    `tfsdk:"credentials_file"`
	CACertificate   *string    `tfsdk:"ca_certificate"`
	Recipients      []string   `tfsdk:"recipients"`
	ObjectLock      *lockModel `tfsdk:"object_lock"`
	Kept            *int       `tfsdk:"kept"`
}

type lockModel struct {
	Mode string `tfsdk:"mode"`
	Days int    `tfsdk:"days"`
}

// storeSchema describes the bucket of scheduled snapshots.
func storeSchema() schema.Attribute {
	return schema.SingleNestedAttribute{
		Optional:   true,
		Validators: []validator.Object{objectvalidator.ConflictsWith(path.MatchRelative().AtParent().AtName("upload"))},
		MarkdownDescription: "Bucket of an S3 server to which snapshots are uploaded, by the program " +
			"`kube-snapshot-store`, which is installed on the machine as etcd is, at the provider's version. An upload " +
			"counts when the server has all of it and its manifest. Conflicts with `upload`. Default: none. If you remove " +
			"it, the program and its configuration are removed; the bucket is left as it is. See [A bucket for " +
			"snapshots](../guides/scaling-and-repair.md#a-bucket-for-snapshots).",
		Attributes: map[string]schema.Attribute{
			"endpoint": schema.StringAttribute{
				Required: true, Validators: []validator.String{checked("endpoint", snapshot.ValidateEndpoint)},
				MarkdownDescription: "URL of the server, such as `https://s3.eu-central-1.amazonaws.com`. With `http`, " +
					"`recipients` are required. A change applies from the next upload on; what was uploaded stays.",
			},
			"bucket": schema.StringAttribute{
				Required: true, Validators: []validator.String{checked("bucket", snapshot.ValidateBucket)},
				MarkdownDescription: "Name of the bucket, which must exist. A change applies from the next upload on.",
			},
			"prefix": schema.StringAttribute{
				Optional: true, Validators: []validator.String{checked("prefix", snapshot.ValidatePrefix)},
				MarkdownDescription: "Prefix of all keys, without a slash at its beginning and end: " +
					"`PREFIX/CLUSTER_ID/NAME.db.age`. Several clusters can have the same bucket and prefix. Default: none.",
			},
			"region": schema.StringAttribute{
				Optional: true, Validators: []validator.String{checked("region", snapshot.ValidateRegion)},
				MarkdownDescription: "Region of the bucket. Default: the server is asked.",
			},
			"credentials_file": schema.StringAttribute{
				Required: true, Validators: []validator.String{checked("credentials file", snapshot.ValidateCredentialsFile)},
				MarkdownDescription: "Absolute path of a file on each machine with the lines `aws_access_key_id = …` and " +
					"`aws_secret_access_key = …`, and `aws_session_token = …` if there is one, as AWS's tools write it " +
					"(profile `default`). It must exist before the apply, with mode `0600` and the owner root. Terraform " +
					"never reads it.",
			},
			"ca_certificate": schema.StringAttribute{
				Optional: true, Validators: []validator.String{checked("certificate", checkCertificate)},
				MarkdownDescription: "PEM certificates of the CAs that may have issued the server's certificate. Default: " +
					"those that the machine trusts.",
			},
			"recipients": schema.SetAttribute{
				Optional: true, ElementType: types.StringType,
				Validators: []validator.Set{
					setvalidator.SizeAtLeast(1), setvalidator.ValueStringsAre(checked("recipient", snapshot.ValidateRecipient)),
				},
				MarkdownDescription: "Public keys of [age](https://age-encryption.org) (`age1…`): snapshots are encrypted " +
					"for them before they leave the machine, and only their identities open them. Keep an identity where it " +
					"outlives the cluster. A change applies from the next upload on. Default: none; snapshots are stored " +
					"readable, which the plan warns of.",
			},
			"object_lock": lockSchema(),
			"kept": schema.Int64Attribute{
				Optional: true, Computed: true, Default: int64default.StaticInt64(snapshot.DefaultStoreKept),
				Validators: []validator.Int64{int64validator.Between(0, 100000)},
				MarkdownDescription: "Number of newest verified snapshots of the cluster that are kept in the bucket. Older " +
					"ones are removed after an upload, and uploads that were cut; a locked one is left until its lock ends. The " +
					"newest ones, up to three, of each former etcd cluster of the same bundle stay, until you remove them. `0` " +
					"removes nothing: use a lifecycle rule of the bucket, with credentials that cannot delete. Default `168`.",
			},
		},
	}
}

func lockSchema() schema.Attribute {
	return schema.SingleNestedAttribute{
		Optional: true,
		MarkdownDescription: "Object lock: nobody can remove or replace a snapshot until its lock ends. The bucket must " +
			"have been created with object lock. A change applies from the next upload on. Default: none, or what the " +
			"bucket sets.",
		Attributes: map[string]schema.Attribute{
			"mode": schema.StringAttribute{
				Required: true, Validators: []validator.String{stringvalidator.OneOf(snapshot.LockModes...)},
				MarkdownDescription: "`governance`: those with a special permission can end the lock. `compliance`: nobody can.",
			},
			"days": schema.Int64Attribute{
				Required: true, Validators: []validator.Int64{int64validator.Between(1, 36500)},
				MarkdownDescription: "Number of days from the upload on.",
			},
		},
	}
}

// storeOf decodes snapshots.s3. Null and unknown are nil.
func storeOf(value attr.Value) *snapshot.S3 {
	object, ok := value.(types.Object)
	if !ok || object.IsNull() || object.IsUnknown() || !elementsKnown(context.Background(), object) {
		return nil
	}
	m := decodeObject[storeModel](context.Background(), object)
	s := &snapshot.S3{
		Endpoint: orZero(m.Endpoint), Region: orZero(m.Region), Bucket: orZero(m.Bucket), Prefix: orZero(m.Prefix),
		CredentialsFile: orZero(m.CredentialsFile), CACertificate: orZero(m.CACertificate), Recipients: m.Recipients,
		Kept: orZero(m.Kept),
	}
	if m.ObjectLock != nil {
		s.ObjectLock = &snapshot.ObjectLock{Mode: m.ObjectLock.Mode, Days: m.ObjectLock.Days}
	}
	return s
}

// setStore writes the bucket that an import has read to the state.
func (i importer) setStore(s *snapshot.S3) {
	if s == nil {
		return
	}
	for name, text := range map[string]string{
		"endpoint": s.Endpoint, "region": s.Region, "bucket": s.Bucket, "prefix": s.Prefix,
		"credentials_file": s.CredentialsFile, "ca_certificate": s.CACertificate,
	} {
		if text != "" {
			i.set("snapshots.s3."+name, text)
		}
	}
	if len(s.Recipients) > 0 {
		i.set("snapshots.s3.recipients", s.Recipients)
	}
	if s.ObjectLock != nil {
		i.set("snapshots.s3.object_lock.mode", s.ObjectLock.Mode)
		i.set("snapshots.s3.object_lock.days", int64(s.ObjectLock.Days))
	}
	i.set("snapshots.s3.kept", int64(s.Kept))
}

// validateStore checks what the arguments of snapshots.s3 are together.
func (m etcdMemberModel) validateStore(ctx context.Context, diags *diag.Diagnostics) {
	if m.Snapshots.IsUnknown() || !elementsKnown(ctx, m.Snapshots) {
		return
	}
	if s := snapshotsOf(m.Snapshots); s != nil && s.S3 != nil {
		if err := s.S3.Validate(); err != nil {
			addInvalid(diags, path.Root("snapshots").AtName("s3"), "Invalid bucket for snapshots", err)
		}
	}
}

// warnReadableSnapshots warns of snapshots that leave the machines without encryption.
func (m etcdMemberModel) warnReadableSnapshots(diags *diag.Diagnostics) {
	s := snapshotsOf(m.Snapshots)
	if s == nil || s.S3 == nil || len(s.S3.Recipients) > 0 {
		return
	}
	diags.AddAttributeWarning(path.Root("snapshots").AtName("s3").AtName("recipients"), "Snapshots are stored unencrypted",
		"A snapshot contains everything that the cluster stores: every Secret that is not encrypted at rest, and all other "+
			"objects. Whoever can read the bucket "+s.S3.Bucket+" can read them. Set recipients to public keys of age, so "+
			"that the snapshots are encrypted before they leave the machines.")
}
