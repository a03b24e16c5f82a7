package provider

import (
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
)

// replicaRuntime describes what runs the components.
func replicaRuntime() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"runtime": schema.StringAttribute{
			Optional: true, Validators: []validator.String{stringvalidator.OneOf(component.Systemd, component.StaticPod)},
			MarkdownDescription: "What runs the components: `systemd`, as units under separate users, or `static_pod`, as " +
				"static pods in the form of kubeadm, under root. Static pods need a kubelet with `staticPodPath: " +
				"/etc/kubernetes/manifests` and a container runtime on the machine (`install_kubelet`), and are probed by the " +
				"kubelet instead of `liveness_probe` (see [Static " +
				"pods](../guides/static-pods.md)). Default `systemd`. A change moves the components in place, one replica at a " +
				"time; not together with `version` or a stage of a rotation. See [Static " +
				"pods](../guides/static-pods.md#from-one-runtime-to-the-other).",
		},
		"install_kubelet": installKubeletSchema(),
		"manage_kubelet": schema.BoolAttribute{
			Optional: true,
			MarkdownDescription: "Whether the kubelet of the machine follows `version`: once the replica serves its " +
				"version, the kubelet runs the program of the same version, which the provider installs. The replica is " +
				"drained for that, and the etcd member on the machine has its turn among the members, because a kubelet of " +
				"another minor starts all static pods anew. Other Pods are evicted from the node before (see [The " +
				"kubelet](../guides/static-pods.md#the-kubelet)). The " +
				"unit must be that of Kubernetes' packages or kubeadm. Default `false`: the kubelet is yours. Only with " +
				"`runtime = \"static_pod\"`. A change to `true` restarts the static pods, one machine at a time; a change to " +
				"`false` leaves the kubelet as it is.",
		},
		"extra_volumes": extraVolumesSchema(),
		"patches":       patchesSchema(),
		"image_repository": schema.StringAttribute{
			Optional: true, Validators: []validator.String{checked("image repository", component.ValidateImageRepository)},
			MarkdownDescription: "Where static pods get the images of the components, " +
				"`REPOSITORY/kube-apiserver:vVERSION` and so on. Images that the machine does not have are pulled before the " +
				"replica is drained. Default `registry.k8s.io`. Only with `runtime = \"static_pod\"`. A change restarts the " +
				"components, one replica at a time.",
		},
	}
}
