package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/datasource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	etcdrelease "github.com/kubequorum/terraform-provider-kube/internal/etcd/release"
)

func versionSkewSchema(ctx context.Context) schema.Schema {
	attributes := versionSkewArguments()
	for name, attribute := range versionSkewComputed() {
		attributes[name] = attribute
	}
	attributes["timeouts"] = queryTimeout(timeouts.AttributesWithOpts(ctx, timeouts.Opts{
		ReadDescription: "Default `1m`. Components that have not answered by then are listed in `issues`.",
	}))
	return schema.Schema{
		MarkdownDescription: "Versions that a control plane may be upgraded to. Queries the running versions of " +
			"the etcd members, of the replicas that the endpoint's balancers list, and of the kubelets registered " +
			"with an API server. A component that does not answer is listed in `issues` and is not an error, so " +
			"the data source can be used in `check` blocks. Plans enforce the same rules without it.",
		Attributes: attributes,
	}
}

func versionSkewArguments() map[string]schema.Attribute {
	target := func(of, example string, check func(string) error) schema.StringAttribute {
		return schema.StringAttribute{
			Optional: true, Validators: []validator.String{checked(of+" version", check)},
			MarkdownDescription: "Version of " + of + " to check, such as `" + example + "`, against all rules: " +
				"the result is in `target_allowed` and `refusals`. Default: none is checked.",
		}
	}
	kubernetes := target("Kubernetes", "1.36.3", release.ValidateVersion)
	kubernetes.MarkdownDescription += " With `etcd_target`, it is checked against that version, because etcd is " +
		"upgraded first."
	attributes := querySchema()
	attributes["kubernetes_target"] = kubernetes
	attributes["etcd_target"] = target("etcd", "3.6.16", etcdrelease.ValidateVersion)
	return attributes
}

func versionSkewComputed() map[string]schema.Attribute {
	text := func(description string) schema.Attribute {
		return schema.StringAttribute{Computed: true, MarkdownDescription: description}
	}
	flag := func(description string) schema.Attribute {
		return schema.BoolAttribute{Computed: true, MarkdownDescription: description}
	}
	texts := func(description string) schema.Attribute {
		return schema.ListAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: description}
	}
	versions := func(of string) schema.Attribute {
		return schema.MapAttribute{
			Computed: true, ElementType: types.StringType,
			MarkdownDescription: "The version of each " + of + ", by name; empty if it is unknown.",
		}
	}
	group := func(description string, attributes map[string]schema.Attribute) schema.Attribute {
		return schema.SingleNestedAttribute{Computed: true, MarkdownDescription: description, Attributes: attributes}
	}
	return map[string]schema.Attribute{
		"kubernetes": group("The replicas.", map[string]schema.Attribute{
			"versions": versions("replica"),
			"settled":  flag("Whether all replicas have the same version: no upgrade is in progress or incomplete."),
			"oldest":   text("The oldest of their versions; null if none is known."),
			"newest":   text("The newest of their versions; null if none is known."),
			"next_minors": texts("Minor versions, such as `1.36`, that all replicas may be upgraded to now, " +
				"considering etcd and the kubelets. Patch releases of the current minor version are always " +
				"allowed."),
		}),
		"etcd_cluster": group("The etcd members.", map[string]schema.Attribute{
			"versions": versions("member"),
			"cluster_version": text("Cluster version, such as `3.6`, which is the minor version that the members " +
				"have agreed on. A member cannot run an older one. Null if it is unknown."),
			"settled": flag("Whether all members have the same version, and the cluster version is its " +
				"minor version."),
			"healthy": flag("Whether every member is a healthy voter without an alarm. Otherwise an " +
				"upgrade does not start."),
			"next_minors": texts("Minor versions, such as `3.6`, that all members may be upgraded to now. " +
				"Patch releases of the current minor version are always allowed."),
		}),
		"kubelets": group("The kubelets of all nodes. This provider does not manage them, but they limit the "+
			"versions of the replicas.", map[string]schema.Attribute{
			"versions": versions("node's kubelet"),
			"oldest":   text("The oldest of their versions; null if there is none."),
			"blocks": text("The first minor version of Kubernetes that the oldest kubelet does not allow for " +
				"the replicas, such as `1.37`: a kubelet may be at most three minor versions older. Null if there " +
				"is none."),
		}),
		"target_allowed": flag("Whether no rule refuses the targets, and there are no `issues`; null without a target."),
		"refusals":       texts("The rules that refuse a target, each with the remedy."),
		"removed_apis": texts("APIs that clients have requested from the running API servers and that " +
			"`kubernetes_target` no longer serves. They do not refuse the target."),
		"issues": texts("Unknown versions and detected problems."),
	}
}
