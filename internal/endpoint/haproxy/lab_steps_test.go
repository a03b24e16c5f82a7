package haproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/packages"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

func stepRefusePackages(f *fixture) {
	_, err := Create(f.ctx, f.spec)
	if err == nil || !problem.Untouched(err) || !strings.Contains(err.Error(), "haproxy, keepalived") {
		f.Fatalf("got %v", err)
	}
	f.assertClean()
}

func stepInstallAndPurge(f *fixture) {
	f.spec.InstallPackages = true
	all := f.spec.Hosts
	f.spec.Hosts = map[string]*host.Host{"a": all["a"]} // a single host is an endpoint too
	packages := func() string { return f.shell("a", "dpkg-query -W -f '${Package}\n'") }
	before := packages()
	purge := func(what string) {
		f.timed(what, func() error { return Delete(f.ctx, f.spec, DeleteOptions{}) })
		f.assertClean()
		if after := packages(); after != before {
			f.Errorf("%s: packages before:\n%s\nafter:\n%s", what, before, after)
		}
		if left := f.shell("a", "dpkg --audit"); left != "" {
			f.Errorf("%s: left half done:\n%s", what, left)
		}
	}
	const halfInstalled = "dpkg-query -W -f '${db:Status-Status}\\n' | grep -qE '^(half-|unpacked)'"
	create := func(ctx context.Context) error { _, err := Create(ctx, f.spec); return err }
	f.cutOff("a", halfInstalled, create)
	purge("delete with packages half installed")
	f.cutOff("a", halfInstalled, create)
	f.losePackageLog()
	f.timed("create with packages half installed", func() error { return create(f.ctx) })
	f.damagePackages()
	f.timed("create with packages half unpacked", func() error { return create(f.ctx) })
	f.cutOff("a", "! dpkg-query -W -f '${db:Status-Status}' haproxy 2>/dev/null | grep -qx installed",
		func(ctx context.Context) error {
			return Delete(ctx, f.spec, DeleteOptions{})
		})
	purge("delete with packages half purged")
	if _, err := NewRegistrars(f.machine).Read(f.ctx, f.spec); err == nil || !errors.Is(err, endpoint.ErrGone) {
		f.Errorf("read after delete: %v", err)
	}
	f.installConcurrently(create)
	f.spec.InstallPackages, f.spec.Hosts = false, all
	f.must(onHosts(names(f.spec.Hosts), func(name string) error {
		_, err := machines.lab.Machine(name).Run(f.ctx,
			"DEBIAN_FRONTEND=noninteractive apt-get install -y -q haproxy keepalived && systemctl disable --now haproxy "+
				"keepalived")
		return err
	}))
}

// cutOff ends what is done on a machine as soon as the condition holds there.
func (f *fixture) cutOff(name, condition string, do func(context.Context) error) {
	f.Helper()
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- do(ctx) }()
	f.shell(name, "until "+condition+"; do sleep 0.02; done")
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		f.Fatalf("it was not cut off: %v", err)
	}
	f.Logf("left: %s", f.shell(name, "ls /var/lib/dpkg/updates; dpkg --audit; ls "+packages.HAProxy().StateDir))
}

// stepARP: the network passes no ARP for an address that it has not assigned, as clouds and port security do. Its
// holder serves it, and nobody finds it.
func stepARP(f *fixture) {
	drop := func(do string) {
		for _, name := range names(f.spec.Hosts) {
			f.shell(name, "arptables "+do+" INPUT -d "+labVIP+" -j DROP && arptables "+do+" OUTPUT -s "+labVIP+" -j DROP")
		}
	}
	drop("-I")
	_, err := Create(f.ctx, f.spec)
	drop("-D")
	for _, want := range []string{
		"Endpoint " + labVIP + " cannot be reached from other machines", "the network does not pass on who has it",
		"and no answer to who has the address", "let the network pass ARP",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			f.Errorf("the create gives %v, want %q", err, want)
		}
	}
	f.must(Delete(f.ctx, f.spec, DeleteOptions{}))
	f.assertClean()
}

