// Package monitoring says how Prometheus scrapes a control plane, and when it alerts. Everything is
// made of facts about one control plane: its machines by name, quorum and limits.
package monitoring

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Facts are what scrape configurations and alerts are made of.
type Facts struct {
	Cluster  string                // the label cluster of all series
	Members  map[string]netip.Addr // by name
	Replicas map[string]netip.Addr
	Port     int // of the API servers; 0 means 6443
	// MaxRequests and MaxMutatingRequests are the flags max-requests-inflight and
	// max-mutating-requests-inflight of the API servers; 0 means their defaults.
	MaxRequests         int
	MaxMutatingRequests int
	// Extensive says that the members run with metrics=extensive, which has durations of requests.
	Extensive bool
	// Labels are added to every alert.
	Labels map[string]string
}

// The defaults of kube-apiserver.
const (
	defaultPort                = 6443
	defaultMaxRequests         = 400
	defaultMaxMutatingRequests = 200
)

// The jobs of the scrape configuration. The names are those of the mixins of Kubernetes and etcd.
const (
	jobEtcd              = "etcd"
	jobAPIServer         = "kube-apiserver"
	jobControllerManager = "kube-controller-manager"
	jobScheduler         = "kube-scheduler"
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
	if len(f.Members)+len(f.Replicas) == 0 {
		return errors.New("there are neither members nor replicas")
	}
	for role, machines := range map[string]map[string]netip.Addr{"members": f.Members, "replicas": f.Replicas} {
		for name, address := range machines {
			if !plainName.MatchString(name) {
				return fmt.Errorf("%s: name %q: want letters, digits and ._-, at most 63", role, name)
			}
			if !address.IsValid() || address.IsUnspecified() || address.Zone() != "" {
				return fmt.Errorf("%s: %s is not the address of a machine", role, address)
			}
		}
	}
	if f.Port < 0 || f.Port > 65535 || f.MaxRequests < 0 || f.MaxMutatingRequests < 0 {
		return errors.New("a port or a limit is out of range")
	}
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
var ownLabels = []string{"alertname", "cluster", "job", "machine", "severity"}

// target is one process that is scraped.
type target struct {
	job, machine, address string
}

// The ports of etcd: that of clients, and the default of its listener for metrics alone.
const (
	etcdClientPort  = 2379
	etcdMetricsPort = 2381
)

// targets returns all processes, by job and machine. etcd is scraped as a client, or at its
// listener for metrics.
func (f Facts) targets(asClient bool) []target {
	etcdPort := etcdMetricsPort
	if asClient {
		etcdPort = etcdClientPort
	}
	var all []target
	port := f.Port
	if port == 0 {
		port = defaultPort
	}
	for _, name := range slices.Sorted(maps.Keys(f.Members)) {
		all = append(all, target{jobEtcd, name, at(f.Members[name], etcdPort)})
	}
	for _, job := range []struct {
		name string
		port int
	}{{jobAPIServer, port}, {jobControllerManager, 10257}, {jobScheduler, 10259}} {
		for _, name := range slices.Sorted(maps.Keys(f.Replicas)) {
			all = append(all, target{job.name, name, at(f.Replicas[name], job.port)})
		}
	}
	return all
}

func at(address netip.Addr, port int) string {
	return net.JoinHostPort(address.String(), strconv.Itoa(port))
}
