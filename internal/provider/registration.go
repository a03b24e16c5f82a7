package provider

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/haproxy"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// registrationModel is endpoint.Registration as Terraform attributes. An endpoint exports it
// and a replica takes it as an argument.
type registrationModel struct {
	Address      types.String `tfsdk:"address"`
	Address6     types.String `tfsdk:"address6"`
	Further      types.List   `tfsdk:"additional_addresses"`
	Port         types.Int64  `tfsdk:"port"`
	Hosts        types.Map    `tfsdk:"hosts"`
	DrainTimeout types.String `tfsdk:"drain_timeout"`
	VerifyCA     types.Bool   `tfsdk:"verify_ca"`
	ClusterID    types.String `tfsdk:"cluster_id"`

	Kind          types.String `tfsdk:"kind"` // null is haproxy
	TargetPort    types.Int64  `tfsdk:"target_port"`
	DetectionTime types.String `tfsdk:"detection_time"`
	HealthyTime   types.String `tfsdk:"healthy_time"` // null is detection_time
	ProbeFrom     types.String `tfsdk:"probe_from"`
	Hooks         types.Object `tfsdk:"hooks"`
	Zone          types.Object `tfsdk:"zone"`
	BGP           types.Object `tfsdk:"bgp"`
	KubeVIP       types.Object `tfsdk:"kube_vip"`
}

// hooksModel is endpoint.Hooks as Terraform attributes.
type hooksModel struct {
	Register   []string `tfsdk:"register"`
	Drain      []string `tfsdk:"drain"`
	Deregister []string `tfsdk:"deregister"`
	Status     []string `tfsdk:"status"`
}

var hooksTypes = map[string]attr.Type{
	"register":   types.ListType{ElemType: types.StringType},
	"drain":      types.ListType{ElemType: types.StringType},
	"deregister": types.ListType{ElemType: types.StringType},
	"status":     types.ListType{ElemType: types.StringType},
}

// hooksOf decodes the attribute hooks, whose values are known.
func hooksOf(ctx context.Context, object types.Object, diags *diag.Diagnostics) endpoint.Hooks {
	if object.IsNull() || object.IsUnknown() {
		return endpoint.Hooks{}
	}
	var model hooksModel
	diags.Append(object.As(ctx, &model, basetypes.ObjectAsOptions{})...)
	return endpoint.Hooks(model)
}

var registrationTypes = map[string]attr.Type{
	"address":  types.StringType,
	"address6": types.StringType,

	"additional_addresses": types.ListType{ElemType: types.StringType},

	"port":          types.Int64Type,
	"hosts":         types.MapType{ElemType: types.StringType},
	"drain_timeout": types.StringType,
	"verify_ca":     types.BoolType,
	"cluster_id":    types.StringType,

	"kind":           types.StringType,
	"target_port":    types.Int64Type,
	"detection_time": types.StringType,
	"healthy_time":   types.StringType,
	"probe_from":     types.StringType,
	"hooks":          types.ObjectType{AttrTypes: hooksTypes},
	"zone":           types.ObjectType{AttrTypes: zoneTypes},
	"bgp":            types.ObjectType{AttrTypes: announcementTypes},
	"kube_vip":       types.ObjectType{AttrTypes: electionTypes},
}

// registeredAt returns, for an endpoint, a function that reports whether a machine has a
// replica that is registered there.
func (s *session) registeredAt(cluster, address string) haproxy.Registered {
	return func(ctx context.Context, name string, at netip.AddrPort) (bool, error) {
		observed, err := s.replicas.Recorded(ctx, s.machine(at.Addr().String()))
		if err != nil {
			return false, err
		}
		return observed.ClusterID == cluster && observed.Name == name && observed.Port == int(at.Port()) &&
			isAt(observed, endpoint.Registration{Address: address}.ID()), nil
	}
}

// isAt reports whether a record names an endpoint.
func isAt(observed controlplane.Recorded, id string) bool {
	ids, err := endpointIDs(observed)
	return err == nil && slices.Contains(ids, id)
}

// registrationOf returns a registration at the endpoint of the bundle's cluster.
func registrationOf(
	ctx context.Context, object types.Object, bundle *pki.Bundle, diags *diag.Diagnostics,
) endpoint.Registration {
	return inCluster(decodeRegistration(ctx, object, diags), bundle)
}

// registration returns the registration of a replica at all of its endpoints.
func (m replicaModel) registration(ctx context.Context, diags *diag.Diagnostics) endpoint.Registration {
	registration := registrationOf(ctx, m.Endpoint, m.bundle, diags)
	for _, additional := range m.additional() {
		registration.Additional = append(registration.Additional, registrationOf(ctx, additional, m.bundle, diags))
	}
	return registration
}

