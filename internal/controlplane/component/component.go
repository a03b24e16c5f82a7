// Package component describes the desired state of a control-plane replica: the flags of its
// three components and the files they read. The description consists of plain values derived
// from a Replica alone, and do not depend on what runs the components. Package runtime renders them for
// what does.
package component

import (
	"maps"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// Component describes one program, independent of the runtime that runs it.
type Component struct {
	Name    string
	Program string            // path of the executable
	Flags   map[string]string // without dashes; complete
	// Standard are those flags that every replica has whatever is configured: see package pod for its use.
	Standard map[string]string
	// Borrowed maps flags to private keys of another component's user. The runtime passes the
	// key on, so that no key file is readable by two users.
	Borrowed map[string]string
	// Definition, if set, is the runtime's file from before a change that is being rolled back.
	// It is written unchanged.
	Definition string
	// Inputs are the files that are read only at start. A change of one takes effect with a
	// restart; the component reloads every other file by itself.
	Inputs []string
	// Certificates are the files whose expiry the component depends on.
	Certificates []string
	Limits       Limits
	Environment  map[string]string // variables; nil for none
	Groups       []string          // additional groups of the machine; sorted
	Probe        probe
	StopTimeout  time.Duration // how long it may take to stop; 0 means the runtime's default
	// Listens are the ports that it opens in addition to that of its probe.
	Listens []Listener
	// StartsFirst means that the component starts before the API server, and stops after it. The
	// others start when the API server serves.
	StartsFirst bool
	Runtime     string // of the replica
	Image       string // what a static pod runs instead of Program
	// Volumes are mounted into a static pod in addition, by name.
	Volumes map[string]Volume
	Patch   string // of a static pod, as Replica.Patches
	// Sockets are the sockets of other programs on the machine that the component opens.
	Sockets []string
}

// Listener is a port that a component opens.
type Listener struct {
	Address      string // as seen from the machine
	Port         int
	AllAddresses bool // it listens on the port of every address
}

// Limits restrict the resources of a component. "" means no limit. The runtime says which amounts it
// accepts.
type Limits struct {
	MemoryHigh string // bytes, with K, M, G or T; above it the component is throttled
	MemoryMax  string // above it the component is killed and restarted
	CPUQuota   string // percent of one CPU: "200%" is two CPUs

	MemoryMin string // as MemoryMax, or percent of the machine's memory: reserved for the component
	CPUWeight int    // against others on the machine, while processors are busy; 0 is not set
	IOWeight  int    // the same for disks
}

// probe is the readiness endpoint of a component.
type probe struct {
	Address string // as seen from the machine
	Port    int
	Path    string
	// Verified means that the serving certificate is issued by the cluster. Otherwise the
	// program generates a self-signed one.
	Verified bool
	// Plain means that the program answers HTTP without TLS. It listens on a loopback address.
	Plain bool
	// AllAddresses means that the program listens on the port of every address.
	AllAddresses bool
}

// ExceptShared follows the path of a health check of the API server. What all API servers share is not what hangs in
// one of them: etcd, and plugins for encryption at rest. kubeadm's probe counts both, and restarts all API servers when
// etcd has no quorum.
const ExceptShared = "?exclude=etcd&exclude=kms-providers&exclude=kms-provider-0"

// Of returns the components of s: the API server, controller-manager and scheduler, and the
// proxy server if s has one.
func Of(s Replica) []Component {
	all := []Component{APIServer(s), controllerManager(s), scheduler(s)}
	if s.hasKonnectivity() {
		all = append(all, konnectivity(s))
	}
	for i := range all {
		all[i].Inputs = append(all[i].Inputs, s.configInputs(all[i].Name)...)
		all[i].Environment, all[i].Runtime = s.Environment[all[i].Name], s.Runtime
		all[i].Image, all[i].Volumes = s.Image(all[i].Name), s.ExtraVolumes[all[i].Name]
		all[i].Patch = s.Patches[all[i].Name]
		all[i].Standard = s.standardFlags(all[i].Name)
	}
	if s.Previous != nil {
		for i := range all {
			all[i].Definition = s.Previous.Definitions[all[i].Name]
		}
	}
	return all
}

// Artifact returns the executable of a component.
func Artifact(version, name string) host.Artifact {
	return host.Artifact{Product: "kubernetes", Version: version, Name: name}
}

// withExtra merges the user's flags over the defaults. ValidateExtraArgs refuses flags
// that the provider owns.
func withExtra(flags, extra map[string]string) map[string]string {
	merged := maps.Clone(flags)
	maps.Copy(merged, extra)
	return merged
}

// cipherSuites are the TLS 1.2 suites with forward secrecy and authenticated encryption: those
// that the benchmark's 1.2.29 allows, without CBC. Go does not let a program choose the suites
// of TLS 1.3.
var cipherSuites = strings.Join([]string{
	"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
	"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
	"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
}, ",")

// hardening returns the flags that all three components share: no profiling handler, no TLS
// before 1.2, and only strong TLS 1.2 suites.
func hardening() map[string]string {
	return map[string]string{"profiling": "false", "tls-min-version": "VersionTLS12", "tls-cipher-suites": cipherSuites}
}
