package haproxy

import (
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// TestDualStackOnMachines is the life of an endpoint with a virtual IP of each family.
func TestDualStackOnMachines(t *testing.T) {
	testrun.Long(t)
	f := newFixture(t)
	f.spec.Address6, f.spec.InstallPackages = labVIP6, true
	f.registrar = NewRegistrars(f.machine).For(f.spec.Registration())
	for _, name := range names(f.spec.Hosts) { // those of another test
		f.shell(name, "systemctl stop stand-in 2>/dev/null || true\n"+stallScript)
	}
	f.steps([]step{
		{"an IPv6 address that others have is refused", stepInUse6},
		{"create", stepCreate6},
		{"an IPv6 address that the network does not pass on", stepUnreached6},
		{"a second holder is drift", stepApart},
		{"the second address goes and comes", stepAddress6},
		{"further addresses come and go", stepFurther},
		{"advertisements by multicast, and by unicast again", stepMulticast},
		{"both addresses leave a machine without HAProxy", stepStopped6},
		{"both addresses leave a dead machine", stepFailover6},
		{"delete leaves clean machines", stepDelete6},
	}, "ip -br address; journalctl --no-pager -o short-precise -n 60 -u "+keepalivedUnit)
}

func (f *fixture) url6() string { return "https://" + net.JoinHostPort(labVIP6, "6443") + "/" }

// operator runs an ip command in the lab's network, outside of the machines.
func (f *fixture) operator(args ...string) {
	f.Helper()
	output, err := machines.lab.Command(f.ctx, "ip", args...).CombinedOutput()
	if err != nil {
		f.Fatalf("ip %v: %v\n%s", args, err, output)
	}
}

// holder returns the machine that has both addresses, or "".
func (f *fixture) holder() string {
	f.Helper()
	h := f.registrar.Health(f.ctx)
	all := h.HoldersOfAll()
	if len(all) != 1 || !slices.Equal(h.Holders(), all) || !slices.Equal(h.HoldersOf(labVIP6), all) {
		return ""
	}
	return all[0]
}

// bothOn waits until another machine than the given one has both addresses, and returns it.
func (f *fixture) bothOn(other string) string {
	f.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if now := f.holder(); now != "" && now != other {
			return now
		}
	}
	f.Fatalf("no machine but %q has both addresses: %+v", other, f.registrar.Health(f.ctx))
	return ""
}

// answered returns how long it takes until both addresses answer.
func (f *fixture) answered() map[string]time.Duration {
	f.Helper()
	began, after := time.Now(), map[string]time.Duration{}
	for len(after) < 2 {
		for _, url := range []string{f.url(), f.url6()} {
			err := exec.CommandContext(f.ctx, "curl", "-sk", "--max-time", "0.2", "-o", "/dev/null", url).Run()
			if _, known := after[url]; !known && err == nil {
				after[url] = time.Since(began).Round(10 * time.Millisecond)
			}
		}
		if time.Since(began) > 10*time.Second {
			f.Fatalf("of %s and %s, only these answer: %v", f.url(), f.url6(), after)
		}
	}
	return after
}

func stepInUse6(f *fixture) {
	f.operator("address", "add", labVIP6+"/128", "dev", "bridge", "nodad")
	_, err := Create(f.ctx, f.spec)
	f.operator("address", "delete", labVIP6+"/128", "dev", "bridge")
	if err == nil || !problem.Untouched(err) || !strings.Contains(err.Error(), labVIP6+" is in use: ") ||
		strings.Contains(err.Error(), labVIP+" is in use") {
		f.Errorf("got %v", err)
	}
	f.assertClean()
}

func stepCreate6(f *fixture) {
	f.timed("create", func() error {
		got, err := Create(f.ctx, f.spec)
		if len(got.Drift) > 0 {
			f.Errorf("drift after create: %q", got.Drift)
		}
		return err
	})
	f.installStandIns()
	f.must(onHosts(names(f.spec.Hosts), func(name string) error {
		return f.registrar.Register(f.ctx, name, f.replicaAddress(name))
	}))
	holder := f.bothOn("")
	f.Logf("answered after %v", f.answered())
	// Nobody waits for duplicate address detection, and the machine's own connections have another source.
	if flags := f.shell(holder, "ip -6 -o address show to "+labVIP6); !strings.Contains(flags, "deprecated") ||
		!strings.Contains(flags, "nodad") {
		f.Errorf("the address has other flags: %s", flags)
	}
	if route := f.shell(holder, "ip -6 route get fd00:95::1"); strings.Contains(route, "src "+labVIP6) {
		f.Errorf("the machine uses the virtual IP as a source: %s", route)
	}
	imported, err := Import(f.ctx, f.spec.Hosts["b"], f.machine)
	if err != nil || imported.Address != labVIP || imported.Address6 != labVIP6 || len(imported.Hosts) != 3 {
		f.Errorf("imported %+v, %v", imported, err)
	}
}

