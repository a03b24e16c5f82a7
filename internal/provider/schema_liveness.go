package provider

import (
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
)

// livenessSchema is the switch of the probes that restart what hangs.
func livenessSchema(restarts string) schema.BoolAttribute {
	return schema.BoolAttribute{
		Optional: true, Computed: true, Default: booldefault.StaticBool(true),
		MarkdownDescription: "Whether a systemd timer on the machine probes every ten seconds whether it hangs, as " +
			"the kubelet does with kubeadm's static pods. " + restarts + " What has not been ready for longer than " +
			"four minutes is listed in `drift`, and the next apply restarts it. The machine needs `curl`. Default " +
			"`true`. A change restarts nothing.",
	}
}
