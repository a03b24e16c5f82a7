package bgp

import (
	_ "embed"
	"errors"
	"fmt"
	"net/netip"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/agent"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/packages"
)

var (
	//go:embed bird.sh
	birdScript host.Script
	//go:embed health.sh
	healthScript host.Script
	//go:embed address.sh
	addressScript host.Script
	//go:embed state.sh
	stateScript host.Script
)

// query asks for what bird and the health check have and say.
func query(r endpoint.Registration, own netip.Addr) host.Query {
	return packages.BGP().Extend(host.Query{
		// The configuration may contain passwords, so it is not read.
		Files:  []string{configPath, healthPath, addressPath},
		Ports:  []int{bgpPort},
		Script: birdScript + stateScript,
		Vars:   map[string]string{"own": own.String(), "prefix": prefixOf(r).String()},
	})
}

// Why a replica that is ready gets no requests.
var (
	errNoBird    = errors.New("bird does not answer")
	errNoAddress = errors.New("its machine does not have the endpoint's address")
	errNoSession = errors.New("its machine has no established session with a peer")
)

// outOfRotation returns why routers send no requests to the machine, or nil. All sessions of its bird
// count: the machine may have other peers than r until its replica is changed.
func outOfRotation(r endpoint.Registration, m machine) error {
	established, exported := 0, 0
	for _, s := range m.Report.Sessions {
		if s.established() {
			established++
			if s.Exported {
				exported++
			}
		}
	}
	switch {
	case m.Owner.Other(r):
		return fmt.Errorf("%w: %s", endpoint.ErrOther, m.Owner)
	case !m.Report.Registered:
		return agent.ErrDrained
	case m.Report.Protocol == "":
		return errNoBird
	case !m.Report.Address:
		return errNoAddress
	case m.Report.Protocol != "up":
		return agent.ErrNotAnnounced
	case established == 0:
		return errNoSession
	case exported == 0:
		return agent.ErrNotAnnounced
	}
	return nil
}

// silentPeers describes the peers that the machine does not announce the address to.
func silentPeers(m machine, r endpoint.Registration) []string {
	var silent []string
	for _, p := range r.BGP.Peers {
		s, known := m.Report.Sessions[peerName(p)]
		switch {
		case !known:
			silent = append(silent, "no session with peer "+p.Address)
		case !s.established():
			why := ""
			if s.Reason != "" {
				why = ": " + s.Reason
			}
			silent = append(silent, fmt.Sprintf("session with peer %s is not established (%s%s)", p.Address, s.State, why))
		case !s.Exported:
			silent = append(silent, "the address is not announced to peer "+p.Address)
		}
	}
	return silent
}

func lacks(_ endpoint.Registration, m machine) []string {
	var differences []string
	for _, name := range packages.BGP().Missing(m.Facts) {
		differences = append(differences, name+" is not completely installed")
	}
	return differences
}

func differs(_ endpoint.Registration, m machine) []string {
	var differences []string
	for _, prefix := range m.Report.Foreign {
		differences = append(differences, fmt.Sprintf("%s is announced, which is not the endpoint's address", prefix))
	}
	return differences
}

// reconfigures reports whether Register would interrupt a machine that announces the address. apply.sh reloads bird
// for its configuration, and sessions that differ, such as with another autonomous system, may not come up. For every
// other file it restarts a unit, and the address is withdrawn until the health check announces it again.
func reconfigures(r endpoint.Registration, m machine, wanted []host.File) bool {
	return outOfRotation(r, m) == nil && m.Rewrites(wanted)
}
