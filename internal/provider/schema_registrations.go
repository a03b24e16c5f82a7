package provider

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
)

func additionalEndpointsSchema() schema.Attribute {
	return schema.ListNestedAttribute{
		Optional: true, Validators: []validator.List{listvalidator.SizeBetween(1, endpoint.MaxAdditional)},
		MarkdownDescription: "The `registration` of further `kube_control_plane_endpoint`s of the cluster: another " +
			"address for other clients, or the previous endpoint while a new one takes over. The replica is in rotation " +
			"at all of them, leaves only if each of them allows it, and has their addresses in its certificate. " +
			"Kubeconfigs name `endpoint`. Default: none. A change registers the replica at added endpoints, and then " +
			"removes it from those that are not listed any more. It restarts nothing, unless the API server begins or " +
			"ends to listen on all addresses of the machine (`bgp`), or has to serve longer when it stops (`external`).",
		NestedObject: schema.NestedAttributeObject{
			Attributes: registrationElements(), Validators: []validator.Object{completeRegistration{}},
		},
	}
}

// registrationElements are the arguments of a registration in a list. None is required by the schema: the framework
// misses each required attribute of an element that is not known yet, as [kube_control_plane_endpoint.x.registration]
// is in a plan that creates the endpoint. completeRegistration requires them.
func registrationElements() map[string]schema.Attribute {
	all := registrationArguments()
	for name, argument := range all {
		if !argument.IsRequired() {
			continue
		}
		switch a := argument.(type) {
		case schema.StringAttribute:
			a.Required, a.Optional, a.MarkdownDescription = false, true, a.MarkdownDescription+refusedWithout
			all[name] = a
		case schema.Int64Attribute:
			a.Required, a.Optional, a.MarkdownDescription = false, true, a.MarkdownDescription+refusedWithout
			all[name] = a
		case schema.BoolAttribute:
			a.Required, a.Optional, a.MarkdownDescription = false, true, a.MarkdownDescription+refusedWithout
			all[name] = a
		case schema.MapAttribute:
			a.Required, a.Optional, a.MarkdownDescription = false, true, a.MarkdownDescription+refusedWithout
			all[name] = a
		}
	}
	return all
}

const refusedWithout = " Default: none; a registration without it is refused."

// completeRegistration requires of a known registration what registrationArguments require.
type completeRegistration struct{}

func (completeRegistration) Description(context.Context) string {
	return "a registration of a kube_control_plane_endpoint"
}

func (v completeRegistration) MarkdownDescription(ctx context.Context) string {
	return v.Description(ctx)
}

func (completeRegistration) ValidateObject(
	_ context.Context, req validator.ObjectRequest, resp *validator.ObjectResponse,
) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	values, arguments := req.ConfigValue.Attributes(), registrationArguments()
	for _, name := range slices.Sorted(maps.Keys(arguments)) {
		if arguments[name].IsRequired() && values[name].IsNull() {
			addInvalid(&resp.Diagnostics, req.Path.AtName(name), "Incomplete registration", fmt.Errorf("%s is missing: use "+
				"the registration of a kube_control_plane_endpoint", name))
		}
	}
}
