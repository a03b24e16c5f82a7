package haproxy

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

//go:embed watch.bash
var watchProgram []byte

// watchLink starts the watcher with the machine.
const watchLink = unitDir + "multi-user.target.wants/" + watchUnit

// watches reports whether the hosts take the address when nobody else has it.
func (s Spec) watches() bool { return s.HandOver == Take && !s.Inherit }

// watcher returns the files of the watcher on the named host.
func (s Spec) watcher(name string) []host.File {
	if !s.watches() {
		return nil
	}
	return []host.File{
		{Path: watchPath, Content: watchProgram, Mode: 0o755},
		{Path: unitDir + watchUnit, Content: []byte(renderWatchUnit(s, name)), Mode: 0o644},
	}
}

// renderWatchUnit renders the unit of the watcher. keepalived starts when the watcher has looked once, so
// that a machine that boots takes no address that somebody else has. The right to change the network is for
// forgetting who had an address.
func renderWatchUnit(s Spec, name string) string {
	var others []string
	for _, other := range names(s.Hosts) {
		if other != name {
			others = append(others, s.Hosts[other].Address())
		}
	}
	section := systemd.UnitSection{
		Description:   "Watcher for the address of the Kubernetes control-plane endpoint",
		Documentation: "man:keepalived(8)",
		Lines:         []string{"Before=" + keepalivedUnit},
	}
	return section.String() + fmt.Sprintf(`[Service]
Type=notify
NotifyAccess=all
ExecStart=/bin/bash %s %s "%s"
Restart=always
RestartSec=500ms
ReadWritePaths=%s
CapabilityBoundingSet=CAP_NET_ADMIN
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
RestrictRealtime=yes
`, watchPath, strings.Join(s.vips(), ","), strings.Join(others, ","), configDir) + systemd.Sandbox +
		systemd.InstallSection
}

// waitingDrift describes how the file that keepalived tracks, and the watcher that writes it, differ from what
// is wanted.
func waitingDrift(s Spec, b balancer) []string {
	var differences []string
	_, waiting := b.facts.Files[waitingPath]
	if waiting && s.HandOver == "" {
		differences = append(differences, waitingPath+" exists and is not wanted")
	}
	if !waiting && (s.watches() || s.Inherit) {
		differences = append(differences, waitingPath+" does not exist")
	}
	if _, watching := b.facts.Files[unitDir+watchUnit]; watching && !s.watches() {
		differences = append(differences, unitDir+watchUnit+" exists and is not wanted")
	}
	state := b.facts.Units[watchUnit]
	if s.watches() && !b.unitActive(watchUnit) {
		differences = append(differences, watchUnit+" is "+activeState(state))
	}
	if s.watches() && state.Load == "loaded" && state.Enabled != "enabled" {
		differences = append(differences, watchUnit+" is not enabled")
	}
	return differences
}

// elsewhere describes a machine outside of the endpoint that answers for a virtual IP although one of the
// hosts has it. Every host must have been asked: what belongs to one of them is nobody else's.
func elsewhere(s Spec, address string, seen map[string]balancer) []string {
	if len(holders(address, seen)) == 0 || len(seen) < len(s.Hosts) {
		return nil
	}
	for _, name := range names(seen) {
		if who := stranger(address, name, seen); who != "" && !seen[name].holdsVIP(address) {
			return []string{fmt.Sprintf("%s is on two machines: %s has it, and %s sees it at hardware address %s, which "+
				"belongs to none of these hosts (take it away from that machine)", address,
				strings.Join(holders(address, seen), ", "), name, who)}
		}
	}
	return nil
}
