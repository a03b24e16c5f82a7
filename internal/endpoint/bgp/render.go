package bgp

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/agent"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

// renderBird renders bird's configuration for the machine at own. The registration is valid. Only
// values of strict types are written: addresses, numbers, times, and passwords without characters
// that have a meaning.
//
// The route comes from the address on the loopback interface, so an address that is gone is withdrawn.
// Its protocol is disabled here: when bird starts or takes another configuration, nothing is
// announced until the health check has enabled it. Without a protocol of the type kernel, bird
// changes no route of the machine.
func renderBird(r endpoint.Registration, own netip.Addr, passwords map[string]string) string {
	prefix := prefixOf(r)
	family := "ipv4"
	if own.Is6() {
		family = "ipv6"
	}
	var b strings.Builder
	fmt.Fprintf(&b, `%[1]s
log stderr all;
router id %[2]s;

protocol device {
  scan time 10;
}

protocol direct %[3]s {
  disabled;
  interface "lo";
  %[4]s {
    import where net = %[5]s;
    export none;
  };
}

filter only_the_endpoint {
  if net = %[5]s && proto = "%[3]s" then accept;
  reject;
}
`, systemd.Managed, RouterID(own), protocolName, family, prefix)
	b.WriteString(renderBFD(*r.BGP))
	for _, p := range r.BGP.Peers {
		b.WriteString("\n" + renderPeer(r, p, own, family, passwords[p.Password]))
	}
	return b.String()
}

// renderBFD renders the protocol for all sessions with BFD.
func renderBFD(a endpoint.Announcement) string {
	wanted := false
	for _, p := range a.Peers {
		wanted = wanted || p.BFD
	}
	if !wanted {
		return ""
	}
	ms := a.BFDInterval.Milliseconds()
	times := fmt.Sprintf(`    min rx interval %d ms;
    min tx interval %d ms;
    multiplier %d;
`, ms, ms, bfdMultiplier)
	return "\nprotocol bfd liveness {\n  strict bind yes;\n" +
		"  interface \"*\" {\n" + times + "  };\n  multihop {\n" + times + "  };\n}\n"
}

// renderPeer renders one session. Graceful restart is off, so that a router drops the route of a
// machine that died. The listening socket is bound to the machine's own address, because another
// program may announce something else from other addresses.
func renderPeer(
	r endpoint.Registration, p endpoint.Peer, own netip.Addr, family, password string,
) string {
	lines := []string{
		fmt.Sprintf("protocol bgp %s {", peerName(p)),
		fmt.Sprintf("  local %s as %d;", own, r.BGP.ASN),
		fmt.Sprintf("  neighbor %s as %d;", p.Address, p.ASN),
	}
	if p.Multihop > 0 {
		lines = append(lines, fmt.Sprintf("  multihop %d;", p.Multihop))
	} else {
		lines = append(lines, "  direct;")
	}
	if password != "" {
		lines = append(lines, `  password "`+password+`";`)
	}
	if p.BFD {
		lines = append(lines, "  bfd on;")
	}
	hold := int(r.BGP.HoldTime / time.Second)
	return strings.Join(append(lines,
		"  strict bind yes;",
		fmt.Sprintf("  hold time %d;", hold),
		fmt.Sprintf("  keepalive time %d;", max(1, hold/3)),
		"  startup hold time 10;",
		"  connect delay time 1;",
		"  connect retry time 2;",
		"  error wait time 1, 4;",
		"  graceful restart off;",
		"  long lived graceful restart off;",
		"  "+family+" {",
		"    import none;",
		"    export filter only_the_endpoint;",
		"    next hop self;",
		"  };",
		"}",
	), "\n") + "\n"
}

// peerName is the name of a peer's protocol in bird's configuration. It follows from the peer alone, so
// that the sessions with other peers last when one comes or goes.
func peerName(p endpoint.Peer) string {
	return "peer_" + strings.NewReplacer(".", "_", ":", "_").Replace(p.Address)
}

// prefixOf returns the one prefix that is announced.
func prefixOf(r endpoint.Registration) netip.Prefix {
	address, err := netip.ParseAddr(r.Address)
	if err != nil {
		return netip.Prefix{} // ValidateRegistration has refused it
	}
	return netip.PrefixFrom(address, address.BitLen())
}

