package bgp

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/agent"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/agent/agenttest"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// stepOther: the record of another cluster's endpoint protects the machine.
func stepOther(f *fixture) {
	other := f.spec
	other.ClusterID = strings.Repeat("f", 32)
	f.shell("b", "mkdir -p "+configDir)
	_, err := f.registrar().Machine(f.spec.Targets["b"]).Apply(f.ctx, host.Change{Files: []host.File{
		{Path: configDir + "/endpoint.json", Mode: 0o644, Content: []byte(other.Registration().Record("x"))},
	}})
	f.must(err)
	if _, err := f.endpoints.Create(f.ctx, f.spec); err == nil || !strings.Contains(err.Error(), "another endpoint") {
		f.Errorf("create: %v", err)
	}
	if err := f.registrar().Register(f.ctx, "b", f.at("b")); !errors.Is(err, endpoint.ErrOther) {
		f.Errorf("register: %v", err)
	}
	if left := f.shell("b", "ls "+configDir+"; command -v bird || true"); strings.TrimSpace(left) != "endpoint.json" {
		f.Errorf("the machine has %q", left)
	}
	f.shell("b", "rm -r "+configDir)
}

func stepRegister(f *fixture) {
	status, err := f.endpoints.Create(f.ctx, f.spec)
	f.must(err)
	if status.ConfigDigest == "" || len(status.Drift) > 0 {
		f.Errorf("status is %+v", status)
	}
	for _, name := range f.names() {
		started := time.Now()
		f.must(f.registrar().Register(f.ctx, name, f.at(name)))
		f.Logf("register %s took %s", name, time.Since(started).Round(10*time.Millisecond))
		differences, err := f.registrar().Registered(f.ctx, name, f.at(name))
		f.must(err)
		if len(differences) > 0 {
			f.Errorf("after Register, %s differs: %q", name, differences)
		}
		own := f.shell(name, "systemctl is-active bird.service; systemctl is-enabled bird.service || true")
		if strings.TrimSpace(own) != "inactive\ndisabled" {
			f.Errorf("the distribution's own bird is %q", own)
		}
	}
	f.within(10*time.Second, f.names()...)
	for _, name := range f.names() {
		if by, err := f.answeredBy("via", f.spec.Targets[name]); err != nil || by != name {
			f.Errorf("by the route to %s, the endpoint is answered by %q: %v", name, by, err)
		}
	}
	started := time.Now()
	f.must(f.registrar().Register(f.ctx, "a", f.at("a")))
	f.Logf("registering again took %s", time.Since(started).Round(10*time.Millisecond))
	serving, err := f.registrar().Serving(f.ctx)
	f.must(err)
	if len(serving) != 3 {
		f.Errorf("serving are %v", serving)
	}
}

func stepFilters(f *fixture) {
	f.shell("a", "ip address add 10.201.0.1/32 dev lo; ip route add 10.202.0.0/16 via "+labRouter)
	_, err := f.router.Ask("global", "rib", "add", "203.0.113.0/24")
	f.must(err)
	// What the router sends is there before its next keepalive.
	f.shell("a", "sleep 2")
	routes, err := f.router.Routes()
	f.must(err)
	if got := slices.Sorted(maps.Keys(routes)); !slices.Equal(got, []string{labPrefix, "203.0.113.0/24"}) {
		f.Errorf("the router knows %v", got)
	}
	table := f.shell("a", "birdc -s "+socketPath+" show route all; ip route show table all")
	if strings.Contains(table, "203.0.113") {
		f.Errorf("a machine has learned a route:\n%s", table)
	}
	f.shell("a", "ip address delete 10.201.0.1/32 dev lo; ip route delete 10.202.0.0/16")
	_, err = f.router.Ask("global", "rib", "del", "203.0.113.0/24")
	f.must(err)
	for _, unit := range units() {
		state := f.shell("a", "systemctl show -p NoNewPrivileges,ProtectSystem "+unit)
		if !strings.Contains(state, "NoNewPrivileges=yes") || !strings.Contains(state, "ProtectSystem=strict") {
			f.Errorf("%s has %q", unit, state)
		}
	}
}

// stepNeighbors: with a route to the network instead of a machine, nobody says that it has the address.
func stepNeighbors(f *fixture) {
	if by, err := f.answeredBy("dev", "bridge"); err == nil {
		f.Errorf("%s answers for the address on the network", by)
	}
}

