package bgp

import (
	"errors"
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
	f.Shell("b", "mkdir -p "+configDir)
	_, err := f.registrar().Machine(f.spec.Targets["b"]).Apply(f.Ctx, host.Change{Files: []host.File{
		{Path: configDir + "/endpoint.json", Mode: 0o644, Content: []byte(other.Registration().Record("x"))},
	}})
	f.Must(err)
	if _, err := f.endpoints.Create(f.Ctx, f.spec); err == nil || !strings.Contains(err.Error(), "another endpoint") {
		f.Errorf("create: %v", err)
	}
	if err := f.registrar().Register(f.Ctx, "b", f.At("b")); !errors.Is(err, endpoint.ErrOther) {
		f.Errorf("register: %v", err)
	}
	if left := f.Shell("b", "ls "+configDir+"; command -v bird || true"); strings.TrimSpace(left) != "endpoint.json" {
		f.Errorf("the machine has %q", left)
	}
	f.Shell("b", "rm -r "+configDir)
}

func stepRegister(f *fixture) {
	status, err := f.endpoints.Create(f.Ctx, f.spec)
	f.Must(err)
	if status.ConfigDigest == "" || len(status.Drift) > 0 {
		f.Errorf("status is %+v", status)
	}
	for _, name := range f.Names() {
		started := time.Now()
		f.Must(f.registrar().Register(f.Ctx, name, f.At(name)))
		f.Logf("register %s took %s", name, time.Since(started).Round(10*time.Millisecond))
		differences, err := f.registrar().Registered(f.Ctx, name, f.At(name))
		f.Must(err)
		if len(differences) > 0 {
			f.Errorf("after Register, %s differs: %q", name, differences)
		}
		own := f.Shell(name, "systemctl is-active bird.service; systemctl is-enabled bird.service || true")
		if strings.TrimSpace(own) != "inactive\ndisabled" {
			f.Errorf("the distribution's own bird is %q", own)
		}
	}
	f.Within(10*time.Second, f.Names()...)
	for _, name := range f.Names() {
		if by, err := f.answeredBy("via", f.spec.Targets[name]); err != nil || by != name {
			f.Errorf("by the route to %s, the endpoint is answered by %q: %v", name, by, err)
		}
	}
	started := time.Now()
	f.Must(f.registrar().Register(f.Ctx, "a", f.At("a")))
	f.Logf("registering again took %s", time.Since(started).Round(10*time.Millisecond))
	serving, err := f.registrar().Serving(f.Ctx)
	f.Must(err)
	if len(serving) != 3 {
		f.Errorf("serving are %v", serving)
	}
}

