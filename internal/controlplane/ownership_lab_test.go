package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/unit"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// another returns the stage as a second process sees it, with its own connections.
func (st *stage) another() Spec {
	st.Helper()
	s := st.spec
	s.Host = testHost(st.T, host.Config{Credentials: host.Credentials{PrivateKey: st.key}, KnownHosts: st.known},
		st.spec.Host.Address())
	return s
}

// harden adds a line to sshd's configuration, or removes it. A restart, unlike a reload, is
// complete when sshd listens again; open sessions continue.
func (st *stage) harden(line string) {
	st.Helper()
	const config = "/etc/ssh/sshd_config.d/00-hardened.conf"
	change := "rm " + config
	if line != "" {
		change = "echo '" + line + "' >" + config
	}
	st.run(change + "; systemctl reset-failed ssh; systemctl restart ssh")
}

// needsForwarding: an sshd that forbids forwarding is detected before anything is written to
// the machine.
func (st *stage) needsForwarding() {
	for _, hardening := range []string{
		"AllowTcpForwarding no", "DisableForwarding yes", "PermitOpen " + st.spec.Host.Address() + ":2379",
	} {
		st.harden(hardening)
		s := st.another()
		begun := time.Now()
		_, err := st.replicas.Create(st.ctx, s)
		st.Logf("%s: refused in %s: %v", hardening, time.Since(begun).Round(100*time.Millisecond), err)
		if !problem.Untouched(err) || !strings.Contains(err.Error(), "sshd forbids TCP forwarding") ||
			!strings.Contains(err.Error(), "AllowTcpForwarding") {
			st.Errorf("%s: %v", hardening, err)
		}
	}
	st.harden("")
	st.expect("programs", st.run("ls /opt/kube/kubernetes 2>/dev/null || :; getent passwd "+release.APIServer+" || :"), "")
	st.expect("calls", st.registrar.take(), []string(nil))
}

// refusesAfterHardening: a running replica is not changed either, because its readiness could
// not be verified.
func (st *stage) refusesAfterHardening() {
	before := st.pids()
	st.harden("AllowTcpForwarding no")
	s := st.another()
	s.ExtraArgs = cptest.Args(release.APIServer, "event-ttl", "5h")
	if _, err := st.replicas.Update(st.ctx, s); !problem.Untouched(err) ||
		!strings.Contains(err.Error(), "sshd forbids TCP forwarding") {
		st.Errorf("update: %v", err)
	}
	outage := st.replicas.Outage(StackedMember{
		Host: s.Host, Bundle: s.Bundle, EtcdURL: s.EtcdURLs[0],
		Registrar: func(Recorded) (Registrar, error) { return st.registrar, nil },
	})
	end := outage.Open()
	if err := outage.Begins(st.ctx); !problem.Untouched(err) ||
		!strings.Contains(err.Error(), "cannot determine whether it is serving") {
		st.Errorf("an outage of its member: %v", err)
	}
	end()
	st.harden("")
	st.expect("calls", st.registrar.take(), []string(nil))
	st.expect("restarted", st.restarted(before), []string(nil))
}

