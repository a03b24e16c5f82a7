package release

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Owned contains the flags that extra_args may not set, with the reason.
var Owned = map[string]string{
	"name":                        "it is the member's name",
	"data-dir":                    "set data_dir",
	"wal-dir":                     "the archive must contain all data of a member",
	"config-file":                 "etcd would ignore all other flags",
	"force-new-cluster":           "it would separate the member from its cluster",
	"strict-reconfig-check":       "it prevents two concurrent membership changes from losing quorum",
	"listen-client-urls":          "the provider connects to the member at this address",
	"advertise-client-urls":       "API servers connect to the member at this address",
	"listen-peer-urls":            "the other members connect to it at this address",
	"initial-advertise-peer-urls": "the other members connect to it at this address",
	"cert-file":                   "the certificates are issued from pki",
	"key-file":                    "the certificates are issued from pki",
	"trusted-ca-file":             "the certificates are issued from pki",
	"client-cert-auth":            "only clients with a certificate issued from pki may read the data",
	"peer-cert-file":              "the certificates are issued from pki",
	"peer-key-file":               "the certificates are issued from pki",
	"peer-trusted-ca-file":        "the certificates are issued from pki",
	"peer-client-cert-auth":       "only members with a certificate issued from pki may join",
	"auto-tls":                    "the certificates are issued from pki",
	"peer-auto-tls":               "the certificates are issued from pki",
}

var flagName = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

// ValidateExtraArgs refuses flags that the provider itself owns, values that cannot be written on one line of a unit,
// listeners where the provider needs its own, and arguments that the server of that version would not start with. The
// last check is skipped if release is unknown ("") or invalid.
func ValidateExtraArgs(release string, args map[string]string) error {
	for _, flag := range slices.Sorted(maps.Keys(args)) {
		reason, taken := Owned[flag]
		switch {
		case !flagName.MatchString(flag):
			return fmt.Errorf("extra argument %q is not a flag name: write it without leading dashes, "+
				"such as \"quota-backend-bytes\"", flag)
		case taken:
			return fmt.Errorf("extra argument %q is managed by the provider: %s", flag, reason)
		case strings.HasPrefix(flag, "initial-cluster") || strings.HasPrefix(flag, "discovery"):
			return fmt.Errorf("extra argument %q is managed by the provider: it controls how the cluster is bootstrapped", flag)
		case strings.ContainsAny(args[flag], "\n\r\x00"):
			return fmt.Errorf("extra argument %q contains a line break", flag)
		case flag == MetricsURLsFlag && takesMetricsAddress("https", args[flag]):
			return fmt.Errorf("extra argument %q: an https URL takes %s, where probes on the machine reach the member without "+
				"TLS: use another port", flag, MetricsAddress)
		}
	}
	if ValidateVersion(release) != nil {
		return nil // reported where the version is set
	}
	return errors.Join(ValidateKnown(release, args)...)
}
