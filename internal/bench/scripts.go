package bench

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
)

const (
	backends   = "/etc/haproxy/kube/20-backends.cfg"
	askHAProxy = "/opt/kube/endpoint/ask /run/kube-endpoint/haproxy.sock"
	reload     = "systemctl reload kube-endpoint-haproxy\n"
)

// Commands for one machine. $name and $address are its own.
const (
	startBalancer = "systemctl start --no-block kube-endpoint-haproxy kube-endpoint-keepalived"
	// The virtual IP leaves before the load balancer stops.
	stopBalancer = "systemctl stop kube-endpoint-keepalived\nsystemctl stop kube-endpoint-haproxy"

	stopMember  = "systemctl stop etcd"
	stopReplica = "systemctl stop kube-apiserver kube-controller-manager kube-scheduler"

	restartAPIServer = "systemctl restart kube-apiserver\n" + untilServing
	untilServing     = `until curl -ksf "https://$address:6443/readyz" >/dev/null; do sleep 0.1; done`
)

// withoutShutdownDelay makes the API server of the machine stop as soon as its requests have
// ended, and restarts it so that this applies to its next stop.
const withoutShutdownDelay = "sed -i 's/--shutdown-delay-duration=[0-9a-z]*/--shutdown-delay-duration=0s/' " +
	"/etc/systemd/system/kube-apiserver.service\nsystemctl daemon-reload\n" + restartAPIServer

// startReplica also waits until all components serve.
var startReplica = "systemctl start --no-block kube-apiserver kube-controller-manager kube-scheduler\n" + untilServing +
	"\n" + othersScript

// Scripts that are files; the first lines of each describe it. memberScript provides functions
// for others.
var (
	//go:embed scripts/member.sh
	memberScript string
	//go:embed scripts/join.sh
	joinScript string
	//go:embed scripts/serving.sh
	servingScript string
	//go:embed scripts/remove.sh
	removeScript string
	//go:embed scripts/moveleader.sh
	moveLeaderScript string
	//go:embed scripts/others.sh
	othersScript string
	//go:embed scripts/empty.sh
	emptyScript string
	//go:embed scripts/packages.sh
	packagesScript string
	//go:embed scripts/versions.sh
	versionsScript string
	//go:embed scripts/healthy.sh
	healthyScript string
	//go:embed scripts/fill.sh
	fillScript string
	//go:embed scripts/served.sh
	servedScript string
	//go:embed scripts/lose.sh
	loseScript string
	//go:embed scripts/restore.sh
	restoreScript string
	//go:embed scripts/survive.sh
	surviveScript string
	//go:embed scripts/survivor.sh
	survivorScript string
	//go:embed scripts/follow.sh
	followScript string
	//go:embed scripts/save.sh
	saveScript string
	//go:embed scripts/memory.sh
	memoryScript string
)

// with sets the variables of a script, quoted.
func with(vars map[string]string, script string) string {
	return string(host.Assignments(vars)) + script
}

// variables returns the variables that describe the script's machine.
func variables(m *lab.Machine) map[string]string {
	return map[string]string{"name": m.Name, "address": m.Address.String()}
}

// joinMember makes the machine's etcd a voter, through an existing member.
func joinMember(by *lab.Machine) string {
	return with(map[string]string{"by": by.Address.String()}, memberScript+joinScript)
}

// removeMember removes another machine's member.
func removeMember(m *lab.Machine) string {
	return with(map[string]string{"other": m.Address.String()}, memberScript+removeScript)
}

// moveLeader transfers the leadership of the machine's member to another one.
func moveLeader(to *lab.Machine) string {
	return with(map[string]string{"other": to.Address.String()}, memberScript+moveLeaderScript)
}

// addServers puts servers into rotation.
func addServers(machines ...*lab.Machine) string {
	var b strings.Builder
	for _, m := range machines {
		fmt.Fprintf(&b, "echo '    server %s %s:6443' >>%s\n", m.Name, m.Address, backends)
	}
	return b.String() + reload
}

// removeServers takes servers out of rotation for new connections.
func removeServers(machines ...*lab.Machine) string {
	var b strings.Builder
	for _, m := range machines {
		fmt.Fprintf(&b, "sed -i '/^ *server %s /d' %s\n", m.Name, backends)
	}
	return b.String() + reload
}

// setState drains a server, or ends the drain, without a reload.
func setState(m *lab.Machine, state string) string {
	return fmt.Sprintf("%s 'set server kube-apiserver/%s state %s' >/dev/null", askHAProxy, m.Name, state)
}
