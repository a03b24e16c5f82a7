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
	"wal-dir":                     "the archive must hold the whole of a member's data",
	"config-file":                 "etcd would ignore every other flag",
	"force-new-cluster":           "it would cut the member off from its cluster",
	"strict-reconfig-check":       "it is what keeps two concurrent changes from losing quorum",
	"listen-client-urls":          "the provider reaches the member there",
	"advertise-client-urls":       "API servers reach the member there",
	"listen-peer-urls":            "the other members reach it there",
	"initial-advertise-peer-urls": "the other members reach it there",
	"cert-file":                   "certificates come from pki",
	"key-file":                    "certificates come from pki",
	"trusted-ca-file":             "certificates come from pki",
	"client-cert-auth":            "only certificates of pki may read the data",
	"peer-cert-file":              "certificates come from pki",
	"peer-key-file":               "certificates come from pki",
	"peer-trusted-ca-file":        "certificates come from pki",
	"peer-client-cert-auth":       "only certificates of pki may join",
	"auto-tls":                    "certificates come from pki",
	"peer-auto-tls":               "certificates come from pki",
}

var flagName = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

// ValidateExtraArgs refuses flags that the provider itself owns, values that cannot be
// written on one line of a unit, and arguments that the server of that version would not
// start with. The last check is skipped if release is unknown ("") or invalid.
func ValidateExtraArgs(release string, args map[string]string) error {
	for _, flag := range slices.Sorted(maps.Keys(args)) {
		reason, taken := Owned[flag]
		switch {
		case !flagName.MatchString(flag):
			return fmt.Errorf("extra argument %q is not a flag name: write it without dashes in front, such as \"quota-backend-bytes\"", flag)
		case taken:
			return fmt.Errorf("extra argument %q belongs to the provider: %s", flag, reason)
		case strings.HasPrefix(flag, "initial-cluster") || strings.HasPrefix(flag, "discovery"):
			return fmt.Errorf("extra argument %q belongs to the provider: it decides how the cluster is formed", flag)
		case strings.ContainsAny(args[flag], "\n\r\x00"):
			return fmt.Errorf("extra argument %q holds a line break", flag)
		}
	}
	if ValidateVersion(release) != nil {
		return nil // reported where the version is set
	}
	return errors.Join(ValidateKnown(release, args)...)
}
