package haproxy

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// restartTimeout covers the failed probes with their periods on a busy computer.
const restartTimeout = time.Minute

// TestLivenessOnMachines stops HAProxy and keepalived by SIGSTOP. Each is restarted on its machine, and nothing else.
func TestLivenessOnMachines(t *testing.T) {
	testrun.Long(t)
	f := newFixture(t)
	f.spec.InstallPackages, f.spec.LivenessProbe = true, true
	for _, name := range names(f.spec.Hosts) { // those of another test
		f.shell(name, "systemctl stop stand-in 2>/dev/null || true\n"+stallScript)
	}
	f.steps([]step{
		{"create", stepCreate},
		{"a HAProxy that hangs", stepHAProxyHangs},
		{"a keepalived that hangs", stepKeepalivedHangs},
		{"all at once", stepAllHang},
		{"a keepalived in the state FAULT is not one that hangs", stepResting},
		{"a master that hangs is drift", stepMasterHangs},
		{"what never answered is not killed", stepNeverLive},
		{"switched off", stepSwitchedOff},
		{"delete leaves clean machines", stepDelete},
	}, "ip -br address; head /run/kube-endpoint-liveness/*; "+
		"journalctl --no-pager -o short-precise -n 60 -u 'kube-endpoint-*'")
}

// invocations returns which processes run: "a kube-endpoint-haproxy.service" → invocation.
func (f *fixture) invocations() map[string]string {
	f.Helper()
	all := map[string]string{}
	for _, name := range names(f.spec.Hosts) {
		for _, unit := range []string{haproxyUnit, keepalivedUnit} {
			all[name+" "+unit] = strings.TrimSpace(f.shell(name, "systemctl show --property=InvocationID --value "+unit))
		}
	}
	return all
}

// restarted checks that the units, and no others, have another invocation than before.
func (f *fixture) restarted(before map[string]string, units ...string) {
	f.Helper()
	now := f.invocations()
	for unit := range before {
		wanted := false
		for _, one := range units {
			wanted = wanted || one == unit
		}
		if (now[unit] != before[unit]) != wanted {
			f.Errorf("%s: restarted %t, wanted %t", unit, !wanted, wanted)
		}
	}
}

// probed waits until all programs were observed as live.
func (f *fixture) probed() {
	f.Helper()
	for _, name := range names(f.spec.Hosts) {
		for _, unit := range []string{haproxyUnit, keepalivedUnit} {
			f.await(unit+" on "+name+" is not observed as live", func() bool {
				state := f.state(name, unit)
				id := strings.TrimSpace(f.shell(name, "systemctl show --property=InvocationID --value "+unit))
				return len(state) == 5 && state[0] == id && state[1] == "1" && state[2] == "0"
			})
		}
	}
}

// state returns the fields that the last round has left of a unit.
func (f *fixture) state(machine, unit string) []string {
	f.Helper()
	return strings.Fields(f.shell(machine, "cat /run/kube-endpoint-liveness/"+unit+" 2>/dev/null || true"))
}

func (f *fixture) await(what string, is func() bool) {
	f.Helper()
	for end := time.Now().Add(restartTimeout); !is(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(end) {
			f.Fatalf("%s after %s", what, restartTimeout)
		}
	}
}

// freeze stops all processes of a unit.
func (f *fixture) freeze(machine, unit string) {
	f.Helper()
	f.shell(machine, "systemctl kill --signal=STOP "+unit)
}

// inTime checks that something has happened within the time that the guides promise.
func (f *fixture) inTime(what string, begin time.Time) {
	f.Helper()
	took := time.Since(begin)
	f.Logf("%s: %s", what, took.Round(100*time.Millisecond))
	if took > hangLimit {
		f.Errorf("%s: %s, which is more than %s", what, took.Round(100*time.Millisecond), hangLimit)
	}
}

// serves reports whether clients reach a replica at the virtual IP.
func (f *fixture) serves() bool {
	return exec.CommandContext(f.ctx, "curl", "-sk", "--max-time", "1", "-o", "/dev/null", f.url()).Run() == nil
}

// stepHAProxyHangs: clients wait until the HAProxy that has the address is killed, which moves the address.
func stepHAProxyHangs(f *fixture) {
	f.probed()
	before, holder := f.invocations(), f.read().holder
	f.freeze(holder, haproxyUnit)
	begin := time.Now()
	if f.serves() {
		f.Error("a HAProxy that hangs serves")
	}
	f.await("the endpoint does not answer", f.serves)
	f.inTime("the endpoint answers again after its HAProxy stopped", begin)
	f.eventually("all well", 20*time.Second, func(s observed) bool { return len(s.Drift) == 0 })
	f.restarted(before, holder+" "+haproxyUnit)
	if now := f.read().holder; now == holder {
		f.Errorf("%s has the address again, or still", now)
	}
}

// stepKeepalivedHangs: another machine takes the address at once, and the one that hangs keeps it until it is killed.
func stepKeepalivedHangs(f *fixture) {
	f.probed()
	before, holder := f.invocations(), f.read().holder
	f.freeze(holder, keepalivedUnit)
	begin := time.Now()
	f.eventually("two holders", 10*time.Second, func(s observed) bool {
		return strings.Contains(strings.Join(s.Drift, "\n"), " is held by ")
	})
	f.eventually("one holder", restartTimeout, func(s observed) bool { return len(s.Drift) == 0 && s.holder != holder })
	f.inTime("one machine has the address again after its keepalived stopped", begin)
	f.restarted(before, holder+" "+keepalivedUnit)
}

