package bench

import (
	"context"
	"fmt"
	"io"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// The releases of the upgrade: a minor version of both products.
var (
	older = workspace.Release{Etcd: build.MinorBefore("etcd", 1), Kubernetes: build.MinorBefore("kubernetes", 1)}
	newer = workspace.Release{Etcd: "etcd", Kubernetes: "kubernetes"}
)

// The upgrade as `terraform apply`, and by two scripts. One upgrades all members and then all
// replicas, which is the order that the release notes require. The other goes from machine to
// machine, as kubeadm does, and restarts everything on each of them once; nothing can be faster
// without failing requests.
const (
	upgraded      = "upgrade of etcd and Kubernetes by a minor version"
	upgradedTwice = upgraded + ", members and then replicas"
	upgradedOnce  = upgraded + ", both with one restart of each machine"
)

// upgrades measures all upgrades in turn, each on a newly created control plane with the programs
// of both releases on the machines. kubeadm's own upgrade is a measurement of its own (kubeadm.go): it
// needs a kubelet on each machine.
func (b *bench) upgrades(ctx context.Context) ([]Result, error) {
	all, err := b.inRounds(rounds, func(int) (times, error) { return b.upgradeRound(ctx) })
	if len(all) == 0 {
		return nil, err
	}
	const what = "terraform apply, " + upgraded + ", against a script that "
	return []Result{
		ratioTo(what+"upgrades members, then replicas", all[upgraded], all[upgradedTwice], "s"),
		ratioTo(what+"restarts each machine once", all[upgraded], all[upgradedOnce], "s"),
		ratioTo(what+"restarts each machine once"+withoutDelay, all[upgraded], all[upgradedOnce+withoutDelay], "s"),
	}, err
}

func (b *bench) upgradeRound(ctx context.Context) (times, error) {
	if err := b.renew(ctx); err != nil {
		return nil, err
	}
	if err := b.wantRelease(older); err != nil {
		return nil, err
	}
	took, err := b.runSteps(ctx, "terraform", []step{b.upgrade()})
	if err != nil {
		return nil, err
	}
	definitions, err := b.definitions(ctx)
	if err != nil {
		return nil, err
	}
	o, err := b.operator(ctx)
	if err != nil {
		return nil, err
	}
	defer o.pool.Close()
	script, err := b.runSteps(ctx, "by hand", []step{
		o.upgradeByScript(b, upgradedTwice, definitions, o.membersThenReplicas),
		o.upgradeByScript(b, upgradedOnce, definitions, o.machineByMachine),
		o.fastUpgradeByScript(b, definitions),
	})
	took.add(script)
	return took, err
}

// upgrade returns the step with Terraform.
func (b *bench) upgrade() step {
	return step{
		name:   upgraded,
		leaves: few,
		before: func(ctx context.Context) error {
			if err := b.recreate(ctx); err != nil {
				return err
			}
			return b.wantRelease(newer)
		},
		act: func(ctx context.Context) error {
			_, err := b.work.Apply(ctx, b.log)
			return err
		},
		after: func(ctx context.Context) error { return b.checkVersions(ctx, newer) },
	}
}

// recreate creates a control plane of three at the older release, on machines that have the
// programs of both.
func (b *bench) recreate(ctx context.Context) error {
	if _, err := b.work.Apply(ctx, io.Discard, "-destroy"); err != nil {
		return err
	}
	if err := b.prepare(ctx, b.first(few), older, newer); err != nil {
		return err
	}
	if err := b.wantRelease(older); err != nil {
		return err
	}
	if _, err := b.work.Apply(ctx, io.Discard); err != nil {
		return err
	}
	if err := b.waitForHealthy(ctx, few); err != nil {
		return err
	}
	return b.checkVersions(ctx, older)
}

// wantRelease writes Terraform's variables for a control plane of three.
func (b *bench) wantRelease(r workspace.Release) error {
	variables, err := r.Variables()
	if err != nil {
		return err
	}
	variables["machines"] = b.work.Machines(few)
	return b.work.WriteJSON("terraform.tfvars.json", variables)
}

// checkVersions returns what runs another version than the release, or nil.
func (b *bench) checkVersions(ctx context.Context, r workspace.Release) error {
	etcd, kubernetes, err := r.Versions()
	if err != nil {
		return err
	}
	for _, m := range b.first(few) {
		if err := run(ctx, m, with(variables(m),
			with(map[string]string{"etcd": etcd, "kubernetes": kubernetes}, versionsScript))); err != nil {
			return fmt.Errorf("etcd %s with Kubernetes %s does not run: %w", etcd, kubernetes, err)
		}
	}
	return nil
}

// definitions returns the units of the newer release by machine and name, which an operator has
// written before the upgrade begins.
func (b *bench) definitions(ctx context.Context) (map[string]map[string]string, error) {
	all := map[string]map[string]string{}
	for _, m := range b.first(few) {
		all[m.Name] = map[string]string{}
		for _, unit := range append([]string{"etcd"}, components...) {
			text, err := m.Run(ctx, "cat "+unitFile(unit))
			if err != nil {
				return nil, fmt.Errorf("read the definition of %s on %s: %w", unit, m.Name, err)
			}
			all[m.Name][unit] = text
		}
	}
	return all, nil
}

func unitFile(unit string) string { return "/etc/systemd/system/" + unit + ".service" }

// leading returns the one of three machines whose member is the leader.
func (b *bench) leading(ctx context.Context) (*lab.Machine, error) {
	for _, m := range b.first(few) {
		leads, err := leads(ctx, m)
		if err != nil {
			return nil, err
		}
		if leads {
			return m, nil
		}
	}
	return nil, fmt.Errorf("no member of %d says that it leads", few)
}
