package component

import (
	"cmp"
	"encoding/json"
	"net"
	"strconv"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/node"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// Defaults of settings that are not set.
const (
	DefaultPort          = 6443
	DefaultClusterDomain = "cluster.local"
)

// What can run the components of a replica.
const (
	Systemd   = "systemd"    // each is a unit, with a user of its own
	StaticPod = "static_pod" // each is a static pod of the kubelet on the machine, and root, as with kubeadm
)

// DefaultImageRepository is kubeadm's.
const DefaultImageRepository = "registry.k8s.io"

// Replica is the desired state of one control-plane replica, in plain values.
type Replica struct {
	Name          string
	Address       string // the machine's address in the cluster
	Bundle        *pki.Bundle
	Version       string // "1.36.3"
	EndpointHost  string // address or name of the endpoint
	EndpointHost6 string // second address of a dual-stack endpoint; "" means none
	EndpointPort  int
	// AdditionalHosts are the addresses of the additional endpoints. Certificates have them.
	AdditionalHosts []string
	Port            int      // the API server's own, on the machine's address; 0 means 6443
	EtcdURLs        []string // in any order
	ServiceCIDRs    []string // one or two (dual stack)
	PodCIDRs        []string // none, one or two
	ClusterDomain   string   // "" means cluster.local
	ExtraSANs       []string
	ExtraArgs       map[string]map[string]string // component → flag without dashes → value, or values (Repeated)
	NoAdminConf     bool                         // no administrator kubeconfig on the machine
	Audit           Audit
	// Authentication and Audit are the same on every replica. Otherwise the rights of a
	// request, and what is logged about it, would depend on the replica that serves it.
	Authentication Authentication
	Limits         map[string]Limits // by component
	// Environment has variables by component and name. Their values are no secrets.
	Environment map[string]map[string]string
	// Konnectivity configures the proxy server through which the API server reaches Services, Pods
	// and nodes; nil means that it reaches them directly.
	Konnectivity *Konnectivity
	// ConfigFiles are the files that flags name, by their name in FilesDir.
	ConfigFiles map[string]ConfigFile
	// SupplementaryGroups are additional groups of the API server on the machine, such as the
	// group that may open the socket of a KMS plugin.
	SupplementaryGroups []string
	// Settings are Audit, Authentication, Limits, Environment, SupplementaryGroups, Konnectivity and ConfigFiles
	// (without their contents) as written in the configuration, as JSON. They are stored on the machine
	// for an import.
	Settings json.RawMessage
	// Registration describes the endpoint that the replica registers with, as JSON. It is
	// stored on the machine for changes of its etcd member.
	Registration json.RawMessage
	// Leaves describes, as Registration, the endpoints that the replica leaves, until it is registered at those of
	// Registration; nil if it leaves none.
	Leaves json.RawMessage
	// DetectionTime is how long the endpoint sends requests to a replica that is not ready any
	// more. 0 means that the provider takes it out of rotation before.
	DetectionTime time.Duration
	// AllAddresses lets the API server and the proxy server of Konnectivity listen on all addresses of the machine,
	// because clients reach them at the endpoint's address. Otherwise, they listen on the machine's own.
	AllAddresses bool
	// ListenAll lets the API server alone listen on all addresses, because a user wants it.
	ListenAll bool
	// EndpointLease is the name of the Lease whose holder has the endpoint's address, as with kube-vip. Its
	// holders get a kubeconfig for it. "" means that the endpoint has none.
	EndpointLease string
	// LeaseHolders is the name of the role that permits to read and update that Lease, of its binding, and of the group
	// in the certificates of those who may hold it.
	LeaseHolders string
	// HeldAddresses are addresses of endpoints that one machine of a replica has at a time. They are for facts.
	HeldAddresses []string
	// AnnouncedAddresses are addresses of endpoints that the machine announces by BGP, with who says whether it does:
	// see textfile.Announced. They are for facts.
	AnnouncedAddresses map[string]string
	// MetricsAddress is where controller-manager and scheduler listen, with login: "0.0.0.0" or
	// "::", so that their metrics can be scraped; "" means 127.0.0.1.
	MetricsAddress string
	// VerifyKubelets lets the API server verify the serving certificates of kubelets.
	VerifyKubelets bool
	// LivenessProbe restarts components that hang. A change restarts nothing.
	LivenessProbe bool
	// TextfileDirectory is that of node_exporter's textfile collector, where facts about the replica are
	// written; "": nowhere. A change restarts nothing.
	TextfileDirectory string
	// EarlyRenewal is how long before expiry a certificate is renewed, including those in
	// kubeconfigs; 0 means a third of the lifetime.
	EarlyRenewal time.Duration
	// Runtime runs the components: "" is Systemd. See package runtime.
	Runtime string
	// InstallKubelet is installed, with containerd, if the machine of static pods has no kubelet; nil: nothing is.
	InstallKubelet *node.Wanted
	// ImageRepository has the images of static pods, NAME:vVERSION; "" is DefaultImageRepository.
	ImageRepository string
	// ManageKubelet lets the kubelet of the machine, which runs the static pods, have the version of the replica.
	ManageKubelet bool
	// Patches are strategic merge patches of the static pods, by component, in YAML or JSON.
	Patches map[string]string
	// ExtraVolumes are mounted into the static pods of components, by the names of the component and of the volume.
	ExtraVolumes map[string]map[string]Volume
	// Previous is what the replica ran before a change. It is set while the change is rolled
	// back.
	Previous *Previous
}

// Previous contains the files that a replica had before a change.
type Previous struct {
	Definitions map[string]string // component → the runtime's file
	Settings    map[string]string // path → content: see SettingFiles
}

// ServingAddress returns the address at which the API server is asked on its own machine. It listens
// there alone, because the endpoint's load balancer on the same machine may use the same port of
// the virtual IP, unless the endpoint's address is its own (AllAddresses) or the user wants it (ListenAll).
func (s Replica) ServingAddress() string {
	return net.JoinHostPort(s.Address, strconv.Itoa(s.APIPort()))
}

// EndpointURL returns the server URL of administrator kubeconfigs.
func (s Replica) EndpointURL() string {
	port := s.EndpointPort
	if port == 0 {
		port = DefaultPort
	}
	return "https://" + net.JoinHostPort(s.EndpointHost, strconv.Itoa(port))
}

// LocalURL returns the URL of the replica's own API server.
func (s Replica) LocalURL() string { return "https://" + s.ServingAddress() }

// APIPort returns the API server's port.
func (s Replica) APIPort() int {
	if s.Port == 0 {
		return DefaultPort
	}
	return s.Port
}

// LocalAddress is where controller-manager and scheduler are asked, and listen by default.
const LocalAddress = "127.0.0.1"

// listens returns the address at which controller-manager and scheduler listen.
func (s Replica) listens() string { return cmp.Or(s.MetricsAddress, LocalAddress) }

// Domain returns the DNS domain of the cluster.
func (s Replica) Domain() string {
	if s.ClusterDomain == "" {
		return DefaultClusterDomain
	}
	return s.ClusterDomain
}

// Machine returns the name of the replica's host for messages.
func (s Replica) Machine() string {
	if s.Name == s.Address {
		return s.Name
	}
	return s.Name + " (" + s.Address + ")"
}