func stepUnreached6(f *fixture) {
	holder := f.bothOn("")
	rule := "INPUT -d " + labVIP6 + " -p tcp --dport 6443 -j DROP"
	f.shell(holder, "ip6tables -I "+rule)
	_, err := Update(f.ctx, f.spec, f.spec)
	f.shell(holder, "ip6tables -D "+rule)
	if err == nil || !strings.Contains(err.Error(), labVIP6+" cannot be reached from other machines") ||
		problem.Untouched(err) {
		f.Errorf("the update gives %v", err)
	}
	f.timed("update", func() error { _, err := Update(f.ctx, f.spec, f.spec); return err })
}

// stepApart: only one machine may have the second address, and it must be the one with the first.
func stepApart(f *fixture) {
	holder := f.bothOn("")
	other := slices.DeleteFunc(names(f.spec.Hosts), func(name string) bool { return name == holder })[0]
	f.shell(other, "ip address add "+labVIP6+"/128 dev eth0 nodad preferred_lft 0")
	drift := strings.Join(f.read().Drift, "\n")
	f.shell(other, "ip address delete "+labVIP6+"/128 dev eth0")
	if !strings.Contains(drift, labVIP6+" is held by ") || strings.Contains(drift, labVIP+" is held by ") {
		f.Errorf("drift %q", drift)
	}
	if got := f.read().Drift; len(got) > 0 {
		f.Errorf("drift afterwards %q", got)
	}
}

// stepAddress6: the first address serves every request while the second one is removed and added.
func stepAddress6(f *fixture) {
	holder, both := f.bothOn(""), f.spec
	elections := func() string {
		return f.shell(holder, "journalctl --no-pager -o cat -u "+keepalivedUnit+" | grep -c 'Entering .* STATE'")
	}
	before, one := elections(), both
	one.Address6 = ""
	tr := startTraffic(f.url(), f.ca, 5*time.Second)
	f.timed("remove the second address", func() error {
		got, err := Update(f.ctx, both, one)
		if len(got.Drift) > 0 {
			f.Errorf("drift without the second address: %q", got.Drift)
		}
		return err
	})
	for _, name := range names(f.spec.Hosts) {
		if left := f.shell(name, "ip -o address show to "+labVIP6+"; ss -Hlnt src '["+labVIP6+"]'; grep -lr "+labVIP6+
			" /etc/haproxy/kube /etc/keepalived /etc/systemd/system || true"); left != "" {
			f.Errorf("left on %s: %s", name, left)
		}
	}
	f.operator("address", "add", labVIP6+"/128", "dev", "bridge", "nodad")
	_, err := Update(f.ctx, one, both)
	f.operator("address", "delete", labVIP6+"/128", "dev", "bridge")
	if err == nil || !problem.Untouched(err) || !strings.Contains(err.Error(), labVIP6+" is in use: ") {
		f.Errorf("adding an address that others have gives %v", err)
	}
	f.timed("add the second address", func() error {
		got, err := Update(f.ctx, one, both)
		if len(got.Drift) > 0 {
			f.Errorf("drift with the second address: %q", got.Drift)
		}
		return err
	})
	if asked, failed := tr.end(f.T); failed > 0 || asked == 0 {
		f.Errorf("%d of %d requests failed", failed, asked)
	}
	f.Logf("answered after %v", f.answered())
	if now := f.bothOn(""); now != holder {
		f.Errorf("the addresses moved from %s to %s", holder, now)
	}
	if after := elections(); after != before {
		f.Errorf("%s let go of the address for a moment: %s changes of state, %s before", holder, after, before)
	}
}

// stepFurther: two further addresses, one of each family, are on the machine with the first one, and go with it
// when HAProxy stops. The others serve every request while they come and go.
func stepFurther(f *fixture) {
	before, after := f.spec, f.spec
	after.Further = []string{labFurther, labFurther6}
	change := func(what string, from, to Spec) {
		f.Helper()
		tr := startTraffic(f.url(), f.ca, time.Second)
		f.timed(what, func() error {
			got, err := Update(f.ctx, from, to)
			if len(got.Drift) > 0 {
				f.Errorf("drift afterwards: %q", got.Drift)
			}
			return err
		})
		if asked, failed := tr.end(f.T); failed > 0 || asked == 0 {
			f.Errorf("%d of %d requests failed", failed, asked)
		}
	}
	f.operator("address", "add", labFurther+"/32", "dev", "bridge")
	_, err := Update(f.ctx, before, after)
	f.operator("address", "delete", labFurther+"/32", "dev", "bridge")
	if err == nil || !problem.Untouched(err) || !strings.Contains(err.Error(), labFurther+" is in use: ") {
		f.Errorf("adding an address that others have gives %v", err)
	}
	change("add further addresses", before, after)
	holds := func(name string) bool {
		own := f.shell(name, "ip -o address show dev eth0")
		return strings.Contains(own, labFurther+"/32") && strings.Contains(own, labFurther6+"/128")
	}
	answers := func(address string) bool {
		return exec.CommandContext(f.ctx, "curl", "-sk", "--max-time", "1", "-o", "/dev/null",
			"https://"+net.JoinHostPort(address, "6443")+"/").Run() == nil
	}
	holder := f.bothOn("")
	if !holds(holder) || !answers(labFurther) || !answers(labFurther6) {
		f.Errorf("%s has %s; %s answers: %v, %s: %v", holder, f.shell(holder, "ip -br address show dev eth0"), labFurther,
			answers(labFurther), labFurther6, answers(labFurther6))
	}
	imported, err := Import(f.ctx, f.spec.Hosts[holder], f.machine)
	if err != nil || imported.Address6 != labVIP6 || !slices.Equal(imported.Further, after.Further) {
		f.Errorf("imported %+v, %v", imported, err)
	}
	f.shell(holder, "systemctl stop "+haproxyUnit)
	now := f.bothOn(holder)
	f.must(f.within(5*time.Second, func() bool { return holds(now) && answers(labFurther) && answers(labFurther6) }))
	f.shell(holder, "systemctl start "+haproxyUnit)
	f.eventually("all well", 10*time.Second, func(s observed) bool { return len(s.hosts) == 3 && s.hosts[holder] == "ok" })
	change("remove further addresses", after, before)
	for _, name := range names(f.spec.Hosts) {
		if own := f.shell(name, "ip -o address show dev eth0"); strings.Contains(own, labFurther) ||
			strings.Contains(own, labFurther6) {
			f.Errorf("left on %s: %s", name, own)
		}
	}
}

