package targets

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

//go:embed resolve.sh
var resolveScript host.Script

// ErrUnresolved means that a name has no address where it is asked for.
var ErrUnresolved = errors.New("the name cannot be resolved")

// Resolves returns an error if the endpoint's name has no address.
func (s *Set) Resolves(ctx context.Context) error {
	if _, err := netip.ParseAddr(s.Address); err == nil {
		return nil
	}
	_, err := s.Lookup(ctx, s.Address)
	return err
}

// Lookup returns the addresses of a name, the preferred one first, as they are known where the endpoint is probed from.
// The name may be anything that somebody else has said.
func (s *Set) Lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	if s.ProbeFrom == "" {
		addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
		if err != nil {
			return nil, fmt.Errorf("%w from this computer: %w", ErrUnresolved, err)
		}
		for i, address := range addresses {
			addresses[i] = address.Unmap()
		}
		return addresses, nil
	}
	name = strings.ToLower(name)
	if len(validation.IsDNS1123Subdomain(name)) > 0 { // it may look like an option of getent
		return nil, fmt.Errorf("%w on %s: it is not that of a machine", ErrUnresolved, s.ProbeFrom)
	}
	output, err := s.machine(s.ProbeFrom).Run(ctx, host.Command{
		Script: resolveScript, Vars: map[string]string{"name": name},
	})
	if err != nil {
		return nil, err
	}
	addresses, err := addressesIn(output)
	if err != nil {
		return nil, fmt.Errorf("%w on %s: %w", ErrUnresolved, s.ProbeFrom, err)
	}
	if len(addresses) == 0 {
		return nil, fmt.Errorf("%w on %s", ErrUnresolved, s.ProbeFrom)
	}
	return addresses, nil
}

// mostAddresses is how many addresses a name may have. A machine could answer with millions.
const mostAddresses = 100

// addressesIn parses the output of resolve.sh. An address that is valid on one link only is left out.
func addressesIn(output string) ([]netip.Addr, error) {
	var all []netip.Addr
	for line := range strings.Lines(output) {
		first, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		address, err := netip.ParseAddr(first)
		if err != nil {
			return nil, errors.New("the machine's answer is not an address")
		}
		if address = address.Unmap(); address.Zone() != "" || slices.Contains(all, address) {
			continue
		}
		if len(all) == mostAddresses {
			return nil, fmt.Errorf("the machine's answer has more than %d addresses", mostAddresses)
		}
		all = append(all, address)
	}
	return all, nil
}
