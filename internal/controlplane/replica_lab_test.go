package controlplane

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/unit"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

func TestReplicaOnAMachine(t *testing.T) {
	st := newStage(t)
	st.needsForwarding()
	st.creates()
	st.adminsMayDoAll()
	st.restartsOnlyWhatChanged()
	st.seesAndUndoesHandEdits()
	st.finishesACutOffChange()
	st.takesBackAChangeThatFails()
	st.reportsAComponentThatFails()
	st.comesBackAfterItsMachineWasKilled()
	st.comesBackFromACutOffPause()
	st.yieldsToItsMember()
	st.refusesAfterHardening()
	st.belongsToGroups()
	st.encryptsWhatWasPlain()
	st.rotatesTheAuthority()
	st.isSeenByOthers()
	st.isNotAnothers()
	st.deletes()
	st.isForgottenForAMember()
	st.isCleanedAfterACut()
}

// comesBackFromACutOffPause: a replica that waits to be drained returns another one to rotation
// that an interrupted pause has left stopped, unless this process has paused it.
func (st *stage) comesBackFromACutOffPause() {
	another := st.spec
	another.Name = "cp2"
	st.registrar.out = map[string]string{"cp1": st.spec.ServingAddress()}
	st.run(string("touch " + host.Words(machine.PausedPaths()[0]) + "\n" + unit.Pause(release.Components())))
	join := func() { st.replicas.returnToRotation(st.ctx, another, false, time.Now().Add(time.Minute)) }

	outage := st.replicas.Outage(StackedMember{Host: st.spec.Host, Bundle: st.spec.Bundle})
	end := outage.Open()
	outage.pause(st.spec)
	join()
	st.expect("calls while this process keeps it paused", st.registrar.take(), []string(nil))
	end() // however the change of the member ends
	join()
	st.expect("calls", st.registrar.take(), []string{"register"})
	status, err := st.replicas.Read(st.ctx, st.spec)
	st.steady(status, err)

	deleted := st.replicas.inProgress.delete(st.spec)
	join()
	st.expect("calls while this process deletes it", st.registrar.take(), []string(nil))
	deleted()

	before := st.pids()
	join()
	st.expect("calls for one that serves", st.registrar.take(), []string{"register"})
	st.expect("restarted although it serves", st.restarted(before), []string(nil))
	st.registrar.out = nil
}

// isForgottenForAMember: a machine that no longer has a replica is removed from the load
// balancers if a change of an etcd member would wait for it, and only then.
func (st *stage) isForgottenForAMember() {
	another := st.spec
	another.Name = "cp2"
	st.registrar.out = map[string]string{"cp1": st.spec.ServingAddress()}
	st.registrar.take()
	st.replicas.returnToRotation(st.ctx, another, false, time.Now().Add(time.Minute))
	st.expect("calls for a replica's own change", st.registrar.take(), []string(nil))
	st.replicas.returnToRotation(st.ctx, another, true, time.Now().Add(time.Minute))
	st.expect("calls for a member's change", st.registrar.take(), []string{"deregister"})
	st.registrar.out = nil
}

func (st *stage) creates() {
	start := time.Now()
	status, err := st.replicas.Create(st.ctx, st.spec)
	st.Logf("created in %s", time.Since(start).Round(100*time.Millisecond))
	st.steady(status, err)
	st.expect("calls", st.registrar.take(), []string{"register"})
	st.Log(st.run("ls -lR /etc/kubernetes; systemd-analyze security --no-pager 2>/dev/null | grep kube- || :; ls -l " +
		"/run/credentials/kube-controller-manager.service || :"))

	before := st.pids()
	start = time.Now()
	status, err = st.replicas.Create(st.ctx, st.spec)
	st.Logf("created again in %s", time.Since(start).Round(100*time.Millisecond))
	st.steady(status, err)
	st.expect("restarted by a repeated create", st.restarted(before), []string(nil))
	start = time.Now()
	status, err = st.replicas.Read(st.ctx, st.spec)
	st.Logf("read in %s", time.Since(start).Round(10*time.Millisecond))
	st.steady(status, err)
	st.registrar.take()
}

// adminsMayDoAll: the user of admin.conf has rights, and controller-manager works.
func (st *stage) adminsMayDoAll() {
	web := st.as(st.spec.Bundle)
	deadline := time.Now().Add(30 * time.Second)
	for {
		status, body := fetch(st, web, "/api/v1/namespaces/kube-system/serviceaccounts/token-cleaner")
		if status == http.StatusOK {
			return
		}
		if time.Now().After(deadline) {
			st.Fatalf("controller-manager made no service account: %d %s", status, body)
		}
		time.Sleep(pollInterval)
	}
}

func fetch(st *stage, web *http.Client, path string) (int, string) {
	st.Helper()
	return send(st, web, http.MethodGet, path, "")
}

