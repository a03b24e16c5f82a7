package provider

import (
	"context"
	"errors"

	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
)

// extraVolumesModel is the attribute extra_volumes of a replica.
type extraVolumesModel struct {
	APIServer         map[string]volumeMountModel `tfsdk:"apiserver"`
	ControllerManager map[string]volumeMountModel `tfsdk:"controller_manager"`
	Scheduler         map[string]volumeMountModel `tfsdk:"scheduler"`
}

type volumeMountModel struct {
	HostPath  string `tfsdk:"host_path"`
	MountPath string `tfsdk:"mount_path"`
	ReadOnly  bool   `tfsdk:"read_only"`
	PathType  string `tfsdk:"path_type"`
}

// extraVolumesSchema describes the volumes of the components.
func extraVolumesSchema() schema.Attribute {
	volumes := func(name string) schema.Attribute {
		return schema.MapNestedAttribute{
			Optional: true, Validators: []validator.Map{mapvalidator.SizeAtLeast(1)},
			MarkdownDescription: "Volumes of " + name + ", by name. Default: none.",
			NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
				"host_path": schema.StringAttribute{
					Required: true, MarkdownDescription: "Path of the file or directory on the machine.",
				},
				"mount_path": schema.StringAttribute{Required: true, MarkdownDescription: "Its path in the container."},
				"read_only": schema.BoolAttribute{
					Optional: true, Computed: true, Default: booldefault.StaticBool(false),
					MarkdownDescription: "Whether the component may only read it. Default `false`.",
				},
				"path_type": schema.StringAttribute{
					Optional: true, Computed: true, Default: stringdefault.StaticString(""),
					MarkdownDescription: "What has to be there before the kubelet starts the container, such as `File` or " +
						"`DirectoryOrCreate`. Default: anything.",
				},
			}},
		}
	}
	return schema.SingleNestedAttribute{
		Optional: true,
		MarkdownDescription: "Files and directories of the machine in the containers of static pods, as `extraVolumes` of " +
			"kubeadm, in addition to those that the provider mounts. Only with `runtime = \"static_pod\"`. Default: none. A " +
			"change restarts the component; for the API server, the replica leaves rotation during the restart, one " +
			"replica at a time.",
		Attributes: map[string]schema.Attribute{
			"apiserver":          volumes("kube-apiserver"),
			"controller_manager": volumes("kube-controller-manager"),
			"scheduler":          volumes("kube-scheduler"),
		},
	}
}

// extraVolumes returns the volumes of each component that has some; nil if they are not known.
func (m replicaModel) extraVolumes(ctx context.Context) map[string]map[string]component.Volume {
	if !elementsKnown(ctx, m.ExtraVolumes) {
		return nil
	}
	model := decodeObject[extraVolumesModel](ctx, m.ExtraVolumes)
	if model == nil {
		return nil
	}
	all := map[string]map[string]component.Volume{}
	for name, volumes := range map[string]map[string]volumeMountModel{
		release.APIServer: model.APIServer, release.ControllerManager: model.ControllerManager,
		release.Scheduler: model.Scheduler,
	} {
		for volume, v := range volumes {
			if all[name] == nil {
				all[name] = map[string]component.Volume{}
			}
			all[name][volume] = component.Volume{
				HostPath: v.HostPath, MountPath: v.MountPath, ReadOnly: v.ReadOnly, PathType: v.PathType,
			}
		}
	}
	return all
}

// observedVolumes returns the volumes as an argument, nil if there are none.
func observedVolumes(observed map[string]map[string]component.Volume) *extraVolumesModel {
	if len(observed) == 0 {
		return nil
	}
	of := func(name string) map[string]volumeMountModel {
		var all map[string]volumeMountModel
		for volume, v := range observed[name] {
			if all == nil {
				all = map[string]volumeMountModel{}
			}
			all[volume] = volumeMountModel{
				HostPath: v.HostPath, MountPath: v.MountPath, ReadOnly: v.ReadOnly, PathType: v.PathType,
			}
		}
		return all
	}
	return &extraVolumesModel{of(release.APIServer), of(release.ControllerManager), of(release.Scheduler)}
}

// validateExtraVolumes refuses what an import could not tell from no argument, and volumes of units.
func (m replicaModel) validateExtraVolumes(ctx context.Context, diags *diag.Diagnostics) {
	at := path.Root("extra_volumes")
	switch {
	case m.ExtraVolumes.IsNull() || m.ExtraVolumes.IsUnknown():
	case !m.Runtime.IsUnknown() && !m.isStaticPod():
		addInvalid(diags, at, "Invalid runtime", errors.New(`only static pods have volumes: set runtime = "static_pod", or `+
			"drop extra_volumes"))
	case elementsKnown(ctx, m.ExtraVolumes) && len(m.extraVolumes(ctx)) == 0:
		addInvalid(diags, at, "Invalid extra volumes", errors.New("it is empty: set a volume, or remove the argument"))
	}
}
