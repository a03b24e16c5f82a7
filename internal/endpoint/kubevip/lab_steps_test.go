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
	_, err := f.endpoints.Create(f.Ctx, f.spec)
	f.Must(err)
	for _, name := range f.Names() {
		started := time.Now()
		f.Must(f.registrar().Register(f.Ctx, name, f.At(name)))
		f.Logf("register %s took %s", name, time.Since(started).Round(10*time.Millisecond))
		differences, err := f.registrar().Registered(f.Ctx, name, f.At(name))
		f.Must(err)
		if len(differences) > 0 {
			f.Errorf("after Register, %s differs: %q", name, differences)
		}
	}
	f.Within(time.Second, "a", "b") // it is there when Register returns
	before := f.Shell("a", "cat /run/"+runName+"/pid")
	f.Must(f.registrar().Register(f.Ctx, "a", f.At("a")))
	if after := f.Shell("a", "cat /run/"+runName+"/pid"); after != before {
		f.Error("registering again has restarted kube-vip")
	}
}

func stepFilters(f *fixture) {
	f.Shell("a", "ip address add 10.201.0.1/32 dev lo; ip route add 10.202.0.0/16 via "+labRouter)
	_, err := f.Router.Ask("global", "rib", "add", "203.0.113.0/24")
	f.Must(err)
	f.Shell("a", "sleep 3") // what the router sends is there before its next keepalives
	table := f.Shell("a", "ip route show table all")
	if strings.Contains(table, "203.0.113") {
		f.Errorf("a machine has learned a route:\n%s", table)
	}
	routes, err := f.Router.Routes()
	f.Must(err)
	if len(routes) != 2 || len(routes["203.0.113.0/24"]) != 1 || len(routes[labPrefix]) != 2 {
		f.Errorf("the router knows %v", routes)
	}
	f.Shell("a", "ip address delete 10.201.0.1/32 dev lo; ip route delete 10.202.0.0/16")
	_, err = f.Router.Ask("global", "rib", "del", "203.0.113.0/24")
	f.Must(err)
	state := f.Shell("a", "systemctl show -p NoNewPrivileges,ProtectSystem,DynamicUser "+unitName)
	for _, want := range []string{"NoNewPrivileges=yes", "ProtectSystem=strict", "DynamicUser=yes"} {
		if !strings.Contains(state, want) {
			f.Errorf("the unit has %q", state)
		}
	}
	// Neighbors do not learn who has the address.
	if ignore := f.Shell("a", "cat /proc/sys/net/ipv4/conf/eth0/arp_ignore"); strings.TrimSpace(ignore) != "1" {
		f.Errorf("arp_ignore is %q", ignore)
	}
}

func stepDrain(f *fixture) {
	announced := AnnouncedAt(f.spec.Registration())
	f.ExpectAnnounced("a", announced, "1")
	f.After("drain, with the observation of all replicas", 15*time.Second, func() error {
		return f.registrar().Drain(f.Ctx, "a")
	}, "b")
	if left := f.Shell("a", "ip -o address show to "+labPrefix); left != "" {
		f.Errorf("a drained machine has %s", left)
	}
	f.ExpectAnnounced("a", announced, "0")
	f.ExpectAnnounced("b", announced, "1")
	var refusal *endpoint.Refusal
	if err := f.registrar().Drain(f.Ctx, "b"); !errors.As(err, &refusal) {
		f.Errorf("a second drain: %v", err)
	}
	drained := agent.ErrDrained.Error()
	if h := f.registrar().Health(f.Ctx); len(h.Replicas) != 2 || h.NotReady["a"] != drained || h.Silence != "" {
		f.Errorf("health is %+v", h)
	}
	differences, err := f.registrar().Registered(f.Ctx, "a", f.At("a"))
	f.Must(err)
	if !slices.Contains(differences, "out of rotation: "+drained) {
		f.Errorf("differences are %q", differences)
	}
	f.Must(f.registrar().Drain(f.Ctx, "a")) // again
	f.Must(f.registrar().Undrain(f.Ctx, "a"))
	f.back("undrain", 30*time.Second)
}

func stepAPIServer(f *fixture) {
	f.After("API server stops (it serves 5 s longer)", 20*time.Second, f.On("a", "systemctl stop stand-in"), "b")
	f.Shell("a", "systemctl start stand-in")
	f.back("API server starts", 30*time.Second)
	f.After("API server killed", 20*time.Second, f.On("a", "systemctl kill -s KILL stand-in"), "b")
	f.Shell("a", "systemctl reset-failed stand-in; systemctl start stand-in")
	f.back("API server starts", 30*time.Second)
	f.After("API server is not ready", 20*time.Second, f.On("a", "touch "+agenttest.NotReadyFile), "b")
	f.Shell("a", "rm "+agenttest.NotReadyFile)
	f.back("API server is ready", 30*time.Second)
}

func stepAgent(f *fixture) {
	f.After("kube-vip killed", 20*time.Second, f.On("a", killed("KILL")), "b")
	f.back("kube-vip killed", 30*time.Second)
	f.After("agent killed", 20*time.Second, f.On("a", "systemctl kill --kill-who=main -s KILL "+unitName), "b")
	f.back("agent killed", 30*time.Second)
	f.After("unit stopped", 20*time.Second, f.On("a", "systemctl stop "+unitName), "b")
	if left := f.Shell("a", "ip -o address show to "+labPrefix); left != "" {
		f.Errorf("a machine whose unit was stopped has %s", left)
	}
	f.Shell("a", "systemctl start "+unitName)
	f.back("unit started", 30*time.Second)
	f.After("kube-vip hangs (hold time 9 s)", 25*time.Second, f.On("a", killed("STOP")), "b")
	f.back("kube-vip hangs", time.Minute)
}

