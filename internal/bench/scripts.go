package bench

import (
	"fmt"
	"strings"

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

	stopMember   = "systemctl stop etcd"
	stopReplica  = "systemctl stop kube-apiserver kube-controller-manager kube-scheduler"
	startReplica = "systemctl start --no-block kube-apiserver kube-controller-manager kube-scheduler\n" + untilServing + "\n" + othersScript

	restartAPIServer = "systemctl restart kube-apiserver\n" + untilServing
	untilServing     = `until curl -ksf "https://$address:6443/readyz" >/dev/null; do sleep 0.1; done`
)

// memberScript is etcdctl by the member at an address, and its repetition for as
// long as etcd refuses: it promotes no learner that is not in sync, and changes
// no members while too few of them have been connected for five seconds.
const memberScript = `
ctl() {
  endpoint=$1
  shift
  pki=/etc/kubernetes/pki/etcd
  "$(ls -d /opt/kube/etcd/*/etcdctl | tail -n 1)" --endpoints="https://$endpoint:2379" --cacert=$pki/ca.crt --cert=$pki/healthcheck-client.crt --key=$pki/healthcheck-client.key "$@"
}
retry() {
  tries=0
  until said=$("$@" 2>&1); do
    tries=$((tries + 1))
    [ "$tries" -lt 600 ] || { echo "$said" >&2; exit 1; }
    sleep 0.1
  done
}
`

// join makes the machine's etcd a voter, by way of a member that is one. The last
// lines of what adding says are the new member's settings; those that are also
// flags would conflict with them.
func join(by *lab.Machine) string {
	return memberScript + fmt.Sprintf(`
rm -rf /var/lib/etcd/member
retry ctl %[1]s member add "$name" --learner --peer-urls="https://$address:2380"
printf '%%s\n' "$said" | grep '^ETCD_INITIAL_CLUSTER' >/etc/etcd/bootstrap.env
id=$(printf '%%s\n' "$said" | sed -n 's/^Member *\([0-9a-f]*\) added .*/\1/p')
systemctl start --no-block etcd
retry ctl %[1]s member promote "$id"
`, by.Address)
}

// remove removes another machine's member.
func remove(m *lab.Machine) string {
	return memberScript + fmt.Sprintf(`
id=$(ctl "$address" member list | sed -n 's|^\([0-9a-f]*\), .*, https://%s:2380, .*|\1|p')
retry ctl "$address" member remove "$id"
`, m.Address)
}

// enter puts servers into rotation.
func enter(machines ...*lab.Machine) string {
	var b strings.Builder
	for _, m := range machines {
		fmt.Fprintf(&b, "echo '    server %s %s:6443' >>%s\n", m.Name, m.Address, backends)
	}
	return b.String() + reload
}

// leave takes servers out of rotation for new connections.
func leave(machines ...*lab.Machine) string {
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