func stepCreate(f *fixture) {
	for _, name := range names(f.spec.Hosts) {
		f.shell(name, stallScript)
	}
	f.timed("create with packages there", func() error {
		got, err := Create(f.ctx, f.spec)
		if len(got.Drift) > 0 {
			f.Errorf("drift after create: %q", got.Drift)
		}
		return err
	})
	f.checkRendered()
	f.installStandIns()
	f.timed("register three replicas at once", func() error {
		return onHosts(names(f.spec.Hosts), func(name string) error {
			return f.registrar.Register(f.ctx, name, f.replicaAddress(name))
		})
	})
	for _, name := range names(f.spec.Hosts) {
		differences, err := f.registered(name)
		if err != nil || differences != nil {
			f.Errorf("%s: %q, %v", name, differences, err)
		}
	}
	got := f.read()
	if len(got.backends) != 3 || len(got.Drift) != 0 {
		f.Errorf("found %+v", got)
	}
	f.timed("create once more", func() error { _, err := Create(f.ctx, f.spec); return err })
	f.timed("read", func() error { _, err := NewRegistrars(f.machine).Read(f.ctx, f.spec); return err })
}

// stepUnreached: what the others cannot reach is not created, however well it serves.
func stepUnreached(f *fixture) {
	holder := f.read().holder
	rule := "INPUT -d " + labVIP + " -p tcp --dport 6443 -j DROP"
	f.shell(holder, "iptables -I "+rule)
	_, err := Update(f.ctx, f.spec, f.spec)
	f.shell(holder, "iptables -D "+rule)
	if err == nil || !strings.Contains(err.Error(), "cannot be reached from other machines") ||
		!strings.Contains(err.Error(), "no connection to port 6443") || problem.Untouched(err) {
		f.Errorf("the update gives %v", err)
	}
	f.timed("update of an address that can be reached", func() error {
		_, err := Update(f.ctx, f.spec, f.spec)
		return err
	})
}

func (f *fixture) url() string { return "https://" + net.JoinHostPort(f.spec.Address, "6443") + "/" }

func stepRotation(f *fixture) {
	holder := f.read().holder
	tr := startTraffic(f.url(), f.ca, 5*time.Second)
	for _, name := range names(f.spec.Hosts) {
		f.timed("drain "+name, func() error { return f.registrar.Drain(f.ctx, name) })
		f.shell(name, "systemctl restart stand-in")
		f.timed("register "+name, func() error { return f.registrar.Register(f.ctx, name, f.replicaAddress(name)) })
	}
	f.timed("drain a", func() error { return f.registrar.Drain(f.ctx, "a") })
	f.timed("deregister a", func() error { return f.registrar.Deregister(f.ctx, "a") })
	f.shell("a", "systemctl stop stand-in")
	before := f.spec
	f.spec.CACertificate = string(f.ca)
	f.timed("update with a reload on three hosts", func() error {
		got, err := Update(f.ctx, before, f.spec)
		if len(got.Drift) > 0 {
			f.Errorf("drift after update: %q", got.Drift)
		}
		return err
	})
	f.shell("a", "systemctl start stand-in")
	f.timed("register a", func() error { return f.registrar.Register(f.ctx, "a", f.replicaAddress("a")) })
	if _, failed := tr.end(f.T); failed > 0 {
		f.Errorf("%d requests failed", failed)
	}
	if now := f.read().holder; now != holder {
		f.Errorf("the address moved from %s to %s", holder, now)
	}
}

func stepOneAtATime(f *fixture) {
	f.shell("a", "systemctl kill -s KILL stand-in")
	f.eventually("a down", 10*time.Second, func(s observed) bool { return s.backends["a"] == "DOWN" })
	err := f.registrar.Drain(f.ctx, "c")
	if err == nil || !problem.Untouched(err) || !strings.Contains(err.Error(), "another replica is out of rotation") ||
		!strings.Contains(err.Error(), "L4CON") {
		f.Fatalf("drain while another is out: %v", err)
	}
	if now := f.read(); now.backends["c"] != "UP" {
		f.Errorf("after the refusal: %+v", now.backends)
	}
	if all, err := f.registrar.Replicas(f.ctx); err != nil || !maps.Equal(all, f.replicas()) {
		f.Errorf("replicas: %v, %v", all, err)
	}
	if out, err := f.registrar.OutOfRotation(f.ctx); err != nil ||
		!maps.Equal(out, map[string]string{"a": f.replicaAddress("a")}) {
		f.Errorf("out of rotation: %v, %v", out, err)
	}
	f.must(f.registrar.DrainForDelete(f.ctx, "c", true)) // who leaves for good may
	f.must(f.registrar.Undrain(f.ctx, "c"))
	if now := f.read(); now.backends["c"] != "UP" {
		f.Errorf("after the drain was taken back: %+v", now.backends)
	}
	f.must(f.registrar.DrainForDelete(f.ctx, "c", false)) // also where another one has to stay
	f.must(f.registrar.Register(f.ctx, "c", f.replicaAddress("c")))
	f.must(f.registrar.Undrain(f.ctx, "stranger")) // nobody's
}