func send(st *stage, web *http.Client, method, path, text string) (int, string) {
	st.Helper()
	request, err := http.NewRequestWithContext(st.ctx, method, st.spec.LocalURL()+path, strings.NewReader(text))
	if err != nil {
		st.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := web.Do(request)
	if err != nil {
		st.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		st.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func (st *stage) restartsOnlyWhatChanged() {
	for _, c := range []struct {
		component, flag, value string
		calls                  []string
	}{
		{release.Scheduler, "v", "1", []string{"register"}},
		{release.ControllerManager, "v", "1", []string{"register"}},
		{release.APIServer, "event-ttl", "2h", []string{"drain", "register"}},
	} {
		before := st.pids()
		st.spec.ExtraArgs = cptest.Args(c.component, c.flag, c.value)
		for _, other := range release.Components() { // keep what the earlier rows have set
			if other != c.component && before[other] > 0 {
				st.spec.ExtraArgs[other] = st.extraArgsOnMachine(other)
			}
		}
		start := time.Now()
		status, err := st.replicas.Update(st.ctx, st.spec)
		st.Logf("%s changed in %s", c.component, time.Since(start).Round(100*time.Millisecond))
		st.steady(status, err)
		st.expect("restarted", st.restarted(before), []string{c.component})
		st.expect("calls", st.registrar.take(), c.calls)
	}
}

// extraArgsOnMachine returns the extra flags of a component on the machine.
func (st *stage) extraArgsOnMachine(component string) map[string]string {
	st.Helper()
	_, flags, err := unit.Parse(st.run("cat " + unit.Path(component)))
	if err != nil {
		st.Fatal(err)
	}
	extra := map[string]string{}
	for name, value := range flags {
		if name == "v" || name == "event-ttl" {
			extra[name] = value
		}
	}
	return extra
}

func (st *stage) seesAndUndoesHandEdits() {
	st.run(`
sed -i 's/--event-ttl=2h/--event-ttl=3h/' ` + unit.Path(release.APIServer) + `
chmod 0644 ` + component.KeyPath(component.APIServerCert) + `
sed -i 's/system:kube-scheduler@lab/x/' ` + component.SchedulerConf + `
systemctl stop kube-controller-manager
`)
	status, err := st.replicas.Read(st.ctx, st.spec)
	if err != nil {
		st.Fatal(err)
	}
	drift := strings.Join(status.Drift, "\n")
	for _, want := range []string{
		st.spec.Machine() + `: kube-apiserver: flag --event-ttl is "3h", wanted "2h"`,
		component.KeyPath(component.APIServerCert) + " has mode 0644, wanted 0600",
		component.SchedulerConf + " was changed after it was issued",
		"kube-controller-manager.service is inactive",
	} {
		if !strings.Contains(drift, want) {
			st.Errorf("drift lacks %q; it is\n%s", want, drift)
		}
	}
	before := st.pids()
	status, err = st.replicas.Update(st.ctx, st.spec)
	st.steady(status, err)
	// The API server was started before its edit, so it stays in rotation.
	st.expect("restarted", st.restarted(before), []string{release.ControllerManager, release.Scheduler})
	st.expect("calls", st.registrar.take(), []string{"register"})
}

// finishesACutOffChange: the files are written, the restart was interrupted.
func (st *stage) finishesACutOffChange() {
	before := st.pids()
	st.spec.ExtraArgs[release.Scheduler] = map[string]string{"v": "2"}
	f, err := machine.Observe(st.ctx, st.spec.Host, st.spec.Replica)
	if err != nil {
		st.Fatal(err)
	}
	d, err := decide(st.spec.Replica, f, time.Now())
	if err != nil {
		st.Fatal(err)
	}
	if err := apply(st.ctx, st.spec, changes{files: d.files}); err != nil {
		st.Fatal(err)
	}
	st.expect("restarted", st.restarted(before), []string(nil))
	status, err := st.replicas.Update(st.ctx, st.spec)
	st.steady(status, err)
	st.expect("restarted", st.restarted(before), []string{release.Scheduler})
	st.registrar.take()
}

// takesBackAChangeThatFails: the previous state is restored, and no other replica is changed
// afterwards.
func (st *stage) takesBackAChangeThatFails() {
	good := st.spec.ExtraArgs
	st.spec.ExtraArgs = cptest.Args(release.APIServer, "event-ttl", "no-such-duration")
	start := time.Now()
	_, err := st.replicas.Update(st.ctx, st.spec)
	st.Logf("taken back in %s:\n%v", time.Since(start).Round(100*time.Millisecond), err)
	var p *problem.Problem
	if !errors.As(err, &p) || p.Summary != "Control-plane replica not changed: rolled back to "+labVersion ||
		!strings.Contains(p.Detail, "no-such-duration") || !strings.Contains(p.Unchanged, "in rotation again") {
		st.Errorf("the failure does not say what it is: %v", err)
	}
	st.expect("calls", st.registrar.take(), []string{"drain", "register"})
	bad := st.spec.ExtraArgs
	st.spec.ExtraArgs = good
	status, err := st.replicas.Read(st.ctx, st.spec)
	st.steady(status, err)
	st.spec.ExtraArgs = bad
	st.refusesOthers()
	st.spec.ExtraArgs = good
}

// reportsAComponentThatFails: a replica that was not ready before cannot be rolled back.
func (st *stage) reportsAComponentThatFails() {
	good := st.spec.ExtraArgs
	st.run("systemctl stop kube-scheduler")
	st.spec.ExtraArgs = cptest.Args(release.APIServer, "event-ttl", "no-such-duration")
	_, err := st.replicas.Update(st.ctx, st.spec)
	var p *problem.Problem
	if !errors.As(err, &p) || !strings.Contains(p.Detail, "no-such-duration") ||
		!strings.Contains(p.Unchanged, "left out of rotation") {
		st.Errorf("the failure does not say what it is: %v", err)
	}
	st.expect("calls", st.registrar.take(), []string{"drain"})
	st.spec.ExtraArgs = good
	status, err := st.replicas.Update(st.ctx, st.spec)
	st.steady(status, err)
	st.expect("calls", st.registrar.take(), []string{"drain", "register"}) // the load balancers decide that
}

// refusesOthers: the change of this replica has failed.
func (st *stage) refusesOthers() {
	other := st.spec
	other.Name = "cp2"
	lock, err := st.replicas.changeLocks.acquire(st.ctx, other)
	if err != nil {
		st.Fatal(err)
	}
	if err := lock.checkEarlierFailure(other.Machine()); err == nil ||
		!strings.Contains(err.Error(), `the change of replica "cp1" failed`) {
		st.Errorf("another replica may be changed: %v", err)
	}
	lock.finish(true)
}

func (st *stage) comesBackAfterItsMachineWasKilled() {
	m := machines.lab.Machine("cp1")
	if err := m.PowerOff(st.ctx); err != nil {
		st.Fatal(err)
	}
	if err := m.Boot(st.ctx); err != nil {
		st.Fatal(err)
	}
	st.reached()
	start := time.Now()
	for deadline := start.Add(time.Minute); ; time.Sleep(pollInterval) {
		status, err := st.replicas.Read(st.ctx, st.spec)
		if err == nil && len(status.Drift) == 0 &&
			!slices.ContainsFunc(status.Components, func(c Component) bool { return !c.Healthy }) {
			st.Logf("ready again %s after the boot", time.Since(start).Round(100*time.Millisecond))
			return
		}
		if time.Now().After(deadline) {
			st.Fatalf("not back after the machine was killed: %v, %+v", err, status)
		}
	}
}

func (st *stage) deletes() {
	start := time.Now()
	away := host.Words(machine.EtcdUnit, "/etc/etcd.service.away") // somebody else's member runs otherwise
	st.run("mv " + string(away))
	if err := st.replicas.Delete(st.ctx, st.spec, DeleteOptions{}); err != nil {
		st.Fatal(err)
	}
	st.run("set -- " + string(away) + "; mv \"$2\" \"$1\"")
	st.Logf("deleted in %s", time.Since(start).Round(100*time.Millisecond))
	st.expect("calls", st.registrar.take(), []string{"drain for delete", "deregister"})
	left := st.run(`
find /etc/kubernetes /etc/systemd/system /opt/kube /run /var/log \( -path '*kube*' -o -name 'kube*' \) -not -type d |
sort
getent passwd | grep ^kube || :
ps -e | grep kube || :
`)
	for line := range strings.Lines(left) {
		lease := strings.HasPrefix(line, "/run/kube/leases/") // removed at the next boot
		if !strings.Contains(line, "/etcd") && !strings.HasPrefix(line, component.AuditLogDir+"/audit") && !lease {
			st.Errorf("left behind: %s", line)
		}
	}
	for _, kept := range []string{component.EtcdCA, component.EtcdDir + "/server.key"} {
		if !strings.Contains(left, kept) {
			st.Errorf("etcd's %s was removed", kept)
		}
	}
	st.expect("owners of the audit log",
		st.run("stat -c %U "+component.AuditLogDir+" "+component.AuditLogDir+"/audit.log"), "root\nroot\n")
	if _, err := st.replicas.Read(st.ctx, st.spec); !errors.Is(err, ErrGone) {
		st.Errorf("read after delete: %v", err)
	}
	if _, err := st.replicas.EtcdTrust(st.ctx, st.spec.Host.Address()); !errors.Is(err, errNoReplica) {
		st.Errorf("trust of etcd after delete: %v", err)
	}
	if err := st.replicas.Delete(st.ctx, st.spec, DeleteOptions{}); err != nil {
		st.Errorf("delete again: %v", err)
	}
}