func stepDrain(f *fixture) {
	f.after("drain, with the observation of all replicas", 10*time.Second, func() error {
		return f.registrar().Drain(f.ctx, "a")
	}, "b", "c")
	var refusal *endpoint.Refusal
	if err := f.registrar().Drain(f.ctx, "b"); !errors.As(err, &refusal) || refusal.Last {
		f.Errorf("a second drain: %v", err)
	}
	out, err := f.registrar().OutOfRotation(f.ctx)
	f.must(err)
	if len(out) != 1 || out["a"] == "" {
		f.Errorf("out of rotation are %v", out)
	}
	drained := agent.ErrDrained.Error()
	if h := f.registrar().Health(f.ctx); len(h.Replicas) != 3 || h.NotReady["a"] != drained || h.Silence != "" {
		f.Errorf("health is %+v", h)
	}
	differences, err := f.registrar().Registered(f.ctx, "a", f.at("a"))
	f.must(err)
	if !slices.Contains(differences, "out of rotation: "+drained) {
		f.Errorf("differences are %q", differences)
	}
	f.must(f.registrar().Drain(f.ctx, "a")) // again
	f.must(f.registrar().DrainForDelete(f.ctx, "b", false))
	f.within(10*time.Second, "c")
	if err := f.registrar().DrainForDelete(f.ctx, "c", false); !errors.As(err, &refusal) || !refusal.LastServing() {
		f.Errorf("the last one: %v", err)
	}
	f.must(f.registrar().Undrain(f.ctx, "a"))
	f.must(f.registrar().Undrain(f.ctx, "b"))
	f.within(10*time.Second, "a", "b", "c")
	f.after("withdrawal of a drain", 3*time.Second, func() error {
		return f.registrar().Withdraw(f.ctx, targets.Target{Name: "a", Address: f.spec.Targets["a"]}, true)
	}, "b", "c")
	f.must(f.registrar().Undrain(f.ctx, "a"))
	f.Logf("undrain: the routes are back after %d ms", f.within(10*time.Second, "a", "b", "c").Milliseconds())
}

func stepAPIServer(f *fixture) {
	unit := func(command string) func() error {
		return func() error { _, err := machines.lab.Machine("a").Run(f.ctx, command); return err }
	}
	f.after("API server stops (it serves 5 s longer)", 5*time.Second, unit("systemctl stop stand-in"), "b", "c")
	f.shell("a", "systemctl start stand-in")
	f.within(10*time.Second, "a", "b", "c")
	f.after("API server killed", 5*time.Second, unit("systemctl kill -s KILL stand-in"), "b", "c")
	f.shell("a", "systemctl start stand-in")
	f.within(10*time.Second, "a", "b", "c")
	f.after("API server not ready", 5*time.Second, unit("touch "+agenttest.NotReadyFile), "b", "c")
	out, err := f.registrar().OutOfRotation(f.ctx)
	f.must(err)
	if len(out) != 1 || out["a"] == "" {
		f.Errorf("out of rotation are %v", out)
	}
	f.shell("a", "rm "+agenttest.NotReadyFile)
	f.within(10*time.Second, "a", "b", "c")
}

func stepBird(f *fixture) {
	f.after("kill -9 of bird", 3*time.Second, func() error {
		_, err := machines.lab.Machine("a").Run(f.ctx, "systemctl kill -s KILL "+birdUnit)
		return err
	}, "b", "c")
	f.Logf("bird: the route is back after %d ms", f.within(15*time.Second, "a", "b", "c").Milliseconds())
}

// birds returns the processes of bird by machine.
func (f *fixture) birds() map[string]string {
	f.Helper()
	all := map[string]string{}
	for _, name := range f.names() {
		all[name] = strings.TrimSpace(f.shell(name, "systemctl show --value -p MainPID "+birdUnit))
	}
	return all
}

// stepBirdHangs: the health check kills a bird that has stopped answering, and no other. One that has never answered
// is started again by an apply.
func stepBirdHangs(f *fixture) {
	freeze := func(name string) { f.shell(name, "systemctl kill -s STOP "+birdUnit) }
	before := f.birds()
	freeze("a")
	f.Logf("a hangs: its route is gone after %d ms", f.within(15*time.Second, "b", "c").Milliseconds())
	f.Logf("a hangs: the route is back after %d ms more", f.within(40*time.Second, "a", "b", "c").Milliseconds())
	after := f.birds()
	if after["a"] == before["a"] || after["b"] != before["b"] || after["c"] != before["c"] {
		f.Errorf("a hung: processes %v, before %v", after, before)
	}
	for _, name := range f.names() {
		freeze(name)
	}
	f.within(15 * time.Second)
	f.Logf("all hang: the routes are back after %d ms more", f.within(40*time.Second, "a", "b", "c").Milliseconds())

	f.shell("a", "systemctl stop "+healthUnit+"\nsystemctl restart "+birdUnit)
	freeze("a")
	before = f.birds()
	f.shell("a", "systemctl start "+healthUnit)
	f.within(15*time.Second, "b", "c")
	journal := func() string {
		return f.shell("a", "journalctl --no-pager -o cat -n 20 -u "+healthUnit+" --since=-60s")
	}
	for end := time.Now().Add(time.Minute); !strings.Contains(journal(), "has not answered since its start"); {
		if time.Now().After(end) {
			f.Fatalf("a bird that has never answered: the health check says\n%s", journal())
		}
		time.Sleep(time.Second)
	}
	if now := f.birds(); now["a"] != before["a"] {
		f.Error("a bird that has never answered was killed")
	}
	differences, err := f.registrar().Registered(f.ctx, "a", f.at("a"))
	f.must(err)
	if !slices.Contains(differences, "out of rotation: "+errNoBird.Error()) {
		f.Errorf("a bird that has never answered: drift %q", differences)
	}
	f.must(f.registrar().Register(f.ctx, "a", f.at("a")))
	f.within(10*time.Second, "a", "b", "c")
	if now := f.birds(); now["a"] == before["a"] {
		f.Error("the apply did not start bird again")
	}
}

