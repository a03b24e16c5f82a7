package kubevip

import (
	"context"
	_ "embed"
	"errors"
	"net/netip"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/agent"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/bgp"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

var (
	//go:embed apply.sh
	applyScript host.Script
	//go:embed admit.sh
	admitScript host.Script
	//go:embed drain.sh
	drainScript host.Script
	//go:embed clean.sh
	cleanScript host.Script
	//go:embed complete.sh
	completeScript host.Script
)

type (
	machine   = agent.Machine[report]
	registrar = agent.Registrar[report]
)

// kind describes endpoints whose address kube-vip holds or announces. passwords has those of BGP sessions.
func kind(passwords map[string]string) agent.Kind[report] {
	return agent.Kind[report]{
		Text:      text,
		ConfigDir: configDir, Program: programDir, Units: []string{unitName},
		Scripts: agent.Scripts{
			Vars: variables, Functions: podsFunction + takeoverFunctions, Apply: applyScript, Admit: admitScript,
			Drain: drainScript, Clean: host.Command{Script: cleanScript},
		},
		Complete: complete, Validate: ValidateRegistration, Query: query,
		Secrets: func(r endpoint.Registration) error {
			if !announces(r) {
				return nil
			}
			return bgp.CheckPasswords(r, passwords)
		},
		Conflict: notInheritable, Taken: inUse,
		Parse: func(output string, _ endpoint.Registration, own netip.Addr) report { return parseReport(output, own) },
		Files: func(r endpoint.Registration, name string, own netip.Addr, m machine) []host.File {
			if announces(r) {
				return announcingFiles(bgp.At(r, name), name, own, m.Report.Device, passwords)
			}
			return files(r, name, own, device(m, r))
		},
		OutOfRotation: outOfRotation, Lacks: lacks, Differs: differs, Restarts: restarts,
		Silent: func(r endpoint.Registration, name string, m machine) []string {
			if !announces(r) || !m.Report.Running {
				return nil
			}
			return silentPeers(m, bgp.At(r, name))
		},
		Prepare: func(ctx context.Context, r *registrar, _ targets.Target, m machine) (machine, error) {
			if err := requirements(m, r.Registration); err != nil || m.Report.Registered {
				return m, err
			}
			return m, inUse(r.Registration, r.ObserveMachines(ctx))
		},
		Enter: enter, Leave: leave, Silence: silence, Next: nextStep,
	}
}

func text(r endpoint.Registration) agent.Text {
	t := agent.Text{
		Attribute: "kube_vip", Serves: "is a candidate for", Unregistered: "the machine is no candidate for the address",
		Taken: "its address would lose these machines", Reconfigured: "in rotation",
	}
	if announces(r) {
		t.Serves, t.Unregistered = "announces", "the machine announces nothing"
	}
	return t
}

func complete(r endpoint.Registration) endpoint.Registration {
	if r.KubeVIP == nil {
		r.KubeVIP = &endpoint.Election{}
	}
	return r
}

// variables are those of the scripts.
func variables(r endpoint.Registration) map[string]string {
	file, name := credential(r)
	announced := "no"
	if announces(r) {
		announced = "yes"
	}
	return map[string]string{
		"length": length(r.Address), "config": configDir, "unit": unitName, "agent": agentPath, "run": runDir,
		"credential": file, "credential_name": name, "manifests": strings.Join(podManifests, " "), "announces": announced,
	}
}

// credential returns the file that systemd hands to the agent at its start, and its name there.
func credential(r endpoint.Registration) (file, name string) {
	if announces(r) {
		return peersPath, peersName
	}
	return credentialPath, "kubeconfig"
}

// enter returns when clients may reach the machine. Then a takeover from a static pod is complete.
func enter(ctx context.Context, r *registrar, t targets.Target) error {
	wait := waitUntilHeld
	if announces(r.Registration) {
		wait = waitUntilAnnounced
	}
	m, err := wait(ctx, r, t)
	if err != nil || pendingTakeover(m) == "" {
		return err
	}
	return r.Run(ctx, t, "# complete the takeover\n", completeScript)
}

// leave returns when no client is sent to the machine.
func leave(ctx context.Context, r *registrar, t targets.Target, others bool) error {
	if announces(r.Registration) {
		return checkWithdrawn(r.ObserveMachine(ctx, t.Address))
	}
	return handOver(ctx, r, t, others)
}

// nextStep says what to do about a machine that cannot hold the address.
func nextStep(err error) string {
	switch {
	case errors.Is(err, errNoProgram):
		return "install kube-vip at that path on the machine, or set kube_vip.program, then apply again"
	case errors.Is(err, errDigest):
		return "install the program with the digest in kube_vip.sha256, or correct it, then apply again"
	case errors.Is(err, errOtherLease):
		return "set kube_vip.lease_name of the endpoint to the Lease of the static pods, then apply again"
	case errors.Is(err, errOtherKubeVIP):
		return "let the endpoint have the settings of that kube-vip, or end it on all machines; then apply again"
	case errors.Is(err, errInUse):
		return "use an address that is free, or take it away from the machine that has it; then apply again"
	case errors.Is(err, errNoCommand):
		return "install it with the machine's package manager, then apply again"
	case errors.Is(err, errNoOwnAddress), errors.Is(err, errOtherNetwork):
		return "use an unused address in the network of the replicas' machines, and the addresses that the machines " +
			"themselves have in kube_vip.targets, or name the interface (kube_vip.interface); then apply again"
	case errors.Is(err, errNoSession):
		return "check that the router (kube_vip.peers) has the machine as a neighbor, with the same ASNs and password, and " +
			"that it accepts sessions of the machine at TCP port 179, then apply again"
	case errors.Is(err, errNoAddress):
		return "find out what removes the address from the loopback interface of the machine, such as a network manager " +
			"that does not know it (the log of the unit " + unitName + " has the times), and end that; then apply again"
	case errors.Is(err, bgp.ErrNoPassword):
		return "set the password of the session in the configuration of the provider, then apply again"
	case errors.Is(err, errBusyPort):
		return "let the other program use another port, then apply again"
	case errors.Is(err, errNotHeld), errors.Is(err, errNoLease):
		return "read the log of the unit " + unitName + " on the machine, then apply again"
	case errors.Is(err, errNotReached):
		return "let the network pass ARP replies and packets for the address, or use an address that it passes; then " +
			"apply again"
	}
	return ""
}
