package etcd

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// DefaultDataDir is where a member keeps its data, as kubeadm has it.
const DefaultDataDir = "/var/lib/etcd"

// The minor versions of etcd 3 whose flags and upgrade rules are known here.
const (
	oldestMinor = 5
	newestMinor = 7
)

// ClientURL is where API servers reach the member at an address.
func ClientURL(address string) string { return "https://" + net.JoinHostPort(address, "2379") }

// PeerURL is where the other members reach the member at an address.
func PeerURL(address string) string { return "https://" + net.JoinHostPort(address, "2380") }

var dnsLabel = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// ValidateName accepts what is safe in a certificate, a path and etcd's
// NAME=URL lists alike: a DNS label.
func ValidateName(name string) error {
	if !dnsLabel.MatchString(name) {
		return fmt.Errorf("member name %q is not a DNS label: use at most 63 lower-case letters, digits and dashes, "+
			"beginning and ending with a letter or digit", name)
	}
	return nil
}

var release = regexp.MustCompile(`^3\.(\d{1,3})\.(\d{1,3})$`)

// parseVersion returns minor and patch of an etcd 3 release.
func parseVersion(version string) (minor, patch int, err error) {
	parts := release.FindStringSubmatch(version)
	if parts == nil {
		return 0, 0, fmt.Errorf("etcd version %q is malformed: write a release like \"3.6.16\", without \"v\"", version)
	}
	minor, err = strconv.Atoi(parts[1])
	if err != nil {
		return 0, 0, err
	}
	patch, err = strconv.Atoi(parts[2])
	return minor, patch, err
}

// ValidateVersion accepts releases of the minor versions known here.
func ValidateVersion(version string) error {
	minor, _, err := parseVersion(version)
	if err != nil {
		return err
	}
	if minor < oldestMinor || minor > newestMinor {
		return fmt.Errorf("etcd version %q is not known: this provider manages etcd 3.%d to 3.%d", version, oldestMinor, newestMinor)
	}
	return nil
}

// ValidateUpgrade says why a running member may not be brought from one
// version to another, or nil: at most one minor step forward, none back, 3.6
// only from 3.5.26 on (older 3.5 can lose a promotion or keep removed members:
// etcd-io/etcd#19557, #20793, #20967), and 3.7 only from 3.6.11 on (etcd's guide
// for 3.7).
func ValidateUpgrade(from, to string) error {
	fromMinor, fromPatch, err := parseVersion(from)
	if err != nil {
		return err
	}
	toMinor, _, err := parseVersion(to)
	if err != nil {
		return err
	}
	switch {
	case toMinor < fromMinor:
		return fmt.Errorf("etcd %s cannot follow %s: its data format is older; restore a snapshot instead", to, from)
	case toMinor > fromMinor+1:
		return fmt.Errorf("etcd %s cannot follow %s: upgrade by one minor version at a time, 3.%d first", to, from, fromMinor+1)
	case fromMinor == 5 && toMinor == 6 && fromPatch < 26:
		return fmt.Errorf("etcd %s cannot follow %s: upgrade to 3.5.26 or later first, which repairs member records that 3.6 would read wrongly", to, from)
	case fromMinor == 6 && toMinor == 7 && fromPatch < 11:
		return fmt.Errorf("etcd %s cannot follow %s: upgrade to 3.6.11 or later first, as older 3.6 may not work beside 3.7", to, from)
	}
	return nil
}

// ValidatePeers checks the map of member name → address in which the cluster
// is looked for: it must hold this member at this address, and no address twice.
func ValidatePeers(name, address string, peers map[string]string) error {
	listed, ok := peers[name]
	if !ok {
		return fmt.Errorf("peers does not contain this member: add %q = %q", name, address)
	}
	if listed != address {
		return fmt.Errorf("peers has %q at %s, but its host.address is %s", name, listed, address)
	}
	seen := map[string]string{}
	for _, peer := range slices.Sorted(maps.Keys(peers)) {
		if err := ValidateName(peer); err != nil {
			return fmt.Errorf("peers: %w", err)
		}
		at := peers[peer]
		if _, err := netip.ParseAddr(at); err != nil {
			return fmt.Errorf("peers: %q of %q is not an IP address", at, peer)
		}
		if other, twice := seen[at]; twice {
			return fmt.Errorf("peers has %s twice, for %q and %q", at, other, peer)
		}
		seen[at] = peer
	}
	return nil
}

// ValidateDataDir accepts an absolute path that holds nothing else. The
// archive lies beside it, and the directory as a whole is moved there.
func ValidateDataDir(dir string) error {
	shared := []string{"/var/lib", "/var/log", "/usr/lib", "/etc/etcd", "/etc/kubernetes", "/opt/kube"}
	switch {
	case !path.IsAbs(dir) || path.Clean(dir) != dir:
		return fmt.Errorf("data directory %q is not a plain absolute path", dir)
	case strings.Count(dir, "/") < 2 || slices.Contains(shared, dir):
		return fmt.Errorf("data directory %q is shared with other software: give etcd a directory of its own, such as %s", dir, DefaultDataDir)
	case !plainPath.MatchString(dir):
		return fmt.Errorf("data directory %q has characters other than letters, digits and . _ - /", dir)
	}
	return nil
}

var plainPath = regexp.MustCompile(`^[A-Za-z0-9._/-]+$`)

// owned are the flags that extra_args may not set, and why.
var owned = map[string]string{
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

// ValidateExtraArgs refuses flags that the provider itself owns, what could not
// be written on one line of a unit, and what the server of that version would
// not start with. Where version is not known (""), or none, the last is left out.
func ValidateExtraArgs(version string, args map[string]string) error {
	for _, flag := range slices.Sorted(maps.Keys(args)) {
		reason, taken := owned[flag]
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
	if ValidateVersion(version) != nil {
		return nil // said where the version is set
	}
	return errors.Join(validateKnown(version, args)...)
}
