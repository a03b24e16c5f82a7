package component

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
)

// Reasons why a flag is managed by the provider.
const (
	ownAddress    = "the provider sets it from the machine's address and port"
	ownEtcd       = `it follows from the setting "etcd" and from the PKI bundle`
	ownPKI        = "it points to a file that the provider writes from the PKI bundle"
	ownServices   = `it follows from the setting "service_cidrs", which also decides a name in the serving certificate`
	ownPods       = `it follows from the setting "pod_cidrs"`
	ownLeader     = "without leader election two replicas would act at the same time"
	ownProxy      = "it belongs to the front-proxy certificate of the PKI bundle"
	ownHealth     = "the provider and the endpoint's health checks ask for readiness without credentials"
	ownEncryption = "it follows from the encryption that the PKI bundle holds, whose keys every replica must take at " +
		"the same stage of a rotation"
	ownReload       = "a new key takes effect by a restart, whose moment is known"
	ownRegistration = "the provider finds the API servers of a cluster by their registrations in etcd, which exist with " +
		"the default only"
	ownShutdown = "it is tied to how fast the endpoint's health checks notice a stopping replica"
)

// OwnedFlags are the flags of each component that cannot be overridden, with the reason:
// changing one would break a guarantee of the provider.
var OwnedFlags = map[string]map[string]string{
	release.APIServer: {
		"advertise-address": ownAddress, "secure-port": ownAddress,
		"bind-address": ownAddress + `; the setting "listen" opens all addresses of the machine`,
		"etcd-servers": ownEtcd, "etcd-cafile": ownEtcd, "etcd-certfile": ownEtcd, "etcd-keyfile": ownEtcd,
		"service-cluster-ip-range": ownServices,
		"client-ca-file":           ownPKI, "tls-cert-file": ownPKI, "tls-private-key-file": ownPKI,
		"kubelet-client-certificate": ownPKI, "kubelet-client-key": ownPKI,
		"proxy-client-cert-file": ownPKI, "proxy-client-key-file": ownPKI,
		"service-account-key-file": ownPKI, "service-account-signing-key-file": ownPKI,
		"requestheader-client-ca-file": ownProxy, "requestheader-allowed-names": ownProxy,
		"requestheader-username-headers": ownProxy, "requestheader-group-headers": ownProxy,
		"requestheader-extra-headers-prefix": ownProxy,
		EncryptionFlag:                       ownEncryption, "encryption-provider-config-automatic-reload": ownReload,
		"anonymous-auth": ownHealth + "; no other path is open without credentials, but for those of the setting " +
			"\"authentication.anonymous_paths\"",
		EndpointReconcilerFlag:    ownRegistration,
		"shutdown-delay-duration": ownShutdown, "shutdown-send-retry-after": ownShutdown,
		"shutdown-watch-termination-grace-period": ownShutdown,
	},
	release.ControllerManager: {
		"bind-address": ownAddress, "secure-port": ownAddress,
		"kubeconfig": ownPKI, "authentication-kubeconfig": ownPKI, "authorization-kubeconfig": ownPKI,
		"client-ca-file": ownPKI, "requestheader-client-ca-file": ownPKI, "root-ca-file": ownPKI,
		"service-account-private-key-file": ownPKI, "cluster-signing-cert-file": ownPKI, "cluster-signing-key-file": ownPKI,
		"cluster-name": `it is the PKI bundle's "cluster_name"`,
		"cluster-cidr": ownPods, "service-cluster-ip-range": ownServices,
		"leader-elect":                     ownLeader,
		"authorization-always-allow-paths": ownHealth,
	},
	release.Scheduler: {
		"bind-address": ownAddress, "secure-port": ownAddress,
		"kubeconfig": ownPKI, "authentication-kubeconfig": ownPKI, "authorization-kubeconfig": ownPKI,
		"leader-elect":                     ownLeader,
		"authorization-always-allow-paths": ownHealth,
	},
}

// repeating are the flags of each component whose values cannot stand in one value, separated
// by commas: the flag is given once for each (types stringArray, namedCertKey, mapStringString
// without splitting, stringToString).
var repeating = map[string][]string{
	release.APIServer: {
		"allow-metric-labels", "oidc-required-claim", "service-account-issuer", "tls-sni-cert-key",
	},
	release.ControllerManager: {"allow-metric-labels", "tls-sni-cert-key"},
	release.Scheduler:         {"allow-metric-labels", "tls-sni-cert-key"},
}

// serverLists are the flags of every component whose value is a list or a map with commas (types strings, int32Slice,
// mapStringString, colonSeparatedMultimapStringString). If one is given several times, its values are taken together.
var serverLists = []string{
	"disabled-metrics", "emulated-version", release.FeatureGates, "min-compatibility-version",
	"requestheader-allowed-names", "requestheader-extra-headers-prefix", "requestheader-group-headers",
	"requestheader-uid-headers", "requestheader-username-headers", "tls-cipher-suites", "tls-curve-preferences",
}

