package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/node"
)

// installKubeletModel is node.Wanted as Terraform attributes.
type installKubeletModel struct {
	Version      types.String `tfsdk:"version"`
	SandboxImage types.String `tfsdk:"sandbox_image"`
}

func installKubeletSchema() schema.Attribute {
	return schema.SingleNestedAttribute{
		Optional: true,
		MarkdownDescription: "For `runtime = \"static_pod\"`: a machine without a kubelet gets one that runs alone, and " +
			"containerd by its package manager, before anything is created. A machine with a kubelet keeps it. What was " +
			"installed is removed when neither a member nor a replica is left. Default: none, and a machine without a " +
			"kubelet is refused. A change affects nothing on a machine that has a kubelet. See " +
			"[Static pods](../guides/static-pods.md#what-machines-need).",
		Attributes: map[string]schema.Attribute{
			"version": schema.StringAttribute{
				Required: true, Validators: []validator.String{checked("Kubernetes version", release.ValidateVersion)},
				MarkdownDescription: "Version of the kubelet, such as `1.36.3`: not newer than that of the replica. Later " +
					"versions are installed by `manage_kubelet` of the replica.",
			},
			"sandbox_image": schema.StringAttribute{
				Optional: true, Validators: []validator.String{checked("image", machine.ValidateImage)},
				MarkdownDescription: "Image of the sandboxes of pods, with a tag or a digest. It is pulled, or imported from " +
					"`kubernetes-vVERSION/pause.tar` in `artifacts.directory`. Default `" + node.DefaultSandboxImage + "`.",
			},
		},
	}
}

// installKubeletOf returns what is installed on a machine without a kubelet, or nil.
func installKubeletOf(ctx context.Context, object types.Object, diags *diag.Diagnostics) *node.Wanted {
	if object.IsNull() || object.IsUnknown() {
		return nil
	}
	var m installKubeletModel
	diags.Append(object.As(ctx, &m, basetypes.ObjectAsOptions{})...)
	return &node.Wanted{Version: m.Version.ValueString(), SandboxImage: m.SandboxImage.ValueString()}
}

// validateInstallKubelet refuses install_kubelet of what needs no kubelet.
func validateInstallKubelet(object types.Object, staticPod bool, diags *diag.Diagnostics) {
	if !object.IsNull() && !staticPod {
		diags.AddAttributeError(path.Root("install_kubelet"), "Kubelet without a static pod",
			`only static pods need a kubelet.`+"\nNext step: set runtime = \"static_pod\", or omit install_kubelet.")
	}
}