// RouterID is the machine's IPv4 address, or a number that follows from its IPv6 address.
func RouterID(own netip.Addr) netip.Addr {
	if own.Is4() {
		return own
	}
	sum := sha256.Sum256(own.AsSlice())
	var id [4]byte
	binary.BigEndian.PutUint32(id[:], binary.BigEndian.Uint32(sum[:4])|1) // not 0.0.0.0
	return netip.AddrFrom4(id)
}

// renderHealth renders the program that watches the machine's own API server. It asks the machine's
// own address, and never the endpoint's.
func renderHealth(r endpoint.Registration, own netip.Addr) string {
	return "#!/bin/sh\n" + systemd.Managed + "\n" + string(host.Assignments(map[string]string{
		"url": "https://" + netip.AddrPortFrom(own, uint16(r.TargetPort)).String() + //nolint:gosec // a port
			targets.HealthCheckPath,
	})+birdScript+agent.Readiness+healthScript)
}

// renderAddress renders the program that gives the machine the address and takes it away.
func renderAddress(r endpoint.Registration, own netip.Addr) string {
	return "#!/bin/sh\n" + systemd.Managed + "\n" + string(host.Assignments(map[string]string{
		"prefix": prefixOf(r).String(), "own": own.String(), "state": "/run/" + addressRunName,
	})+agent.Address+addressScript)
}

// renderAddressUnit renders the unit that gives the machine the address at boot, also if the network is later than
// address.sh waits. It changes how the machine answers for the address on its network, so /proc/sys is writable. What
// it has changed before it fails is undone too.
func renderAddressUnit() string {
	section := systemd.UnitSection{
		Description:   "Address of the Kubernetes control-plane endpoint",
		Documentation: "man:ip-address(8)",
	}
	return section.String() + fmt.Sprintf(`[Service]
Type=oneshot
RemainAfterExit=yes
RuntimeDirectory=%[1]s
ExecStart=/bin/sh %[2]s up
ExecStopPost=/bin/sh %[2]s down
Restart=on-failure
RestartSec=5s
CapabilityBoundingSet=CAP_NET_ADMIN
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
RestrictRealtime=yes
`, addressRunName, addressPath) + systemd.Sandbox + "ProtectKernelTunables=no\n" + systemd.InstallSection
}

// renderBirdUnit renders the unit of bird. It has no right to change the machine's network. A
// configuration that bird refuses is refused before the running one ends.
func renderBirdUnit(program, client string) string {
	section := systemd.UnitSection{
		Description:   "BGP of the Kubernetes control-plane endpoint",
		Documentation: "man:bird(8)",
		After:         []string{addressUnit},
		Lines:         []string{"Wants=" + addressUnit + " " + healthUnit},
	}
	return section.String() + fmt.Sprintf(`[Service]
Type=simple
RuntimeDirectory=%[1]s
RuntimeDirectoryMode=0700
ExecStart=%[2]s -f -c %[3]s -s %[4]s
ExecReload=%[5]s -s %[4]s configure
Restart=always
RestartSec=500ms
CapabilityBoundingSet=CAP_NET_BIND_SERVICE CAP_NET_RAW
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
RestrictRealtime=yes
Nice=-10
LogRateLimitIntervalSec=30s
LogRateLimitBurst=1000
`, runName, program, configPath, socketPath, client) + systemd.Sandbox + systemd.InstallSection
}

// renderHealthUnit renders the unit of the health check. However it ends, systemd withdraws the
// address. The watchdog ends a check that hangs.
func renderHealthUnit() string {
	section := systemd.UnitSection{
		Description:   "Health check of the Kubernetes control-plane endpoint",
		Documentation: "https://kubernetes.io/docs/reference/using-api/health-checks/",
		After:         []string{birdUnit},
	}
	return section.String() + fmt.Sprintf(`[Service]
Type=notify
NotifyAccess=all
WatchdogSec=20s
TimeoutStopSec=5s
ExecStart=/bin/sh %[1]s watch
ExecStopPost=/bin/sh %[1]s withdraw
Restart=always
RestartSec=500ms
LogLevelMax=notice
CapabilityBoundingSet=
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictRealtime=yes
`, healthPath) + systemd.Sandbox + systemd.InstallSection
}
