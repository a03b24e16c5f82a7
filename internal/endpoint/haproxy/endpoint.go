// Package haproxy creates, reads, updates and deletes the endpoint of a control plane that is
// a virtual IP held by keepalived in front of HAProxy on a set of machines. Its registrar adds
// replicas to the rotation and removes them without dropping a connection.
//
// Both programs run with their own configuration and units. Those of the distribution or the user
// are not changed. The endpoint owns 10-endpoint.cfg, registration owns 20-backends.cfg, and
// HAProxy loads both. The files are authoritative: a change by the runtime API (a drain) lasts
// only as long as the operation that made it.
package haproxy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
	"github.com/kubequorum/terraform-provider-kube/internal/textfile"
)

// How the hosts send VRRP advertisements.
const (
	Unicast   = "unicast"
	Multicast = "multicast"
)

// The steps in which the address moves between the endpoint and a machine outside of it that serves the
// cluster there.
const (
	Prepare = "prepare" // everything runs, and no host has the address
	Take    = "take"    // a host takes the address when nobody outside of the endpoint answers for it
	Release = "release" // the host that has the address gives it up, and none takes it
)

// Spec is the wanted state of one endpoint.
type Spec struct {
	ClusterID       string                // the cluster that owns the endpoint: two clusters never share a host
	ClusterName     string                // for messages
	Address         string                // the virtual IP
	Further         []string              // further ones, of either family, that the same host has
	Address6        string                // a second one, IPv6, of an endpoint whose Address is IPv4; "" means none
	Port            int                   // 0 means 6443
	Hosts           map[string]*host.Host // by name: the machines with HAProxy and keepalived
	Interface       string                // network interface of the VIP; "" means the one that holds the host's address
	VirtualRouterID int                   // 1–255; 0 means derived from Address
	VRRP            string                // Unicast or Multicast; "" means Unicast
	InstallPackages bool                  // may use the machine's package manager for haproxy and keepalived
	CACertificate   string                // PEM; health checks verify the replicas against it; "" means unverified TLS
	DrainTimeout    time.Duration         // 0 means 10 s
	Konnectivity    *Konnectivity         // the port of konnectivity's agents; nil means none
	HandOver        string                // Prepare, Take or Release, while the address moves; "" means that it does not
	Inherit         bool                  // while HandOver is Prepare or Take: the hosts' own services have the address
	Authorities     string                // PEM: those of the cluster's API servers, for Prepare and Take
	Metrics         *Metrics              // where HAProxy's metrics are served; nil means nowhere
	// TextfileDirectory is that of node_exporter's textfile collector, where facts about the endpoint are
	// written; "" means nowhere.
	TextfileDirectory string
	// LivenessProbe restarts HAProxy and keepalived when they hang. A change restarts nothing.
	LivenessProbe bool
	// Abandon lists unreachable hosts that no longer exist: Update skips those of them that are
	// no longer in Hosts.
	Abandon host.Abandoned
	// Registered reports whether a server is a registered replica, if the balancers' lists do
	// not show it. Nil means that no machine can be read.
	Registered Registered
	// Machine returns the connection for the address of a machine that is not in Hosts, and still has the endpoint. Nil
	// means that there is none.
	Machine func(address string) *host.Host
}

// Registration returns the registration of the endpoint.
func (s Spec) Registration() endpoint.Registration {
	return endpoint.Registration{
		Address:      s.Address,
		Address6:     s.Address6,
		Further:      s.Further,
		Port:         s.port(),
		Hosts:        s.addresses(),
		DrainTimeout: orDefault(s.DrainTimeout, endpoint.DefaultDrainTimeout),
		VerifyCA:     s.CACertificate != "",
		ClusterID:    s.ClusterID,
	}
}

func (s Spec) port() int { return orDefault(s.Port, endpoint.DefaultPort) }

// vips returns the virtual IPs. The same host holds all of them.
func (s Spec) vips() []string {
	return endpoint.Registration{Address: s.Address, Address6: s.Address6, Further: s.Further}.Addresses()
}

