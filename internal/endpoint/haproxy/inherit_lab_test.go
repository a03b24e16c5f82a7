package haproxy

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/lab/services"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// formerPort is where clients of the former HAProxy connect. In kubeadm's guide, API servers have 6443 of all
// addresses.
const formerPort = 8443

const hasVIP = "ip -o address show to " + labVIP

// noReplicas is a rule of iptables with which HAProxy reaches no stand-in for an API server.
const noReplicas = "OUTPUT -m owner --uid-owner haproxy -p tcp --dport 6443 -j REJECT --reject-with tcp-reset"

// noVRRP is a rule of iptables with which a machine hears only what is sent by multicast.
const noVRRP = "INPUT -p 112 ! -d 224.0.0.18 -j DROP"

// replicasUp returns how many replicas HAProxy of a host says are up.
func (f *fixture) replicasUp(name string) int {
	f.Helper()
	stats := parseStats(f.shell(name, statsCommand))
	return len(slices.DeleteFunc(stats, func(s stat) bool { return !s.up() }))
}

// formerServices sets the services up on all hosts, and returns when one of them has the address.
func (f *fixture) formerServices() {
	f.Helper()
	var servers []string
	for _, name := range names(f.spec.Hosts) {
		servers = append(servers, fmt.Sprintf("    server %s %s check verify none", name, f.replicaAddress(name)))
	}
	f.must(onHosts(names(f.spec.Hosts), func(name string) error {
		vars := map[string]string{
			"servers": strings.Join(servers, "\n"), "own": f.spec.Hosts[name].Address(), "vip": labVIP,
			"state": "BACKUP", "priority": "100",
		}
		switch name {
		case "a":
			vars["state"], vars["priority"] = "MASTER", "101"
		case "b":
			vars["vip"] = labVIP + "/24"
		}
		_, err := f.spec.Hosts[name].Run(f.ctx, host.Command{Script: host.Script(services.KubeadmBalancers), Vars: vars})
		return err
	}))
	f.await("the address is on one machine", func() bool {
		return strings.Count(f.shell("a", hasVIP)+f.shell("b", hasVIP)+f.shell("c", hasVIP), labVIP) == 1 &&
			f.shell("a", hasVIP) != ""
	})
}