func stepFilters(f *fixture) {
	f.Shell("a", "ip address add 10.201.0.1/32 dev lo; ip route add 10.202.0.0/16 via "+labRouter)
	_, err := f.Router.Ask("global", "rib", "add", "203.0.113.0/24")
	f.Must(err)
	// What the router sends is there before its next keepalive.
	f.Shell("a", "sleep 2")
	routes, err := f.Router.Routes()
	f.Must(err)
	if got := slices.Sorted(maps.Keys(routes)); !slices.Equal(got, []string{labPrefix, "203.0.113.0/24"}) {
		f.Errorf("the router knows %v", got)
	}
	table := f.Shell("a", "birdc -s "+socketPath+" show route all; ip route show table all")
	if strings.Contains(table, "203.0.113") {
		f.Errorf("a machine has learned a route:\n%s", table)
	}
	f.Shell("a", "ip address delete 10.201.0.1/32 dev lo; ip route delete 10.202.0.0/16")
	_, err = f.Router.Ask("global", "rib", "del", "203.0.113.0/24")
	f.Must(err)
	for _, unit := range units() {
		state := f.Shell("a", "systemctl show -p NoNewPrivileges,ProtectSystem "+unit)
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
	announced := AnnouncedAt(f.spec.Registration())
	f.ExpectAnnounced("a", announced, "1")
	f.After("drain, with the observation of all replicas", 10*time.Second, func() error {
		return f.registrar().Drain(f.Ctx, "a")
	}, "b", "c")
	f.ExpectAnnounced("a", announced, "0")
	f.ExpectAnnounced("b", announced, "1")
	var refusal *endpoint.Refusal
	if err := f.registrar().Drain(f.Ctx, "b"); !errors.As(err, &refusal) || refusal.Last {
		f.Errorf("a second drain: %v", err)
	}
	out, err := f.registrar().OutOfRotation(f.Ctx)
	f.Must(err)
	if len(out) != 1 || out["a"] == "" {
		f.Errorf("out of rotation are %v", out)
	}
	drained := agent.ErrDrained.Error()
	if h := f.registrar().Health(f.Ctx); len(h.Replicas) != 3 || h.NotReady["a"] != drained || h.Silence != "" {
		f.Errorf("health is %+v", h)
	}
	differences, err := f.registrar().Registered(f.Ctx, "a", f.At("a"))
	f.Must(err)
	if !slices.Contains(differences, "out of rotation: "+drained) {
		f.Errorf("differences are %q", differences)
	}
	f.Must(f.registrar().Drain(f.Ctx, "a")) // again
	f.Must(f.registrar().DrainForDelete(f.Ctx, "b", false))
	f.Within(10*time.Second, "c")
	if err := f.registrar().DrainForDelete(f.Ctx, "c", false); !errors.As(err, &refusal) || !refusal.LastServing() {
		f.Errorf("the last one: %v", err)
	}
	f.Must(f.registrar().Undrain(f.Ctx, "a"))
	f.Must(f.registrar().Undrain(f.Ctx, "b"))
	f.Within(10*time.Second, "a", "b", "c")
	f.After("withdrawal of a drain", 3*time.Second, func() error {
		a := targets.Target{Name: "a", Address: f.spec.Targets["a"]}
		return f.registrar().Withdraw(f.Ctx, a, targets.ToReturn, true)
	}, "b", "c")
	f.Must(f.registrar().Undrain(f.Ctx, "a"))
	f.Logf("undrain: the routes are back after %d ms", f.Within(10*time.Second, "a", "b", "c").Milliseconds())
}

func stepAPIServer(f *fixture) {
	unit := func(command string) func() error { return f.On("a", command) }
	f.After("API server stops (it serves 5 s longer)", 5*time.Second, unit("systemctl stop stand-in"), "b", "c")
	f.Shell("a", "systemctl start stand-in")
	f.Within(10*time.Second, "a", "b", "c")
	f.After("API server killed", 5*time.Second, unit("systemctl kill -s KILL stand-in"), "b", "c")
	f.Shell("a", "systemctl start stand-in")
	f.Within(10*time.Second, "a", "b", "c")
	f.After("API server not ready", 5*time.Second, unit("touch "+agenttest.NotReadyFile), "b", "c")
	out, err := f.registrar().OutOfRotation(f.Ctx)
	f.Must(err)
	if len(out) != 1 || out["a"] == "" {
		f.Errorf("out of rotation are %v", out)
	}
	f.Shell("a", "rm "+agenttest.NotReadyFile)
	f.Within(10*time.Second, "a", "b", "c")
}

func stepBird(f *fixture) {
	f.After("kill -9 of bird", 3*time.Second, func() error {
		_, err := machines.Machine("a").Run(f.Ctx, "systemctl kill -s KILL "+birdUnit)
		return err
	}, "b", "c")
	f.Logf("bird: the route is back after %d ms", f.Within(15*time.Second, "a", "b", "c").Milliseconds())
}

// birds returns the processes of bird by machine.
func (f *fixture) birds() map[string]string {
	f.Helper()
	all := map[string]string{}
	for _, name := range f.Names() {
		all[name] = strings.TrimSpace(f.Shell(name, "systemctl show --value -p MainPID "+birdUnit))
	}
	return all
}

// stepBirdHangs: the health check kills a bird that has stopped answering, and no other. One that has never answered
// is started again by an apply.
func stepBirdHangs(f *fixture) {
	freeze := func(name string) { f.Shell(name, "systemctl kill -s STOP "+birdUnit) }
	before := f.birds()
	freeze("a")
	f.Logf("a hangs: its route is gone after %d ms", f.Within(15*time.Second, "b", "c").Milliseconds())
	f.Logf("a hangs: the route is back after %d ms more", f.Within(40*time.Second, "a", "b", "c").Milliseconds())
	after := f.birds()
	if after["a"] == before["a"] || after["b"] != before["b"] || after["c"] != before["c"] {
		f.Errorf("a hung: processes %v, before %v", after, before)
	}
	for _, name := range f.Names() {
		freeze(name)
	}
	f.Within(15 * time.Second)
	f.Logf("all hang: the routes are back after %d ms more", f.Within(40*time.Second, "a", "b", "c").Milliseconds())

	f.Shell("a", "systemctl stop "+healthUnit+"\nsystemctl restart "+birdUnit)
	freeze("a")
	before = f.birds()
	f.Shell("a", "systemctl start "+healthUnit)
	f.Within(15*time.Second, "b", "c")
	journal := func() string {
		return f.Shell("a", "journalctl --no-pager -o cat -n 20 -u "+healthUnit+" --since=-60s")
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
	differences, err := f.registrar().Registered(f.Ctx, "a", f.At("a"))
	f.Must(err)
	if !slices.Contains(differences, "out of rotation: "+errNoBird.Error()) {
		f.Errorf("a bird that has never answered: drift %q", differences)
	}
	f.Must(f.registrar().Register(f.Ctx, "a", f.At("a")))
	f.Within(10*time.Second, "a", "b", "c")
	if now := f.birds(); now["a"] == before["a"] {
		f.Error("the apply did not start bird again")
	}
}

func stepHealth(f *fixture) {
	run := func(command string) func() error {
		return func() error { _, err := machines.Machine("a").Run(f.Ctx, command); return err }
	}
	f.After("health check stopped", 5*time.Second, run("systemctl stop "+healthUnit), "b", "c")
	f.Shell("a", "systemctl start "+healthUnit)
	f.Within(10*time.Second, "a", "b", "c")
	f.After("health check killed", 5*time.Second, run("systemctl kill -s KILL "+healthUnit), "b", "c")
	f.Within(10*time.Second, "a", "b", "c")
	f.After("health check hangs", 40*time.Second, run("systemctl kill -s STOP "+healthUnit), "b", "c")
	f.Within(10*time.Second, "a", "b", "c")
}

func stepDrift(f *fixture) {
	f.After("address removed", 3*time.Second, func() error {
		_, err := machines.Machine("a").Run(f.Ctx, "ip address delete "+labPrefix+" dev lo; echo '# x' >>"+configPath+
			"; systemctl disable -q "+birdUnit)
		return err
	}, "b", "c")
	differences, err := f.registrar().Registered(f.Ctx, "a", f.At("a"))
	f.Must(err)
	for _, want := range []string{
		"out of rotation: " + errNoAddress.Error(), configPath + ": content differs", birdUnit + " is not enabled",
	} {
		if !slices.Contains(differences, want) {
			f.Errorf("%q is not among %q", want, differences)
		}
	}
	before := f.Shell("a", "systemctl show --value -p MainPID "+birdUnit)
	f.Must(f.registrar().Register(f.Ctx, "a", f.At("a")))
	differences, err = f.registrar().Registered(f.Ctx, "a", f.At("a"))
	f.Must(err)
	if len(differences) > 0 {
		f.Errorf("after the repair: %q", differences)
	}
	f.Within(10*time.Second, "a", "b", "c")
	if after := f.Shell("a", "systemctl show --value -p MainPID "+birdUnit); after != before {
		f.Error("bird was restarted for a new configuration")
	}
}

// stepPeerDown: a second router that never answers is drift, and takes nobody out of rotation.
func stepPeerDown(f *fixture) {
	before := f.spec
	restarts := func() string {
		return f.Shell("a", "journalctl --no-pager -u "+birdUnit+" | grep -c 'Restarting protocol peer_' || true")
	}
	count := restarts()
	f.spec.Peers = append(slices.Clone(f.spec.Peers),
		endpoint.Peer{Address: "10.85.0.9", ASN: 65010, BFD: true, Multihop: 4})
	f.Must(f.registrar().Register(f.Ctx, "a", f.At("a")))
	differences, err := f.registrar().Registered(f.Ctx, "a", f.At("a"))
	f.Must(err)
	if len(differences) != 1 || !strings.HasPrefix(differences[0], "session with peer 10.85.0.9 is not established") {
		f.Errorf("differences are %q", differences)
	}
	if !f.hasRoute("a") {
		f.Error("a replica with one of two sessions is out of rotation")
	}
	f.spec = before
	f.Must(f.registrar().Register(f.Ctx, "a", f.At("a")))
	if after := restarts(); after != count {
		f.Errorf("sessions with other peers began again: %s, before %s", after, count)
	}
	f.Within(10*time.Second, "a", "b", "c")
}

func stepCable(f *fixture) {
	setBFD := func(interval time.Duration) {
		f.Router.Stop()
		f.Router = agenttest.StartRouter(f.Whole, labRouter, labRouter, dynamic(interval))
		f.spec.BFDInterval = interval
		for _, name := range f.Names() {
			f.Must(f.registrar().Register(f.Ctx, name, f.At(name)))
		}
		f.Within(10*time.Second, "a", "b", "c")
		f.Shell("a", "until birdc -s "+socketPath+" show bfd sessions | grep -q ' Up '; do sleep 0.1; done")
	}
	setBFD(DefaultBFDInterval)
	// A dead machine is out within a second: three intervals, of which the last may have just begun.
	f.After("cable pulled (BFD 300 ms x 3)", time.Second, func() error {
		return machines.Machine("a").Cut(f.Ctx)
	}, "b", "c")
	f.Must(machines.Machine("a").Heal(f.Ctx))
	f.Logf("cable: the route is back after %d ms", f.Within(20*time.Second, "a", "b", "c").Milliseconds())
	f.Shell("a", "until birdc -s "+socketPath+" show bfd sessions | grep -q ' Up '; do sleep 0.1; done")
	f.After("power off (BFD 300 ms x 3)", time.Second, func() error {
		return machines.Machine("a").PowerOff(f.Ctx)
	}, "b", "c")
	f.Must(machines.Machine("a").Boot(f.Ctx))
	f.Shell("a", "systemctl start stand-in")
	f.Within(20*time.Second, "a", "b", "c")
	setBFD(agenttest.CalmBFD)
}

func stepReboot(f *fixture) {
	f.After("power off (BFD 2 s x 3)", 8*time.Second, func() error {
		return machines.Machine("a").PowerOff(f.Ctx)
	}, "b", "c")
	f.Must(machines.Machine("a").Boot(f.Ctx))
	f.Shell("a", "systemctl is-active "+strings.Join(units(), " "))
	f.Shell("a", "ip -o address show dev lo to "+labPrefix+" | grep -q .")
	f.Shell("a", "until birdc -s "+socketPath+" show protocols | grep -q Established; do sleep 0.2; done")
	f.Shell("a", "sleep 2") // several health checks
	if f.hasRoute("a") {
		f.Error("the machine announces the address without an API server")
	}
	f.Shell("a", "systemctl start stand-in")
	f.Within(10*time.Second, "a", "b", "c")
	f.Must(f.registrar().Drain(f.Ctx, "a"))
	f.Must(machines.Machine("a").PowerOff(f.Ctx))
	f.Must(machines.Machine("a").Boot(f.Ctx))
	f.Shell("a", "systemctl start stand-in")
	f.Shell("a", "until birdc -s "+socketPath+" show protocols | grep -q Established; do sleep 0.2; done; sleep 2")
	if f.hasRoute("a") {
		f.Error("a drained replica is in rotation after a reboot")
	}
	f.Must(f.registrar().Register(f.Ctx, "a", f.At("a")))
	f.Within(10*time.Second, "a", "b", "c")
}

func stepPassword(f *fixture) {
	f.Router.Stop()
	f.Router = agenttest.StartRouter(f.Whole, labRouter, labRouter, f.Neighbors("Jk8_x"))
	f.spec.Peers = []endpoint.Peer{{Address: labRouter, ASN: agenttest.RouterASN, Password: "router"}}
	f.Must(f.registrar().Register(f.Ctx, "a", f.At("a")))
	f.Within(10*time.Second, "a")
	f.Shell("a", "sleep 4") // the others try every two seconds
	if f.hasRoute("b") || f.hasRoute("c") {
		f.Error("a machine without the password has a session")
	}
	f.Must(f.registrar().Register(f.Ctx, "c", f.At("c")))
	f.Within(10*time.Second, "a", "c")
	if mode := f.Shell("a", "stat -c %a:%U "+configPath); strings.TrimSpace(mode) != "600:root" {
		f.Errorf("the file with the password has %s", mode)
	}
	if log := f.Shell("a", "journalctl --no-pager | grep -c Jk8_x || true"); strings.TrimSpace(log) != "0" {
		f.Error("the password is in the journal")
	}
	f.After("cable pulled, without BFD (hold time 3 s)", 8*time.Second, func() error {
		return machines.Machine("a").Cut(f.Ctx)
	}, "c")
	f.Must(machines.Machine("a").Heal(f.Ctx))
}

func stepDelete(f *fixture) {
	const inUse = "still have a replica"
	if err := f.endpoints.Delete(f.Ctx, f.spec, time.Second, nil); err == nil || !strings.Contains(err.Error(), inUse) {
		f.Errorf("delete with replicas: %v", err)
	}
	// A machine that is off is skipped, and the endpoint's own delete removes what is left.
	f.Must(machines.Machine("b").PowerOff(f.Ctx))
	f.Must(f.registrar().DrainForDelete(f.Ctx, "b", false))
	f.Must(f.registrar().Deregister(f.Ctx, "b"))
	f.Must(machines.Machine("b").Boot(f.Ctx))
	f.Must(f.registrar().DrainForDelete(f.Ctx, "a", false))
	f.Must(f.registrar().Deregister(f.Ctx, "a"))
	f.Must(f.registrar().Deregister(f.Ctx, "a")) // again
	f.Must(f.registrar().Undrain(f.Ctx, "a"))
	for _, name := range f.Names() {
		f.Replicas[name] = false
		f.Shell(name, "systemctl stop --no-block stand-in")
	}
	f.Must(f.endpoints.Delete(f.Ctx, f.spec, 5*time.Second, nil))
	f.assertClean()
}
