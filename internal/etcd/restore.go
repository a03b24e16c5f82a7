package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

const notRestored = "etcd cluster not restored"

// beginRestore does what the restore that a batch requests means now. nil means that it
// was done before, so that the batch starts as always.
func (cl *cluster) beginRestore(ctx context.Context, specs map[string]Spec, s observation) map[string]outcome {
	one := First(specs)
	d, s, err := cl.decideInTime(ctx, specs, s)
	if err != nil { // an earlier run may have begun it
		return all(specs, outcome{err: kept{err}})
	}
	switch d.Case {
	case restoreDone:
		return nil
	case restoreContinue:
		seed, here := specs[d.Seed]
		switch {
		case here:
			problem.Progress(ctx, "etcd %s: continuing the restore %s", seed.Name, one.Restore.ID)
			return restored(specs, seed, func() (Status, error) { return cl.startRestored(ctx, seed, s) })
		case s.answered:
			return all(specs, outcome{join: true})
		}
		d.Reason = "an earlier run has begun it on the machine of " + d.Seed + ", which is not part of this run"
		d.Next = "apply all members together"
	case restoreRun:
		seed, err := cl.seed(ctx, specs)
		if err != nil {
			return all(specs, outcome{err: err})
		}
		return restored(specs, seed, func() (Status, error) { return cl.restore(ctx, seed, s) })
	}
	return all(specs, outcome{err: refusal(notRestored, one, nil, d.Reason, problem.Nothing, d.Next)})
}

// decideInTime decides about a restore after members that may get a quorum had the time for it. It returns what it has
// observed last.
func (cl *cluster) decideInTime(
	ctx context.Context, specs map[string]Spec, s observation,
) (restoreDecision, observation, error) {
	one := First(specs)
	d := cl.decideRestore(ctx, one, s, false)
	var err error
	switch d.Case {
	case restoreResume:
		s, err = cl.resumeAll(ctx, specs, s)
	case restoreAwait:
		s, err = cl.awaitFormer(ctx, one)
	default:
		return d, s, nil
	}
	if err != nil {
		return d, s, err
	}
	return cl.decideRestore(ctx, one, s, true), s, nil
}

// all returns the same outcome for all members of a batch.
func all(specs map[string]Spec, o outcome) map[string]outcome {
	results := map[string]outcome{}
	for name := range specs {
		results[name] = o
	}
	return results
}

// restored runs a restore on the seed. The other members join it.
func restored(specs map[string]Spec, seed Spec, run func() (Status, error)) map[string]outcome {
	status, err := run()
	if err != nil {
		return all(specs, outcome{err: kept{err}})
	}
	results := all(specs, outcome{join: true})
	results[seed.Name] = outcome{status: status}
	return results
}

// decideRestore applies the pure rule, and what only this process knows: the machines on
// which it has leases. Before a restore, the survivors are asked for voters on machines that nobody has named, and the
// machines are searched for volumes of members that are not mounted. resumed: running members had the time for an
// election.
func (cl *cluster) decideRestore(ctx context.Context, one Spec, s observation, resumed bool) restoreDecision {
	in := restoreInput{
		ID: one.Restore.ID, Cluster: one.Bundle.ClusterID, Machines: s.sorted(),
		Unasked: cl.unasked(ctx, s), Abandoned: one.Abandoned, Resumed: resumed,
	}
	in.Serves, in.Served = cl.serves(ctx, s)
	d := decideRestore(in)
	if d.Case == restoreAwait && resumed {
		var unasked []string
		in.Lists, unasked = cl.ownLists(ctx, one, s)
		in.Unasked = cmp.Or(in.Unasked, strings.Join(unasked, ", "))
		return decideRestore(in)
	}
	if d.Case == restoreRun {
		d = decideRestore(cl.askSurvivors(ctx, one, s, in))
	}
	if d.Case != restoreRun {
		return d
	}
	for _, m := range s.sorted() {
		if m.Reached() && !cl.lease.leases.Covers(m.Address) {
			return restoreDecision{
				Reason: "other runs could change the same cluster at the same time: there is no lease on " + m.Label() +
					", which may answer only since this run began",
				Next: "apply again, which sees whether the cluster serves with that machine; if another run is under way, " +
					"wait until it has ended",
			}
		}
	}
	switch members, err := cl.unmountedMembers(ctx, one.Bundle.ClusterID, s); {
	case err != nil:
		return restoreDecision{Reason: err.Error(), Next: accessRemedy(err)}
	case len(members) > 0:
		return restoreDecision{
			Reason: unmountedReason(members, "restored data"),
			Next:   "apply all members together, so that their volumes are mounted; " + unmountedNext,
		}
	}
	return d
}

// serves describes who serves the cluster; "" if nobody does. A member whose answer this
// process cannot read, for example because it trusts other certificates, is asked on its
// machine, without TLS. id is the etcd cluster that is served; 0 if that is not known.
func (cl *cluster) serves(ctx context.Context, s observation) (who string, id uint64) {
	if s.answered {
		if m, known := s.view.Member(s.view.Leader); known {
			return "its leader is " + m.Label(), s.view.ClusterID
		}
		return "its members answer", s.view.ClusterID
	}
	known := cl.machines()
	for _, m := range s.sorted() {
		if m.Reached() && m.Running() && machine.Serves(ctx, cl.machine(known[m.Address].host)) {
			if m.Record != nil {
				id = membership.ParseID(m.Record.EtcdCluster)
			}
			return "the member on " + m.Label() + " reports on its machine that it serves with a quorum", id
		}
	}
	return "", 0
}