// ipv6VIPs returns the virtual IPs of the other family than that of an IPv4 address.
func (s Spec) ipv6VIPs() []string {
	return slices.DeleteFunc(s.vips(), func(address string) bool {
		return strings.Contains(s.Address, ":") || !strings.Contains(address, ":")
	})
}

func (s Spec) multicast() bool { return s.VRRP == Multicast }

// waits reports whether no host is to have the address.
func (s Spec) waits() bool { return s.HandOver == Prepare || s.HandOver == Release }

// serves reports whether one of the hosts is to have the address. While it moves between endpoints, the other one may.
func (s Spec) serves() bool { return s.HandOver == "" || s.Inherit }

func (s Spec) addresses() map[string]string {
	addresses := make(map[string]string, len(s.Hosts))
	for name, machine := range s.Hosts {
		addresses[name] = machine.Address()
	}
	return addresses
}

func (s Spec) validate() error {
	checks := []error{
		validateClusterID(s.ClusterID),
		pki.ValidateClusterName(s.ClusterName),
		ValidateAddress(s.Address),
		endpoint.ValidatePort(s.port()),
		ValidateHosts(s.Address, s.addresses()),
		validateVirtualRouterID(s.routerID()),
	}
	if s.Address6 != "" {
		checks = append(checks, ValidateAddress6(s.Address, s.Address6))
	}
	checks = append(checks, ValidateFurther(s.Address, s.Address6, s.Further, s.addresses()))
	checks = append(checks, ValidateKonnectivity(s.Konnectivity, s.port()),
		ValidateMetrics(s.Metrics, s.port(), s.Konnectivity))
	if s.VRRP != "" && s.VRRP != Unicast && s.VRRP != Multicast {
		checks = append(checks, fmt.Errorf("%q is neither %s nor %s", s.VRRP, Unicast, Multicast))
	}
	if !slices.Contains([]string{"", Prepare, Take, Release}, s.HandOver) {
		checks = append(checks, fmt.Errorf("%q is none of %s, %s and %s", s.HandOver, Prepare, Take, Release))
	}
	checks = append(checks, ValidateInherit(s.Inherit, s.HandOver))
	if s.TextfileDirectory != "" {
		checks = append(checks, textfile.ValidateDirectory(s.TextfileDirectory))
	}
	if s.Interface != "" {
		checks = append(checks, ValidateInterface(s.Interface))
	}
	return errors.Join(checks...)
}

func orDefault[T comparable](value, standard T) T {
	var zero T
	if value == zero {
		return standard
	}
	return value
}

// names returns the keys of a map, sorted, so that hosts are always processed in the same
// order.
func names[T any](byName map[string]T) []string {
	sorted := make([]string, 0, len(byName))
	for name := range byName {
		sorted = append(sorted, name)
	}
	slices.Sort(sorted)
	return sorted
}

func (s Spec) label(name string) string {
	address := s.Hosts[name].Address()
	if name == address {
		return name
	}
	return name + " (" + address + ")"
}

// labels returns the names and addresses of hosts for a message.
func (s Spec) labels(hosts []string) string {
	all := make([]string, 0, len(hosts))
	for _, name := range hosts {
		all = append(all, s.label(name))
	}
	return strings.Join(all, ", ")
}

func refusedError(s Spec, what string, err error) error {
	return &problem.Problem{
		Summary:   "Endpoint " + s.Address + " not " + what,
		Cause:     err.Error(),
		Unchanged: problem.Nothing,
		Err:       err,
	}
}

// onHosts calls do for every name in parallel and joins the errors in the order of the names.
func onHosts(hosts []string, do func(name string) error) error {
	failed := make([]error, len(hosts))
	var all sync.WaitGroup
	for i, name := range hosts {
		all.Go(func() { failed[i] = do(name) })
	}
	all.Wait()
	return errors.Join(failed...)
}
