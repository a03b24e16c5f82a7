package kubevip

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/agent"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/agent/agenttest"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
)

// killed is how to end kube-vip on a machine.
func killed(signal string) string { return "kill -" + signal + " $(cat /run/" + runName + "/pid)" }

func stepRegister(f *fixture) {
	_, err := f.endpoints.Create(f.ctx, f.spec)
	f.must(err)
	for _, name := range f.names() {
		started := time.Now()
		f.must(f.registrar().Register(f.ctx, name, f.at(name)))
		f.Logf("register %s took %s", name, time.Since(started).Round(10*time.Millisecond))
		differences, err := f.registrar().Registered(f.ctx, name, f.at(name))
		f.must(err)
		if len(differences) > 0 {
			f.Errorf("after Register, %s differs: %q", name, differences)
		}
	}
	f.within(time.Second, "a", "b") // it is there when Register returns
	before := f.shell("a", "cat /run/"+runName+"/pid")
	f.must(f.registrar().Register(f.ctx, "a", f.at("a")))
	if after := f.shell("a", "cat /run/"+runName+"/pid"); after != before {
		f.Error("registering again has restarted kube-vip")
	}
}

func stepFilters(f *fixture) {
	f.shell("a", "ip address add 10.201.0.1/32 dev lo; ip route add 10.202.0.0/16 via "+labRouter)
	_, err := f.router.Ask("global", "rib", "add", "203.0.113.0/24")
	f.must(err)
	f.shell("a", "sleep 3") // what the router sends is there before its next keepalives
	table := f.shell("a", "ip route show table all")
	if strings.Contains(table, "203.0.113") {
		f.Errorf("a machine has learned a route:\n%s", table)
	}
	routes, err := f.router.Routes()
	f.must(err)
	if len(routes) != 2 || len(routes["203.0.113.0/24"]) != 1 || len(routes[labPrefix]) != 2 {
		f.Errorf("the router knows %v", routes)
	}
	f.shell("a", "ip address delete 10.201.0.1/32 dev lo; ip route delete 10.202.0.0/16")
	_, err = f.router.Ask("global", "rib", "del", "203.0.113.0/24")
	f.must(err)
	state := f.shell("a", "systemctl show -p NoNewPrivileges,ProtectSystem,DynamicUser "+unitName)
	for _, want := range []string{"NoNewPrivileges=yes", "ProtectSystem=strict", "DynamicUser=yes"} {
		if !strings.Contains(state, want) {
			f.Errorf("the unit has %q", state)
		}
	}
	// Neighbors do not learn who has the address.
	if ignore := f.shell("a", "cat /proc/sys/net/ipv4/conf/eth0/arp_ignore"); strings.TrimSpace(ignore) != "1" {
		f.Errorf("arp_ignore is %q", ignore)
	}
}

func stepDrain(f *fixture) {
	f.after("drain, with the observation of all replicas", 15*time.Second, func() error {
		return f.registrar().Drain(f.ctx, "a")
	}, "b")
	if left := f.shell("a", "ip -o address show to "+labPrefix); left != "" {
		f.Errorf("a drained machine has %s", left)
	}
	var refusal *endpoint.Refusal
	if err := f.registrar().Drain(f.ctx, "b"); !errors.As(err, &refusal) {
		f.Errorf("a second drain: %v", err)
	}
	drained := agent.ErrDrained.Error()
	if h := f.registrar().Health(f.ctx); len(h.Replicas) != 2 || h.NotReady["a"] != drained || h.Silence != "" {
		f.Errorf("health is %+v", h)
	}
	differences, err := f.registrar().Registered(f.ctx, "a", f.at("a"))
	f.must(err)
	if !slices.Contains(differences, "out of rotation: "+drained) {
		f.Errorf("differences are %q", differences)
	}
	f.must(f.registrar().Drain(f.ctx, "a")) // again
	f.must(f.registrar().Undrain(f.ctx, "a"))
	f.back("undrain", 30*time.Second)
}

func stepAPIServer(f *fixture) {
	f.after("API server stops (it serves 5 s longer)", 20*time.Second, f.on("a", "systemctl stop stand-in"), "b")
	f.shell("a", "systemctl start stand-in")
	f.back("API server starts", 30*time.Second)
	f.after("API server killed", 20*time.Second, f.on("a", "systemctl kill -s KILL stand-in"), "b")
	f.shell("a", "systemctl reset-failed stand-in; systemctl start stand-in")
	f.back("API server starts", 30*time.Second)
	f.after("API server is not ready", 20*time.Second, f.on("a", "touch "+agenttest.NotReadyFile), "b")
	f.shell("a", "rm "+agenttest.NotReadyFile)
	f.back("API server is ready", 30*time.Second)
}

func stepAgent(f *fixture) {
	f.after("kube-vip killed", 20*time.Second, f.on("a", killed("KILL")), "b")
	f.back("kube-vip killed", 30*time.Second)
	f.after("agent killed", 20*time.Second, f.on("a", "systemctl kill --kill-who=main -s KILL "+unitName), "b")
	f.back("agent killed", 30*time.Second)
	f.after("unit stopped", 20*time.Second, f.on("a", "systemctl stop "+unitName), "b")
	if left := f.shell("a", "ip -o address show to "+labPrefix); left != "" {
		f.Errorf("a machine whose unit was stopped has %s", left)
	}
	f.shell("a", "systemctl start "+unitName)
	f.back("unit started", 30*time.Second)
	f.after("kube-vip hangs (hold time 9 s)", 25*time.Second, f.on("a", killed("STOP")), "b")
	f.back("kube-vip hangs", time.Minute)
}

