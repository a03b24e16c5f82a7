package kubevip

import (
	_ "embed"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

var (
	//go:embed agent.sh
	agentScript host.Script
	//go:embed supervise.sh
	superviseScript host.Script
)

// files returns what Register writes for the replica of that name on the machine at own.
func files(r endpoint.Registration, name string, own netip.Addr, device string) []host.File {
	return []host.File{
		{Path: agentPath, Mode: 0o755, Content: []byte(renderAgent(r, name, own, device))},
		{Path: unitPath, Mode: 0o644, Content: []byte(electorUnit().render())},
	}
}

// renderAgent renders the agent. It asks the API server at the machine's own address, and never the endpoint.
func renderAgent(r endpoint.Registration, name string, own netip.Addr, device string) string {
	lease := leaseName(r)
	duration := r.KubeVIP.LeaseDuration
	seconds := func(d time.Duration) string { return strconv.Itoa(int(d / time.Second)) }
	return "#!/bin/sh\n" + systemd.Managed + "\n" + string(host.Assignments(map[string]string{
		"config": configDir, "run": runDir,
		"url":        "https://" + netip.AddrPortFrom(own, uint16(r.TargetPort)).String(), //nolint:gosec // a port
		"lease_path": "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/" + lease,
		"lease":      lease, "name": name, "vip": r.Address, "length": length(r.Address), "device": device,
		"source":  source(r.Address),
		"program": r.KubeVIP.Program, "sha256": r.KubeVIP.SHA256,
		"duration": seconds(duration), "renew": seconds(duration * 3 / 5), "retry": seconds(duration / 5),
	})+superviseScript+podsFunction+agentScript)
}

// agentUnit is what differs between the units of the agents.
type agentUnit struct {
	Description string
	Stop        time.Duration // how long the agent may take to end
	Credential  string        // as LoadCredential= takes it: systemd hands the file, which root owns, over at the start
	Rights      string        // capabilities
	Families    string        // of addresses
	Lines       string        // at the end of the section
}

// electorUnit is the unit of the agent that runs kube-vip with a Lease. Its user has two rights: to change the
// addresses of the machine, and to send ARP replies.
func electorUnit() agentUnit {
	return agentUnit{
		Description: "Address of the Kubernetes control-plane endpoint (kube-vip)",
		Stop:        40 * time.Second,
		Credential:  "kubeconfig:" + credentialPath,
		Rights:      "CAP_NET_ADMIN CAP_NET_RAW", Families: "AF_INET AF_INET6 AF_UNIX AF_NETLINK AF_PACKET",
	}
}

// render renders the unit. However the agent ends, systemd removes the address. The watchdog ends an agent that hangs.
func (u agentUnit) render() string {
	section := systemd.UnitSection{
		Description:   u.Description,
		Documentation: "https://kube-vip.io/docs/",
		// A machine that shuts down gives the address away while its API server still answers.
		After: []string{"kube-apiserver.service"},
	}
	return section.String() + fmt.Sprintf(`[Service]
Type=notify
NotifyAccess=all
WatchdogSec=30s
TimeoutStopSec=%[1]ds
KillMode=mixed
DynamicUser=yes
RuntimeDirectory=%[2]s
RuntimeDirectoryMode=0700
LoadCredential=%[3]s
ExecStart=/bin/sh %[4]s run
ExecStopPost=/bin/sh %[4]s clean
Restart=always
RestartSec=500ms
Nice=-10
LogRateLimitIntervalSec=30s
LogRateLimitBurst=1000
CapabilityBoundingSet=%[5]s
RestrictAddressFamilies=%[6]s
RestrictRealtime=yes
`, int(u.Stop/time.Second), runName, u.Credential, agentPath, u.Rights, u.Families) + systemd.Sandbox +
		u.Lines + "AmbientCapabilities=" + u.Rights + "\n" + systemd.InstallSection
}

// length returns the length of the prefix that is one address of its family.
func length(address string) string {
	if at, err := netip.ParseAddr(address); err == nil {
		return strconv.Itoa(at.BitLen())
	}
	return ""
}

// source returns an address as filters of ss contain it: a colon separates a port.
func source(address string) string {
	if strings.Contains(address, ":") {
		return "[" + address + "]"
	}
	return address
}
