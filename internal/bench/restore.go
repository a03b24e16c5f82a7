package bench

import (
	"context"
	"fmt"
	"strconv"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
)

// The two ways back of a cluster that is lost: all members have lost their data, or two of three have. Each is measured
// as `terraform apply` and by hand, from the moment at which the loss is known until three members serve.
const (
	restored  = "restore of a snapshot"
	recovered = "recovery from one survivor of three"
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
		if err := b.lose(ctx, b.first(few)...); err != nil { // makes room too
			return nil, err
		}
		d, err := b.fill(ctx, size)
		if err != nil {
			return nil, err
		}
		all := times{}
		for round := range rounds {
			fmt.Fprintf(b.log, "%s, round %d of %d\n", size, round+1, rounds)
			if err := b.restoreRound(ctx, d, round, all); err != nil {
				return nil, fmt.Errorf("%s, round %d: %w", size, round+1, err)
			}
		}
		results = append(results, compareRestores(d, all)...)
	}
	return results, nil
}

// restoreRound measures both ways with Terraform and by hand. Each step begins with what the one before has left.
func (b *bench) restoreRound(ctx context.Context, d database, round int, all times) error {
	o, err := b.operator(ctx)
	if err != nil {
		return err
	}
	defer o.pool.Close()
	survivor, lost := o.three[few-1], o.three[:few-1]
	terraform, err := b.runSteps(ctx, "terraform", []step{
		b.recover(d, restored, round, map[string]any{"snapshot": snapshotFile}, o.three),
		b.recover(d, recovered, round, map[string]any{"member": survivor.Name}, lost),
	})
	if err != nil {
		return err
	}
	byHand, err := b.runSteps(ctx, "by hand", []step{
		o.recoverByScript(b, d, survivor, lost), o.restoreByScript(b, d, round),
	})
	all.add(terraform.by("terraform"))
	all.add(byHand.by("by hand"))
	return err
}

// recover returns the step with Terraform: an apply with the source of a restore.
func (b *bench) recover(d database, name string, round int, source map[string]any, lost []*lab.Machine) step {
	return step{
		name: d.named(name),
		before: func(ctx context.Context) error {
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

// restoreByScript returns the restore by hand: the snapshot is on all machines already, and all members are restored
// from it at the same time. It is a lower bound, because nothing looks at the data before it serves.
func (o operator) restoreByScript(b *bench, d database, round int) step {
	others := o.three[1:]
	return step{
		name: d.named(restored),
		before: func(ctx context.Context) error {
			if err := b.lose(ctx, o.three...); err != nil {
				return err
			}
			return b.copySnapshot(ctx, others)
		},
		act: func(ctx context.Context) error {
			return o.do(ctx, action{o.three, with(map[string]string{
				"snapshot": snapshotFile, "cluster": b.initialCluster(), "round": strconv.Itoa(round),
			}, restoreScript)})
		},
		after: func(ctx context.Context) error {
			if err := b.onEach(ctx, others, "rm "+snapshotFile); err != nil {
				return err
			}
			return b.served(ctx, d, o.three)
		},
	}
}

// recoverByScript returns the recovery by hand: the survivor forgets the other members, which then join one after the
// other, as etcd requires. The cluster keeps its ID and its revisions, so nothing is copied on the survivor.
func (o operator) recoverByScript(b *bench, d database, survivor *lab.Machine, lost []*lab.Machine) step {
	actions := []action{{[]*lab.Machine{survivor}, surviveScript}}
	for _, m := range lost {
		actions = append(actions, action{[]*lab.Machine{m}, joinMember(survivor)})
	}
	return step{
		name:   d.named(recovered),
		before: func(ctx context.Context) error { return b.lose(ctx, lost...) },
		act:    func(ctx context.Context) error { return o.do(ctx, actions...) },
		after:  func(ctx context.Context) error { return b.served(ctx, d, o.three) },
	}
}

// compareRestores compares Terraform's times with those by hand, and those of 1 GB with the goal.
func compareRestores(d database, all times) []Result {
	var results []Result
	for _, name := range []string{d.named(restored), d.named(recovered)} {
		apply, script := all["terraform: "+name], all["by hand: "+name]
		results = append(results, ratio("terraform apply, "+name+", against a script", apply, script, 1.3, "s"))
		if d.size == gigabyte {
			results = append(results, atMost("three members serve again: terraform apply, "+name, apply, servesWithin, "s"))
		}
	}
	return results
}
