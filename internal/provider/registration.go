package provider

import (
	"context"
	"net/netip"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// registrationModel is endpoint.Registration as Terraform attributes. An endpoint exports it
// and a replica takes it as an argument.
type registrationModel struct {
	Address      types.String `tfsdk:"address"`
	Port         types.Int64  `tfsdk:"port"`
	Hosts        types.Map    `tfsdk:"hosts"`
	DrainTimeout types.String `tfsdk:"drain_timeout"`
	VerifyCA     types.Bool   `tfsdk:"verify_ca"`
	ClusterID    types.String `tfsdk:"cluster_id"`
}

var registrationTypes = map[string]attr.Type{
	"address":       types.StringType,
	"port":          types.Int64Type,
	"hosts":         types.MapType{ElemType: types.StringType},
	"drain_timeout": types.StringType,
	"verify_ca":     types.BoolType,
	"cluster_id":    types.StringType,
}

// registeredAt returns, for an endpoint, a function that reports whether a machine has a
// replica that is registered there.
func (s *session) registeredAt(cluster, address string) endpoint.Registered {
	return func(ctx context.Context, name string, at netip.AddrPort) (bool, error) {
		observed, err := s.replicas.Recorded(ctx, s.machine(at.Addr().String()))
		if err != nil {
			return false, err
		}
		registration, err := registrationIn(observed.Registration)
		return err == nil && observed.ClusterID == cluster && observed.Name == name && observed.Port == int(at.Port()) &&
			registration.Address == address, nil
	}
}

// registrationOf returns a registration at the endpoint of the bundle's cluster.
func registrationOf(
	ctx context.Context, object types.Object, bundle *pki.Bundle, diags *diag.Diagnostics,
) endpoint.Registration {
	return inCluster(decodeRegistration(ctx, object, diags), bundle)
}

// refuseOtherEndpoint rejects the endpoint of another cluster.
func refuseOtherEndpoint(ctx context.Context, object types.Object, bundle *pki.Bundle, diags *diag.Diagnostics) {
	if bundle == nil || object.IsUnknown() {
		return
	}
	if id := decodeRegistration(ctx, object, diags).ClusterID; id != "" && id != bundle.ClusterID {
		diags.AddAttributeError(path.Root("endpoint"), "Endpoint of another cluster",
			"Cause: the endpoint belongs to the cluster "+id+", and the PKI bundle to "+bundle.ClusterID+
				".\nUnchanged: nothing was changed.\nNext step: use the registration of the endpoint with the same pki.")
	}
}

func decodeRegistration(ctx context.Context, object types.Object, diags *diag.Diagnostics) endpoint.Registration {
	var model registrationModel
	diags.Append(object.As(ctx, &model, basetypes.ObjectAsOptions{})...)
	drain, err := parseDuration(model.DrainTimeout)
	if err != nil {
		addError(diags, attributePath("endpoint.drain_timeout"), "Invalid duration", err)
	}
	return endpoint.Registration{
		Address:      model.Address.ValueString(),
		Port:         int(model.Port.ValueInt64()),
		Hosts:        stringMapOf(ctx, model.Hosts, diags),
		DrainTimeout: drain,
		VerifyCA:     model.VerifyCA.ValueBool(),
		ClusterID:    model.ClusterID.ValueString(),
	}
}

// queryEndpointModel is the part of a registration that a data source needs to find the replicas.
type queryEndpointModel struct {
	Address   types.String `tfsdk:"address"`
	Port      types.Int64  `tfsdk:"port"`
	Hosts     types.Map    `tfsdk:"hosts"`
	ClusterID types.String `tfsdk:"cluster_id"`
}

// decodeEndpoint decodes the endpoint of a data source. Terraform drops the attributes of a
// registration that the data source does not have.
func decodeEndpoint(
	ctx context.Context, object types.Object, bundle *pki.Bundle, diags *diag.Diagnostics,
) endpoint.Registration {
	var model queryEndpointModel
	diags.Append(object.As(ctx, &model, basetypes.ObjectAsOptions{})...)
	return inCluster(endpoint.Registration{
		Address:   model.Address.ValueString(),
		Port:      int(model.Port.ValueInt64()),
		Hosts:     stringMapOf(ctx, model.Hosts, diags),
		ClusterID: model.ClusterID.ValueString(),
	}, bundle)
}

// inCluster sets the cluster of a registration that names none to the bundle's.
func inCluster(registration endpoint.Registration, bundle *pki.Bundle) endpoint.Registration {
	if bundle != nil && registration.ClusterID == "" {
		registration.ClusterID = bundle.ClusterID
	}
	return registration
}
