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

// What runs on one machine. $name and $address are its own.
const (
	startBalancer = "systemctl start --no-block kube-endpoint-haproxy kube-endpoint-keepalived"
	// The virtual IP goes before the balancer does.
	stopBalancer = "systemctl stop kube-endpoint-keepalived\nsystemctl stop kube-endpoint-haproxy"

	stopMember  = "systemctl stop etcd"
	stopReplica = "systemctl stop kube-apiserver kube-controller-manager kube-scheduler"

	restartAPIServer = "systemctl restart kube-apiserver\n" + untilServing
	untilServing     = `until curl -ksf "https://$address:6443/readyz" >/dev/null; do sleep 0.1; done`
)

// startReplica also waits until all of it serves.
var startReplica = "systemctl start --no-block kube-apiserver kube-controller-manager kube-scheduler\n" + untilServing + "\n" + othersScript

// Scripts that are files; each says in its first lines what it does. memberScript
// has functions for others.
var (
	//go:embed scripts/member.sh
	memberScript string
	//go:embed scripts/join.sh
	joinScript string
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
)

// with sets the variables of a script, quoted.
func with(vars map[string]string, script string) string {
	return string(host.Assignments(vars)) + script
}

// variables are what a script knows of the machine that it runs on.
func variables(m *lab.Machine) map[string]string {
	return map[string]string{"name": m.Name, "address": m.Address.String()}
}

// joinMember makes the machine's etcd a voter, by way of a member that is one.
func joinMember(by *lab.Machine) string {
	return with(map[string]string{"by": by.Address.String()}, memberScript+joinScript)
}

// removeMember removes another machine's member.
func removeMember(m *lab.Machine) string {
	return with(map[string]string{"other": m.Address.String()}, memberScript+removeScript)
}

// moveLeader hands the leadership of the machine's member over to another.
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

// setState is a drain, or its end, without a reload.
func setState(m *lab.Machine, state string) string {
	return fmt.Sprintf("%s 'set server kube-apiserver/%s state %s' >/dev/null", askHAProxy, m.Name, state)
}