// additional returns the additional endpoints.
func (m replicaModel) additional() []types.Object { return objectsIn(m.AdditionalEndpoints) }

// validateEndpoints checks the endpoints of a replica against each other, and that it is one of their targets.
func (m replicaModel) validateEndpoints(ctx context.Context, diags *diag.Diagnostics) {
	if !m.endpointsKnown(ctx) {
		return
	}
	registration := m.registration(ctx, diags)
	if diags.HasError() {
		return
	}
	for _, each := range registration.All() {
		m.validateTarget(each, diags)
	}
	if err := registration.ValidateAdditional(); err != nil {
		addInvalid(diags, path.Root("additional_endpoints"), "Invalid endpoints", err)
		return
	}
	m.validatePorts(registration, diags)
}

// validatePorts checks that the API server and HAProxy of an endpoint do not listen at the same port of the machine.
func (m replicaModel) validatePorts(registration endpoint.Registration, diags *diag.Diagnostics) {
	at, why := path.Root("additional_endpoints"), "as one of the endpoints requires"
	switch {
	case registration.OnMachines():
	case m.Listen.ValueString() == listenAll:
		at, why = path.Root("listen"), `by listen = "all"`
	default:
		return
	}
	for _, each := range registration.All() {
		if m.sharesPort(each) {
			addInvalid(diags, at, "Invalid endpoints", fmt.Errorf("the API server listens on port %d of all addresses of the "+
				"machine, %s, and HAProxy of the endpoint %s uses that port on the same machine: set another port, or let "+
				"other machines balance", each.Port, why, each.Address))
		}
	}
}

// validateTarget checks that the replica is a target of one of its endpoints. It could not be in rotation there, and a
// drain would not find it.
func (m replicaModel) validateTarget(at endpoint.Registration, diags *diag.Diagnostics) {
	address := addressOf(m.Host)
	if !withoutBalancers(at) || !allKnown(address, m.Name) {
		return
	}
	name := m.Name.ValueString()
	switch listed := at.Hosts[name]; listed {
	case address.ValueString():
	case "":
		addInvalid(diags, path.Root("endpoint"), "Replica is no target", fmt.Errorf("none of the targets of the endpoint %s "+
			"is called %q: add the replica there by this name", at.Address, name))
	default:
		addInvalid(diags, path.Root("endpoint"), "Replica is no target", fmt.Errorf("the endpoint %s has the target %q at "+
			"%s, and the replica is on %s: let both be the same machine", at.Address, name, listed, address.ValueString()))
	}
}

// validateEndpointPorts checks that clients of the endpoints reach the replica at its port. It needs nothing else of
// the registrations, whose cluster is not known before the first apply.
func (m replicaModel) validateEndpointPorts(ctx context.Context, diags *diag.Diagnostics) {
	if !allKnown(m.Port) {
		return
	}
	for _, object := range append([]types.Object{m.Endpoint}, m.additional()...) {
		var at registrationModel
		if !allKnown(object) || object.As(ctx, &at, basetypes.ObjectAsOptions{}).HasError() ||
			!allKnown(at.Address, at.Port) || at.Kind.IsUnknown() || at.TargetPort.IsUnknown() {
			continue
		}
		if err := otherPort(endpoint.Registration{
			Kind: endpoint.Kind(at.Kind.ValueString()), Address: at.Address.ValueString(), Port: int(at.Port.ValueInt64()),
			TargetPort: int(at.TargetPort.ValueInt64()),
		}, int(m.Port.ValueInt64())); err != nil {
			addError(diags, path.Root("port"), "", err)
		}
	}
}

// otherPort returns an error if clients of an endpoint do not reach a replica at this port. HAProxy gets the port with
// the registration.
func otherPort(at endpoint.Registration, port int) error {
	var cause, next string
	switch {
	case kindOf(at).direct() && at.Port != port:
		cause = fmt.Sprintf("the endpoint %s (%s) has port %d, and the replica %d: clients reach the API server itself",
			at.Address, at.Kind, at.Port, port)
		next = "set port of both to the same value"
	case at.Kind == endpoint.External && at.TargetPort != 0 && at.TargetPort != port:
		cause = fmt.Sprintf("the balancer of the endpoint %s (external) sends requests to port %d of its targets, and the "+
			"replica has port %d", at.Address, at.TargetPort, port)
		next = "set external.target_port of the endpoint and port of its replicas to the same value"
	default:
		return nil
	}
	return &problem.Problem{
		Summary: "Replica and endpoint have different ports", Attribute: "port", Cause: cause, Unchanged: problem.Nothing,
		Next: next,
	}
}

