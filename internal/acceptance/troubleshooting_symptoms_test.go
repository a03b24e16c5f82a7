package acceptance

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// noLeader: two of three members are stopped.
func (s symptoms) noLeader(t *testing.T) {
	for _, name := range []string{"cp2", "cp3"} {
		onMachine(t, shared.lab.Machine(name), "systemctl stop etcd")
	}
	expectContains(t, s.issues(t), "etcd member cp2 ("+address("cp2")+"): etcd.service is inactive",
		"etcd member cp3 ("+address("cp3")+"): etcd.service is inactive")
	for _, name := range []string{"cp2", "cp3"} {
		s.on(t, name, startMember)
	}
	s.repaired(t)
}

// lostConnection: a firewall between two members, neither of which leads, that drops what one sends, or ends its
// connections. So nothing else is in their logs.
func (s symptoms) lostConnection(t *testing.T) {
	leader := s.leader(t)
	followers := slices.DeleteFunc(slices.Clone(s.names), func(name string) bool { return name == leader })
	one, other := followers[0], followers[1]
	for _, name := range followers { // they may have led when the control plane was created
		onMachine(t, shared.lab.Machine(name), "journalctl --rotate; sleep 2; journalctl --vacuum-time=1s 2>&1")
	}
	for _, cause := range []struct{ target, shown string }{
		{"DROP", "prober detected unhealthy status"},
		{"REJECT --reject-with tcp-reset", "lost TCP streaming connection"},
	} {
		rules := func(do string) {
			for _, port := range []string{"--dport", "--sport"} {
				onMachine(t, shared.lab.Machine(one),
					"iptables "+do+" INPUT -p tcp -s "+address(other)+" "+port+" 2380 -j "+cause.target)
			}
		}
		rules("-I")
		shown := ""
		awaitFor(t, 2*time.Minute, other+" does not show "+cause.shown, func() bool {
			shown = s.on(t, other, showLeaders)
			return strings.Contains(shown, cause.shown)
		})
		if strings.Contains(shown, "overloaded") {
			t.Errorf("%s: another cause is shown:\n%s", other, shown)
		}
		rules("-D")
		expectOpen(t, other, shared.lab.Machine(one).Address, 2380, true)
		expectOpen(t, one, shared.lab.Machine(other).Address, 2380, true)
	}
	awaitRotation(t, s.names...)
}

// leaderChanges: the leader stands still for longer than an election takes, as with a disk that does
// not answer.
func (s symptoms) leaderChanges(t *testing.T) {
	shown := ""
	for range 5 {
		leader := s.leader(t)
		onMachine(t, shared.lab.Machine(leader),
			"systemctl kill --signal=STOP etcd; sleep 4; systemctl kill --signal=CONT etcd")
		await(t, "no member leads", func() bool { return s.leader(t) != "" })
		if shown = s.on(t, leader, showLeaders); strings.Contains(shown, "slow disk") {
			break
		}
	}
	expectContains(t, shown, "elected leader", "overloaded likely from slow disk")
	awaitRotation(t, s.names...)
}

// leader returns the machine of the leader, or "" if there is none.
func (s symptoms) leader(t *testing.T) string {
	t.Helper()
	for _, name := range s.names {
		out := onMachine(t, shared.lab.Machine(name), "curl -s --max-time 3 http://127.0.0.1:2381/metrics || true")
		if strings.Contains(out, "\netcd_server_is_leader 1\n") {
			return name
		}
	}
	return ""
}

// pendingPods: no scheduler runs; with one, there is no node.
func (s symptoms) pendingPods(t *testing.T) {
	for _, name := range s.names {
		onMachine(t, shared.lab.Machine(name), "systemctl stop kube-scheduler")
	}
	kubectl(t, s.w, s.admin, "run", "pending", "--namespace=default", "--image=none",
		`--overrides={"spec":{"automountServiceAccountToken":false}}`)
	out := s.typed(t, showPods)
	expectContains(t, out, "LEADER")
	if strings.Contains(out, "FailedScheduling") {
		t.Errorf("without a scheduler, there are events:\n%s", out)
	}
	expectContains(t, s.issues(t), "kube-scheduler.service is inactive")
	s.repaired(t)
	await(t, "no event says why the Pod is pending", func() bool {
		return strings.Contains(s.typed(t, showPods), "no nodes available to schedule pods")
	})
	kubectl(t, s.w, s.admin, "delete", "pod", "pending", "--namespace=default", "--force")
}

// nodesNotReady: a node whose kubelet never answers.
func (s symptoms) nodesNotReady(t *testing.T) {
	node := writeFile(t, s.w, "node.yaml", "{apiVersion: v1, kind: Node, metadata: {name: worker}}\n")
	kubectl(t, s.w, s.admin, "create", "--filename="+node)
	awaitFor(t, 3*time.Minute, "nothing says why the node is not ready", func() bool {
		return strings.Contains(s.typed(t, showNodes), "Kubelet never posted node status")
	})
	kubectl(t, s.w, s.admin, "delete", "node", "worker")
}

