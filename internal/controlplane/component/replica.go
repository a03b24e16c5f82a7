package component

import (
	"encoding/json"
	"net"
	"strconv"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

// Defaults of settings that are not given.
const (
	DefaultPort          = 6443
	DefaultClusterDomain = "cluster.local"
)

// Replica is one control-plane replica as it is wanted, in plain values.
type Replica struct {
	Name          string
	Address       string // of the machine, in the cluster
	Bundle        *pki.Bundle
	Version       string // "1.34.4"
	EndpointHost  string // address or name of the endpoint
	EndpointPort  int
	Port          int      // the API server's own, on the machine's address; 0 means 6443
	EtcdURLs      []string // in any order
	ServiceCIDRs  []string // one or two (dual stack)
	PodCIDRs      []string // none, one or two
	ClusterDomain string   // "" means cluster.local
	ExtraSANs     []string
	ExtraArgs     map[string]map[string]string // component → flag without dashes → value
	NoAdminConf   bool                         // no administrators' kubeconfig on the machine
	Audit         Audit
	// Authentication and Audit are the same on every replica. Otherwise what a request
	// may do, and what is logged of it, would depend on the replica that it reaches.
	Authentication Authentication
	Limits         map[string]systemd.Limits // by component
	// SupplementaryGroups are groups of the machine that the API server is in beside
	// its own, such as one that may open the socket of a KMS plugin.
	SupplementaryGroups []string
	// Settings are Audit, Authentication, Limits and SupplementaryGroups as the
	// configuration writes them, as JSON. They are kept on the machine for an import.
	Settings json.RawMessage
	// Registration describes the endpoint that the replica registers with, as JSON. It
	// is kept on the machine, for a change of its etcd member.
	Registration json.RawMessage
	// EarlyRenewal is how long before its end a certificate is renewed, those in
	// kubeconfigs included; 0 means a third of its life.
	EarlyRenewal time.Duration
	// Previous is what the replica ran before a change, while that is undone.
	Previous *Previous
}

// Previous holds the files that a replica had before a change.
type Previous struct {
	Definitions map[string]string // component → the runtime's file
	Settings    map[string]string // path → content: see SettingFiles
}

// ServingAddress is where the API server listens: at the machine's own address,
// because the endpoint's balancer on the same machine may use the same port of the
// virtual IP.
func (s Replica) ServingAddress() string {
	return net.JoinHostPort(s.Address, strconv.Itoa(s.APIPort()))
}

// EndpointURL is what administrators' kubeconfigs point to.
func (s Replica) EndpointURL() string {
	port := s.EndpointPort
	if port == 0 {
		port = DefaultPort
	}
	return "https://" + net.JoinHostPort(s.EndpointHost, strconv.Itoa(port))
}

// LocalURL is the URL of the replica's own API server.
func (s Replica) LocalURL() string { return "https://" + s.ServingAddress() }

// APIPort is the API server's port.
func (s Replica) APIPort() int {
	if s.Port == 0 {
		return DefaultPort
	}
	return s.Port
}

// Domain is the DNS domain of the cluster.
func (s Replica) Domain() string {
	if s.ClusterDomain == "" {
		return DefaultClusterDomain
	}
	return s.ClusterDomain
}

// Machine names the replica's host for messages.
func (s Replica) Machine() string {
	if s.Name == s.Address {
		return s.Name
	}
	return s.Name + " (" + s.Address + ")"
}