func stepLastReplica(f *fixture) {
	f.shell("b", "systemctl kill -s KILL stand-in")
	f.eventually("a and b down", 10*time.Second, func(s observed) bool {
		return s.backends["a"] == "DOWN" && s.backends["b"] == "DOWN"
	})
	err := f.registrar.DrainForDelete(f.ctx, "c", true)
	if err == nil || !strings.Contains(err.Error(), "last replica that serves") {
		f.Fatalf("drain of the last replica: %v", err)
	}
	if now := f.read(); now.backends["c"] != "UP" {
		f.Errorf("after the refusal: %+v", now.backends)
	}
	// A drain that was cut off does not make it one that serves nothing.
	f.shell("a", statsCommand+" >/dev/null; "+askPath+" "+adminSocket+" 'set server "+proxyName+"/c state drain'")
	for _, way := range []func() error{
		func() error { return f.registrar.DrainForDelete(f.ctx, "c", false) },
		func() error { return f.registrar.Drain(f.ctx, "c") },
	} {
		err := way()
		var refusal interface{ LastServing() bool }
		if !problem.Untouched(err) || !errors.As(err, &refusal) || !refusal.LastServing() {
			f.Errorf("the last one, drained on one balancer: %v", err)
		}
	}
	f.eventually("c up everywhere", 5*time.Second, func(s observed) bool { return s.backends["c"] == "UP" })
	f.must(f.registrar.Drain(f.ctx, "a"))                 // it serves nothing
	f.must(f.registrar.DrainForDelete(f.ctx, "b", false)) // nor does this
	f.shell("a", "systemctl reset-failed stand-in; systemctl start stand-in")
	f.shell("b", "systemctl reset-failed stand-in; systemctl start stand-in")
	f.must(f.registrar.Register(f.ctx, "a", f.replicaAddress("a")))
	f.must(f.registrar.Register(f.ctx, "b", f.replicaAddress("b")))
}

func stepDrift(f *fixture) {
	f.shell("b", "sed -i 's/timeout connect 1s/timeout connect 9s/' "+endpointPath+"; systemctl disable --now "+
		keepalivedUnit)
	f.shell("c", "sed -i 's/server a [^ ]*/& weight 7/' "+backendsPath)
	got := f.read()
	for _, wanted := range []string{
		`b: /etc/haproxy/kube/10-endpoint.cfg: found "timeout connect 9s", wanted "timeout connect 1s"`,
		"b: kube-endpoint-keepalived.service is inactive",
		"b: kube-endpoint-keepalived.service is not enabled",
		`c: /etc/haproxy/kube/20-backends.cfg: found "server a 10.95.0.11:6443 weight 7 tcp-ut 5s # registered`,
	} {
		if !strings.Contains(strings.Join(got.Drift, "\n"), wanted) {
			f.Errorf("drift %q lacks %q", got.Drift, wanted)
		}
	}
	f.timed("repair drift", func() error {
		got, err := Update(f.ctx, f.spec, f.spec)
		if len(got.Drift) > 0 {
			f.Errorf("drift after update: %q", got.Drift)
		}
		return err
	})
}

func stepDeleteRefused(f *fixture) {
	err := Delete(f.ctx, f.spec, DeleteOptions{})
	if err == nil || !problem.Untouched(err) || !strings.Contains(err.Error(), "a on b (10.95.0.12)") {
		f.Fatalf("got %v", err)
	}
	if got := f.read(); len(got.Drift) > 0 {
		f.Errorf("drift after a refused delete: %q", got.Drift)
	}
}

