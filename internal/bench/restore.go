package bench

import (
	"context"
	"fmt"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
)

// The two ways back of a cluster that is lost: all members have lost their data, or two of three have. Each is measured
// as `terraform apply` and by hand, from the moment at which the loss is known until three members serve.
const (
	restored  = "restore of a snapshot"
	recovered = "recovery from one survivor of three"
)

// The two ways to restore a snapshot by hand that is on one machine: all members from copies of it, or one from the
// file and the others as learners, which get the data from it.
const (
	byCopies   = "restore of all members from copies of a snapshot"
	byLearners = "restore of one member, then learners"
)

// servesWithin is how long three members may take to serve 1 GB again, in seconds.
const servesWithin = 60

// named returns the name of a step with a database, as tools/plots reads it.
func (d database) named(step string) string { return fmt.Sprintf("%s, database of %s", step, d.size) }

// restores measures both ways with databases of all sizes.
func (b *bench) restores(ctx context.Context) ([]Result, error) {
	if err := b.renewMembers(ctx, few); err != nil {
		return nil, err
	}
	if err := b.wantMembers(b.work.Machines(few), nil, nil); err != nil {
		return nil, err
	}
	if _, err := b.work.Apply(ctx, b.log); err != nil { // certificates, units
		return nil, err
	}
	var results []Result
	for _, size := range b.sizes {
		measured, err := b.restoresOf(ctx, size)
		results = append(results, measured...)
		if err != nil {
			return results, fmt.Errorf("%s: %w", size, err)
		}
	}
	return results, nil
}

// restoresOf measures both ways with a database of one size.
func (b *bench) restoresOf(ctx context.Context, size Size) ([]Result, error) {
	if err := b.lose(ctx, b.first(few)...); err != nil { // makes room too
		return nil, err
	}
	d, err := b.fill(ctx, size)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(b.log, "database of %s\n", size)
	all, err := b.inRounds(size.rounds(), func(round int) (times, error) { return b.restoreRound(ctx, d, round) })
	if len(all) == 0 {
		return nil, err
	}
	return compareRestores(d, all), err
}

// restoreRound measures both ways with Terraform and by hand. Each step begins with what the one before has left.
func (b *bench) restoreRound(ctx context.Context, d database, round int) (times, error) {
	o, err := b.operator(ctx)
	if err != nil {
		return nil, err
	}
	defer o.pool.Close()
	survivor, lost := o.three[few-1], o.three[:few-1]
	terraform, err := b.runSteps(ctx, "terraform", []step{
		b.recover(d, restored, round, map[string]any{"snapshot": snapshotFile}, o.three),
		b.recover(d, recovered, round, map[string]any{"member": survivor.Name}, lost),
	})
	if err != nil {
		return nil, err
	}
	byHand, err := b.runSteps(ctx, "by hand", []step{
		o.recoverByScript(b, d, survivor, lost), o.restoreOneByScript(b, d, round), o.restoreAllByScript(b, d, round),
	})
	took := terraform.by("terraform")
	took.add(byHand.by("by hand"))
	return took, err
}

// recover returns the step with Terraform: an apply with the source of a restore.
func (b *bench) recover(d database, name string, round int, source map[string]any, lost []*lab.Machine) step {
	return step{
		name: d.named(name),
		before: func(ctx context.Context) error {
			if err := b.onEach(ctx, b.first(few)[len(lost):], survivorScript); err != nil {
				return err
			}
			if err := b.lose(ctx, lost...); err != nil {
				return err
			}
			source["id"] = fmt.Sprintf("%d-%d-%d", d.size, round, len(lost)) // each is done once
			return b.wantMembers(b.work.Machines(few), nil, source)
		},
		act: func(ctx context.Context) error {
			_, err := b.work.Apply(ctx, b.log)
			return err
		},
		after: func(ctx context.Context) error { return b.served(ctx, d, b.first(few)) },
	}
}

// lose makes members lose their data. Nothing that was written before is still to be flushed afterwards, and the
// archives of earlier steps are removed.
func (b *bench) lose(ctx context.Context, machines ...*lab.Machine) error {
	if err := b.onEach(ctx, machines, loseScript); err != nil {
		return err
	}
	return b.onEach(ctx, b.first(few), "rm -rf /var/lib/etcd-archive\nsync")
}