// within waits until done returns true.
func (f *fixture) within(limit time.Duration, done func() bool) error {
	for end := time.Now().Add(limit); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("not within %s", limit)
		}
	}
	return nil
}

// stepMulticast: the holder keeps the addresses, which it may release for a moment when its reload
// changes how it sends advertisements.
func stepMulticast(f *fixture) {
	holder, usual := f.bothOn(""), f.spec
	multicast := usual
	multicast.VRRP = Multicast
	change := func(what string, before, after Spec) {
		f.Helper()
		tr := startTraffic(f.url(), f.ca, time.Second)
		f.timed(what, func() error {
			got, err := Update(f.ctx, before, after)
			if len(got.Drift) > 0 {
				f.Errorf("drift afterwards: %q", got.Drift)
			}
			return err
		})
		if asked, failed := tr.end(f.T); failed*2 > asked {
			f.Errorf("%d of %d requests failed", failed, asked)
		}
		if now := f.bothOn(""); now != holder {
			f.Errorf("the addresses moved from %s to %s", holder, now)
		}
	}
	change("change to multicast", usual, multicast)
	f.shell(holder, "systemctl stop "+haproxyUnit)
	now := f.bothOn(holder)
	f.Logf("%s has the addresses after HAProxy stopped on %s", now, holder)
	f.shell(holder, "systemctl start "+haproxyUnit)
	f.eventually("all well", 10*time.Second, func(s observed) bool { return len(s.hosts) == 3 && s.hosts[holder] == "ok" })
	imported, err := Import(f.ctx, f.spec.Hosts[now], f.machine)
	if err != nil || imported.VRRP != Multicast || len(imported.Hosts) != 3 {
		f.Errorf("imported %+v, %v", imported, err)
	}
	holder = now
	change("change to unicast", multicast, usual)
}

func stepStopped6(f *fixture) {
	holder := f.bothOn("")
	f.answered() // this computer knows which machine has the addresses
	f.shell(holder, "systemctl stop "+haproxyUnit)
	f.Logf("answered %v after HAProxy stopped on %s", f.answered(), holder)
	now := f.bothOn(holder)
	f.shell(holder, "systemctl start "+haproxyUnit)
	f.eventually("all well", 10*time.Second, func(s observed) bool { return len(s.Drift) == 0 })
	if again := f.bothOn(""); again != now {
		f.Errorf("the addresses went from %s to %s", now, again)
	}
}

func stepFailover6(f *fixture) {
	holder := f.bothOn("")
	f.must(f.registrar.Drain(f.ctx, holder)) // so that only the addresses are lost, not a replica
	f.answered()
	f.must(machines.lab.Machine(holder).PowerOff(f.ctx))
	f.Logf("answered %v after the power of %s was cut", f.answered(), holder)
	now := f.bothOn(holder)
	f.must(machines.lab.Machine(holder).Boot(f.ctx))
	f.shell(holder, "systemctl start stand-in")
	f.eventually("all well", 20*time.Second, func(s observed) bool { return len(s.Drift) == 0 && s.hosts[holder] == "ok" })
	if again := f.bothOn(""); again != now {
		f.Errorf("the addresses went from %s to %s", now, again)
	}
}

func stepDelete6(f *fixture) {
	for _, name := range names(f.spec.Hosts) {
		f.must(f.registrar.Deregister(f.ctx, name))
	}
	f.timed("delete", func() error { return Delete(f.ctx, f.spec, DeleteOptions{}) })
	f.assertClean()
	for _, name := range names(f.spec.Hosts) {
		f.shell(name, "systemctl stop stand-in")
	}
}
