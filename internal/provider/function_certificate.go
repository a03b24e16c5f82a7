package provider

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// certificateFunction returns the contents of a certificate, so that a configuration can check
// a certificate or use its expiry.
type certificateFunction struct{}

var _ function.Function = (*certificateFunction)(nil)

// certificateObject is the result of certificateFunction.
type certificateObject struct {
	Subject       types.String `tfsdk:"subject"`
	CommonName    types.String `tfsdk:"common_name"`
	Organizations types.List   `tfsdk:"organizations"`
	Issuer        types.String `tfsdk:"issuer"`
	SerialNumber  types.String `tfsdk:"serial_number"`
	DNSNames      types.List   `tfsdk:"dns_names"`
	IPAddresses   types.List   `tfsdk:"ip_addresses"`
	IsCA          types.Bool   `tfsdk:"is_ca"`
	KeyAlgorithm  types.String `tfsdk:"key_algorithm"`
	Usages        types.List   `tfsdk:"usages"`
	NotBefore     types.String `tfsdk:"not_before"`
	NotAfter      types.String `tfsdk:"not_after"`
	SHA256        types.String `tfsdk:"sha256"`
}

func newCertificateFunction() function.Function { return &certificateFunction{} }

func (f *certificateFunction) Metadata(_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse) {
	resp.Name = "certificate"
}

func (f *certificateFunction) Definition(
	_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse,
) {
	list := types.ListType{ElemType: types.StringType}
	resp.Definition = function.Definition{
		Summary: "Parse a certificate",
		MarkdownDescription: "Parses the first certificate in a PEM text. The signature and the validity period " +
			"are not verified. The result has:\n\n- `subject` and `issuer`: distinguished names in the format of " +
			"RFC 2253, such as `CN=cp1,O=system:nodes`\n- `common_name` and `organizations` of the subject: the " +
			"user name and groups in Kubernetes\n- `serial_number`: hexadecimal\n- `dns_names` and " +
			"`ip_addresses`: the names and addresses for which it is valid as a server certificate\n- `is_ca`: " +
			"whether it is a CA certificate\n- `key_algorithm`: such as `ECDSA-P256` or `RSA-2048`, as in " +
			"`kube_pki_bundle`, or `Ed25519`\n- `usages`: extended key usages as Kubernetes names them, such as " +
			"`server auth` and `client auth`; an unnamed usage is its object identifier. Empty means " +
			"unrestricted\n- `not_before` and `not_after`: RFC 3339\n- `sha256`: fingerprint, hexadecimal, as in " +
			"`fingerprints` of `kube_pki_bundle`",
		Parameters: []function.Parameter{function.StringParameter{
			Name: "pem",
			MarkdownDescription: "Text with a PEM certificate. Everything else in it, including further " +
				"certificates, is ignored.",
		}},
		Return: function.ObjectReturn{AttributeTypes: map[string]attr.Type{
			"subject":       types.StringType,
			"common_name":   types.StringType,
			"organizations": list,
			"issuer":        types.StringType,
			"serial_number": types.StringType,
			"dns_names":     list,
			"ip_addresses":  list,
			"is_ca":         types.BoolType,
			"key_algorithm": types.StringType,
			"usages":        list,
			"not_before":    types.StringType,
			"not_after":     types.StringType,
			"sha256":        types.StringType,
		}},
	}
}

func (f *certificateFunction) Run(ctx context.Context, req function.RunRequest, resp *function.RunResponse) {
	var text string
	if resp.Error = req.Arguments.Get(ctx, &text); resp.Error != nil {
		return
	}
	info, err := pki.Inspect(text)
	if err != nil {
		resp.Error = badArgument(0, err, "pass the content of a certificate in PEM format, for example "+
			"ca_certificate of a kube_pki_bundle or the result of file()")
		return
	}
	resp.Error = resp.Result.Set(ctx, certificateObject{
		Subject:       types.StringValue(info.Subject),
		CommonName:    types.StringValue(info.CommonName),
		Organizations: stringList(info.Organizations),
		Issuer:        types.StringValue(info.Issuer),
		SerialNumber:  types.StringValue(info.Serial),
		DNSNames:      stringList(info.DNSNames),
		IPAddresses:   stringList(info.IPAddresses),
		IsCA:          types.BoolValue(info.IsCA),
		KeyAlgorithm:  types.StringValue(string(info.Algorithm)),
		Usages:        stringList(info.Usages),
		NotBefore:     timeString(info.NotBefore),
		NotAfter:      timeString(info.NotAfter),
		SHA256:        types.StringValue(info.SHA256),
	})
}

// badArgument is the error that every function returns for an invalid argument. Terraform adds
// the parameter's name before the text and a full stop after it.
func badArgument(position int64, err error, next string) *function.FuncError {
	return function.NewArgumentFuncError(position, fmt.Sprintf("%v\nNext step: %s", err, next))
}