// expiringCertificate: an API server's certificate is replaced by one for two days, as a script
// would issue it.
func (s symptoms) expiringCertificate(t *testing.T) {
	onMachine(t, shared.lab.Machine("cp2"), `set -e
cd /etc/kubernetes/pki
openssl x509 -x509toreq -in apiserver.crt -signkey apiserver.key -copy_extensions copyall -out /tmp/request
openssl x509 -req -in /tmp/request -CA ca-signing.crt -CAkey ca.key -days 2 \
  -copy_extensions copyall -out /tmp/issued 2>&1
cat /tmp/issued >apiserver.crt
rm /tmp/request /tmp/issued`)
	soon := time.Now().UTC().AddDate(0, 0, 2).Format("Jan _2 ")
	await(t, "the API server does not present the certificate", func() bool {
		return strings.Contains(s.on(t, "cp1", showCertificate), "notAfter="+soon)
	})
	expectContains(t, s.issues(t), "replica cp2 ("+address("cp2")+"): kube-apiserver: a certificate expires on ")
	s.repaired(t)
	await(t, "the API server presents the old certificate", func() bool {
		return !strings.Contains(s.on(t, "cp1", showCertificate), "notAfter="+soon)
	})
}

// lostVirtualIP: no keepalived runs.
func (s symptoms) lostVirtualIP(t *testing.T) {
	for _, name := range s.names {
		onMachine(t, shared.lab.Machine(name), "systemctl stop kube-endpoint-keepalived")
	}
	expectContains(t, s.issues(t), "no balancer has it")
	expectContains(t, s.on(t, "cp1", showVirtualIP), "inactive")
	s.repaired(t)
}

// twoVirtualIPs: a machine and the others do not hear each other's keepalived; or it has got the address by hand.
func (s symptoms) twoVirtualIPs(t *testing.T) {
	const vrrp = "for each in INPUT OUTPUT; do iptables %s $each -p 112 -j DROP; done"
	for _, cause := range []struct{ begin, end, state string }{
		{fmt.Sprintf(vrrp, "-I"), fmt.Sprintf(vrrp, "-D"), "Entering MASTER STATE"},
		{"ip address add " + vip + "/32 dev lo", "ip address delete " + vip + "/32 dev lo", "Entering BACKUP STATE"},
	} {
		holder := s.holders(t)
		other := slices.DeleteFunc(slices.Clone(s.names), func(name string) bool { return slices.Contains(holder, name) })[0]
		onMachine(t, shared.lab.Machine(other), cause.begin)
		await(t, "the address is not on two machines", func() bool { return len(s.holders(t)) == 2 })
		expectContains(t, s.issues(t), "virtual IP "+vip+": it is on", "at the same time")
		for _, name := range append(holder, other) {
			expectContains(t, s.on(t, name, showVirtualIP), vip)
		}
		states := strings.Split(strings.TrimSpace(s.on(t, other, showVirtualIP)), "\n")
		expectContains(t, states[len(states)-1], cause.state)
		onMachine(t, shared.lab.Machine(other), cause.end)
		await(t, "the address is not on one machine", func() bool { return len(s.holders(t)) == 1 })
	}
	s.repaired(t)
}

// holders returns the machines that have the virtual IP.
func (s symptoms) holders(t *testing.T) (names []string) {
	t.Helper()
	for _, name := range s.names {
		if strings.Contains(onMachine(t, shared.lab.Machine(name), "ip -o address show"), " "+vip+"/") {
			names = append(names, name)
		}
	}
	return names
}

// slowDisk: something else writes to the disk of etcd. Without it, nothing else is as busy.
func (s symptoms) slowDisk(t *testing.T) {
	m := shared.lab.Machine("cp1")
	onMachine(t, m, "systemd-run --quiet --unit=writer dd if=/dev/zero of=/var/tmp/writer bs=64K count=50000 oflag=dsync")
	out := s.on(t, "cp1", showDisk)
	onMachine(t, m, "systemctl stop writer; systemctl reset-failed writer 2>/dev/null; rm -f /var/tmp/writer")
	repaired := s.on(t, "cp1", showDisk)
	onMachine(t, m, "rm -f /tmp/written")
	if strings.Contains(repaired, " dd") {
		t.Errorf("what wrote is stopped, and is still shown:\n%s", repaired)
	}
	flushes, writers, _ := strings.Cut(out, "\n")
	first, _, _ := strings.Cut(writers, "\n")
	expectContains(t, flushes, "99 % of the flushes take up to ")
	expectContains(t, first, " dd")
}
