package provider

import (
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
)

// balancerLivenessSchema is the switch of the probes of HAProxy and keepalived.
func balancerLivenessSchema() schema.BoolAttribute {
	return schema.BoolAttribute{
		Optional: true, Computed: true, Default: booldefault.StaticBool(true),
		MarkdownDescription: "Whether a systemd timer on each machine probes every five seconds whether HAProxy and " +
			"keepalived hang. One that has failed three probes in a row is restarted, unless the machine itself is slow; " +
			"if its machine has the virtual IP, another one takes it. A program that never answered since its start " +
			"is not restarted. What has not been ready for longer than a minute is listed in `drift`, and the next apply " +
			"restarts it. Default `true`. A change restarts nothing.",
	}
}

// livenessSchema is the switch of the probes that restart what hangs.
func livenessSchema(restarts string) schema.BoolAttribute {
	return schema.BoolAttribute{
		Optional: true, Computed: true, Default: booldefault.StaticBool(true),
		MarkdownDescription: "Whether a systemd timer on the machine probes every ten seconds, as the kubelet does for " +
			"kubeadm's static pods, whether the component hangs. " + restarts + " A component that has not been ready for " +
			"four minutes is listed in `drift`, and the next apply restarts it. The machine needs `curl`. Default " +
			"`true`. A change restarts nothing.",
	}
}