// stepHosts takes hosts out and in again: one, and all but the holder of the
// address, who keeps it all the while.
func stepHosts(f *fixture) {
	holder := f.read().holder
	others := slices.DeleteFunc(names(f.spec.Hosts), func(name string) bool { return name == holder })
	elections := func() string {
		return f.shell(holder, "journalctl --no-pager -o cat -u "+keepalivedUnit+" | grep -c 'Entering .* STATE'")
	}
	for _, leavers := range [][]string{others[:1], others} {
		before := elections()
		tr := startTraffic(f.url(), f.ca, 5*time.Second)
		all := f.spec
		fewer := all
		fewer.Hosts = maps.Clone(all.Hosts)
		for _, name := range leavers {
			delete(fewer.Hosts, name)
		}
		f.timed(fmt.Sprintf("take out hosts %v", leavers), func() error { _, err := Update(f.ctx, all, fewer); return err })
		for _, name := range leavers {
			if left := f.shell(name,
				"ls /etc/haproxy/kube /etc/systemd/system/kube-endpoint-* 2>/dev/null || true"); left != "" {
				f.Errorf("left on %s: %s", name, left)
			}
		}
		f.timed(fmt.Sprintf("bring in hosts %v", leavers), func() error {
			got, err := Update(f.ctx, fewer, all)
			if now := f.read(); len(got.Drift) > 0 || now.holder != holder {
				f.Errorf("after the update: %+v, holder %q", got, now.holder)
			}
			return err
		})
		if _, failed := tr.end(f.T); failed > 0 {
			f.Errorf("%d requests failed", failed)
		}
		if after := elections(); after != before {
			f.Errorf("%s let go of the address for a moment: %s changes of state, %s before", holder, after, before)
		}
	}
	for _, name := range names(f.spec.Hosts) {
		if differences, err := f.registered(name); err != nil || differences != nil {
			f.Errorf("%s: %q, %v", name, differences, err)
		}
	}
}

func stepCrash(f *fixture) {
	holder := f.read().holder
	tr := startTraffic(f.url(), f.ca, time.Second)
	f.shell(holder, "systemctl kill --signal KILL "+haproxyUnit)
	f.eventually("another holder", 5*time.Second, func(s observed) bool { return s.holder != holder && s.holder != "" })
	f.eventually("all well", 5*time.Second, func(s observed) bool { return len(s.Drift) == 0 })
	tr.end(f.T)
}

// stepDeadReplica: a kept connection to a machine that died must not hang, and
// fresh ones must not notice.
func stepDeadReplica(f *fixture) {
	holder := f.read().holder
	victim := names(f.spec.Hosts)[0]
	if victim == holder {
		victim = names(f.spec.Hosts)[1]
	}
	var kept *http.Client
	for served := ""; served != f.replicaAddress(victim); {
		kept = client(f.ca, false, 30*time.Second)
		answer, err := kept.Get(f.url())
		f.must(err)
		body, err := io.ReadAll(answer.Body)
		f.must(err)
		f.must(answer.Body.Close())
		served = string(body)
	}
	f.must(machines.lab.Machine(victim).PowerOff(f.ctx))
	died := time.Now()
	for range 20 {
		answer, err := client(f.ca, true, 5*time.Second).Get(f.url())
		f.must(err)
		f.must(answer.Body.Close())
	}
	answer, err := kept.Get(f.url()) // fails, or is repeated by the client on a new connection
	if err == nil {
		f.must(answer.Body.Close())
	}
	took := time.Since(died)
	f.Logf("the kept connection ended %s after its replica's machine was killed", took.Round(10*time.Millisecond))
	if took > 15*time.Second {
		f.Errorf("that is too long (%v)", err)
	}
	f.refusesToChange(victim)
	f.must(machines.lab.Machine(victim).Boot(f.ctx))
	f.shell(victim, "systemctl start stand-in")
	f.eventually("all well", 20*time.Second, func(s observed) bool {
		out, err := f.registrar.OutOfRotation(f.ctx) // as each balancer sees it
		return len(s.Drift) == 0 && s.hosts[victim] == "ok" && err == nil && len(out) == 0
	})
}

