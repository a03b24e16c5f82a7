package bgp

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/packages"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

const healthCheckPath = targets.HealthCheckPath

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

// machine is the observed state of one replica's machine.
type machine struct {
	err    error // not nil: the machine cannot be observed
	facts  host.Facts
	owner  endpoint.Owner
	report report
}

// query asks for everything that a registration puts on a machine.
func query(r endpoint.Registration, own string) host.Query {
	var peers []string
	if r.BGP != nil {
		for _, p := range r.BGP.Peers {
			peers = append(peers, peerName(p))
		}
	}
	q := host.Query{
		// The configuration may contain passwords, so it is not read.
		Files:    []string{configPath, healthPath, addressPath},
		Contents: []string{recordPath},
		Units:    units(),
		Ports:    []int{bgpPort},
		Script:   birdScript + stateScript,
		Vars: map[string]string{
			"own": own, "prefix": prefixOf(r).String(), "peers": strings.Join(peers, " "),
		},
	}
	for _, unit := range units() {
		q.Files = append(q.Files, unitDir+unit)
	}
	return packages.BGP().Extend(q)
}

func observe(ctx context.Context, h *host.Host, r endpoint.Registration) machine {
	facts, err := h.Observe(ctx, query(r, h.Address()))
	if err != nil {
		return machine{err: err}
	}
	return machine{
		facts: facts, owner: endpoint.ReadOwner(facts.Files[recordPath].Content),
		report: parseReport(facts.Output, prefixOf(r)),
	}
}

// observeMachines observes the machines of all targets in parallel.
func (r *Registrar) observeMachines(ctx context.Context) map[string]machine {
	var (
		mu   sync.Mutex
		all  sync.WaitGroup
		seen = map[string]machine{}
	)
	for name, address := range r.Hosts {
		all.Go(func() {
			m := observe(ctx, r.Machine(address), r.Registration)
			mu.Lock()
			defer mu.Unlock()
			seen[name] = m
		})
	}
	all.Wait()
	return seen
}

// Why a replica that is ready gets no requests.
var (
	errDrained      = errors.New("it was taken out of rotation")
	errNoBird       = errors.New("bird does not answer")
	errNoAddress    = errors.New("its machine does not have the endpoint's address")
	errNotAnnounced = errors.New("its machine does not announce the endpoint's address")
	errNoSession    = errors.New("its machine has no established session with a peer")
)

// outOfRotation returns why routers send no requests to the machine, or nil. All sessions of its bird
// count: the machine may have other peers than r until its replica is changed.
func (m machine) outOfRotation(r endpoint.Registration) error {
	established, exported := 0, 0
	for _, s := range m.report.Sessions {
		if s.established() {
			established++
			if s.Exported {
				exported++
			}
		}
	}
	switch {
	case m.owner.Other(r):
		return fmt.Errorf("%w: %s", endpoint.ErrOther, m.owner)
	case !m.report.Registered:
		return errDrained
	case m.report.Protocol == "":
		return errNoBird
	case !m.report.Address:
		return errNoAddress
	case m.report.Protocol != "up":
		return errNotAnnounced
	case established == 0:
		return errNoSession
	case exported == 0:
		return errNotAnnounced
	}
	return nil
}

// silentPeers describes the peers that the machine does not announce the address to.
func (m machine) silentPeers(r endpoint.Registration) []string {
	var silent []string
	for _, p := range r.BGP.Peers {
		s, known := m.report.Sessions[peerName(p)]
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

// drift describes how a machine differs from what Register leaves behind, the sessions included.
func (m machine) drift(r endpoint.Registration, own netip.Addr, passwords map[string]string) []string {
	if m.owner.Other(r) {
		return []string{"the machine belongs to " + m.owner.String()}
	}
	if !m.owner.Exists() {
		return []string{"not registered: the machine announces nothing"}
	}
	var differences []string
	for _, name := range packages.BGP().Missing(m.facts) {
		differences = append(differences, name+" is not completely installed")
	}
	for _, wanted := range files(r, own, m.facts, passwords) {
		differences = append(differences, endpoint.FileDrift(m.facts.Files, wanted, nil)...)
	}
	for _, unit := range units() {
		differences = append(differences, endpoint.UnitDrift(unit, m.facts.Units[unit])...)
	}
	for _, prefix := range m.report.Foreign {
		differences = append(differences, fmt.Sprintf("%s is announced, which is not the endpoint's address", prefix))
	}
	if why := m.outOfRotation(r); why != nil {
		differences = append(differences, "out of rotation: "+why.Error())
	}
	if m.report.Protocol == "up" {
		differences = append(differences, m.silentPeers(r)...)
	}
	return differences
}
