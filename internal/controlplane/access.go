package controlplane

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

//go:embed access.sh
var accessScript host.Script

var groupName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,31}$`)

// ValidateGroup says why a name cannot be that of a group.
func ValidateGroup(name string) error {
	if !groupName.MatchString(name) {
		return fmt.Errorf("malformed group name %q: want letters, digits and _.-", name)
	}
	return nil
}

// hiddenFromUnits are directories of which the API server's unit sees one of its
// own, or none: see sandbox.
var hiddenFromUnits = []string{"/tmp", "/var/tmp", "/home", "/root", "/run/user", "/dev", "/proc", "/sys"}

// ValidateSocket says why the API server could not open a KMS plugin's socket at an
// endpoint ("unix:///run/kms.sock") wherever it is.
func ValidateSocket(endpoint string) error {
	at, ok := strings.CutPrefix(endpoint, "unix://")
	switch {
	case !ok || !strings.HasPrefix(at, "/") && !strings.HasPrefix(at, "@"), strings.ContainsFunc(at, func(c rune) bool { return c < ' ' || c == 0x7f }):
		return fmt.Errorf("%q is not the URL of a Unix socket, such as unix:///run/kms.sock", endpoint)
	case strings.HasPrefix(at, "@"):
		return nil // no file
	}
	at = path.Clean(at)
	for _, hidden := range hiddenFromUnits {
		if strings.HasPrefix(at, hidden+"/") {
			return fmt.Errorf("the socket %s is not seen by the API server, whose unit has no %s but its own: have the plugin listen below /run", at, hidden)
		}
	}
	return nil
}

// sockets are the files through which the API server reaches KMS plugins.
func (s Spec) sockets() []string {
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
func (s Spec) validateSockets() error {
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
func (s Spec) validateGroups() error {
	for _, name := range s.SupplementaryGroups {
		if err := ValidateGroup(name); err != nil {
			return err
		}
	}
	return nil
}

// inspect is observe before a change: what only asking tells is an obstacle.
func inspect(ctx context.Context, s Spec, rt runtime) (found, error) {
	var f found
	var forwarding error
	var closed []string
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		f, err = observe(groupCtx, s, rt)
		return err
	})
	group.Go(func() error {
		forwarding = s.Host.CheckForwarding(groupCtx, s.probed(rt)...)
		if errors.Is(forwarding, host.ErrForwarding) {
			return nil
		}
		return forwarding
	})
	group.Go(func() (err error) {
		closed, err = shutOut(groupCtx, s)
		return err
	})
	if err := group.Wait(); err != nil {
		return found{}, err
	}
	if forwarding != nil {
		f.obstacles = append(f.obstacles, fmt.Sprintf("%v; the components are asked through SSH whether they are ready, at %s",
			host.ErrForwarding, strings.Join(s.probed(rt), ", ")))
	}
	f.obstacles = append(f.obstacles, closed...)
	return f, nil
}

// probed is where the components are asked.
func (s Spec) probed(rt runtime) []string {
	var addresses []string
	for _, c := range components(s, rt) {
		addresses = append(addresses, net.JoinHostPort(c.probe.address, strconv.Itoa(c.probe.port)))
	}
	return addresses
}

// shutOut says which groups the machine does not have, and which sockets of KMS
// plugins the API server could not open.
func shutOut(ctx context.Context, s Spec) ([]string, error) {
	if len(s.SupplementaryGroups)+len(s.sockets()) == 0 {
		return nil, nil
	}
	out, err := s.Host.Observe(ctx, host.Query{
		Script: accessScript,
		Vars:   map[string]string{"groups": strings.Join(s.SupplementaryGroups, " "), "sockets": strings.Join(s.sockets(), "\n")},
	})
	if err != nil {
		return nil, fmt.Errorf("see what the API server of %s may open: %w", s.machine(), err)
	}
	return shutOutIn(s, out.Output)
}

var errNotSeen = errors.New("the machine did not answer to the end")

// shutOutIn reads what accessScript says. Only lines about what was asked count.
func shutOutIn(s Spec, output string) ([]string, error) {
	lines := strings.Split(output, "\n")
	if !slices.Contains(lines, "seen") {
		return nil, fmt.Errorf("see what the API server of %s may open: %w", s.machine(), errNotSeen)
	}
	var words []string
	for _, name := range s.SupplementaryGroups {
		if slices.Contains(lines, "no group "+name) {
			words = append(words, fmt.Sprintf("there is no group %q, which supplementary_groups names", name))
		}
	}
	if slices.Contains(lines, "no setpriv") {
		words = append(words, "setpriv (util-linux) is missing, by which is seen whether the KMS plugin's socket can be opened")
	}
	for _, socket := range s.sockets() {
		switch {
		case slices.Contains(lines, "no socket "+socket):
			words = append(words, fmt.Sprintf("the KMS plugin's socket %s is not there", socket))
		case slices.Contains(lines, "closed "+socket):
			words = append(words, fmt.Sprintf("user %s may not open the KMS plugin's socket %s: name a group that may in supplementary_groups", release.APIServer, socket))
		}
	}
	return words, nil
}
