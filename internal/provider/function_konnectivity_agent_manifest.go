package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/function"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
)

// konnectivityAgentFunction returns the manifest of the agents of konnectivity-server. The provider
// manages no workloads; kubectl or another provider applies it.
type konnectivityAgentFunction struct{}

var _ function.Function = (*konnectivityAgentFunction)(nil)

func newKonnectivityAgentFunction() function.Function { return &konnectivityAgentFunction{} }

func (f *konnectivityAgentFunction) Metadata(
	_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse,
) {
	resp.Name = "konnectivity_agent_manifest"
}

func (f *konnectivityAgentFunction) Definition(
	_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse,
) {
	resp.Definition = function.Definition{
		Summary: "Manifest of konnectivity's agents",
		MarkdownDescription: "Returns the manifest of the agents for `konnectivity` of `kube_control_plane_replica`, as " +
			"YAML documents: the Namespace `konnectivity`, a DaemonSet, and what agents and servers may do. Apply it with " +
			"`kubectl apply -f`, or decode it for another provider. The agents connect to every replica, through the " +
			"host and port, and new replicas need no change of the manifest. The result follows from the arguments " +
			"alone.",
		Parameters: []function.Parameter{
			function.StringParameter{
				Name: "host",
				MarkdownDescription: "Address or DNS name at which agents reach the replicas: the endpoint's address. It must " +
					"be in the certificate of the proxy servers, which has the endpoint's addresses, and the name and the " +
					"address of the replica.",
			},
			function.Int64Parameter{
				Name: "port",
				MarkdownDescription: "TCP port at that address which leads to `agent_port` of every replica, such as " +
					"`8132`.",
			},
			function.StringParameter{
				Name:                "image",
				MarkdownDescription: "Container image of konnectivity's `proxy-agent`, in the version of `proxy-server`.",
			},
		},
		Return: function.StringReturn{},
	}
}

func (f *konnectivityAgentFunction) Run(ctx context.Context, req function.RunRequest, resp *function.RunResponse) {
	var host, image string
	var port int64
	if resp.Error = req.Arguments.Get(ctx, &host, &port, &image); resp.Error != nil {
		return
	}
	text, err := component.AgentManifest(host, int(port), image)
	if err != nil {
		resp.Error = function.NewFuncError(err.Error() + "\nNext step: pass the endpoint's address, the port that " +
			"leads to the agent_port of its replicas, and the image of proxy-agent")
		return
	}
	resp.Error = resp.Result.Set(ctx, text)
}
