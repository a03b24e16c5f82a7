package machine

import (
	"fmt"
	"maps"
	"net/netip"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
)

var dnsLabel = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// ValidateName accepts what is safe in a certificate, a path and etcd's NAME=URL lists: a
// DNS label.
func ValidateName(name string) error {
	if !dnsLabel.MatchString(name) {
		return fmt.Errorf("member name %q is not a DNS label: use at most 63 lower-case letters, digits and dashes, "+
			"starting and ending with a letter or digit", name)
	}
	return nil
}

// ValidatePeers checks the map of member name → address through which the cluster is
// found: it must contain this member at this address, and no address twice.
func ValidatePeers(name, address string, peers map[string]string) error {
	listed, ok := peers[name]
	if !ok {
		return fmt.Errorf("peers does not contain this member: add %q = %q", name, address)
	}
	if listed != address {
		return fmt.Errorf("peers lists %q at %s, but its host.address is %s", name, listed, address)
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
			return fmt.Errorf("peers lists %s twice, for %q and %q", at, other, peer)
		}
		seen[at] = peer
	}
	return nil
}

// ValidateDataDir accepts an absolute path that is used for nothing else. The archive is
// next to it, and the directory as a whole is moved there.
func ValidateDataDir(dir string) error {
	shared := []string{"/var/lib", "/var/log", "/usr/lib", "/etc/etcd", "/etc/kubernetes", "/opt/kube"}
	switch {
	case !path.IsAbs(dir) || path.Clean(dir) != dir:
		return fmt.Errorf("data directory %q is not a clean absolute path", dir)
	case strings.Count(dir, "/") < 2 || slices.Contains(shared, dir):
		return fmt.Errorf("data directory %q is shared with other software: use a directory for etcd only, such as %s", dir, layout.DefaultDataDir)
	case !layout.PlainPath.MatchString(dir):
		return fmt.Errorf("data directory %q has characters other than letters, digits and . _ - /", dir)
	}
	return nil
}
