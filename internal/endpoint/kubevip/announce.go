package kubevip

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/agent"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/bgp"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

//go:embed announce.sh
var announceScript host.Script

var (
	errNoAddress      = errors.New("its machine does not have the endpoint's address")
	errNoSession      = errors.New("its machine has no established session with a peer")
	errStillAnnounced = errors.New("its machine still announces the address")
	errBusyPort       = errors.New("another program listens where kube-vip says which sessions it has")
)

// announcingFiles returns what Register writes for an endpoint by BGP. r has the peers of this machine. Passwords that
// are not known leave the peers out.
func announcingFiles(
	r endpoint.Registration, name string, own netip.Addr, device string, passwords map[string]string,
) []host.File {
	all := []host.File{
		{Path: agentPath, Mode: 0o755, Content: []byte(renderAnnouncer(r, name, own, device))},
		{Path: unitPath, Mode: 0o644, Content: []byte(announcerUnit(r.BGP.Propagation).render())},
	}
	if bgp.MissingPasswords(r, passwords) == nil {
		all = append(all, host.File{Path: peersPath, Mode: 0o600, Content: []byte(renderPeers(r, passwords))})
	}
	return all
}

// renderPeers renders kube-vip's configuration, which has nothing but the peers: they may have passwords, and what is
// an argument or in the environment is for all to see. Only values of strict types are written: addresses, numbers, and
// passwords without quotes. kube-vip knows no number of hops.
func renderPeers(r endpoint.Registration, passwords map[string]string) string {
	var b strings.Builder
	b.WriteString(systemd.Managed + "\nbgpConfig:\n  peers:\n")
	for _, p := range r.BGP.Peers {
		fmt.Fprintf(&b, "    - {address: '%s', as: %d, port: 179, multiHop: %t, password: '%s'}\n", p.Address, p.ASN,
			p.Multihop > 0, passwords[p.Password])
	}
	return b.String()
}

// renderAnnouncer renders the agent. It asks the API server at the machine's own address, and never the endpoint.
func renderAnnouncer(r endpoint.Registration, name string, own netip.Addr, device string) string {
	hold := int(r.BGP.HoldTime / time.Second)
	return "#!/bin/sh\n" + systemd.Managed + "\n" + string(host.Assignments(map[string]string{
		"config": configDir, "run": runDir, "state": runDir, "prefix": r.Address + "/" + length(r.Address),
		"url": "https://" + netip.AddrPortFrom(own, uint16(r.TargetPort)).String() + //nolint:gosec // a port
			targets.HealthCheckPath,
		"name": name, "vip": r.Address, "length": length(r.Address), "source": source(r.Address), "device": device,
		"own": own.String(), "program": r.KubeVIP.Program, "sha256": r.KubeVIP.SHA256, "peers": peersName,
		"asn": strconv.FormatUint(uint64(r.BGP.ASN), 10), "router_id": bgp.RouterID(own).String(),
		"hold": strconv.Itoa(hold), "keepalive": strconv.Itoa(max(1, hold/3)), "metrics": strconv.Itoa(metricsPort),
		// The times of sleep: the agent lives in pauses of half a second.
		"pauses": strconv.Itoa(int((r.BGP.Propagation + pause - 1) / pause)),
	})+superviseScript+agent.Readiness+agent.Address+announceScript)
}

// pause is how long the agent pauses.
const pause = 500 * time.Millisecond

// announcerUnit is the unit of the agent, which runs kube-vip. Its user may change the network of the machine: its
// addresses, and how it answers for them. The peers belong to root.
func announcerUnit(propagation time.Duration) agentUnit {
	return agentUnit{
		Description: "Announcement of the Kubernetes control-plane endpoint (kube-vip)",
		Stop:        30*time.Second + propagation,
		Credential:  peersName + ":" + peersPath,
		Rights:      "CAP_NET_ADMIN", Families: "AF_INET AF_INET6 AF_UNIX AF_NETLINK",
		Lines: "ProtectKernelTunables=no\n",
	}
}

// notAnnounced returns why routers send no requests to a machine on which kube-vip runs, or nil. All sessions count:
// the machine may have other peers until its replica is changed.
func notAnnounced(m machine) error {
	switch {
	case !m.Report.Address:
		return errNoAddress
	case len(m.Report.Sessions) == 0:
		return errNoSession
	}
	return nil
}

// silentPeers describes the peers of the machine without a session. kube-vip announces the address in every session.
func silentPeers(m machine, r endpoint.Registration) []string {
	var silent []string
	for _, p := range r.BGP.Peers {
		if address, err := netip.ParseAddr(p.Address); err != nil || !slices.Contains(m.Report.Sessions, address) {
			silent = append(silent, "session with peer "+p.Address+" is not established")
		}
	}
	return silent
}

// busy returns an error if kube-vip does not run, and another program has its port.
func busy(m machine) error {
	listener, taken := m.Facts.Listeners[metricsPort]
	if !taken || m.Report.Running {
		return nil
	}
	return fmt.Errorf("%w: %s on port %d", errBusyPort, listener.Process, metricsPort)
}

// waitUntilAnnounced returns when the machine announces the address. m is what was observed then.
func waitUntilAnnounced(ctx context.Context, r *registrar, t targets.Target) (m machine, err error) {
	err = r.WaitUntilAnnounced(ctx, t, func(now machine) []string {
		m = now
		return silentPeers(m, bgp.At(r.Registration, t.Name))
	})
	return m, err
}

// checkWithdrawn returns why a machine whose agent has ended kube-vip still announces the address, or nil. The agent
// has waited until the network has followed.
func checkWithdrawn(m machine) error {
	switch {
	case m.Err != nil:
		return m.Err
	case m.Report.Running || len(m.Report.Sessions) > 0:
		return errStillAnnounced
	}
	return nil
}
