package controlplane

import (
	"maps"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/systemd"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// component is one program described once; a runtime renders it.
type component struct {
	name    string
	program string            // path of the executable
	flags   map[string]string // without dashes; complete
	// borrowed are flags whose value is a private key of another component's user:
	// the runtime hands the key over, so that no key file is readable by two users.
	borrowed map[string]string
	// definition, if set, is the runtime's file as it was before a change that is
	// being undone. It is written as it is.
	definition string
	// inputs are the files read at start only. A change of one takes effect by
	// a restart; every other file the component reloads by itself.
	inputs []string
	// certificates are the files whose expiry the component depends on.
	certificates []string
	limits       systemd.Limits
	groups       []string // of the machine, beside the component's own; sorted
	notifies     bool     // tells systemd when it serves
	probe        probe
}

// probe is where a component says whether it is ready.
type probe struct {
	address string // as seen from the machine
	port    int
	path    string
	// verified: the serving certificate is the cluster's own. Otherwise it is
	// one that the program made for itself.
	verified bool
}

// components describes the three for s.
func components(s Replica) []component {
	all := []component{apiServer(s), controllerManager(s), scheduler(s)}
	if s.Previous != nil {
		for i := range all {
			all[i].definition = s.Previous.Definitions[all[i].name]
		}
	}
	return all
}

// program is where a component's executable is installed.
func program(version, name string) host.Artifact {
	return host.Artifact{Product: "kubernetes", Version: version, Name: name}
}

// withExtra lays the user's flags over the defaults. Flags that the provider
// owns never get here: ValidateExtraArgs refuses them.
func withExtra(flags, extra map[string]string) map[string]string {
	merged := maps.Clone(flags)
	maps.Copy(merged, extra)
	return merged
}

// arguments renders flags sorted by name, so that the same flags are always
// the same command line.
func arguments(flags map[string]string) []string {
	out := make([]string, 0, len(flags))
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		out = append(out, "--"+name+"="+flags[name])
	}
	return out
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
