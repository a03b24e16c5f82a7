package kubevip

import (
	_ "embed"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/agent"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/neighbors"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

//go:embed state.sh
var stateScript host.Script

// query asks for what the agent has and sees.
func query(r endpoint.Registration, own netip.Addr) host.Query {
	file, name := credential(r)
	q := host.Query{
		Files: []string{agentPath}, Contents: slices.Concat(podManifests, pendingManifests), Commands: commands(r),
		Script: podsFunction + stateScript,
		Vars: map[string]string{
			"own": own.String(), "vip": r.Address, "length": length(r.Address), "config": configDir, "run": runDir,
			"program": r.KubeVIP.Program, "sha256": r.KubeVIP.SHA256, "unit": unitName, "credential": file,
			"credential_name": name, "metrics": "",
		},
	}
	if !announces(r) {
		q.Script += "if [ ! -e \"$config/registered\" ]; then\n" + neighbors.Probe + "fi\n"
		q.Vars["vips"] = r.Address
	} else {
		q.Files = append(q.Files, peersPath) // its content may have passwords, so it is not read
		q.Ports = []int{metricsPort}
		q.Vars["metrics"] = strconv.Itoa(metricsPort)
	}
	return q
}

// commands are the programs that the agent needs.
func commands(r endpoint.Registration) []string {
	if announces(r) {
		return []string{"curl", "ip", "awk"}
	}
	return []string{"curl", "ip", "base64", "awk"}
}

// Why a replica that is ready is no candidate for the address.
var (
	errNotRunning = errors.New("kube-vip does not run on its machine")
	errNoLease    = errors.New("its machine cannot read the endpoint's Lease")
	errStranger   = errors.New("its machine cannot remove the endpoint's address, and another one holds the Lease")
	// errEnding counts as out of rotation for other machines, and as in rotation when this one is to be taken over.
	errEnding = fmt.Errorf("%w: its static pod of kube-vip ends, and the takeover is not complete", targets.ErrUnknown)
)

// outOfRotation returns why the machine cannot become the holder of the address, or nil.
func outOfRotation(r endpoint.Registration, m machine) error {
	switch {
	case m.Owner.Other(r):
		return fmt.Errorf("%w: %s", endpoint.ErrOther, m.Owner)
	case isEnding(r, m):
		return errEnding
	case !m.Report.Registered && isCandidate(r, m, podManifests):
		return nil
	case !m.Report.Registered:
		return agent.ErrDrained
	case !m.Report.Running:
		return errNotRunning
	case announces(r):
		return notAnnounced(m)
	case !m.Report.Lease:
		return errNoLease
	case m.Report.Stranger:
		return errStranger
	}
	return nil
}

func lacks(r endpoint.Registration, m machine) []string {
	if err := requirements(m, r); err != nil {
		return []string{err.Error()}
	}
	return nil
}

func differs(r endpoint.Registration, m machine) []string {
	var differences []string
	switch {
	case m.Report.Stale && announces(r):
		differences = append(differences, "kube-vip runs with earlier peers than those of "+peersPath)
	case m.Report.Stale:
		differences = append(differences, "kube-vip runs with an earlier certificate than that of "+credentialPath)
	}
	if m.Report.Foreign {
		differences = append(differences, "kube-vip also runs as a static pod, for the same address")
	}
	if at := pendingTakeover(m); at != "" {
		differences = append(differences, "the takeover of the address from a static pod is not complete: "+at)
	}
	if m.Report.Replaced {
		differences = append(differences, "kube-vip runs an earlier program than "+r.KubeVIP.Program)
	}
	return differences
}

// device returns the interface for the address.
func device(m machine, r endpoint.Registration) string {
	if r.KubeVIP.Interface != "" {
		return r.KubeVIP.Interface
	}
	return m.Report.Device
}

// restarts reports whether Register would restart kube-vip on a machine that may hold the address.
func restarts(r endpoint.Registration, m machine, wanted []host.File) bool {
	switch why := outOfRotation(r, m); {
	case errors.Is(why, errEnding):
		return true
	case why != nil:
		return false
	case isCandidate(r, m, podManifests):
		return true
	}
	return m.Report.Stale || m.Report.Replaced || m.Rewrites(wanted)
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
func requirements(m machine, r endpoint.Registration) error {
	for _, command := range commands(r) {
		if m.Facts.Commands[command] == "" {
			return fmt.Errorf("%w: %s", errNoCommand, command)
		}
	}
	if err := notInheritable(r, m); err != nil {
		return err
	}
	address, err := netip.ParseAddr(r.Address)
	switch {
	case err != nil:
		return err
	case !m.Report.Program:
		return fmt.Errorf("%w: %s", errNoProgram, r.KubeVIP.Program)
	case r.KubeVIP.SHA256 != "" && !m.Report.Digest:
		return fmt.Errorf("%w: %s", errDigest, r.KubeVIP.Program)
	case m.Report.Device == "":
		return errNoOwnAddress
	case announces(r):
		return busy(m)
	case r.KubeVIP.Interface == "" && !m.Report.Network.Contains(address):
		return fmt.Errorf("%w: %s on %s", errOtherNetwork, m.Report.Network, m.Report.Device)
	case !m.Report.Credential:
		return fmt.Errorf("%w: %s", errNoCredential, credentialPath)
	}
	return nil
}
