package component

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

var groupName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,31}$`)

// ValidateGroup returns why name is not a valid group name.
func ValidateGroup(name string) error {
	if !groupName.MatchString(name) {
		return fmt.Errorf("malformed group name %q: want letters, digits and _.-", name)
	}
	return nil
}

// ValidateSocket returns why endpoint is not the URL of a KMS plugin's socket, such as
// "unix:///run/kms.sock".
func ValidateSocket(endpoint string) error {
	at, ok := strings.CutPrefix(endpoint, "unix://")
	if !ok || !strings.HasPrefix(at, "/") && !strings.HasPrefix(at, "@") || strings.ContainsFunc(at, unicode.IsControl) {
		return fmt.Errorf("%q is not the URL of a Unix socket, such as unix:///run/kms.sock", endpoint)
	}
	return nil
}

// Sockets returns the paths of the sockets through which the API server reaches KMS plugins.
func (s Replica) Sockets() []string {
	var paths []string
	for _, e := range s.Bundle.Encryptions() {
		if at := strings.TrimPrefix(e.Endpoint, "unix://"); e.Kind == pki.KMS && strings.HasPrefix(at, "/") {
			paths = append(paths, path.Clean(at))
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// validateSockets checks the endpoints of the bundle's plugins.
func (s Replica) validateSockets() error {
	for _, e := range s.Bundle.Encryptions() {
		if e.Kind == pki.KMS {
			if err := ValidateSocket(e.Endpoint); err != nil {
				return err
			}
		}
	}
	return nil
}

// validateGroups checks the names of the groups.
func (s Replica) validateGroups() error {
	for _, name := range s.SupplementaryGroups {
		if err := ValidateGroup(name); err != nil {
			return err
		}
	}
	return nil
}