// TestInheritOnMachines: an endpoint takes its address from HAProxy and keepalived of its own machines, as kubeadm's
// guide sets them up, without a failed request, however often the apply is cut off.
func TestInheritOnMachines(t *testing.T) {
	testrun.Long(t)
	c := &lab.Interruptions{}
	f := newFixtureAround(t, c.Around)
	t.Cleanup(func() {
		for _, m := range machines.lab.Machines() {
			_, _ = m.Run(context.WithoutCancel(f.ctx), "systemctl disable --now haproxy keepalived; "+
				"rm -f /etc/keepalived/keepalived.conf")
		}
	})
	f.installStandIns()
	f.spec.Port, f.spec.Inherit, f.spec.HandOver = formerPort, true, Prepare
	f.spec.Authorities = f.bundle.Known(pki.Kubernetes)
	f.registrar = NewRegistrars(f.machine).For(f.spec.Registration())
	create := func(ctx context.Context) error { return errOf(Create(ctx, f.spec)) }
	refuse := func(why string, err error) {
		t.Helper()
		if err == nil || !problem.Untouched(err) || !strings.Contains(err.Error(), why) {
			t.Fatalf("got %v, want %q", err, why)
		}
	}
	f.spec.InstallPackages = true
	refuse("none of the hosts has the address", create(f.ctx))
	f.formerServices()
	for _, name := range names(f.spec.Hosts) {
		f.shell(name, stallScript)
	}
	refuse("does not name the address", create(f.ctx))
	pair := f.pairFor(labVIP)
	f.must(onHosts(names(f.spec.Hosts), func(name string) error {
		_, err := f.spec.Hosts[name].Apply(f.ctx, host.Change{Files: []host.File{
			{Path: standInPair, Content: []byte(pair.Certificate + pair.PrivateKey), Mode: 0o600},
		}})
		return err
	}))
	f.spec.VirtualRouterID = 51
	refuse("has the VRRP router id 51 too", create(f.ctx))
	f.spec.VirtualRouterID = 0
	f.shell("c", "printf 'frontend web\\n    bind *:80\\n    default_backend apiserverbackend\\n' "+
		">>/etc/haproxy/haproxy.cfg")
	refuse("serves more than this endpoint (apiserver, web)", create(f.ctx))
	f.shell("c", "sed -i '/^frontend web/,$d' /etc/haproxy/haproxy.cfg")

	url := "https://" + net.JoinHostPort(labVIP, fmt.Sprint(formerPort)) + "/"
	traffic := startTraffic(url, f.ca, 5*time.Second)
	f.timed("prepare", func() error { return create(f.ctx) })
	f.eventually("without drift", 10*time.Second, func(got observed) bool { return len(got.Drift) == 0 })
	update := func(ctx context.Context, inherit bool, step string) error {
		before := f.spec
		after := f.spec
		after.Inherit, after.HandOver = inherit, step
		err := errOf(Update(ctx, before, after))
		if err == nil {
			f.spec = after
		}
		return err
	}
	refuse("no replica is registered", update(f.ctx, true, Take))
	f.must(onHosts(names(f.spec.Hosts), func(name string) error {
		return f.registrar.Register(f.ctx, name, f.replicaAddress(name))
	}))
	refuse("the former services could still have the address", update(f.ctx, false, ""))
	withoutC := f.spec
	withoutC.HandOver, withoutC.Hosts = Take, maps.Clone(f.spec.Hosts)
	delete(withoutC.Hosts, "c")
	refuse("it leaves the endpoint, and its keepalived.service could still take the address",
		errOf(Update(f.ctx, f.spec, withoutC)))
	f.shell("c", "iptables -w -A "+noReplicas)
	t.Cleanup(func() {
		_, _ = machines.lab.Machine("c").Run(context.WithoutCancel(f.ctx), "iptables -w -D "+noReplicas)
		_, _ = machines.lab.Machine("b").Run(context.WithoutCancel(f.ctx), "iptables -w -D "+noVRRP)
	})
	f.await("c reaches no replica", func() bool { return f.replicasUp("c") == 0 })
	refuse("reaches no replica", update(f.ctx, true, Take))
	f.shell("c", "iptables -w -D "+noReplicas)
	f.await("c reaches a replica", func() bool { return f.replicasUp("c") > 0 })
	if asked, failed := traffic.end(t); failed > 0 || asked == 0 {
		t.Errorf("%d of %d requests failed", failed, asked)
	}

	f.shell("b", "iptables -w -A "+noVRRP)
	if err := update(f.ctx, true, Take); err == nil || !strings.Contains(err.Error(), "VRRP must pass") {
		t.Errorf("b hears nobody: %v", err)
	}
	f.await("one machine has the address", func() bool {
		return f.shell("a", hasVIP) != "" && f.shell("b", hasVIP)+f.shell("c", hasVIP) == ""
	})
	refuse("have begun to give the address", update(f.ctx, true, Prepare))
	f.shell("b", "iptables -w -D "+noVRRP)

	traffic = startTraffic(url, f.ca, 5*time.Second)
	before := f.spec
	cuts, err := c.During(f.ctx, func(ctx context.Context) error {
		after := before
		after.HandOver = Take
		return errOf(Update(ctx, before, after))
	})
	f.must(err)
	f.Logf("take: cut off at %d commands: %s", len(cuts), strings.Join(cuts, ", "))
	f.spec.HandOver = Take
	got := f.eventually("without drift", 20*time.Second, func(got observed) bool { return len(got.Drift) == 0 })
	if got.holder != "a" {
		t.Errorf("a had the address, and now %q", got.holder)
	}
	taken := f.spec
	f.timed("the end", func() error { return update(f.ctx, false, "") })
	f.eventually("without drift", 10*time.Second, func(got observed) bool { return len(got.Drift) == 0 })
	ended := f.spec // an old configuration is applied, and the new one again
	f.timed("take again", func() error { return errOf(Update(f.ctx, ended, taken)) })
	f.timed("the end again", func() error { return errOf(Update(f.ctx, taken, ended)) })
	if asked, failed := traffic.end(t); failed > 0 || asked == 0 {
		t.Errorf("%d of %d requests failed", failed, asked)
	}
	for _, name := range names(f.spec.Hosts) {
		if state := f.shell(name, "systemctl is-enabled haproxy keepalived; systemctl is-active keepalived; "+
			"ip -o address show to "+labVIP+" | awk '{ print $4 }'; true"); state != "disabled\ndisabled\ninactive\n"+
			map[bool]string{true: labVIP + "/32\n"}[name == "a"] {
			t.Errorf("%s: %s", name, state)
		}
	}
	for _, name := range names(f.spec.Hosts) { // the guide's HAProxy ends an idle connection after 35 s
		f.shell(name, `timeout 90 sh -c 'until [ "$(systemctl is-active haproxy)" = inactive ]; do sleep 0.5; done'`)
	}
	f.shell("a", "systemctl stop kube-endpoint-keepalived") // another machine takes it
	f.eventually("on another machine", 10*time.Second, func(got observed) bool {
		return got.holder == "b" || got.holder == "c"
	})
	f.must(onHosts(names(f.spec.Hosts), func(name string) error { return f.registrar.Deregister(f.ctx, name) }))
	f.must(Delete(f.ctx, f.spec, DeleteOptions{}))
	f.assertClean()
}