// refusesToChange: what all hosts have to agree on stays as long as one of them
// is dead.
func (f *fixture) refusesToChange(dead string) {
	changed := f.spec
	changed.CACertificate = ""
	_, err := Update(f.ctx, f.spec, changed)
	if err == nil || !problem.Untouched(err) || !strings.Contains(err.Error(), dead+": ") {
		f.Errorf("change while %s is dead: %v", dead, err)
	}
	if now := f.read(); len(now.Drift) > 0 {
		f.Errorf("after the refusal: %q", now.Drift)
	}
}

func stepFailover(f *fixture) {
	holder := f.read().holder
	f.must(f.registrar.Drain(f.ctx, holder)) // so that only the address is lost, not a replica
	tr := startTraffic(f.url(), f.ca, time.Second)
	died := time.Now()
	f.must(machines.lab.Machine(holder).PowerOff(f.ctx))
	for {
		ctx, cancel := context.WithTimeout(f.ctx, 200*time.Millisecond)
		err := exec.CommandContext(ctx, "curl", "-sk", "--max-time", "0.2", "-o", "/dev/null", f.url()).Run()
		cancel()
		if err == nil {
			break
		}
		if time.Since(died) > 10*time.Second {
			f.Fatal("no answer 10 s after the holder died")
		}
	}
	f.Logf("the endpoint answered again %s after the holder was killed", time.Since(died).Round(10*time.Millisecond))
	tr.end(f.T)
	got := f.read()
	if got.holder == holder || got.holder == "" || len(got.Drift) > 0 || got.hosts[holder] == "ok" {
		f.Errorf("after the holder was killed: %+v", got)
	}
	if all, err := f.registrar.Replicas(f.ctx); err != nil || !maps.Equal(all, f.replicas()) {
		f.Errorf("replicas, with a dead balancer: %v, %v", all, err)
	}
	f.timed("register with a dead balancer", func() error {
		return f.registrar.Register(f.ctx, got.holder, f.replicaAddress(got.holder))
	})
	if err := Delete(f.ctx, f.spec, DeleteOptions{Abandon: host.AbandonedAt(f.spec.Hosts[holder].Address())}); err == nil {
		f.Error("deleted under registered replicas")
	}
	f.must(machines.lab.Machine(holder).Boot(f.ctx))
	again := f.eventually("all well", 15*time.Second, func(s observed) bool {
		return len(s.Drift) == 0 && s.hosts[holder] == "ok"
	})
	if again.holder != got.holder {
		f.Errorf("the address went back to %s", again.holder)
	}
}

func stepDelete(f *fixture) {
	for _, name := range names(f.spec.Hosts) {
		f.must(f.registrar.Deregister(f.ctx, name))
		f.must(f.registrar.Deregister(f.ctx, name))
	}
	if all, err := f.registrar.Replicas(f.ctx); err != nil || len(all) > 0 {
		f.Errorf("replicas after all were deregistered: %v, %v", all, err)
	}
	f.leavesOtherEndpointAlone()
	f.timed("delete", func() error { return Delete(f.ctx, f.spec, DeleteOptions{}) })
	f.assertClean()
	f.must(Delete(f.ctx, f.spec, DeleteOptions{}))
}

// checkRendered has the machine's own programs check what is rendered for both families of
// addresses, with and without replicas.
func (f *fixture) checkRendered() {
	f.Helper()
	for _, spec := range []Spec{
		specOf("10.0.0.100", map[string]string{"a": "10.0.0.11", "b": "10.0.0.12"}),
		specOf("fd00::100", map[string]string{"a": "fd00::11", "b": "fd00::12"}),
		dualStack(), withMulticast(dualStack()),
	} {
		for _, servers := range [][]server{
			nil, {serverAt("a", "10.0.0.11:6443"), serverAt("b", "[fd00::12]:6443")},
		} {
			f.shell("a", fmt.Sprintf(`cd "$(mktemp -d)"
cat >haproxy.cfg <<'EOF'
%sEOF
cat >backends.cfg <<'EOF'
%sEOF
cat >keepalived.conf <<'EOF'
%sEOF
haproxy -c -f haproxy.cfg -f backends.cfg
keepalived --config-test --use-file=keepalived.conf
keepalived --config-test --use-file=`+keepalivedPath,
				renderHAProxy(spec), renderBackends(spec.Address, servers, nil),
				renderKeepalived(spec, names(spec.Hosts)[0], "eth0")))
		}
	}
}
