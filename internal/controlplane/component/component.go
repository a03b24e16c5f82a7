// Package component describes a control-plane replica as it is wanted: what its three
// components run with, and the files they read. The description is plain values and
// follows from a Replica alone; package unit renders it for systemd.
package component

import (
	"maps"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

// Component is one program described once; a runtime renders it.
type Component struct {
	Name    string
	Program string            // path of the executable
	Flags   map[string]string // without dashes; complete
	// borrowed are flags whose value is a private key of another component's user:
	// the runtime hands the key over, so that no key file is readable by two users.
	Borrowed map[string]string
	// definition, if set, is the runtime's file as it was before a change that is
	// being undone. It is written as it is.
	Definition string
	// inputs are the files read at start only. A change of one takes effect by
	// a restart; every other file the component reloads by itself.
	Inputs []string
	// certificates are the files whose expiry the component depends on.
	Certificates []string
	Limits       systemd.Limits
	Groups       []string // of the machine, beside the component's own; sorted
	Notifies     bool     // tells systemd when it serves
	Probe        probe
}

// probe is where a component says whether it is ready.
type probe struct {
	Address string // as seen from the machine
	Port    int
	Path    string
	// verified: the serving certificate is the cluster's own. Otherwise it is
	// one that the program made for itself.
	Verified bool
}

// Of describes the three components of s.
func Of(s Replica) []Component {
	all := []Component{APIServer(s), controllerManager(s), scheduler(s)}
	if s.Previous != nil {
		for i := range all {
			all[i].Definition = s.Previous.Definitions[all[i].Name]
		}
	}
	return all
}

// Artifact is the executable of a component.
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

// cipherSuites are those of TLS 1.2 with forward secrecy and authenticated
// encryption: of what the benchmark's 1.2.29 allows, the part without CBC. TLS 1.3
// has its own, which Go does not let anybody choose.
var cipherSuites = strings.Join([]string{
	"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
	"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
	"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
}, ",")

// hardening holds for all three: no profiling handler, no TLS before 1.2, and of
// that only what is strong.
func hardening() map[string]string {
	return map[string]string{"profiling": "false", "tls-min-version": "VersionTLS12", "tls-cipher-suites": cipherSuites}
}