func stepHealth(f *fixture) {
	run := func(command string) func() error {
		return func() error { _, err := machines.lab.Machine("a").Run(f.ctx, command); return err }
	}
	f.after("health check stopped", 5*time.Second, run("systemctl stop "+healthUnit), "b", "c")
	f.shell("a", "systemctl start "+healthUnit)
	f.within(10*time.Second, "a", "b", "c")
	f.after("health check killed", 5*time.Second, run("systemctl kill -s KILL "+healthUnit), "b", "c")
	f.within(10*time.Second, "a", "b", "c")
	f.after("health check hangs", 40*time.Second, run("systemctl kill -s STOP "+healthUnit), "b", "c")
	f.within(10*time.Second, "a", "b", "c")
}

func stepDrift(f *fixture) {
	f.after("address removed", 3*time.Second, func() error {
		_, err := machines.lab.Machine("a").Run(f.ctx, "ip address delete "+labPrefix+" dev lo; echo '# x' >>"+configPath+
			"; systemctl disable -q "+birdUnit)
		return err
	}, "b", "c")
	differences, err := f.registrar().Registered(f.ctx, "a", f.at("a"))
	f.must(err)
	for _, want := range []string{
		"out of rotation: " + errNoAddress.Error(), configPath + ": content differs", birdUnit + " is not enabled",
	} {
		if !slices.Contains(differences, want) {
			f.Errorf("%q is not among %q", want, differences)
		}
	}
	before := f.shell("a", "systemctl show --value -p MainPID "+birdUnit)
	f.must(f.registrar().Register(f.ctx, "a", f.at("a")))
	differences, err = f.registrar().Registered(f.ctx, "a", f.at("a"))
	f.must(err)
	if len(differences) > 0 {
		f.Errorf("after the repair: %q", differences)
	}
	f.within(10*time.Second, "a", "b", "c")
	if after := f.shell("a", "systemctl show --value -p MainPID "+birdUnit); after != before {
		f.Error("bird was restarted for a new configuration")
	}
}

// stepPeerDown: a second router that never answers is drift, and takes nobody out of rotation.
func stepPeerDown(f *fixture) {
	before := f.spec
	restarts := func() string {
		return f.shell("a", "journalctl --no-pager -u "+birdUnit+" | grep -c 'Restarting protocol peer_' || true")
	}
	count := restarts()
	f.spec.Peers = append(slices.Clone(f.spec.Peers),
		endpoint.Peer{Address: "10.85.0.9", ASN: 65010, BFD: true, Multihop: 4})
	f.must(f.registrar().Register(f.ctx, "a", f.at("a")))
	differences, err := f.registrar().Registered(f.ctx, "a", f.at("a"))
	f.must(err)
	if len(differences) != 1 || !strings.HasPrefix(differences[0], "session with peer 10.85.0.9 is not established") {
		f.Errorf("differences are %q", differences)
	}
	if !f.hasRoute("a") {
		f.Error("a replica with one of two sessions is out of rotation")
	}
	f.spec = before
	f.must(f.registrar().Register(f.ctx, "a", f.at("a")))
	if after := restarts(); after != count {
		f.Errorf("sessions with other peers began again: %s, before %s", after, count)
	}
	f.within(10*time.Second, "a", "b", "c")
}

