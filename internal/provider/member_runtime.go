package provider

import (
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
)

func runtimeSchema() schema.StringAttribute {
	return schema.StringAttribute{
		Optional:   true,
		Validators: []validator.String{stringvalidator.OneOf(string(machine.Systemd), string(machine.StaticPod))},
		MarkdownDescription: "What runs the member: `systemd` (the default), a unit with the installed program; or " +
			"`static_pod`, a pod that the machine's kubelet runs from `/etc/kubernetes/manifests`, in kubeadm's form. The " +
			"machine needs a kubelet and a container runtime (`install_kubelet`). `volume`, `archived_data_dir` and " +
			"`resources` are not supported with it, and the kubelet probes it instead of `liveness_probe`. A change moves " +
			"an existing member, on its data, one member at a time; not together with `version` or a new `restore`. See " +
			"[Static pods](../guides/static-pods.md#from-one-runtime-to-the-other).",
	}
}

func imageSchema() schema.StringAttribute {
	return schema.StringAttribute{
		Optional:   true,
		Validators: []validator.String{checked("image", machine.ValidateImage)},
		MarkdownDescription: "Image of etcd for `runtime = \"static_pod\"`, with a tag or a digest. Its etcd must be of " +
			"`version`: a tag that names another one is refused. Default: kubeadm's, such as `" +
			machine.DefaultImage("3.6.16") + "`. The machine pulls it before anything is stopped, unless it has it. A change " +
			"restarts the members one at a time, the leader last.",
	}
}

func patchSchema() schema.StringAttribute {
	return schema.StringAttribute{
		Optional:   true,
		Validators: []validator.String{checked("patch", machine.ValidatePatch)},
		MarkdownDescription: "Strategic merge patch of the manifest for `runtime = \"static_pod\"`, in YAML or JSON, " +
			"as a file `etcd+strategic.yaml` of kubeadm's patches. See [Patches](../guides/static-pods.md#patches). " +
			"Default: none. A " +
			"change restarts the members one at a time, the leader last.",
	}
}

// runtimeOf returns what runs a member; null is systemd.
func runtimeOf(v types.String) machine.Runtime {
	if v.ValueString() == string(machine.StaticPod) {
		return machine.StaticPod
	}
	return machine.Systemd
}

// validateRuntime refuses what a static pod does not support.
func (m etcdMemberModel) validateRuntime(diags *diag.Diagnostics) {
	if m.Runtime.IsUnknown() {
		return
	}
	validateInstallKubelet(m.Install, runtimeOf(m.Runtime) == machine.StaticPod, diags)
	if runtimeOf(m.Runtime) != machine.StaticPod {
		if !m.Image.IsNull() {
			diags.AddAttributeError(path.Root("image"), "Image without a static pod",
				`image is used by runtime = "static_pod" only.`+"\nNext step: omit image, or set runtime.")
		}
		if !m.Patch.IsNull() {
			diags.AddAttributeError(path.Root("patch"), "Patch without a static pod",
				`patch is used by runtime = "static_pod" only.`+"\nNext step: omit patch, or set runtime.")
		}
		return
	}
	spec := machine.Spec{Runtime: machine.StaticPod, Version: m.Version.ValueString(), Image: m.Image.ValueString()}
	if err := spec.CheckImage(); err != nil && !m.Version.IsUnknown() {
		diags.AddAttributeError(path.Root("image"), "Image of another version",
			err.Error()+"\nNext step: change image and version together, or omit image.")
	}
	for name, v := range map[string]attr.Value{
		"volume": m.Volume, "resources": m.Resources, "archived_data_dir": m.Archived,
	} {
		if !v.IsNull() && !v.IsUnknown() {
			diags.AddAttributeError(path.Root(name), "Not supported with a static pod",
				name+` is not supported with runtime = "static_pod".`+"\nNext step: omit "+name+`, or use runtime = "systemd".`)
		}
	}
}

// planRuntime says what changes hands when an existing member changes its runtime.
func (m etcdMemberModel) planRuntime(state etcdMemberModel, diags *diag.Diagnostics) {
	replaced := !m.Name.Equal(state.Name) || !m.DataDir.Equal(state.DataDir) ||
		!addressOf(m.Host).Equal(addressOf(state.Host))
	from, to := runtimeOf(state.Runtime), runtimeOf(m.Runtime)
	if m.Runtime.IsUnknown() || replaced || from == to {
		return
	}
	runtimeChange{
		title: "Member", label: m.label(), product: "etcd", from: string(from), to: string(to),
		before: state.Version, version: m.Version,
		steps: "etcd stops as " + string(from) + " and starts as " + string(to) + ", on the same data and with the same " +
			"ID: one member at a time, the leader last.\n" + handedOver[to],
	}.plan(diags)
}

// handedOver says what changes hands on the machine of a member that moves to a runtime.
var handedOver = map[machine.Runtime]string{
	machine.StaticPod: "etcd.service and its drop-ins are removed. Root runs the pod: the data directory and the " +
		"member's certificates and keys are given to root. A manifest of kubeadm that was kept in " +
		layout.Inherited + " is used again, byte for byte, if it says what the configuration does.",
	machine.Systemd: "The manifest is removed from the kubelet's directory; one that kubeadm has written is kept in " +
		layout.Inherited + ". The data directory and the member's certificates and keys are given to the user etcd, who " +
		"runs the unit.",
}
