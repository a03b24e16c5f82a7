package kubevip

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

//go:embed state.sh
var stateScript host.Script

// machine is the observed state of one replica's machine.
type machine struct {
	err    error // not nil: the machine cannot be observed
	facts  host.Facts
	owner  endpoint.Owner
	report report
}

func observe(ctx context.Context, h *host.Host, r endpoint.Registration) machine {
	own, err := netip.ParseAddr(h.Address())
	if err != nil {
		return machine{err: err}
	}
	facts, err := h.Observe(ctx, host.Query{
		Files: []string{agentPath, unitPath}, Contents: []string{recordPath}, Units: []string{unitName},
		Commands: []string{"curl", "ip", "base64", "awk"}, Script: stateScript,
		Vars: map[string]string{
			"own": own.String(), "vip": r.Address, "length": length(r.Address), "config": configDir, "run": "/run/" + runName,
			"program": r.KubeVIP.Program, "sha256": r.KubeVIP.SHA256, "unit": unitName, "credential": credentialPath,
		},
	})
	if err != nil {
		return machine{err: err}
	}
	return machine{
		facts: facts, owner: endpoint.ReadOwner(facts.Files[recordPath].Content),
		report: parseReport(facts.Output, own),
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

// Why a replica that is ready is no candidate for the address.
var (
	errDrained    = errors.New("it was taken out of rotation")
	errNotRunning = errors.New("kube-vip does not run on its machine")
	errNoLease    = errors.New("its machine cannot read the endpoint's Lease")
	errStranger   = errors.New("its machine has the endpoint's address, and another one holds the Lease")
)

// outOfRotation returns why the machine cannot become the holder of the address, or nil. name is of the replica.
func (m machine) outOfRotation(r endpoint.Registration, name string) error {
	switch {
	case m.owner.Other(r):
		return fmt.Errorf("%w: %s", endpoint.ErrOther, m.owner)
	case !m.report.Registered:
		return errDrained
	case !m.report.Running:
		return errNotRunning
	case !m.report.Lease:
		return errNoLease
	case m.report.Address && m.report.Holder != "" && m.report.Holder != name:
		return errStranger
	}
	return nil
}

// drift describes how a machine differs from what Register leaves behind. name is of the replica.
func (m machine) drift(r endpoint.Registration, name string, own netip.Addr) []string {
	if m.owner.Other(r) {
		return []string{"the machine belongs to " + m.owner.String()}
	}
	if !m.owner.Exists() {
		return []string{"not registered: the machine is no candidate for the address"}
	}
	var differences []string
	if err := m.requirements(r); err != nil {
		differences = append(differences, err.Error())
	}
	for _, wanted := range files(r, name, own, m.device(r)) {
		differences = append(differences, endpoint.FileDrift(m.facts.Files, wanted, nil)...)
	}
	differences = append(differences, endpoint.UnitDrift(unitName, m.facts.Units[unitName])...)
	if m.report.Stale {
		differences = append(differences, "kube-vip runs with an earlier certificate than that of "+credentialPath)
	}
	if m.report.Replaced {
		differences = append(differences, "kube-vip runs an earlier program than "+r.KubeVIP.Program)
	}
	if why := m.outOfRotation(r, name); why != nil {
		differences = append(differences, "out of rotation: "+why.Error())
	}
	return differences
}

// device returns the interface for the address.
func (m machine) device(r endpoint.Registration) string {
	if r.KubeVIP.Interface != "" {
		return r.KubeVIP.Interface
	}
	return m.report.Device
}

// restarts reports whether Register would restart kube-vip on a machine that may hold the address.
func (m machine) restarts(r endpoint.Registration, name string, wanted []host.File) bool {
	if m.outOfRotation(r, name) != nil {
		return false
	}
	differs := m.report.Stale || m.report.Replaced
	for _, file := range wanted {
		differs = differs || len(endpoint.FileDrift(m.facts.Files, file, nil)) > 0
	}
	return differs
}

// What a machine needs.
var (
	errNoProgram    = errors.New("kube-vip is not on the machine")
	errDigest       = errors.New("kube-vip has another digest than the endpoint names")
	errNoCommand    = errors.New("the machine lacks a program that the agent needs")
	errNoOwnAddress = errors.New("the machine has no interface with its own address")
	errOtherNetwork = errors.New("the endpoint's address is not in the machine's network, so no neighbor asks for it")
	errNoCredential = errors.New("the machine has no kubeconfig for the endpoint's Lease")
)

// requirements returns what the machine lacks, or nil.
func (m machine) requirements(r endpoint.Registration) error {
	for _, command := range []string{"curl", "ip", "base64", "awk"} {
		if m.facts.Commands[command] == "" {
			return fmt.Errorf("%w: %s", errNoCommand, command)
		}
	}
	address, err := netip.ParseAddr(r.Address)
	switch {
	case err != nil:
		return err
	case !m.report.Program:
		return fmt.Errorf("%w: %s", errNoProgram, r.KubeVIP.Program)
	case r.KubeVIP.SHA256 != "" && !m.report.Digest:
		return fmt.Errorf("%w: %s", errDigest, r.KubeVIP.Program)
	case m.report.Device == "":
		return errNoOwnAddress
	case r.KubeVIP.Interface == "" && !m.report.Network.Contains(address):
		return fmt.Errorf("%w: %s on %s", errOtherNetwork, m.report.Network, m.report.Device)
	case !m.report.Credential:
		return fmt.Errorf("%w: %s", errNoCredential, credentialPath)
	}
	return nil
}