func stepCable(f *fixture) {
	setBFD := func(interval time.Duration) {
		f.router.Stop()
		f.router = agenttest.StartRouter(f.whole, labRouter, labRouter, dynamic(interval))
		f.spec.BFDInterval = interval
		for _, name := range f.names() {
			f.must(f.registrar().Register(f.ctx, name, f.at(name)))
		}
		f.within(10*time.Second, "a", "b", "c")
		f.shell("a", "until birdc -s "+socketPath+" show bfd sessions | grep -q ' Up '; do sleep 0.1; done")
	}
	setBFD(DefaultBFDInterval)
	f.after("cable pulled (BFD 300 ms x 3)", 3*time.Second, func() error {
		return machines.lab.Machine("a").Cut(f.ctx)
	}, "b", "c")
	f.must(machines.lab.Machine("a").Heal(f.ctx))
	f.Logf("cable: the route is back after %d ms", f.within(20*time.Second, "a", "b", "c").Milliseconds())
	setBFD(agenttest.CalmBFD)
}

func stepReboot(f *fixture) {
	f.after("power off", 8*time.Second, func() error { return machines.lab.Machine("a").PowerOff(f.ctx) }, "b", "c")
	f.must(machines.lab.Machine("a").Boot(f.ctx))
	f.shell("a", "systemctl is-active "+strings.Join(units(), " "))
	f.shell("a", "ip -o address show dev lo to "+labPrefix+" | grep -q .")
	f.shell("a", "until birdc -s "+socketPath+" show protocols | grep -q Established; do sleep 0.2; done")
	f.shell("a", "sleep 2") // several health checks
	if f.hasRoute("a") {
		f.Error("the machine announces the address without an API server")
	}
	f.shell("a", "systemctl start stand-in")
	f.within(10*time.Second, "a", "b", "c")
	f.must(f.registrar().Drain(f.ctx, "a"))
	f.must(machines.lab.Machine("a").PowerOff(f.ctx))
	f.must(machines.lab.Machine("a").Boot(f.ctx))
	f.shell("a", "systemctl start stand-in")
	f.shell("a", "until birdc -s "+socketPath+" show protocols | grep -q Established; do sleep 0.2; done; sleep 2")
	if f.hasRoute("a") {
		f.Error("a drained replica is in rotation after a reboot")
	}
	f.must(f.registrar().Register(f.ctx, "a", f.at("a")))
	f.within(10*time.Second, "a", "b", "c")
}

func stepPassword(f *fixture) {
	f.router.Stop()
	text := ""
	for _, name := range f.names() {
		text += fmt.Sprintf(agenttest.Neighbor, f.spec.Targets[name], "Jk8_x")
	}
	f.router = agenttest.StartRouter(f.whole, labRouter, labRouter, text)
	f.spec.Peers = []endpoint.Peer{{Address: labRouter, ASN: agenttest.RouterASN, Password: "router"}}
	f.must(f.registrar().Register(f.ctx, "a", f.at("a")))
	f.within(10*time.Second, "a")
	f.shell("a", "sleep 4") // the others try every two seconds
	if f.hasRoute("b") || f.hasRoute("c") {
		f.Error("a machine without the password has a session")
	}
	f.must(f.registrar().Register(f.ctx, "c", f.at("c")))
	f.within(10*time.Second, "a", "c")
	if mode := f.shell("a", "stat -c %a:%U "+configPath); strings.TrimSpace(mode) != "600:root" {
		f.Errorf("the file with the password has %s", mode)
	}
	if log := f.shell("a", "journalctl --no-pager | grep -c Jk8_x || true"); strings.TrimSpace(log) != "0" {
		f.Error("the password is in the journal")
	}
	f.after("cable pulled, without BFD (hold time 3 s)", 8*time.Second, func() error {
		return machines.lab.Machine("a").Cut(f.ctx)
	}, "c")
	f.must(machines.lab.Machine("a").Heal(f.ctx))
}

func stepDelete(f *fixture) {
	const inUse = "still have a replica"
	if err := f.endpoints.Delete(f.ctx, f.spec, time.Second); err == nil || !strings.Contains(err.Error(), inUse) {
		f.Errorf("delete with replicas: %v", err)
	}
	// A machine that is off is skipped, and the endpoint's own delete removes what is left.
	f.must(machines.lab.Machine("b").PowerOff(f.ctx))
	f.must(f.registrar().DrainForDelete(f.ctx, "b", false))
	f.must(f.registrar().Deregister(f.ctx, "b"))
	f.must(machines.lab.Machine("b").Boot(f.ctx))
	f.must(f.registrar().DrainForDelete(f.ctx, "a", false))
	f.must(f.registrar().Deregister(f.ctx, "a"))
	f.must(f.registrar().Deregister(f.ctx, "a")) // again
	f.must(f.registrar().Undrain(f.ctx, "a"))
	for _, name := range f.names() {
		f.replicas[name] = false
		f.shell(name, "systemctl stop --no-block stand-in")
	}
	f.must(f.endpoints.Delete(f.ctx, f.spec, 5*time.Second))
	f.assertClean()
}
