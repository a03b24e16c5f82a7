package etcd

import (
	"context"
	"fmt"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// last stops the only member. This ends the cluster, so a snapshot with its integrity hash
// is saved in the archive first, even if the data is wiped. If the database is damaged,
// the data directory itself is archived, or the member stays. If there is no room for the
// snapshot, the member stays too.
func (l *removal) last(ctx context.Context, v membership.View, id uint64) error {
	entry, _ := v.Member(id)
	place, err := machine.LastPlace(ctx, l.cl.machine(l.s.Host), l.s.Spec, entry.DBSize)
	if err != nil {
		return refusal("etcd member not deleted", l.s, &v, "it is the last voting member, and its final snapshot cannot be saved: "+err.Error(),
			problem.Nothing, "free space there (for example by removing older archives), then destroy again")
	}
	l.cl.noteExists("the removal of the last member, " + l.s.Name)
	problem.Progress(ctx, "etcd %s: last member: saving a final snapshot", l.s.Name)
	saved, err := l.snapshot(ctx, place)
	switch {
	case err == nil:
		problem.Progress(ctx, "etcd %s: saved and verified the final snapshot (%s, revision %d)", l.s.Name, membership.Bytes(saved.Size), saved.Revision)
	case ctx.Err() != nil:
		return fmt.Errorf("save the final snapshot of %s: %w", l.s.Label(), err)
	case l.s.OnDestroy == machine.Wipe:
		return &problem.Problem{
			Summary: "etcd member not deleted", Host: l.s.Label(), Err: err, Unchanged: "the member still serves, and its data was not changed.",
			Cause: "it is the last voting member, and no verified snapshot could be saved: " + err.Error(),
			Next:  `fix the cause and destroy again; or set on_destroy = "archive" and apply, which keeps its data directory instead`,
		}
	default:
		problem.Progress(ctx, "etcd %s: no snapshot could be saved, the data directory is archived without one: %s", l.s.Name, err)
	}
	return l.clean(ctx, false)
}

// snapshot saves the last snapshot in a directory.
func (l *removal) snapshot(ctx context.Context, dir string) (snapshot.Saved, error) {
	m := l.cl.machine(l.s.Host)
	a := machine.Action{
		Verb: machine.SaveSnapshot, DataDir: l.s.Directory(), Member: l.s.Name,
		Save: snapshot.Save{Dir: dir, File: machine.LastSnapshot, ClientURL: l.s.ClientURL(), Tools: machine.ArtifactDir(l.s.Version)},
	}
	if at, _, err := machine.Identify(ctx, m, l.s.Bundle.ClusterID); err == nil {
		a.Save.Tools = at.Tools // those of the running version
	}
	return l.cl.snapshot(ctx, m, l.s.Label(), a)
}