func stepDrift(f *fixture) {
	before := f.spec
	f.Shell("a", "echo '# x' >>"+peersPath+"; chmod 644 "+peersPath)
	differences, err := f.registrar().Registered(f.Ctx, "a", f.At("a"))
	f.Must(err)
	if got := strings.Join(differences, "\n"); !strings.Contains(got, peersPath+": content differs") ||
		!strings.Contains(got, "mode is 0644") || !strings.Contains(got, "with earlier peers") {
		f.Errorf("differences are %q", got)
	}
	f.Must(f.registrar().Register(f.Ctx, "a", f.At("a")))
	// A second router that never answers is drift, and takes nobody out of rotation.
	f.spec.Announcement.Peers = append(slices.Clone(before.Announcement.Peers),
		endpoint.Peer{Address: "10.85.0.9", ASN: agenttest.RouterASN, Multihop: 4})
	f.Must(f.registrar().Register(f.Ctx, "a", f.At("a")))
	differences, err = f.registrar().Registered(f.Ctx, "a", f.At("a"))
	f.Must(err)
	if !slices.Equal(differences, []string{"session with peer 10.85.0.9 is not established"}) {
		f.Errorf("differences are %q", differences)
	}
	f.spec = before
	f.Must(f.registrar().Register(f.Ctx, "a", f.At("a")))
	f.Within(time.Second, "a", "b")
}

func stepPassword(f *fixture) {
	f.Router.Stop()
	f.Router = agenttest.StartRouter(f.Whole, labRouter, labRouter, f.Neighbors("Jk8_x"))
	f.spec.Announcement.Peers = []endpoint.Peer{{Address: labRouter, ASN: agenttest.RouterASN, Password: "router"}}
	f.Must(f.registrar().Register(f.Ctx, "a", f.At("a")))
	f.Within(time.Second, "a") // b has no password, and no session
	f.Must(f.registrar().Register(f.Ctx, "b", f.At("b")))
	f.Within(time.Second, "a", "b")
	if mode := f.Shell("a", "stat -c %a:%U "+peersPath); strings.TrimSpace(mode) != "600:root" {
		f.Errorf("the file with the password has %s", mode)
	}
	leaks := f.Shell("a", `pid=$(cat /run/`+runName+`/pid)
{ tr '\0' '\n' </proc/$pid/environ; tr '\0' '\n' </proc/$pid/cmdline; journalctl --no-pager
systemctl show `+unitName+`; } | grep -c Jk8_x || true`)
	if strings.TrimSpace(leaks) != "0" {
		f.Errorf("the password is in the journal, an environment or a command line: %s", leaks)
	}
	f.After("kube-vip killed, session with a password", 20*time.Second, f.On("a", killed("KILL")), "b")
	f.back("kube-vip killed, session with a password", 30*time.Second)
}

func stepCable(f *fixture) {
	f.After("cable pulled (hold time 9 s)", 25*time.Second, func() error {
		return machines.Machine("a").Cut(f.Ctx)
	}, "b")
	f.Must(machines.Machine("a").Heal(f.Ctx))
	f.back("cable", time.Minute)
	f.After("power off (hold time 9 s)", 25*time.Second, func() error {
		return machines.Machine("a").PowerOff(f.Ctx)
	}, "b")
	f.Must(machines.Machine("a").Boot(f.Ctx))
	f.Shell("a", "systemctl is-active "+unitName+"; sleep 3") // several health checks
	if !f.Routed("b") {
		f.Error("the machine announces the address without an API server")
	}
	f.Shell("a", "systemctl start stand-in")
	f.back("boot", 30*time.Second)
}

func stepDelete(f *fixture) {
	err := f.endpoints.Delete(f.Ctx, f.spec, time.Second, nil)
	if err == nil || !strings.Contains(err.Error(), "still have") {
		f.Errorf("delete with replicas: %v", err)
	}
	// A machine that is off is skipped, and the endpoint's own delete removes what is left.
	f.Must(machines.Machine("b").PowerOff(f.Ctx))
	f.Must(f.registrar().DrainForDelete(f.Ctx, "b", false))
	f.Must(f.registrar().Deregister(f.Ctx, "b"))
	f.Replicas["b"] = false
	f.Must(machines.Machine("b").Boot(f.Ctx))
	// A machine that cannot be observed may have a replica: the last one would not leave.
	f.Must(targets.WaitUntil(f.Ctx, time.Minute, func(ctx context.Context) error {
		_, err := f.Recorded(ctx, f.spec.Targets["b"])
		return err
	}))
	f.Must(f.registrar().DrainForDelete(f.Ctx, "a", true))
	f.Within(time.Second)
	f.Must(f.registrar().Deregister(f.Ctx, "a"))
	f.Must(f.registrar().Deregister(f.Ctx, "a")) // again
	for _, name := range f.Names() {
		f.Replicas[name] = false
		f.Shell(name, "systemctl stop --no-block stand-in")
	}
	f.Must(f.endpoints.Delete(f.Ctx, f.spec, 5*time.Second, nil))
	f.AssertClean(configDir, "pgrep -xl kube-vip || true")
}
