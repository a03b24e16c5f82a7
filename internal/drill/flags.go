package drill

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/unit"
)

// kept are the flags of the live API server that say how its data is read, and which tokens it
// accepts. All others are left out: what connects to something, writes a log or decides about
// requests has no place in a drill.
var kept = []string{
	"api-audiences", "emulated-version", "encryption-provider-config", "etcd-prefix", "feature-gates", "runtime-config",
	"service-account-extend-token-expiration", "service-account-issuer", "service-account-key-file",
	"service-account-max-token-expiration", "service-account-signing-key-file", "service-cluster-ip-range",
	"storage-media-type",
}

// servingPort is the port of the drill's API server in the network of its unit.
const servingPort = "6443"

// apiServer is the command of the live API server on a machine.
type apiServer struct {
	program string
	flags   map[string]string
}

// apiServerIn parses the unit of the API server. Its program becomes part of a command, so it must be
// one that the provider installs.
func apiServerIn(definition string) (apiServer, error) {
	program, flags, err := unit.Parse(definition)
	if err != nil {
		return apiServer{}, err
	}
	version := path.Base(path.Dir(program))
	installed := component.Artifact(version, release.APIServer).Path()
	if err := release.ValidateVersion(version); err != nil || program != installed {
		return apiServer{}, errors.New("the unit runs a program that was not installed by the provider")
	}
	return apiServer{program: program, flags: flags}, nil
}

// drillFlags returns the flags of the drill's API server: it reads data and tokens as the live one,
// with the same files, and connects to nothing but the etcd of the drill. dir has its certificates.
func (a apiServer) drillFlags(dir string) []string {
	flags := map[string]string{
		"etcd-servers":              "unix://client:1",
		"etcd-compaction-interval":  "0",
		"bind-address":              "127.0.0.1",
		"secure-port":               servingPort,
		"advertise-address":         documentationAddress(a.flags["service-cluster-ip-range"]),
		"endpoint-reconciler-type":  "none",
		"client-ca-file":            path.Join(dir, caFile),
		"tls-cert-file":             path.Join(dir, certFile),
		"tls-private-key-file":      path.Join(dir, keyFile),
		"authorization-mode":        "RBAC",
		"anonymous-auth":            "false",
		"profiling":                 "false",
		"disable-admission-plugins": "MutatingAdmissionWebhook,ValidatingAdmissionWebhook",
	}
	for _, name := range kept {
		if value, set := a.flags[name]; set {
			flags[name] = value
		}
	}
	var words []string
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		for value := range strings.SplitSeq(flags[name], "\n") { // of a flag that is repeated
			words = append(words, "--"+name+"="+value)
		}
	}
	return words
}

// documentationAddress is an address that no machine has, of the family of the Services: the API
// server wants one, and registers it nowhere.
func documentationAddress(serviceCIDRs string) string {
	first, _, _ := strings.Cut(serviceCIDRs, ",")
	if prefix, err := netip.ParsePrefix(first); err == nil && prefix.Addr().Is6() {
		return "2001:db8::1"
	}
	return "192.0.2.1"
}

// live describes the API server of the machine for a client.
func (a apiServer) live(address string) (component.Replica, error) {
	r := component.Replica{Name: address, Address: address}
	if _, err := fmt.Sscanf(a.flags["secure-port"], "%d", &r.Port); err != nil {
		return r, errors.New("the unit of the API server has no secure-port")
	}
	return r, component.ValidatePort(r.Port)
}