// sharesPort reports whether HAProxy of an endpoint has the API server's port on the replica's machine.
func (m replicaModel) sharesPort(at endpoint.Registration) bool {
	address := addressOf(m.Host)
	return !withoutBalancers(at) && allKnown(address, m.Port) &&
		at.Port == int(m.Port.ValueInt64()) &&
		slices.Contains(slices.Collect(maps.Values(at.Hosts)), address.ValueString())
}

// refuseOtherEndpoint rejects the endpoint of another cluster.
func refuseOtherEndpoint(ctx context.Context, object types.Object, bundle *pki.Bundle, diags *diag.Diagnostics) {
	if bundle != nil && elementsKnown(ctx, object) {
		refuseClusterOf(decodeRegistration(ctx, object, diags), bundle, diags)
	}
}

// refuseForeignEndpoint is refuseOtherEndpoint for resources that have the arguments of queryEndpointModel.
func refuseForeignEndpoint(ctx context.Context, object types.Object, bundle *pki.Bundle, diags *diag.Diagnostics) {
	if bundle != nil && elementsKnown(ctx, object) {
		refuseClusterOf(decodeEndpoint(ctx, object, nil, diags), bundle, diags)
	}
}

func refuseClusterOf(registration endpoint.Registration, bundle *pki.Bundle, diags *diag.Diagnostics) {
	if id := registration.ClusterID; id != "" && id != bundle.ClusterID {
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
	var detection, healthy time.Duration
	if !model.DetectionTime.IsNull() {
		if detection, err = parseDuration(model.DetectionTime); err != nil {
			addError(diags, attributePath("endpoint.detection_time"), "Invalid duration", err)
		}
	}
	if !model.HealthyTime.IsNull() {
		if healthy, err = parseDuration(model.HealthyTime); err != nil {
			addError(diags, attributePath("endpoint.healthy_time"), "Invalid duration", err)
		}
	}
	return endpoint.Registration{
		Kind:          endpoint.Kind(model.Kind.ValueString()),
		Address:       model.Address.ValueString(),
		Address6:      model.Address6.ValueString(),
		Further:       stringsOf(ctx, model.Further, diags),
		Port:          int(model.Port.ValueInt64()),
		Hosts:         stringMapOf(ctx, model.Hosts, diags),
		DrainTimeout:  drain,
		VerifyCA:      model.VerifyCA.ValueBool(),
		ClusterID:     model.ClusterID.ValueString(),
		TargetPort:    int(model.TargetPort.ValueInt64()),
		DetectionTime: detection,
		HealthyTime:   healthy,
		ProbeFrom:     model.ProbeFrom.ValueString(),
		Hooks:         hooksOf(ctx, model.Hooks, diags),
		Zone:          zoneOf(ctx, model.Zone, diags),
		BGP:           announcementOf(ctx, model.BGP, diags),
		KubeVIP:       electionOf(ctx, model.KubeVIP, diags),
	}
}

// queryEndpointModel is the part of a registration that a data source needs to find the replicas.
type queryEndpointModel struct {
	Address   types.String `tfsdk:"address"`
	Address6  types.String `tfsdk:"address6"`
	Further   types.List   `tfsdk:"additional_addresses"`
	Port      types.Int64  `tfsdk:"port"`
	Hosts     types.Map    `tfsdk:"hosts"`
	ClusterID types.String `tfsdk:"cluster_id"`

	Kind       types.String `tfsdk:"kind"`
	TargetPort types.Int64  `tfsdk:"target_port"`
	ProbeFrom  types.String `tfsdk:"probe_from"`
	Zone       types.Object `tfsdk:"zone"`
	BGP        types.Object `tfsdk:"bgp"`
	KubeVIP    types.Object `tfsdk:"kube_vip"`
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
		Address6:  model.Address6.ValueString(),
		Further:   stringsOf(ctx, model.Further, diags),
		Port:      int(model.Port.ValueInt64()),
		Hosts:     stringMapOf(ctx, model.Hosts, diags),
		ClusterID: model.ClusterID.ValueString(),

		Kind:       endpoint.Kind(model.Kind.ValueString()),
		TargetPort: int(model.TargetPort.ValueInt64()),
		ProbeFrom:  model.ProbeFrom.ValueString(),
		Zone:       zoneOf(ctx, model.Zone, diags),
		BGP:        announcementOf(ctx, model.BGP, diags),
		KubeVIP:    electionOf(ctx, model.KubeVIP, diags),
	}, bundle)
}

// inCluster sets the cluster of a registration that names none to the bundle's.
func inCluster(registration endpoint.Registration, bundle *pki.Bundle) endpoint.Registration {
	if bundle != nil && registration.ClusterID == "" {
		registration.ClusterID = bundle.ClusterID
	}
	return registration
}