// stepAllHang: nobody serves, so nobody loses by restarts at the same time.
func stepAllHang(f *fixture) {
	f.probed()
	before := f.invocations()
	var units []string
	for _, name := range names(f.spec.Hosts) {
		f.freeze(name, haproxyUnit)
		units = append(units, name+" "+haproxyUnit)
	}
	begin := time.Now()
	f.await("the endpoint does not answer", f.serves)
	f.Logf("the endpoint answers again %s after all HAProxies stopped", time.Since(begin).Round(time.Second))
	f.eventually("all well", restartTimeout, func(s observed) bool { return len(s.Drift) == 0 })
	f.restarted(before, units...)
}

// stepResting: without HAProxy, keepalived waits, for as long as that takes.
func stepResting(f *fixture) {
	f.probed()
	victim := names(f.spec.Hosts)[0]
	before := f.invocations()
	f.shell(victim, "systemctl stop "+haproxyUnit)
	for range 4 {
		f.shell(victim, "systemctl start "+noProbe.Name)
		if state := f.state(victim, keepalivedUnit); len(state) != 5 || state[2] != "0" {
			f.Errorf("keepalived without HAProxy is observed as %q", state)
		}
	}
	f.shell(victim, "systemctl start "+haproxyUnit)
	f.eventually("all well", 20*time.Second, func(s observed) bool { return len(s.Drift) == 0 })
	f.restarted(before, victim+" "+haproxyUnit)
}

// older makes a unit look as if it had not been ready for longer than its start may take.
func (f *fixture) older(machine, unit string) {
	f.Helper()
	f.await("the probe of "+unit+" does not fail", func() bool {
		state := f.state(machine, unit)
		return len(state) == 5 && state[3] != "0"
	})
	f.shell(machine, `file=/run/kube-endpoint-liveness/`+unit+`
while read -r invocation lived failures since unready <$file && [ "$unready" -le 60 ]; do
  echo "$invocation $lived $failures 1 $unready" >$file.test
  mv $file.test $file
  sleep 1
done`)
}

// stepMasterHangs: the worker serves, so it is not killed. An apply restarts it.
func stepMasterHangs(f *fixture) {
	f.probed()
	victim := names(f.spec.Hosts)[1]
	before := f.invocations()
	f.shell(victim, "kill -STOP $(systemctl show --property=MainPID --value "+haproxyUnit+")")
	f.older(victim, haproxyUnit)
	f.repairs(before, victim, haproxyUnit)
}

// repairs expects drift in words about a unit of a machine, and an update that restarts it and nothing else.
func (f *fixture) repairs(before map[string]string, machine, unit string) {
	f.Helper()
	drift := strings.Join(f.read().Drift, "\n")
	if !strings.Contains(drift, machine+": "+unit+": it has not been ready for longer than 1m0s") {
		f.Errorf("drift: %s", drift)
	}
	f.restarted(before)
	f.timed("update", func() error { _, err := Update(f.ctx, f.spec, f.spec); return err })
	f.eventually("all well", 20*time.Second, func(s observed) bool { return len(s.Drift) == 0 })
	f.restarted(before, machine+" "+unit)
}

// stepNeverLive: a HAProxy that has not answered since its start fails probe after probe, and is left to an apply.
func stepNeverLive(f *fixture) {
	f.probed()
	victim := names(f.spec.Hosts)[2]
	f.shell(victim, "systemctl stop "+noProbe.Job().Timer()+" "+noProbe.Job().Service()+"\nsystemctl restart "+haproxyUnit)
	f.freeze(victim, haproxyUnit)
	before := f.invocations()
	for range 2*pace.Threshold + 1 {
		f.shell(victim, "systemctl start "+noProbe.Job().Service())
	}
	if state := f.state(victim, haproxyUnit); len(state) != 5 || state[1] != "0" || state[2] != "7" {
		f.Errorf("it is observed as %q", state)
	}
	if log := f.shell(victim, "journalctl --no-pager -o cat -n 20 -u "+noProbe.Name); !strings.Contains(log,
		"has failed 6 probes. It is not restarted: it has not been live since its start") {
		f.Errorf("the journal says\n%s", log)
	}
	f.shell(victim, "systemctl start "+noProbe.Job().Timer())
	f.older(victim, haproxyUnit)
	f.repairs(before, victim, haproxyUnit)
}

// stepSwitchedOff: the setting comes and goes without a restart.
func stepSwitchedOff(f *fixture) {
	before := f.invocations()
	off := f.spec
	off.LivenessProbe = false
	_, err := Update(f.ctx, f.spec, off)
	f.must(err)
	left := f.shell("a", "ls /etc/systemd/system/kube-endpoint-liveness* "+noProbe.Script+" 2>/dev/null || true")
	if left != "" {
		f.Errorf("left: %s", left)
	}
	imported, err := Import(f.ctx, f.spec.Hosts["a"], f.machine)
	if err != nil || imported.LivenessProbe {
		f.Errorf("imported %+v, %v", imported, err)
	}
	_, err = Update(f.ctx, off, f.spec)
	f.must(err)
	if imported, err = Import(f.ctx, f.spec.Hosts["a"], f.machine); err != nil || !imported.LivenessProbe {
		f.Errorf("imported %+v, %v", imported, err)
	}
	if drift := f.read().Drift; len(drift) > 0 {
		f.Errorf("drift: %q", drift)
	}
	f.restarted(before)
}