// resumeAll starts the members that have data and are stopped, on all machines, and gives
// all members time to answer. Only the resource of a member can start one that has nothing but its volume.
func (cl *cluster) resumeAll(ctx context.Context, specs map[string]Spec, s observation) (observation, error) {
	one, known := First(specs), cl.machines()
	started := map[string]Spec{}
	for _, m := range s.sorted() {
		if m.Reached() && m.Data && !m.Running() && m.HasUnit() {
			started[m.Address] = Spec{Spec: machine.Spec{Name: m.Name, Host: known[m.Address].host}}
			problem.Progress(ctx, "etcd %s: starting it, to see whether the cluster still has a quorum", m.Name)
			if _, err := cl.machine(known[m.Address].host).Change(ctx, host.Change{},
				machine.Action{Verb: machine.Resume}); err != nil {
				return s, fmt.Errorf("start etcd on %s: %w", m.Label(), err)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(specs)) {
		if spec := specs[name]; spec.Volume != nil && s.of(spec).OnVolumeOnly() {
			started[spec.Host.Address()] = spec
			problem.Progress(ctx, "etcd %s: starting it on its volume, to see whether the cluster still has a quorum", name)
			if err := cl.startOnVolume(ctx, spec, s.of(spec)); err != nil {
				return s, err
			}
		}
	}
	var err error
	waited := true
	if len(started) > 0 {
		err = cl.waitAnswering(ctx, started, one)
	} else {
		waited, err = cl.waitForQuorum(ctx, one, s)
	}
	if err != nil || !waited {
		return s, err
	}
	return cl.observeCluster(ctx, one), nil
}

// seed returns the member whose machine the data is restored on. Unless the restore names a survivor, that is the
// machine on which an earlier run has staged the data: the snapshot may have been archived with the members' data.
func (cl *cluster) seed(ctx context.Context, specs map[string]Spec) (Spec, error) {
	specs = maps.Clone(specs)
	for name, s := range specs {
		specs[name] = identified(s)
	}
	one := First(specs)
	refuse := func(cause, next string) (Spec, error) {
		return Spec{}, refusal(notRestored, one, nil, cause, problem.Nothing, next)
	}
	if member := one.Restore.Member; member != "" {
		if seed, here := specs[member]; here {
			return seed, nil
		}
		return refuse(fmt.Sprintf("member %q of restore is not part of this run", member),
			"name a survivor, and "+togetherNext(specs))
	}
	staged := func(s Spec) (bool, error) { return machine.IsStaged(ctx, cl.machine(s.Host), s.Spec) }
	seed, there, err := firstWith(specs, staged)
	file := one.Restore.Snapshot
	if err != nil || there || file == "" {
		return seed, err
	}
	hasFile := func(s Spec) (bool, error) { return machine.HasFile(ctx, cl.machine(s.Host), file) }
	seed, there, err = firstWith(specs, hasFile)
	if err == nil && !there {
		return refuse("none of the machines of this run has "+file,
			"copy the snapshot to the machine of one member, and "+togetherNext(specs))
	}
	return seed, err
}

// togetherNext is the next step if the source of a restore may be that of a member that has not arrived. With
// -parallelism=1, it comes after this one has ended.
func togetherNext(specs map[string]Spec) string {
	next := "apply all members together"
	for name := range First(specs).Peers {
		if _, here := specs[name]; !here {
			return next + ", with the default -parallelism. If this run goes on to restore the member that has the data, " +
				"apply again"
		}
	}
	return next
}

// identified returns the member with the content of its restore's file identified. If this computer does not have the
// file, what was staged of it is used. If the file cannot be read, nothing is staged of it; stage reports why.
func identified(s Spec) Spec {
	if s.Restore.File == "" {
		return s
	}
	r := *s.Restore
	switch id, err := snapshot.FileID(r.File); {
	case err == nil:
		r.FileID = id
	case errors.Is(err, fs.ErrNotExist):
		r.FileID = machine.AnyContent
	}
	s.Restore = &r
	return s
}

// firstWith returns the first member, by name, on whose machine something is there, or the first of all.
func firstWith(specs map[string]Spec, has func(Spec) (bool, error)) (first Spec, there bool, err error) {
	for _, name := range slices.Sorted(maps.Keys(specs)) {
		s := specs[name]
		if there, err = has(s); err != nil {
			return Spec{}, false, notObserved(notRestored, s, err)
		}
		if there {
			return s, true, nil
		}
	}
	return First(specs), false, nil
}

// Misfits describes why restored data does not belong to the cluster of a bundle, as a restore refuses
// it.
func Misfits(b *pki.Bundle, data machine.Staged) []string { return misfits(b, data, false) }

// kept is the error of a restore that may have begun. Its members are not tainted: the next
// apply would destroy what this one has made.
type kept struct{ error }

func (k kept) Unwrap() []error { return []error{k.error, ErrAdopted} }