// lists are all such flags of each component.
var lists = map[string][]string{
	release.APIServer: append([]string{
		"admission-control", "api-audiences", "authorization-mode", "cors-allowed-origins", "disable-admission-plugins",
		AdmissionFlag, "etcd-servers", "etcd-servers-overrides", "kubelet-preferred-address-types", "oidc-signing-algs",
		"runtime-config", "strict-transport-security-directives", "watch-cache-sizes",
	}, serverLists...),
	release.ControllerManager: append([]string{"authorization-always-allow-paths", "controllers"}, serverLists...),
	release.Scheduler:         append([]string{"authorization-always-allow-paths"}, serverLists...),
}

// Together returns the text of Repeated as one value if the flag is a list. ok is false if its component takes the last
// value only, or none: nobody writes that on purpose.
func Together(component, flag, text string) (value string, ok bool) {
	if slices.Contains(lists[component], flag) {
		return strings.Join(Values(text), ","), true
	}
	_, owned := OwnedFlags[component][flag] // the differences name its values
	return text, owned || slices.Contains(repeating[component], flag) || len(Values(text)) == 1
}

// Repeated returns the values of a flag that repeats as one text: one value a line, in their
// order. No value on a command line contains a line break.
func Repeated(values ...string) string { return strings.Join(values, "\n") }

// Values returns the values of a flag.
func Values(text string) []string { return strings.Split(text, "\n") }

// ValidateRepeatedArgs returns why the flags of a component cannot be given once for each value.
// What ValidateExtraArgs checks is left to it.
func ValidateRepeatedArgs(component string, args map[string][]string) error {
	for _, name := range slices.Sorted(maps.Keys(args)) {
		values := args[name]
		switch {
		case !slices.Contains(repeating[component], name):
			return fmt.Errorf("%s: flag %q takes one value: set it in extra_args, with commas if the value is a list; "+
				"flags that repeat are %s", component, name, strings.Join(repeating[component], ", "))
		case len(values) == 0:
			return fmt.Errorf("%s: flag %q has no value; remove it", component, name)
		}
		for i, value := range values {
			if slices.Contains(values[:i], value) {
				return fmt.Errorf("%s: flag %q has the value %q twice", component, name, value)
			}
		}
	}
	return nil
}

const (
	etcdPrefixFlag    = "etcd-prefix"
	defaultEtcdPrefix = "/registry"
)

// MaxEtcdPrefixSegments is the largest number of segments of an --etcd-prefix, "/a/b/c".
const MaxEtcdPrefixSegments = 3

// validateEtcdPrefix refuses a prefix below which the provider would not find the registrations of API servers in etcd.
func validateEtcdPrefix(value string) error {
	switch prefix := path.Join("/", value); {
	case value == "":
		return fmt.Errorf("flag %q: it is empty, which means /; write that", etcdPrefixFlag)
	case strings.Count(prefix, "/") > MaxEtcdPrefixSegments:
		return fmt.Errorf("flag %q: at most %d segments: the provider finds the API servers of a cluster by their "+
			"registrations in etcd, and looks for them no deeper", etcdPrefixFlag, MaxEtcdPrefixSegments)
	case strings.HasPrefix(prefix, defaultEtcdPrefix+"/"):
		return fmt.Errorf("flag %q: it is below the default, %s: the provider finds the API servers of a cluster by their "+
			"registrations in etcd, and does not look for them among the objects of others", etcdPrefixFlag, defaultEtcdPrefix)
	}
	return nil
}

var flagName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)

// ValidateExtraArgs returns why args cannot be passed to a component of a version: an unknown
// component, a malformed name, a value that cannot be written on a command line, a flag that
// the provider manages, or a flag that the release does not accept because it was removed,
// locked or not added yet (see package release). If version is "" or unknown, the last check is
// skipped.
func ValidateExtraArgs(component, version string, args map[string]string) error {
	owned, ok := OwnedFlags[component]
	if !ok {
		return fmt.Errorf("unknown component %q: it must be one of %s", component, strings.Join(release.Components(), ", "))
	}
	for _, name := range slices.Sorted(maps.Keys(args)) {
		values := []string{args[name]}
		if slices.Contains(repeating[component], name) {
			values = Values(args[name])
		}
		for _, value := range values {
			if err := validateFlag(owned, name, value); err != nil {
				return fmt.Errorf("%s: %w", component, err)
			}
		}
	}
	return release.ValidateFlags(component, version, args)
}

func validateFlag(owned map[string]string, name, value string) error {
	if strings.HasPrefix(name, "-") {
		return fmt.Errorf("malformed flag %q: write it without dashes", name)
	}
	if !flagName.MatchString(name) {
		return fmt.Errorf("malformed flag %q: lower-case letters, digits and dashes only", name)
	}
	if reason, ok := owned[name]; ok {
		return fmt.Errorf("flag %q cannot be set: %s", name, reason)
	}
	if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fmt.Errorf("flag %q: its value holds a control character", name)
	}
	if name == AuditLogFlag && value != "" && value != "-" && !path.IsAbs(value) {
		return fmt.Errorf("flag %q: it is not an absolute path", name)
	}
	if name == etcdPrefixFlag {
		return validateEtcdPrefix(value)
	}
	if name == release.FeatureGates {
		if _, err := release.ParseGates(value); err != nil {
			return err
		}
	}
	return nil
}
