package provider

import (
	"context"
	"fmt"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// requestModel is one certificate request: its text and its contents.
type requestModel struct {
	Request       types.String `tfsdk:"request"` // unknown: to be created
	Authority     types.String `tfsdk:"authority"`
	Signer        types.String `tfsdk:"signer"`
	CommonName    types.String `tfsdk:"common_name"`
	Organizations types.List   `tfsdk:"organizations"`
	DNSNames      types.List   `tfsdk:"dns_names"`
	IPAddresses   types.List   `tfsdk:"ip_addresses"`
	Usages        types.List   `tfsdk:"usages"`
}

var requestType = types.ObjectType{AttrTypes: map[string]attr.Type{
	"request":       types.StringType,
	"authority":     types.StringType,
	"signer":        types.StringType,
	"common_name":   types.StringType,
	"organizations": types.ListType{ElemType: types.StringType},
	"dns_names":     types.ListType{ElemType: types.StringType},
	"ip_addresses":  types.ListType{ElemType: types.StringType},
	"usages":        types.ListType{ElemType: types.StringType},
}}

// wantedRequest is a request and the leaf that it is for.
type wantedRequest struct {
	requestModel
	leaf pki.Leaf
}

// requests are requests by the name of their leaf.
type requests map[string]wantedRequest

// requestsFor returns the requests for the leaves whose authority has an external key. Their
// texts are unknown.
func requestsFor(b *pki.Bundle, leaves []pki.Leaf) (requests, error) {
	wanted := requests{}
	for _, leaf := range leaves {
		if !b.External(leaf.Authority) {
			continue
		}
		request, err := describeRequest(b, leaf)
		if err != nil {
			return nil, err
		}
		if other, ok := wanted[leaf.Name]; ok && !other.same(request) {
			return nil, fmt.Errorf("two different certificates have the name %q: request one of them in a "+
				"separate resource", leaf.Name)
		}
		wanted[leaf.Name] = wantedRequest{request, leaf}
	}
	return wanted, nil
}

func describeRequest(b *pki.Bundle, leaf pki.Leaf) (requestModel, error) {
	dnsNames, addresses, err := leaf.Names()
	if err != nil {
		return requestModel{}, err
	}
	signer, err := pki.Fingerprint(b.Signing(leaf.Authority))
	if err != nil {
		return requestModel{}, err
	}
	return requestModel{
		Request:       types.StringUnknown(),
		Authority:     types.StringValue(string(leaf.Authority)),
		Signer:        types.StringValue(signer),
		CommonName:    types.StringValue(leaf.CommonName),
		Organizations: stringList(slices.Sorted(slices.Values(leaf.Organizations))),
		DNSNames:      stringList(dnsNames),
		IPAddresses:   stringList(addresses),
		Usages:        stringList(leaf.Usage.Names()),
	}, nil
}

// same reports whether two requests have the same contents and the same authority.
func (r requestModel) same(other requestModel) bool {
	return !changed(
		[2]attr.Value{r.Authority, other.Authority},
		[2]attr.Value{r.Signer, other.Signer},
		[2]attr.Value{r.CommonName, other.CommonName},
		[2]attr.Value{r.Organizations, other.Organizations},
		[2]attr.Value{r.DNSNames, other.DNSNames},
		[2]attr.Value{r.IPAddresses, other.IPAddresses},
		[2]attr.Value{r.Usages, other.Usages},
	)
}

// keeping returns the wanted requests with the texts of existing ones that have the same
// contents. It also reports whether a request is added or removed.
func (wanted requests) keeping(have requests) (kept requests, changes bool) {
	kept = requests{}
	changes = len(wanted) != len(have)
	for name, request := range wanted {
		if there, ok := have[name]; ok && there.same(request.requestModel) {
			request.Request = there.Request
		} else {
			changes = true
		}
		kept[name] = request
	}
	return kept, changes
}

func (wanted requests) encode(ctx context.Context, diags *diag.Diagnostics) types.Map {
	models := map[string]requestModel{}
	for name, request := range wanted {
		models[name] = request.requestModel
	}
	value, problems := types.MapValueFrom(ctx, requestType, models)
	diags.Append(problems...)
	return value
}

// decodeRequests reads the requests of the state, which does not contain their leaves.
func decodeRequests(ctx context.Context, value types.Map, diags *diag.Diagnostics) requests {
	models := map[string]requestModel{}
	diags.Append(value.ElementsAs(ctx, &models, false)...)
	have := requests{}
	for name, model := range models {
		have[name] = wantedRequest{requestModel: model}
	}
	return have
}
