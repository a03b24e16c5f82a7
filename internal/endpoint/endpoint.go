// Package endpoint makes, reads, changes and removes the fixed API address of
// a control plane: a virtual IP held by keepalived in front of HAProxy on a
// set of machines, and the registrar through which replicas enter and leave
// rotation without a dropped connection.
//
// Both programs run with a configuration and units of their own. Those of the
// distribution or the user are not touched. The
// endpoint owns 10-endpoint.cfg, registration owns 20-backends.cfg; HAProxy
// loads both, and the files are the whole truth: what the runtime API changes
// (draining) lasts only as long as the operation that changed it.
package endpoint

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// ErrGone: every host answers and nothing of the endpoint is there.
var ErrGone = errors.New("control-plane endpoint does not exist")

const (
	defaultPort         = 6443
	defaultDrainTimeout = 10 * time.Second
)

// Spec is one endpoint as it is wanted.
type Spec struct {
	ClusterID       string                // whose endpoint it is: two clusters never share a host
	ClusterName     string                // for people
	Address         string                // the virtual IP
	Port            int                   // 0 means 6443
	Hosts           map[string]*host.Host // by name: the machines with HAProxy and keepalived
	Interface       string                // network interface of the VIP; "" means the one that holds the host's address
	VirtualRouterID int                   // 1–255; 0 means derived from Address
	InstallPackages bool                  // may use the machine's package manager for haproxy and keepalived
	CACertificate   string                // PEM: health checks verify the replicas against it; "" means unverified TLS
	DrainTimeout    time.Duration         // 0 means 10 s
	// Abandon are hosts that are gone for good: Update leaves those of them that
	// are no longer in Hosts as they are when they cannot be reached.
	Abandon host.Abandoned
	// Registered is asked about servers of which the balancers' lists alone do not
	// say that they are replicas. Nil: no machine can be asked.
	Registered Registered
}

// Registration is all a replica needs to know to enter and leave rotation. It
// follows from Spec alone, so it is known at plan time, and holds no secret.
type Registration struct {
	Address      string            `json:"address"`
	Port         int               `json:"port"`
	Hosts        map[string]string `json:"hosts"` // name → address
	DrainTimeout time.Duration     `json:"drain_timeout"`
	VerifyCA     bool              `json:"verify_ca"`
	ClusterID    string            `json:"cluster_id,omitempty"` // "" in what an earlier version has given
}

// Registration derives it.
func (s Spec) Registration() Registration {
	return Registration{
		Address:      s.Address,
		Port:         s.port(),
		Hosts:        s.addresses(),
		DrainTimeout: orDefault(s.DrainTimeout, defaultDrainTimeout),
		VerifyCA:     s.CACertificate != "",
		ClusterID:    s.ClusterID,
	}
}

// Status is what the state of an endpoint's resource records of its machines. Health has the rest.
type Status struct {
	ConfigDigest string // "" while a host cannot be reached
	Drift        []string
}

func (s Spec) port() int { return orDefault(s.Port, defaultPort) }

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
		ValidatePort(s.port()),
		ValidateHosts(s.Address, s.addresses()),
		validateVirtualRouterID(s.routerID()),
	}
	if s.Interface != "" {
		checks = append(checks, validateInterface(s.Interface))
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

// names gives a map's keys in order, so that whatever is done host by host is
// done in the same order each time.
func names[T any](byName map[string]T) []string {
	sorted := make([]string, 0, len(byName))
	for name := range byName {
		sorted = append(sorted, name)
	}
	slices.Sort(sorted)
	return sorted
}

func (s Spec) label(name string) string { return name + " (" + s.Hosts[name].Address() + ")" }

func refusedError(s Spec, what string, err error) error {
	return &problem.Problem{
		Summary:   "Endpoint " + s.Address + " not " + what,
		Cause:     err.Error(),
		Unchanged: problem.Nothing,
		Err:       err,
	}
}

// onHosts runs do for every name in parallel and joins the errors in order.
func onHosts(hosts []string, do func(name string) error) error {
	failed := make([]error, len(hosts))
	var all sync.WaitGroup
	for i, name := range hosts {
		all.Go(func() { failed[i] = do(name) })
	}
	all.Wait()
	return errors.Join(failed...)
}
