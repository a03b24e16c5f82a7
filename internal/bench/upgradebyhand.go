package bench

import (
	"context"
	"fmt"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
)

// upgradeByScript returns the upgrade by a script. The units of the newer release are on the
// machines, and the leader is known. As in byhand.go, it is a lower bound: no check of health
// or versions, no snapshot, no waiting for sessions or for the load balancers, and no rollback.
func (o operator) upgradeByScript(
	b *bench, name string, definitions map[string]map[string]string, script func(leader *lab.Machine) []action,
) step {
	var leader *lab.Machine
	return step{
		name:   name,
		leaves: few,
		before: func(ctx context.Context) (err error) {
			if err := b.recreate(ctx); err != nil {
				return err
			}
			for _, m := range o.three {
				if err := run(ctx, m, writeUnits(definitions[m.Name])); err != nil {
					return err
				}
			}
			leader, err = b.leading(ctx)
			return err
		},
		act:   func(ctx context.Context) error { return o.do(ctx, script(leader)...) },
		after: func(ctx context.Context) error { return b.checkVersions(ctx, newer) },
	}
}

// fastUpgradeByScript returns the upgrade with one restart of each machine, whose API servers
// have no shutdown delay.
func (o operator) fastUpgradeByScript(b *bench, definitions map[string]map[string]string) step {
	s := o.upgradeByScript(b, upgradedOnce+withoutDelay, definitions, o.machineByMachine)
	before := s.before
	s.before = func(ctx context.Context) error {
		if err := before(ctx); err != nil {
			return err
		}
		return o.do(ctx, action{o.three, withoutShutdownDelay})
	}
	return s
}

// membersThenReplicas upgrades etcd on all machines, the leader last, and then Kubernetes. The
// API server next to a member uses no other member, so it is stopped, out of rotation, while
// the member restarts.
func (o operator) membersThenReplicas(leader *lab.Machine) []action {
	followers := o.followers(leader)
	var actions []action
	for _, m := range append(followers, leader) {
		if m.Name == leader.Name {
			actions = append(actions, action{[]*lab.Machine{m}, moveLeader(followers[0])})
		}
		actions = append(actions, o.outOfRotation(m, stopReplica+"\n"+restartEtcd()+startReplica)...)
	}
	for _, m := range o.three {
		actions = append(actions, o.outOfRotation(m, stopReplica+"\n"+installUnits(components...)+startReplica)...)
	}
	return actions
}

// machineByMachine upgrades everything on a machine before it continues with the next one.
func (o operator) machineByMachine(leader *lab.Machine) []action {
	followers := o.followers(leader)
	var actions []action
	for _, m := range append(followers, leader) {
		if m.Name == leader.Name {
			actions = append(actions, action{[]*lab.Machine{m}, moveLeader(followers[0])})
		}
		actions = append(actions, o.outOfRotation(m,
			stopReplica+"\n"+installUnits(components...)+restartEtcd()+startReplica)...)
	}
	return actions
}

// followers returns the two of three machines whose members are not the leader.
func (o operator) followers(leader *lab.Machine) []*lab.Machine {
	var all []*lab.Machine
	for _, m := range o.three {
		if m.Name != leader.Name {
			all = append(all, m)
		}
	}
	return all
}

// outOfRotation runs a script on a machine while no load balancer sends requests to it.
func (o operator) outOfRotation(m *lab.Machine, script string) []action {
	return []action{
		{o.three, setState(m, "drain")},
		{[]*lab.Machine{m}, script},
		{o.three, setState(m, "ready")},
	}
}

// newerUnits is the directory with the units of the newer release.
const newerUnits = "/root/newer"

// writeUnits writes units to that directory, by their names.
func writeUnits(definitions map[string]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "set -e\nmkdir -p %s\n", newerUnits)
	for unit, text := range definitions {
		fmt.Fprintf(&b, "cat >%s/%s.service <<'END-OF-UNIT'\n%sEND-OF-UNIT\n", newerUnits, unit, text)
	}
	return b.String()
}

// installUnits activates units of the newer release.
func installUnits(units ...string) string {
	var b strings.Builder
	for _, unit := range units {
		fmt.Fprintf(&b, "cp %s/%s.service %s\n", newerUnits, unit, unitFile(unit))
	}
	return b.String() + "systemctl daemon-reload\n"
}

// restartEtcd restarts etcd at the newer release and waits until it serves.
func restartEtcd() string {
	return installUnits("etcd") + "systemctl restart etcd\nuntil curl -sf http://127.0.0.1:2381/readyz >/dev/null; do " +
		"sleep 0.1; done\n"
}
