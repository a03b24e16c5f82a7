package bgp

import (
	_ "embed"
	"maps"
	"net/netip"
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/packages"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

var (
	//go:embed apply.sh
	applyScript host.Script
	//go:embed admit.sh
	admitScript host.Script
	//go:embed drain.sh
	drainScript host.Script
	//go:embed close.sh
	closeScript host.Script
	//go:embed clean.sh
	cleanScript host.Script
)

// owned returns a script with the functions of endpoint.OwnerFunctions, for the endpoint of r. title is
// a comment: the first line of a script names it in messages.
func owned(title, script host.Script, r endpoint.Registration, more map[string]string) host.Command {
	vars := map[string]string{"cluster": r.ClusterID, "vip": r.Address}
	maps.Copy(vars, more)
	return host.Command{
		Script: title + host.FlushFunction() + birdScript + endpoint.OwnerFunctions() + script, Vars: vars,
	}
}

// clean returns the command that removes the endpoint of r from the machine, with the packages that were
// installed for it, unless the machine has another one.
func clean(r endpoint.Registration) host.Command {
	removal := packages.BGP().WithRemoval(cleanScript, nil)
	return owned("# remove the endpoint\n", removal.Script, r, removal.Vars)
}

// files returns what Register writes. Passwords that are not known leave the configuration out.
func files(
	r endpoint.Registration, own netip.Addr, f host.Facts, passwords map[string]string,
) []host.File {
	all := []host.File{
		{Path: healthPath, Mode: 0o755, Content: []byte(renderHealth(r, own))},
		{Path: addressPath, Mode: 0o755, Content: []byte(renderAddress(r, own))},
		{Path: unitDir + addressUnit, Mode: 0o644, Content: []byte(renderAddressUnit())},
		{Path: unitDir + healthUnit, Mode: 0o644, Content: []byte(renderHealthUnit())},
	}
	if bird, client := packages.Program(f, "bird"), packages.Program(f, "birdc"); bird != "" && client != "" {
		all = append(all, host.File{Path: unitDir + birdUnit, Mode: 0o644, Content: []byte(renderBirdUnit(bird, client))})
	}
	if missingPasswords(r, passwords) == nil {
		all = append(all, host.File{Path: configPath, Mode: 0o600, Content: []byte(renderBird(r, own, passwords))})
	}
	return all
}

// missingPasswords returns the names of passwords that are not known.
func missingPasswords(r endpoint.Registration, passwords map[string]string) []string {
	var missing []string
	for _, p := range r.BGP.Peers {
		if _, known := passwords[p.Password]; p.Password != "" && !known && !slices.Contains(missing, p.Password) {
			missing = append(missing, p.Password)
		}
	}
	return missing
}

// change returns what Register applies to a machine.
func change(r endpoint.Registration, own netip.Addr, f host.Facts, passwords map[string]string) host.Change {
	command := owned("# apply the endpoint\n", applyScript, r, nil)
	c := host.Change{
		Dirs: []host.Dir{
			{Path: "/opt/kube", Mode: 0o755}, {Path: programDir, Mode: 0o755}, {Path: configDir, Mode: 0o755},
		},
		Files: files(r, own, f, passwords), Script: command.Script, Vars: command.Vars,
	}
	for _, unit := range units() {
		c.Links = append(c.Links, host.Link{Path: wantsDir + unit, Target: unitDir + unit})
	}
	return c
}
