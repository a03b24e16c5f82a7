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
	for name, attribute := range versionSkewSeen() {
		attributes[name] = attribute
	}
	attributes["timeouts"] = lookLimit(timeouts.AttributesWithOpts(ctx, timeouts.Opts{
		ReadDescription: "Default `1m`. What has not answered by then stands in `issues`.",
	}))
	return schema.Schema{
		MarkdownDescription: "Where may this control plane go from here? Asks all of it which versions run: etcd's members, the replicas that the balancers of the endpoint list, " +
			"and the kubelets that an API server knows of. What does not answer stands in `issues`, and is no error, so that it serves in `check` blocks. " +
			"Plans refuse by the same rules without it.",
		Attributes: attributes,
	}
}

func versionSkewArguments() map[string]schema.Attribute {
	target := func(of, example string, check func(string) error) schema.StringAttribute {
		return schema.StringAttribute{
			Optional: true, Validators: []validator.String{checked(of+" version", check)},
			MarkdownDescription: "Version of " + of + " to judge, such as `" + example + "`, by all rules: the answer is in `target_allowed` and `refusals`. Default: none is judged.",
		}
	}
	kubernetes := target("Kubernetes", "1.35.4", release.ValidateVersion)
	kubernetes.MarkdownDescription += " Together with `etcd_target` it is judged beside that one: etcd goes first."
	attributes := askedSchema()
	attributes["kubernetes_target"] = kubernetes
	attributes["etcd_target"] = target("etcd", "3.6.16", etcdrelease.ValidateVersion)
	return attributes
}

func versionSkewSeen() map[string]schema.Attribute {
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
			MarkdownDescription: "The version that each " + of + " runs, by name; empty where it does not tell.",
		}
	}
	group := func(description string, attributes map[string]schema.Attribute) schema.Attribute {
		return schema.SingleNestedAttribute{Computed: true, MarkdownDescription: description, Attributes: attributes}
	}
	return map[string]schema.Attribute{
		"kubernetes": group("The replicas.", map[string]schema.Attribute{
			"versions":    versions("replica"),
			"settled":     flag("Whether all replicas tell the same version: no upgrade is under way, or was left half done."),
			"oldest":      text("The oldest version among them; null when none tells."),
			"newest":      text("The newest version among them; null when none tells."),
			"next_minors": texts("Minor versions such as `1.35` to which all replicas may go now, by etcd's and the kubelets' leave. Patches of the present minor may always follow."),
		}),
		"etcd_cluster": group("The members of etcd.", map[string]schema.Attribute{
			"versions":        versions("member"),
			"cluster_version": text("Minor version, such as `3.6`, that the members have agreed on. A member cannot go back behind it. Null when none tells."),
			"settled":         flag("Whether all members tell the same version, and have agreed on its minor."),
			"healthy":         flag("Whether every member is a healthy voter without an alarm. An upgrade begins only then."),
			"next_minors":     texts("Minor versions such as `3.6` to which all members may go now. Patches of the present minor may always follow."),
		}),
		"kubelets": group("The kubelets of all nodes. This provider does not manage them; they limit where the replicas may go.", map[string]schema.Attribute{
			"versions": versions("node's kubelet"),
			"oldest":   text("The oldest version among them; null when there is none."),
			"blocks":   text("The first minor version of Kubernetes that the oldest kubelet keeps the replicas from, such as `1.37`: a kubelet may be three minors older. Null when there is none."),
		}),
		"target_allowed": flag("Whether no rule refuses the targets, and there are no `issues`; null without a target."),
		"refusals":       texts("Each rule that refuses a target, with the remedy."),
		"removed_apis":   texts("APIs that clients have asked the running API servers for and that `kubernetes_target` does not serve any more. They refuse nothing."),
		"issues":         texts("What is unknown, and detected problems."),
	}
}