func stepDrift(f *fixture) {
	before := f.spec
	f.shell("a", "echo '# x' >>"+peersPath+"; chmod 644 "+peersPath)
	differences, err := f.registrar().Registered(f.ctx, "a", f.at("a"))
	f.must(err)
	if got := strings.Join(differences, "\n"); !strings.Contains(got, peersPath+": content differs") ||
		!strings.Contains(got, "mode is 0644") || !strings.Contains(got, "with earlier peers") {
		f.Errorf("differences are %q", got)
	}
	f.must(f.registrar().Register(f.ctx, "a", f.at("a")))
	// A second router that never answers is drift, and takes nobody out of rotation.
	f.spec.Announcement.Peers = append(slices.Clone(before.Announcement.Peers),
		endpoint.Peer{Address: "10.85.0.9", ASN: agenttest.RouterASN, Multihop: 4})
	f.must(f.registrar().Register(f.ctx, "a", f.at("a")))
	differences, err = f.registrar().Registered(f.ctx, "a", f.at("a"))
	f.must(err)
	if !slices.Equal(differences, []string{"session with peer 10.85.0.9 is not established"}) {
		f.Errorf("differences are %q", differences)
	}
	f.spec = before
	f.must(f.registrar().Register(f.ctx, "a", f.at("a")))
	f.within(time.Second, "a", "b")
}

func stepPassword(f *fixture) {
	f.router.Stop()
	f.router = agenttest.StartRouter(f.whole, labRouter, labRouter, f.neighborsOf("Jk8_x"))
	f.spec.Announcement.Peers = []endpoint.Peer{{Address: labRouter, ASN: agenttest.RouterASN, Password: "router"}}
	f.must(f.registrar().Register(f.ctx, "a", f.at("a")))
	f.within(time.Second, "a") // b has no password, and no session
	f.must(f.registrar().Register(f.ctx, "b", f.at("b")))
	f.within(time.Second, "a", "b")
	if mode := f.shell("a", "stat -c %a:%U "+peersPath); strings.TrimSpace(mode) != "600:root" {
		f.Errorf("the file with the password has %s", mode)
	}
	leaks := f.shell("a", `pid=$(cat /run/`+runName+`/pid)
{ tr '\0' '\n' </proc/$pid/environ; tr '\0' '\n' </proc/$pid/cmdline; journalctl --no-pager
systemctl show `+unitName+`; } | grep -c Jk8_x || true`)
	if strings.TrimSpace(leaks) != "0" {
		f.Errorf("the password is in the journal, an environment or a command line: %s", leaks)
	}
	f.after("kube-vip killed, session with a password", 20*time.Second, f.on("a", killed("KILL")), "b")
	f.back("kube-vip killed, session with a password", 30*time.Second)
}

func stepCable(f *fixture) {
	f.after("cable pulled (hold time 9 s)", 25*time.Second, func() error {
		return machines.lab.Machine("a").Cut(f.ctx)
	}, "b")
	f.must(machines.lab.Machine("a").Heal(f.ctx))
	f.back("cable", time.Minute)
	f.after("power off, which closes sockets here", 25*time.Second, func() error {
		return machines.lab.Machine("a").PowerOff(f.ctx)
	}, "b")
	f.must(machines.lab.Machine("a").Boot(f.ctx))
	f.shell("a", "systemctl is-active "+unitName+"; sleep 3") // several health checks
	if !f.routed("b") {
		f.Error("the machine announces the address without an API server")
	}
	f.shell("a", "systemctl start stand-in")
	f.back("boot", 30*time.Second)
}

func stepDelete(f *fixture) {
	if err := f.endpoints.Delete(f.ctx, f.spec, time.Second); err == nil || !strings.Contains(err.Error(), "still have") {
		f.Errorf("delete with replicas: %v", err)
	}
	// A machine that is off is skipped, and the endpoint's own delete removes what is left.
	f.must(machines.lab.Machine("b").PowerOff(f.ctx))
	f.must(f.registrar().DrainForDelete(f.ctx, "b", false))
	f.must(f.registrar().Deregister(f.ctx, "b"))
	f.replicas["b"] = false
	f.must(machines.lab.Machine("b").Boot(f.ctx))
	// A machine that cannot be observed may have a replica: the last one would not leave.
	f.must(targets.WaitUntil(f.ctx, time.Minute, func(ctx context.Context) error {
		_, err := f.recorded(ctx, f.spec.Targets["b"])
		return err
	}))
	f.must(f.registrar().DrainForDelete(f.ctx, "a", true))
	f.within(time.Second)
	f.must(f.registrar().Deregister(f.ctx, "a"))
	f.must(f.registrar().Deregister(f.ctx, "a")) // again
	for _, name := range f.names() {
		f.replicas[name] = false
		f.shell(name, "systemctl stop --no-block stand-in")
	}
	f.must(f.endpoints.Delete(f.ctx, f.spec, 5*time.Second))
	f.assertClean()
}
