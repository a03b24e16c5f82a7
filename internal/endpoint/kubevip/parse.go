package kubevip

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/neighbors"
)

// report is what a machine says about its part of the endpoint (state.sh). Each value has one of the forms
// below; everything else is dropped.
type report struct {
	Device     string            // the interface with the machine's own address; "" if it has none
	Network    netip.Prefix      // of that interface
	Registered bool              // the replica is in rotation
	Address    bool              // the machine has the endpoint's address
	Program    bool              // the program is there, and may be executed
	Digest     bool              // it has the wanted digest
	Credential bool              // the machine has what systemd hands to the agent: a kubeconfig, or the peers
	Stale      bool              // the agent runs with an earlier one
	Running    bool              // kube-vip runs
	Foreign    bool              // somebody else runs a kube-vip for the address
	Replaced   bool              // it runs a program that was replaced since
	Lease      bool              // the agent reads the Lease
	Stranger   bool              // another machine holds the Lease, and the agent cannot remove the address from this one
	Sessions   []netip.Addr      // the peers with an established session
	Neighbors  neighbors.Answers // for the endpoint's address; empty if the replica is in rotation
}

// parseReport parses the output of state.sh. own is the machine's own address.
func parseReport(text string, own netip.Addr) report {
	r := report{Neighbors: neighbors.Parse(text)}
	flags := map[string]*bool{
		"registered": &r.Registered, "address": &r.Address, "program": &r.Program, "digest": &r.Digest,
		"credential": &r.Credential, "stale": &r.Stale, "running": &r.Running, "replaced": &r.Replaced,
		"foreign": &r.Foreign, "lease": &r.Lease, "stranger": &r.Stranger,
	}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		switch {
		case len(words) == 1 && flags[words[0]] != nil:
			*flags[words[0]] = true
		case len(words) == 3 && words[0] == "own" && interfaceForm.MatchString(words[1]):
			bits, err := strconv.Atoi(words[2])
			if err != nil || bits < 0 || bits > own.BitLen() {
				continue
			}
			r.Device, r.Network = words[1], netip.PrefixFrom(own, bits).Masked()
		case len(words) == 2 && words[0] == "session":
			if peer, err := netip.ParseAddrPort(words[1]); err == nil && peer.Addr().Zone() == "" {
				r.Sessions = append(r.Sessions, peer.Addr())
			}
		}
	}
	return r
}