// restoreAllByScript returns the restore by hand of all members at the same time, each from its copy of the snapshot,
// which is copied first. Nothing looks at the data before it serves.
func (o operator) restoreAllByScript(b *bench, d database, round int) step {
	others := o.three[1:]
	return step{
		name:   d.named(byCopies),
		before: func(ctx context.Context) error { return b.lose(ctx, o.three...) },
		act: func(ctx context.Context) error {
			if err := b.copySnapshot(ctx, others); err != nil {
				return err
			}
			return o.do(ctx, action{o.three, restoreMember(b.initialCluster(), fmt.Sprintf("all-%d", round))})
		},
		after: func(ctx context.Context) error {
			if err := b.onEach(ctx, others, "rm "+snapshotFile); err != nil {
				return err
			}
			return b.served(ctx, d, o.three)
		},
	}
}

// restoreOneByScript returns the restore by hand of the member that has the snapshot, which the others join one after
// the other, as etcd requires. Nothing looks at the data before it serves.
func (o operator) restoreOneByScript(b *bench, d database, round int) step {
	first := o.three[0]
	alone := fmt.Sprintf("%s=https://%s:2380", first.Name, first.Address)
	actions := []action{{o.three[:1], restoreMember(alone, fmt.Sprintf("one-%d", round))}}
	for _, m := range o.three[1:] {
		actions = append(actions, action{[]*lab.Machine{m}, joinMember(first)})
	}
	actions = append(actions, action{o.three, servingScript})
	return step{
		name:   d.named(byLearners),
		before: func(ctx context.Context) error { return b.lose(ctx, o.three...) },
		act:    func(ctx context.Context) error { return o.do(ctx, actions...) },
		after:  func(ctx context.Context) error { return b.served(ctx, d, o.three) },
	}
}

// restoreMember restores the machine's member from the snapshot, as one of a cluster with its own token.
func restoreMember(cluster, token string) string {
	return with(map[string]string{"snapshot": snapshotFile, "cluster": cluster, "token": token}, restoreScript)
}

// recoverByScript returns the recovery by hand: the survivor forgets the other members, which then join one after the
// other, as etcd requires. Its data is copied aside first, as that of the provider is. The cluster keeps its ID and its
// revisions.
func (o operator) recoverByScript(b *bench, d database, survivor *lab.Machine, lost []*lab.Machine) step {
	actions := []action{{[]*lab.Machine{survivor}, surviveScript}}
	for _, m := range lost {
		actions = append(actions, action{[]*lab.Machine{m}, joinMember(survivor)})
	}
	actions = append(actions, action{o.three, servingScript})
	return step{
		name:   d.named(recovered),
		before: func(ctx context.Context) error { return b.lose(ctx, lost...) },
		act:    func(ctx context.Context) error { return o.do(ctx, actions...) },
		after:  func(ctx context.Context) error { return b.served(ctx, d, o.three) },
	}
}

// compareRestores compares Terraform's times with those by hand, and those of 1 GB with the goal. The reference of a
// restore is the faster way by hand.
func compareRestores(d database, all times) []Result {
	copies, learners := all["by hand: "+d.named(byCopies)], all["by hand: "+d.named(byLearners)]
	scripts := map[string]series{restored: learners, recovered: all["by hand: "+d.named(recovered)]}
	if copies.median() < learners.median() {
		scripts[restored] = copies
	}
	results := []Result{
		ratioTo("by hand, "+d.named(byLearners)+", against all members from copies", learners, copies, "s"),
	}
	for _, name := range []string{restored, recovered} {
		apply := all["terraform: "+d.named(name)]
		results = append(results,
			ratio("terraform apply, "+d.named(name)+", against a script", apply, scripts[name], 1.3, "s"))
		if d.size == gigabyte {
			results = append(results, atMost("three members serve again: terraform apply, "+d.named(name), apply, servesWithin,
				"s"))
		}
	}
	return results
}