// yieldsToItsMember: the replica is stopped while its etcd member is away, no process
// starts it meanwhile, and it returns with the member.
func (st *stage) yieldsToItsMember() {
	member := StackedMember{
		Host: st.spec.Host, Bundle: st.spec.Bundle, EtcdURL: st.spec.EtcdURLs[0],
		Registrar: func(Recorded) (Registrar, error) { return st.registrar, nil },
	}
	cp2 := st.spec
	cp2.Name = "cp2"
	outage := st.replicas.Outage(member)
	end := outage.Open()
	if err := outage.Begins(st.ctx); err != nil {
		st.Fatal(err)
	}
	st.expect("calls", st.registrar.take(), []string{"drain"})
	st.expect("processes", st.pids(), map[string]int{
		release.APIServer: 0, release.ControllerManager: 0, release.Scheduler: 0,
	})
	st.registrar.out = map[string]string{"cp1": st.spec.ServingAddress()}
	st.run("systemctl stop etcd")
	if orphans := st.replicas.returnToRotation(st.ctx, cp2, false, time.Now().Add(time.Minute)); orphans != nil {
		st.Errorf("one that is kept out of rotation is brought back: %v", orphans)
	}
	end() // as at the end of the member's Delete: without Ended
	begun := time.Now()
	orphans := st.replicas.returnToRotation(st.ctx, cp2, false, time.Now().Add(time.Minute))
	if len(orphans) != 1 || orphans[0].machine != st.spec.Machine() || orphans[0].changing ||
		time.Since(begun) > 20*time.Second {
		st.Errorf("one whose member has left: %+v after %s", orphans, time.Since(begun))
	}
	st.expect("calls", st.registrar.take(), []string(nil))

	outage = st.replicas.Outage(member) // that of the Create
	end = outage.Open()
	if orphans := st.replicas.returnToRotation(st.ctx, cp2, false, time.Now().Add(time.Minute)); len(orphans) != 1 ||
		!orphans[0].changing {
		st.Errorf("one whose member is being made: %+v", orphans)
	}
	st.run("systemctl start etcd")
	if err := outage.Ended(st.ctx); err != nil {
		st.Error(err)
	}
	end()
	st.registrar.out = nil
	st.expect("calls", st.registrar.take(), []string{"register"})
	status, err := st.replicas.Read(st.ctx, st.spec)
	st.steady(status, err)
}

// belongsToGroups: the API server has exactly the configured groups.
func (st *stage) belongsToGroups() {
	before := st.pids()
	st.spec.SupplementaryGroups = []string{"no-such-group"}
	if _, err := st.replicas.Update(st.ctx, st.spec); !problem.Untouched(err) ||
		!strings.Contains(err.Error(), `group "no-such-group" of supplementary_groups does not exist`) {
		st.Errorf("a group that is not there: %v", err)
	}
	st.spec.SupplementaryGroups = []string{"games"}
	status, err := st.replicas.Update(st.ctx, st.spec)
	st.steady(status, err)
	st.expect("restarted", st.restarted(before), []string{release.APIServer})
	got := st.run("grep ^Groups: /proc/$(systemctl show --property=MainPID --value " + unit.Name(release.APIServer) +
		")/status; getent group games | cut -d : -f 3")
	groups := strings.Fields(got)
	if len(groups) < 3 || !strings.Contains(" "+strings.Join(groups[1:len(groups)-1], " ")+" ",
		" "+groups[len(groups)-1]+" ") {
		st.Errorf("groups of the API server and the number of games: %q", got)
	}
	observed, err := st.replicas.Import(st.ctx, st.spec.Host,
		EndpointReader{At: func(json.RawMessage) (RegisteredAt, error) {
			return RegisteredAt{Address: st.spec.EndpointHost}, nil
		}})
	if err != nil {
		st.Error(err)
	}
	st.expect("groups that an import reads", observed.SupplementaryGroups, []string{"games"})
	st.registrar.take()
}

// isNotAnothers: a Delete of another replica than the machine's leaves the machine unchanged,
// and a Delete of a replica that another process is creating waits for that process.
func (st *stage) isNotAnothers() {
	before := st.pids()
	for _, other := range []func(*Spec){
		func(s *Spec) { s.Name = "cp9" },
		func(s *Spec) { s.Bundle = st.otherCluster() },
	} {
		s := st.another()
		other(&s)
		s.Registrar = stopping{st.registrar} // it must not stop what it does not have
		var left string
		if err := st.replicas.Delete(st.ctx, s, DeleteOptions{Left: func(why string) { left = why }}); err != nil ||
			!strings.Contains(left, `holds replica "cp1" of cluster "lab" now, and was left as it is`) {
			st.Errorf("delete of %s: %v, left: %q", s.Machine(), err, left)
		}
		st.registrar.members["cp1"] = st.spec.ServingAddress()
		st.registrar.take()
	}
	st.expect("restarted", st.restarted(before), []string(nil))

	held, err := takeMachineLease(st.ctx, st.another()) // the Create of another process
	if err != nil {
		st.Fatal(err)
	}
	short, cancel := context.WithTimeout(st.ctx, 3*time.Second)
	defer cancel()
	err = NewReplicas(nil).Delete(short, st.spec, DeleteOptions{})
	if !errors.Is(err, context.DeadlineExceeded) {
		st.Errorf("delete in the middle of a create: %v", err)
	}
	held.Release()
	st.expect("calls", st.registrar.take(), []string(nil))
	status, err := st.replicas.Read(st.ctx, st.spec)
	st.steady(status, err)
}

