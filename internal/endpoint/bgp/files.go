package bgp

import (
	"net/netip"
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/agent"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/packages"
)

// files returns what Register writes. Passwords that are not known leave the configuration out.
func files(
	r endpoint.Registration, own netip.Addr, f host.Facts, passwords map[string]string,
) []host.File {
	all := []host.File{
		{Path: healthPath, Mode: 0o755, Content: []byte(renderHealth(r, own))},
		{Path: addressPath, Mode: 0o755, Content: []byte(renderAddress(r, own))},
		{Path: agent.UnitDir + addressUnit, Mode: 0o644, Content: []byte(renderAddressUnit())},
		{Path: agent.UnitDir + healthUnit, Mode: 0o644, Content: []byte(renderHealthUnit())},
	}
	if bird, client := packages.Program(f, "bird"), packages.Program(f, "birdc"); bird != "" && client != "" {
		all = append(all, host.File{Path: birdUnitPath, Mode: 0o644, Content: []byte(renderBirdUnit(bird, client))})
	}
	if MissingPasswords(r, passwords) == nil {
		all = append(all, host.File{Path: configPath, Mode: 0o600, Content: []byte(renderBird(r, own, passwords))})
	}
	return all
}

// MissingPasswords returns the names of passwords that are not known.
func MissingPasswords(r endpoint.Registration, passwords map[string]string) []string {
	var missing []string
	for _, p := range r.BGP.Peers {
		if _, known := passwords[p.Password]; p.Password != "" && !known && !slices.Contains(missing, p.Password) {
			missing = append(missing, p.Password)
		}
	}
	return missing
}
