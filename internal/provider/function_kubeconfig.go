package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// kubeconfigFunction returns the parts of a kubeconfig. Other providers are configured with
// these parts or with the path of a file, and a kubeconfig created in the same apply has no
// file yet.
type kubeconfigFunction struct{}

var _ function.Function = (*kubeconfigFunction)(nil)

// kubeconfigObject is the result of kubeconfigFunction.
type kubeconfigObject struct {
	ClusterName          types.String `tfsdk:"cluster_name"`
	Server               types.String `tfsdk:"server"`
	CertificateAuthority types.String `tfsdk:"certificate_authority"`
	User                 types.String `tfsdk:"user"`
	ClientCertificate    types.String `tfsdk:"client_certificate"`
	ClientKey            types.String `tfsdk:"client_key"`
	Token                types.String `tfsdk:"token"`
	Namespace            types.String `tfsdk:"namespace"`
}

func newKubeconfigFunction() function.Function { return &kubeconfigFunction{} }

func (f *kubeconfigFunction) Metadata(_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse) {
	resp.Name = "kubeconfig"
}

func (f *kubeconfigFunction) Definition(
	_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse,
) {
	resp.Definition = function.Definition{
		Summary: "Parse a kubeconfig, to configure other providers",
		MarkdownDescription: "Parses the current context of a kubeconfig. The result has the following " +
			"attributes, which are `null` if the kubeconfig does not set them:\n\n- `cluster_name` and `user`: " +
			"the names of the entries in the kubeconfig\n- `server`: URL of the API\n- `certificate_authority`: " +
			"CA certificates that verify the server, PEM\n- `client_certificate` and `client_key`: PEM\n- " +
			"`token`: bearer token\n- `namespace`: of the context\n\nFiles that the kubeconfig references are not " +
			"read: such a kubeconfig is an error. `kubectl config view --flatten` writes one without references. " +
			"Other settings of a kubeconfig (a proxy, a TLS server name, `exec`, a password) are not in the " +
			"result.\n\nThe result is sensitive if the text is. If the text is not, as with `file()`, call " +
			"`provider::kube::kubeconfig(sensitive(file(\"admin.conf\")))`.",
		Parameters: []function.Parameter{function.StringParameter{
			Name:                "text",
			MarkdownDescription: "The content of the kubeconfig, YAML or JSON, not its path.",
		}},
		Return: function.ObjectReturn{AttributeTypes: map[string]attr.Type{
			"cluster_name":          types.StringType,
			"server":                types.StringType,
			"certificate_authority": types.StringType,
			"user":                  types.StringType,
			"client_certificate":    types.StringType,
			"client_key":            types.StringType,
			"token":                 types.StringType,
			"namespace":             types.StringType,
		}},
	}
}

func (f *kubeconfigFunction) Run(ctx context.Context, req function.RunRequest, resp *function.RunResponse) {
	var text string
	if resp.Error = req.Arguments.Get(ctx, &text); resp.Error != nil {
		return
	}
	access, err := pki.ParseAccess(text)
	if err != nil {
		resp.Error = badArgument(0, err, "pass the content of a self-contained kubeconfig, for example content of "+
			"a kube_kubeconfig or the result of file()")
		return
	}
	resp.Error = resp.Result.Set(ctx, kubeconfigObject{
		ClusterName:          types.StringValue(access.Cluster),
		Server:               types.StringValue(access.Server),
		CertificateAuthority: orNull(access.CA),
		User:                 types.StringValue(access.User),
		ClientCertificate:    orNull(access.Client.Certificate),
		ClientKey:            orNull(access.Client.PrivateKey),
		Token:                orNull(access.Token),
		Namespace:            orNull(access.Namespace),
	})
}

// orNull returns null for an empty string. Other providers treat an empty string as a setting.
func orNull(text string) types.String {
	if text == "" {
		return types.StringNull()
	}
	return types.StringValue(text)
}