func (st *stage) otherCluster() *pki.Bundle {
	st.Helper()
	b, err := pki.Generate(pki.Options{ClusterName: "other", Now: time.Now()})
	if err != nil {
		st.Fatal(err)
	}
	return b
}

// isCleanedAfterACut: an interrupted Create records the owner of its files.
func (st *stage) isCleanedAfterACut() {
	f, err := machine.Observe(st.ctx, st.spec.Host, st.spec.Replica)
	if err != nil {
		st.Fatal(err)
	}
	d, err := decide(st.spec.Replica, f, time.Now())
	if err != nil {
		st.Fatal(err)
	}
	d.files = d.files[:len(d.files)-1] // all except the record
	for _, name := range release.Components() {
		st.run("useradd --system --no-create-home --comment terraform-provider-kube --shell /usr/sbin/nologin " + name)
	}
	if _, err := st.spec.Host.Apply(st.ctx,
		host.Change{
			Dirs: component.Directories(), Files: append([]host.File{machine.CreatingFile(st.spec.Replica)}, d.files...),
		}); err != nil {
		st.Fatal(err)
	}
	other := st.spec
	other.Name = "cp9"
	var left string
	if err := st.replicas.Delete(st.ctx, other, DeleteOptions{Left: func(why string) { left = why }}); err != nil ||
		!strings.Contains(left, `the beginning of replica "cp1"`) {
		st.Errorf("delete of another: %v, left: %q", err, left)
	}
	st.registrar.take()
	if err := st.replicas.Delete(st.ctx, st.spec, DeleteOptions{}); err != nil {
		st.Fatal(err)
	}
	st.expect("left", st.run("ls /etc/kubernetes/*.json /etc/kubernetes/*.conf "+unit.Path(release.APIServer)+
		" 2>/dev/null || :; getent passwd | grep ^kube || :"), "")
	st.run("touch " + unit.Path(release.APIServer)) // belongs to another owner
	if err := st.replicas.Delete(st.ctx, st.spec, DeleteOptions{}); !problem.Untouched(err) ||
		!errors.Is(err, machine.ErrNoEvidence) {
		st.Errorf("delete of what nobody's record speaks of: %v", err)
	}
	st.run("rm " + unit.Path(release.APIServer))
}

// TestTwoProcessesOnMachines: leases are held on real machines.
func TestTwoProcessesOnMachines(t *testing.T) {
	if machines.lab == nil {
		testrun.Missing(t, "no lab: "+machines.missing)
	}
	st := newBareStage(t)
	cp1, cp2 := st.spec, st.another()
	cp2.Name = "cp2"
	registrar := func(h *host.Host) Registrar {
		return &recordingRegistrar{members: map[string]string{"cp1": "x"}, balancers: []host.LeaseTaker{h}}
	}
	cp1.Registrar, cp2.Registrar = registrar(cp1.Host), registrar(cp2.Host)
	one, other := NewReplicas(nil), NewReplicas(nil)
	lock, _, err := one.drain(st.ctx, cp1, drainOptions{stops: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cp1.Host.Run(lock.context(st.ctx), host.Command{Script: ":"}); err != nil {
		t.Errorf("a change under the lease: %v", err)
	}
	short, cancel := context.WithTimeout(st.ctx, 2*time.Second)
	defer cancel()
	if _, _, err := other.drain(short, cp2, drainOptions{stops: true}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("another process drains too: %v", err)
	}
	if calls := cp2.Registrar.(*recordingRegistrar).take(); calls != nil {
		t.Errorf("another process did %q", calls)
	}
	lock.finish(true)
	lock, _, err = other.drain(st.ctx, cp2, drainOptions{stops: true})
	if err != nil {
		t.Fatal(err)
	}
	lock.finish(true)
}
