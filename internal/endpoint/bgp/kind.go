package bgp

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/agent"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/packages"
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

type (
	machine   = agent.Machine[report]
	registrar = agent.Registrar[report]
)

// kind describes endpoints that are announced by BGP. passwords has those of sessions.
func kind(passwords map[string]string) agent.Kind[report] {
	return agent.Kind[report]{
		Text: func(endpoint.Registration) agent.Text {
			return agent.Text{
				Attribute: "bgp", Serves: "announces", Unregistered: "the machine announces nothing",
				Taken: "its address would no longer be announced", Reconfigured: "configured again",
			}
		},
		ConfigDir: configDir, Program: programDir, Units: units(),
		Scripts: agent.Scripts{
			Functions: birdScript, Apply: applyScript, Admit: admitScript, Drain: drainScript,
			Clean: packages.BGP().WithRemoval(cleanScript, nil),
		},
		Complete: complete,
		Validate: ValidateRegistration,
		Secrets:  func(r endpoint.Registration) error { return CheckPasswords(r, passwords) },
		Query:    query,
		Parse: func(output string, r endpoint.Registration, _ netip.Addr) report {
			return parseReport(output, prefixOf(r))
		},
		Files: func(r endpoint.Registration, name string, own netip.Addr, m machine) []host.File {
			return files(At(r, name), own, m.Facts, passwords)
		},
		OutOfRotation: outOfRotation,
		Lacks:         lacks,
		Differs:       differs,
		Silent: func(r endpoint.Registration, name string, m machine) []string {
			if m.Report.Protocol != "up" {
				return nil
			}
			return silentPeers(m, At(r, name))
		},
		Restarts: reconfigures, Prepare: prepare, Enter: waitUntilAnnounced, Leave: withdraw, Next: nextStep,
		Silence: func(_ context.Context, _ *registrar, h targets.Health) string { return agent.NotAnnounced(h) },
	}
}

func complete(r endpoint.Registration) endpoint.Registration {
	if r.BGP == nil {
		r.BGP = &endpoint.Announcement{}
	}
	return r
}

// At returns the registration as the machine of one target has it: with the target's peers.
func At(r endpoint.Registration, target string) endpoint.Registration {
	announcement := *r.BGP
	announcement.Peers = announcement.PeersOf(target)
	r.BGP = &announcement
	return r
}

// CheckPasswords checks that every password that a peer names is known and valid.
func CheckPasswords(r endpoint.Registration, passwords map[string]string) error {
	if missing := MissingPasswords(r, passwords); len(missing) > 0 {
		return fmt.Errorf("%w: %s", ErrNoPassword, strings.Join(missing, ", "))
	}
	for _, p := range r.BGP.Peers {
		if p.Password == "" {
			continue
		}
		if err := ValidatePassword(passwords[p.Password]); err != nil {
			return fmt.Errorf("password %s of peer %s: %w", p.Password, p.Address, err)
		}
	}
	return nil
}

// ErrNoPassword means that the configuration of the provider lacks a password.
var ErrNoPassword = errors.New("the configuration has no password of this name")

// nextStep says what to do about a machine that does not announce the address.
func nextStep(err error) string {
	switch {
	case errors.Is(err, ErrNoPassword):
		return "set the password of the session in the configuration of the provider, then apply again"
	case errors.Is(err, errPackages):
		return "make the packages installable on the machine, or install them by hand, then apply again"
	case errors.Is(err, errKeepPackages):
		return "install them on the machine, or set bgp.install_packages = true, then apply again"
	case errors.Is(err, errBarred):
		return "run the commands above on the machine, then apply again"
	case errors.Is(err, errBusyPort):
		return "let the other program bind another address, or none (such as passive sessions), then apply again"
	case errors.Is(err, errNoOwnAddress):
		return "use the address that the machine itself has as the replica's host.address and in bgp.targets (behind " +
			"address translation, BGP cannot work), then apply again"
	case errors.Is(err, errNoSession):
		return "check that the router (bgp.peers) has the machine as a neighbor, with the same ASNs and password, and that " +
			"TCP port 179 is open between them, then apply again"
	}
	return ""
}
