package acceptance

import (
	"fmt"
	"slices"
	"testing"
)

// rollbackCase is a reason, on one machine alone, why a component does not become ready after an
// upgrade.
type rollbackCase struct {
	unit      string // of the component that fails
	argument  string // applied together with the version
	set, away string // scripts
	log       string // in the component's log
}

// occupied means that an address on which etcd has to listen is in use.
var occupied = rollbackCase{
	unit:     "etcd",
	argument: `-var=etcd_extra_args={"listen-metrics-urls"="http://127.0.0.1:2381,http://127.0.0.1:2399"}`,
	set:      `systemd-run --quiet --unit=occupant systemd-socket-activate --listen=127.0.0.1:2399 /bin/cat`,
	away:     `systemctl stop occupant`,
	log:      "address already in use",
}

// absent means that a file that the API server has to read does not exist.
var absent = rollbackCase{
	unit:     "kube-apiserver",
	argument: `-var=apiserver_extra_args={"audit-policy-file"="/etc/audit-policy.yaml"}`,
	set:      `rm /etc/audit-policy.yaml`,
	away:     policyScript,
	log:      "/etc/audit-policy.yaml",
}

const policyScript = `printf 'apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: None}]\n' > ` +
	`/etc/audit-policy.yaml`

// TestUpgradeRolledBack upgrades Kubernetes while one machine is dead, which is rejected, and
// while a component of one machine cannot start. That replica is rolled back to its previous
// version, the apply stops and reports why, replicas that have not been changed yet stay as
// they are, and clients are not disturbed. Without the obstacle, the same apply completes.
// (TestUpgradeRefused does the same with etcd.)
func TestUpgradeRolledBack(t *testing.T) {
	young := defaults(t)
	old := versions{young.etcd, minorBefore(t, 1).kubernetes}
	s := newUpgradeStory(t, old)
	for _, name := range s.names {
		onMachine(t, shared.lab.Machine(name), policyScript)
	}
	t.Run("a machine is dead", func(t *testing.T) {
		s.dead(t, "-target=kube_control_plane_replica.this", "-var=kubernetes_version="+young.kubernetes)
	})
	if t.Failed() {
		t.FailNow()
	}
	t.Run("one replica does not come up", func(t *testing.T) { s.fall(t, "cp2", absent, old, young) })
	if t.Failed() {
		t.FailNow()
	}
	for _, name := range s.names {
		onMachine(t, shared.lab.Machine(name), `rm /etc/audit-policy.yaml`)
	}
	s.over(t)
}

// fall upgrades from one pair of versions to another with a hurdle on a machine, and again
// without it.
func (s *upgradeStory) fall(t *testing.T, name string, h rollbackCase, from, to versions) {
	onMachine(t, shared.lab.Machine(name), h.set)
	l := startLoad(t, outputOf(t, s.w, "kubeconfig"), s.names...)
	since := moment(t)
	s.choose(t, to)
	output := refused(t, s.w, h.argument)
	t.Log(output)
	expectContains(t, output, name+" ("+address(name)+")", "rolled back", h.log)

	version, older := to.etcd, from.etcd
	if h.unit == "kube-apiserver" {
		version, older = to.kubernetes, from.kubernetes
	}
	all := ofUnit(outages(t, since, s.names...), h.unit, "")
	expectOneAtATime(t, all)
	if last := all[len(all)-1]; last.machine != name || last.version != older {
		t.Errorf("the last one to be restarted was to be %s, back in %s: %v", name, older, all)
	}
	awaitRotation(t, s.names...)
	expectVersions(t, s.names, h.unit, func(other string) string {
		if other != name && slices.ContainsFunc(all, func(o outage) bool {
			return o.machine == other && o.version == version
		}) {
			return version
		}
		return older
	})

	onMachine(t, shared.lab.Machine(name), h.away)
	apply(t, s.w, h.argument)
	undisturbed(t, l)
	expectEmptyPlan(t, s.w, h.argument)
	apply(t, s.w) // without the argument, for the following steps
	expectServing(t, s.w, s.names, to.etcd, to.kubernetes)
}

// expectVersions checks the program that each process runs.
func expectVersions(t *testing.T, names []string, unit string, want func(name string) string) {
	t.Helper()
	for _, name := range names {
		program := onMachine(t, shared.lab.Machine(name),
			fmt.Sprintf("readlink /proc/$(systemctl show --value -p MainPID %s)/exe", unit))
		expectContains(t, name+" runs "+program, "/"+want(name)+"/")
	}
}
