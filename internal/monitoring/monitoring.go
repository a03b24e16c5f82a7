// Package monitoring says how Prometheus scrapes a control plane, and when it alerts. Everything is
// made of facts about one control plane: its machines by name, quorum and limits.
package monitoring

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Facts are what scrape configurations and alerts are made of.
type Facts struct {
	Cluster  string                // the label cluster of all series
	Members  map[string]netip.Addr // by name
	Replicas map[string]netip.Addr
	// Balancers are the machines whose HAProxy serves metrics; none: nothing is known about them.
	Balancers    map[string]netip.Addr
	BalancerPort int // of these metrics; 0 means 8405
	// AddressHolders are the machines of the endpoint that can have the virtual IP, whether their HAProxy serves metrics
	// or not; none: the balancers.
	AddressHolders map[string]netip.Addr
	// EtcdPort is that of etcd's listener for metrics with TLS, which is scraped instead of the client port; 0: none.
	EtcdPort int
	// NodePort is the port of node_exporter on all machines, which has the facts that the resources
	// write (metrics.textfile_directory); 0: there is none.
	NodePort int
	Port     int // of the API servers; 0 means 6443
	// ControllersLocal says that controller managers and schedulers cannot be scraped: they listen on 127.0.0.1.
	ControllersLocal bool
	// MaxRequests and MaxMutatingRequests are the flags max-requests-inflight and
	// max-mutating-requests-inflight of the API servers; 0 means their defaults.
	MaxRequests         int
	MaxMutatingRequests int
	// Extensive says that the members run with metrics=extensive, which has durations of requests.
	Extensive bool
	// EarlyRenewal is how long before their end an apply, or another signer, renews certificates; 0 means far earlier than
	// alerts about their end.
	EarlyRenewal time.Duration
	// PlanMetrics says that a pipeline hands on what its scheduled plans see (kube-review -metrics).
	PlanMetrics bool
	// Labels are added to every alert.
	Labels map[string]string
	// WaitFactor multiplies how long alerts wait before they fire; 0 means 1.
	WaitFactor float64
}

// The defaults of kube-apiserver.
const (
	defaultPort                = 6443
	defaultBalancerPort        = 8405
	defaultMaxRequests         = 400
	defaultMaxMutatingRequests = 200
)

// The jobs of the scrape configuration. The names are those of the mixins of Kubernetes and etcd.
const (
	jobEtcd              = "etcd"
	jobAPIServer         = "kube-apiserver"
	jobControllerManager = "kube-controller-manager"
	jobScheduler         = "kube-scheduler"
	jobHAProxy           = "haproxy"
	jobNode              = "node" // node_exporter
)

var (
	plainName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)
	labelName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]{0,62}$`)
)

// Validate checks facts. Names become parts of queries, so nothing in them may need quoting.
func (f Facts) Validate() error {
	if !plainName.MatchString(f.Cluster) {
		return fmt.Errorf("cluster %q: want letters, digits and ._-, at most 63", f.Cluster)
	}
	if len(f.Members)+len(f.Replicas)+len(f.Balancers) == 0 {
		return errors.New("there are neither members nor replicas nor balancers")
	}
	if err := f.validateMachines(); err != nil {
		return err
	}
	if f.Port < 0 || f.Port > 65535 || f.BalancerPort < 0 || f.BalancerPort > 65535 || f.NodePort < 0 ||
		f.NodePort > 65535 || f.EtcdPort < 0 || f.EtcdPort > 65535 || f.MaxRequests < 0 || f.MaxMutatingRequests < 0 {
		return errors.New("a port or a limit is out of range")
	}
	if f.EarlyRenewal < 0 {
		return errors.New("certificates cannot be renewed after their end")
	}
	if f.WaitFactor < 0 || f.WaitFactor > 100 {
		return errors.New("the factor of waits is not between 0 and 100")
	}
	return f.validateLabels()
}

func (f Facts) validateMachines() error {
	known := map[string]netip.Addr{}
	for role, machines := range map[string]map[string]netip.Addr{
		"members": f.Members, "replicas": f.Replicas, "balancers": f.Balancers, "address_holders": f.AddressHolders,
	} {
		for name, address := range machines {
			if !plainName.MatchString(name) {
				return fmt.Errorf("%s: name %q: want letters, digits and ._-, at most 63", role, name)
			}
			if !address.IsValid() || address.IsUnspecified() || address.Zone() != "" {
				return fmt.Errorf("%s: %s is not the address of a machine", role, address)
			}
			if other, twice := known[name]; twice && other != address {
				return fmt.Errorf("the machine %s has the addresses %s and %s", name, other, address)
			}
			known[name] = address
		}
	}
	return nil
}

func (f Facts) validateLabels() error {
	for name, value := range f.Labels {
		if !labelName.MatchString(name) || strings.HasPrefix(name, "__") || slices.Contains(ownLabels, name) {
			return fmt.Errorf("labels: %q is no name for a label of an alert", name)
		}
		if strings.Contains(value, "{{") {
			return fmt.Errorf("labels: the value of %q is a template", name)
		}
	}
	return nil
}

// ownLabels are those that alerts have already.
var ownLabels = []string{"alertname", "cluster", "job", "machine", "resource", "severity"}

// target is one process that is scraped.
type target struct {
	job, machine, address string
}

// The ports of etcd: that of clients, and the default of its listener for metrics without TLS.
const (
	etcdClientPort  = 2379
	etcdMetricsPort = 2381
)

// targets returns all processes, by job and machine. etcd is scraped as a client, or at its
// listener for metrics without TLS.
func (f Facts) targets(asClient bool) []target {
	etcdPort := etcdMetricsPort
	if asClient {
		etcdPort = cmp.Or(f.EtcdPort, etcdClientPort)
	}
	controllers := f.Replicas
	if f.ControllersLocal {
		controllers = nil
	}
	var all []target
	for _, job := range []struct {
		name     string
		machines map[string]netip.Addr
		port     int
	}{
		{jobEtcd, f.Members, etcdPort},
		{jobAPIServer, f.Replicas, cmp.Or(f.Port, defaultPort)},
		{jobControllerManager, controllers, 10257},
		{jobScheduler, controllers, 10259},
		{jobHAProxy, f.Balancers, cmp.Or(f.BalancerPort, defaultBalancerPort)},
		{jobNode, f.nodes(), f.NodePort},
	} {
		for _, name := range slices.Sorted(maps.Keys(job.machines)) {
			all = append(all, target{job.name, name, at(job.machines[name], job.port)})
		}
	}
	return all
}

// nodes returns all machines by name, if they have a node_exporter.
func (f Facts) nodes() map[string]netip.Addr {
	if f.NodePort == 0 {
		return nil
	}
	all := map[string]netip.Addr{}
	for _, machines := range []map[string]netip.Addr{f.Members, f.Replicas, f.holders()} {
		maps.Copy(all, machines)
	}
	return all
}

// holders returns the machines of an endpoint with balancers, by name: they can have its virtual IP.
func (f Facts) holders() map[string]netip.Addr {
	all := maps.Clone(f.Balancers)
	if len(all) == 0 {
		return f.AddressHolders
	}
	maps.Copy(all, f.AddressHolders)
	return all
}

func at(address netip.Addr, port int) string {
	return net.JoinHostPort(address.String(), strconv.Itoa(port))
}
