package provider

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/health"
)

// endpointKind is what differs between the kinds of endpoint. To add a kind, implement it in a file of its own and add
// it to the table below. Outside, a kind has its fields in endpointModel and registrars, its name in firewall.Kinds and
// in the texts about kinds, and what concerns it alone, or several endpoints of a replica.
type endpointKind interface {
	// name is the kind in a registration, and its attribute.
	name() endpoint.Kind
	// arguments returns its attribute, which is null in an endpoint of another kind.
	arguments(m endpointModel) types.Object
	schema() schema.Attribute
	// machinesAt is the argument with the machines.
	machinesAt() path.Path
	// direct reports whether clients reach the API servers themselves, and so at their port.
	direct() bool

	// validate checks the rules between arguments, as far as they are known.
	validate(ctx context.Context, m endpointModel, diags *diag.Diagnostics)
	// checkChange is endpointModel.checkChange for two endpoints of the kind.
	checkChange(ctx context.Context, m, before endpointModel, diags *diag.Diagnostics)
	// register sets what the kind has in a registration. It returns false if an argument is unknown.
	register(ctx context.Context, m endpointModel, to *registrationModel, diags *diag.Diagnostics) bool
	spec(ctx context.Context, s *session, m endpointModel, drain time.Duration, diags *diag.Diagnostics) endpointSpec

	// validateRegistration checks what a machine has recorded.
	validateRegistration(endpoint.Registration) error
	registrar(r registrars, at endpoint.Registration) registrar
	// recorded is registrar for what a machine of the cluster has recorded, see registrars.recorded.
	recorded(r registrars, at endpoint.Registration, cluster string) registrar
	health(ctx context.Context, r registrars, at endpoint.Registration) health.Endpoint
}

// targetsKind is a kind without balancers: what its endpoints have is on the machines of the replicas, and only these
// have a record of it.
type targetsKind interface {
	endpointKind
	// importArguments sets the attribute of the kind.
	importArguments(i importer, recorded endpoint.Registration)
}

// targetsKinds and endpointKinds are the table of kinds: that with balancers, and those without.
var (
	targetsKinds  = []targetsKind{externalKind{}, dnsKind{}, bgpKind{}, kubeVIPKind{}}
	endpointKinds = withTargetsKinds(haproxyKind{})
)

func withTargetsKinds(all ...endpointKind) []endpointKind {
	for _, kind := range targetsKinds {
		all = append(all, kind)
	}
	return all
}

// knownKind returns the kind of a registration, if this version of the provider knows it.
func knownKind(name endpoint.Kind) (endpointKind, bool) {
	for _, kind := range endpointKinds {
		if kind.name() == cmp.Or(name, endpoint.HAProxy) {
			return kind, true
		}
	}
	return nil, false
}

// kindOf returns the kind of a registration that has been validated.
func kindOf(registration endpoint.Registration) endpointKind {
	if kind, known := knownKind(registration.Kind); known {
		return kind
	}
	return haproxyKind{}
}

// withoutBalancers reports whether an endpoint is recorded on the machines of its replicas only.
func withoutBalancers(registration endpoint.Registration) bool {
	_, without := kindOf(registration).(targetsKind)
	return without
}

// validateRegistration checks what a machine has recorded of one endpoint.
func validateRegistration(registration endpoint.Registration) error {
	kind, known := knownKind(registration.Kind)
	if !known {
		return errors.New("this version of the provider does not know its kind of endpoint")
	}
	return kind.validateRegistration(registration)
}

// kind returns the kind of the endpoint. An attribute that is unknown may become null: one that is known decides.
func (m endpointModel) kind() endpointKind {
	var chosen endpointKind = haproxyKind{}
	for _, kind := range endpointKinds {
		switch arguments := kind.arguments(m); {
		case allKnown(arguments):
			return kind
		case arguments.IsUnknown():
			chosen = kind
		}
	}
	return chosen
}

// kindUnknown reports whether the attribute of a kind is unknown: the endpoint may have that kind.
func (m endpointModel) kindUnknown() bool {
	for _, kind := range endpointKinds {
		if kind.arguments(m).IsUnknown() {
			return true
		}
	}
	return false
}

// otherKind reports whether two endpoints have different kinds. An attribute that is unknown may become null.
func (m endpointModel) otherKind(other endpointModel) bool {
	for _, kind := range endpointKinds {
		mine, others := kind.arguments(m), kind.arguments(other)
		if !mine.IsUnknown() && !others.IsUnknown() && mine.IsNull() != others.IsNull() {
			return true
		}
	}
	return false
}

// kindNames returns the names of all kinds.
func kindNames() []string {
	var all []string
	for _, kind := range endpointKinds {
		all = append(all, string(kind.name()))
	}
	return all
}

// kindPaths returns the attributes of kinds.
func kindPaths[K endpointKind](kinds []K) []path.Path {
	var all []path.Path
	for _, kind := range kinds {
		all = append(all, path.Root(string(kind.name())))
	}
	return all
}
