package provider

import (
	"context"
	"errors"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

type artifactsModel struct {
	Directory  types.String `tfsdk:"directory"`
	Etcd       *urlModel    `tfsdk:"etcd"`
	Kubernetes *urlModel    `tfsdk:"kubernetes"`
	Store      *urlModel    `tfsdk:"snapshot_store"`
}

type urlModel struct {
	URL      types.String `tfsdk:"url"`
	Checksum types.String `tfsdk:"checksum_url"`
}

func artifactsSchema() schema.Attribute {
	return schema.SingleNestedAttribute{
		Optional: true,
		MarkdownDescription: "Source of the programs. Default: the upstream release locations; the machines " +
			"download the programs and verify them against the published checksums. A program that a machine " +
			"already has with the correct digest is not transferred again. A change applies to programs that are " +
			"installed after it.",
		Attributes: map[string]schema.Attribute{
			"directory": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: "Local directory that is uploaded over SSH (air-gapped). Default: none; the " +
					"machines download the programs. It contains `etcd-vVERSION/` with `etcd`, `etcdctl` and " +
					"`etcdutl`, and `kubernetes-vVERSION/` with `kube-apiserver`, `kube-controller-manager` and " +
					"`kube-scheduler`. With `snapshots.s3` of a member, it also contains " +
					"`kube-snapshot-store-vVERSION/` with `kube-snapshot-store`, from the archive in the provider's " +
					"release; `VERSION` is the provider's. For static pods, archives of images may be beside the programs, such " +
					"as `etcd.tar` and `kube-apiserver.tar`: see [Air-gapped](guides/air-gapped.md#programs).",
			},
			"etcd":       urlSchema("etcd", host.DefaultSource().URLs["etcd"]),
			"kubernetes": urlSchema("Kubernetes", host.DefaultSource().URLs["kubernetes"]),
			"snapshot_store": urlSchema("`kube-snapshot-store`, which machines with `snapshots.s3` need and whose version "+
				"is the provider's", host.DefaultSource().URLs[snapshot.StoreProduct]),
		},
	}
}

func urlSchema(product string, standard host.URLTemplate) schema.Attribute {
	return schema.SingleNestedAttribute{
		Optional: true,
		MarkdownDescription: "Download location of " + product + ". `{version}` (without `v`), `{arch}` and " +
			"`{name}` are replaced. Default: the upstream release location.",
		Attributes: map[string]schema.Attribute{
			"url": schema.StringAttribute{
				Required: true,
				MarkdownDescription: "The `https` URL of the program, or of a `.tar.gz` that contains it. The " +
					"upstream URL is `" + standard.URL + "`.",
			},
			"checksum_url": schema.StringAttribute{
				Required: true,
				MarkdownDescription: "The `https` URL of its SHA-256: one digest, or lines with digest and file name. " +
					"The upstream URL is `" + standard.Checksum + "`.",
			},
		},
	}
}

func decodeArtifacts(ctx context.Context, object types.Object) (host.Source, diag.Diagnostics) {
	source := host.DefaultSource()
	if object.IsNull() {
		return source, nil
	}
	var model artifactsModel
	diags := object.As(ctx, &model, basetypes.ObjectAsOptions{})
	if diags.HasError() {
		return source, diags
	}
	source.Directory = model.Directory.ValueString()
	for product, urls := range map[string]*urlModel{
		"etcd": model.Etcd, "kubernetes": model.Kubernetes, snapshot.StoreProduct: model.Store,
	} {
		if urls != nil {
			source.URLs[product] = host.URLTemplate{URL: urls.URL.ValueString(), Checksum: urls.Checksum.ValueString()}
		}
	}
	if err := source.Validate(); err != nil {
		var setting *host.ConfigError
		if errors.As(err, &setting) { // urls.etcd.checksum of package host is etcd.checksum_url here
			field := strings.TrimPrefix(setting.Field, "urls.")
			field = strings.Replace(field, ".checksum", ".checksum_url", 1)
			field = strings.Replace(field, snapshot.StoreProduct, "snapshot_store", 1)
			err = &host.ConfigError{Field: field, Err: setting.Err}
		}
		addConfigError(&diags, path.Root("artifacts"), "Invalid artifact source", err)
	}
	return source, diags
}
