package etcd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// restore makes the seed the only member of a new cluster with the restored data. Until
// the new data is known to be good, nothing is changed that cannot be undone; then nothing
// of the old cluster stays that could start again, and only then the new one starts.
func (cl *cluster) restore(ctx context.Context, seed Spec, s observation) (Status, error) {
	m := cl.machine(seed.Host)
	if err := machine.Install(ctx, m, seed.Spec, s.of(seed)); err != nil {
		return Status{}, err
	}
	staged, err := cl.stage(ctx, seed, s)
	if err != nil {
		return Status{}, err
	}
	s, err = cl.stillLost(ctx, seed)
	if err != nil {
		return Status{}, errors.Join(err, machine.Unstage(ctx, m, seed.Spec, staged))
	}
	problem.Progress(ctx, "etcd %s: restoring %s: %s", seed.Name, seed.Restore.Source(), staged)
	seed = withSilent(seed, append(s.sorted(), cl.noteUnnamed(nil)...))
	if err := cl.retireAll(ctx, seed, s); err != nil {
		return Status{}, err
	}
	id := staged.ID(seed.Spec)
	if _, err := m.Change(ctx, machine.PlaceChange(seed.Spec, id), machine.PlaceAction(seed.Spec)); err != nil {
		return Status{}, unfinished(seed, fmt.Errorf("put the restored data in place: %w", err))
	}
	// What was given up may have come back meanwhile.
	d, s, err := cl.decideInTime(ctx, map[string]Spec{seed.Name: seed}, cl.observeCluster(ctx, seed))
	if err != nil {
		return Status{}, unfinished(seed, err)
	}
	// If the seed does not answer, nothing is known of the restore. startRestored says why.
	if s.of(seed).Reached() && d.Case != restoreContinue {
		return Status{}, refusal(notCompleted, seed, nil, d.Reason, keptByRestore, d.Next)
	}
	return cl.startRestored(ctx, seed, s)
}

// stage makes the data and checks it.
func (cl *cluster) stage(ctx context.Context, seed Spec, s observation) (machine.Staged, error) {
	m, r := cl.machine(seed.Host), seed.Restore
	refuse := func(cause, next string, detail ...string) error {
		p := &problem.Problem{
			Summary: notRestored, Host: seed.Label(), Cause: cause, Unchanged: "the data of every member.", Next: next,
			Detail: strings.Join(detail, "\n"),
		}
		return p
	}
	there, err := machine.IsStaged(ctx, m, seed.Spec)
	if err != nil {
		return machine.Staged{}, notObserved(notRestored, seed, err)
	}
	if r.Member != "" && !there {
		survivors := cl.positions(ctx, seed, s)
		if !s.of(seed).Data {
			return machine.Staged{}, refuse("member "+r.Member+" has no data", "name a survivor or a snapshot in restore",
				survivorTable(survivors))
		}
		if cause := learnerProblem(survivors, r.Member); cause != "" {
			return machine.Staged{}, refuse(cause, learnerNext, survivorTable(survivors))
		}
		if next := forwardingNext(survivors); next != "" {
			return machine.Staged{}, refuse("members may know more of the cluster's log than member "+r.Member+
				", and cannot be asked: "+host.ErrForwarding.Error(), next, survivorTable(survivors))
		}
		if more := fresher(survivors, r.Member); len(more) > 0 && !r.AcceptOlder {
			return machine.Staged{}, refuse(fmt.Sprintf("member %s knows less of the cluster's log than %s does", r.Member,
				more[0].Name), fresherNext(survivors, r.Member), survivorTable(survivors))
		}
		if silent := quiet(survivors, r.Member); len(silent) > 0 && !r.AcceptOlder {
			return machine.Staged{}, refuse(fmt.Sprintf("member %s has data and does not answer, so it may know more of the "+
				"cluster's log than member %s does: %s", silent[0].Name, r.Member, problem.Line(silent[0].Err.Error())),
				"look at its log there ("+seed.LogCommand()+"); set accept_older = true in restore if its data is not usable",
				survivorTable(survivors))
		}
	}
	if r.File != "" && !there {
		if err := cl.send(ctx, seed); err != nil {
			return machine.Staged{}, refuse(err.Error(), "correct this, then apply again")
		}
	}
	identity, err := identityOf(r)
	if err != nil {
		return machine.Staged{}, refuse(err.Error(), "correct identity_file in restore, then apply again")
	}
	problem.Progress(ctx, "etcd %s: verifying %s", seed.Name, r.Source())
	staged, err := machine.Stage(ctx, m, seed.Spec, membership.NewToken(seed.Bundle.ClusterID), identity)
	if err != nil {
		next := "correct this or choose another source in restore, then apply again"
		if r.Bucket != "" && r.IdentityFile == "" {
			next += "; if the snapshot is encrypted, set identity_file"
		}
		return machine.Staged{}, refuse(err.Error(), next)
	}
	problems := append(emptiness(r, staged), misfits(seed.Bundle, staged, r.AcceptOtherCA)...)
	if len(problems) > 0 {
		return machine.Staged{}, errors.Join(refuse(strings.Join(problems, "; "),
			"use a snapshot of this cluster, or the bundle that the cluster had when it was saved"),
			machine.Unstage(ctx, m, seed.Spec, staged))
	}
	return staged, nil
}

// identityOf reads the age identity of a restore; nil if it has none. Its errors quote no identity that is set in place
// of the path.
func identityOf(r *machine.Restore) ([]byte, error) {
	if r.IdentityFile == "" {
		return nil, nil
	}
	err := pki.ValidateSecretFile(r.IdentityFile)
	var text []byte
	if err == nil {
		text, err = os.ReadFile(r.IdentityFile)
	}
	if err != nil {
		return nil, fmt.Errorf("read the age identity: %w", err)
	}
	return text, nil
}

// send stores the operator's file on the machine.
func (cl *cluster) send(ctx context.Context, seed Spec) error {
	file, err := os.Open(seed.Restore.File)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it was only read
	info, err := file.Stat()
	if err != nil {
		return err
	}
	problem.Progress(ctx, "etcd %s: sending %s", seed.Name, seed.Restore.File)
	return machine.Receive(ctx, cl.machine(seed.Host), seed.Spec, file, info.Size())
}

// knowsItselfAsLearner asks the member at an address, which answers no client, at its peer port.
func knowsItselfAsLearner(ctx context.Context, clients *client.Clients, address string) bool {
	list, err := clients.PeerMembers(ctx, address)
	if err != nil {
		return false
	}
	entry, listed := list.ByPeerURL(membership.PeerURL(address))
	return listed && entry.Learner
}

// positions asks every machine with data how much of the log its member has.
func (cl *cluster) positions(ctx context.Context, one Spec, s observation) []survivor {
	clients, err := cl.connect(one)
	known := cl.machines()
	var out []survivor
	for _, m := range s.sorted() {
		if !m.Reached() || !m.Data {
			continue
		}
		is := survivor{Name: m.Name, Address: m.Address, Err: err}
		if err == nil {
			var at client.Position
			at, is.Err = clients.Position(ctx, m.Address)
			is.Term, is.Index, is.Revision, is.Learner = at.Term, at.Index, at.Revision, at.Learner
			if is.Err != nil && m.Running() {
				is.Learner = knowsItselfAsLearner(ctx, clients, m.Address)
			}
		}
		if is.Err != nil && m.Running() {
			index, revision, err := machine.LocalPosition(ctx, cl.machine(known[m.Address].host))
			if err == nil || errors.Is(err, host.ErrForwarding) {
				is.Index, is.Revision, is.Err = index, revision, err
			}
		}
		out = append(out, is)
	}
	if err == nil {
		clients.Close()
	}
	return out
}

// stillLost observes everything again after the time that staging has taken.
func (cl *cluster) stillLost(ctx context.Context, seed Spec) (observation, error) {
	if err := cl.lease.leases.Restore(ctx); err != nil {
		return observation{}, refusedBy(err, notRestored, seed, nil, err.Error(), "the data of every member.",
			"wait until other runs have ended, then apply again")
	}
	cl.leaderless.Forget()
	s := cl.observeCluster(ctx, seed)
	if d := cl.decideRestore(ctx, seed, s, true); d.Case != restoreRun {
		if d.Case != restoreRefuse {
			d.Reason = "another run has begun or completed the restore " + seed.Restore.ID + " in the meantime"
			d.Next = "wait until other runs have ended, then apply again"
		}
		return s, refusal(notRestored, seed, nil, d.Reason, "the data of every member.", d.Next)
	}
	return s, nil
}

// retireAll stops the replicas and the members on all machines and archives the members'
// data, so that nothing of the old cluster starts again, not even after a power cut. Their records
// say then that a restore was begun, so that no empty cluster is bootstrapped if the machine with
// the staged data is lost.
func (cl *cluster) retireAll(ctx context.Context, seed Spec, s observation) error {
	known := cl.machines()
	others := map[string]machine.Observed{}
	for _, m := range s.sorted() {
		if m.Reached() {
			others[m.Address] = m
		}
	}
	if seed.StopReplica != nil {
		if err := eachOf(others, func(address string, _ machine.Observed) error {
			return seed.StopReplica(ctx, known[address].host)
		}); err != nil {
			return replicasNotStopped(seed, err)
		}
	}
	retire := func(address string, m machine.Observed) error {
		if m.Empty() {
			return nil
		}
		problem.Progress(ctx, "etcd %s: archiving its data", m.Name)
		spec := seed.Spec
		spec.Name, spec.Host, spec.DataDir = m.Name, known[address].host, m.DataDir
		return machine.RetireForRestore(ctx, cl.machine(spec.Host), spec, m)
	}
	own := others[seed.Host.Address()]
	delete(others, seed.Host.Address())
	if err := eachOf(others, retire); err != nil {
		return unfinished(seed, err)
	}
	if err := retire(seed.Host.Address(), own); err != nil { // the survivor last
		return unfinished(seed, err)
	}
	return nil
}

// withSilent returns the seed with the machines that did not answer, which its record names from now on.
func withSilent(seed Spec, machines []machine.Observed) Spec {
	r := *seed.Restore
	r.Silent = map[string]string{}
	for _, m := range machines {
		if !m.Reached() {
			r.Silent[m.Address] = ""
			if machine.ValidateName(m.Name) == nil {
				r.Silent[m.Address] = m.Name
			}
		}
	}
	seed.Restore = &r
	return seed
}

// startRestored starts the seed on its new data and completes the restore.
func (cl *cluster) startRestored(ctx context.Context, seed Spec, s observation) (Status, error) {
	m, f := cl.machine(seed.Host), s.of(seed)
	if !f.Reached() || f.Record == nil {
		return Status{}, unfinished(seed, fmt.Errorf("observe %s: %w", seed.Label(), errors.Join(f.Err, f.RecordErr)))
	}
	seed.Spec = seed.KeepRestored(f)
	id := machine.ID{Member: f.Record.ID(), Cluster: membership.ParseID(f.Record.EtcdCluster)}
	if err := machine.Install(ctx, m, seed.Spec, f); err != nil {
		return Status{}, err
	}
	certs, err := machine.Certificates(seed.Spec, f, time.Now())
	if err != nil {
		return Status{}, err
	}
	if entry, listed := s.view.Member(id.Member); !listed || !entry.Healthy {
		change, timers := machine.StartRestoredChange(seed.Spec, f, certs, id)
		problem.Progress(ctx, "etcd %s: starting with the restored data", seed.Name)
		if _, err := m.Change(ctx, change, seed.startAction(timers)); err != nil {
			return Status{}, unfinished(seed, fmt.Errorf("start etcd on %s: %w", seed.Label(), err))
		}
	}
	return cl.completeRestore(ctx, seed, id, certs.Pairs)
}

// completeRestore waits for the seed, removes what the data says about the time before, and
// records that the restore is done.
func (cl *cluster) completeRestore(
	ctx context.Context, seed Spec, id machine.ID, pairs map[string]string,
) (Status, error) {
	clients, err := cl.connect(seed)
	if err != nil {
		return Status{}, err
	}
	defer clients.Close()
	v, err := cl.waitHealthy(ctx, clients, seed, id.Member)
	if err != nil {
		return Status{}, err
	}
	if alarms := membership.Disarmable(v.WithQuota(seed.Quota())); len(alarms) > 0 {
		err = disarmAfterComparison(ctx, clients, cl.pace, v, alarms)
	}
	if entry, _ := v.Member(id.Member); err == nil && !slices.Contains(entry.PeerURLs, seed.PeerURL()) {
		// Its data was made at another address. The others can only join it at its own.
		err = setPeerURL(ctx, clients, seed.Host.Address(), v, id.Member, seed.PeerURL())
	}
	if err == nil {
		err = clients.ForgetAPIServers(ctx, seed.Host.Address())
	}
	if err == nil { // before the restore is recorded as done: it would not be continued
		err = cl.forgetRetired(ctx, seed)
	}
	if err == nil {
		_, err = cl.machine(seed.Host).Change(ctx, machine.RestoredChange(seed.Spec, id, pairs),
			machine.RestoredAction(seed.Spec))
	}
	if err != nil {
		return Status{}, unfinished(seed, err)
	}
	cl.noteExists("the restore " + seed.Restore.ID)
	cl.noteRestored(id.Cluster)
	problem.Progress(ctx, "etcd %s: serves the restored data", seed.Name)
	return cl.statusNow(ctx, clients, seed)
}

// forgetRetired removes the records of retired members from the machines that are not in peers. The other
// machines keep the record until their members have joined: it says that they had data.
func (cl *cluster) forgetRetired(ctx context.Context, seed Spec) error {
	retired, peers := map[string]machine.Observed{}, map[string]bool{}
	for _, address := range hostAddresses(seed.Peers) {
		peers[address] = true
	}
	for _, m := range cl.observeAll(ctx, seed) {
		if m.Retired() != "" && m.Record.ClusterID == seed.Bundle.ClusterID && !peers[m.Address] {
			retired[m.Address] = m
		}
	}
	known := cl.machines()
	return eachOf(retired, func(address string, m machine.Observed) error {
		return machine.ForgetRetired(ctx, cl.machine(known[address].host), m)
	})
}

// replicasNotStopped returns the problem of a restore that ends before any data is archived, because a replica does not
// stop. A survivor was stopped when its data was copied.
func replicasNotStopped(seed Spec, err error) error {
	unchanged := "the data of every member. API servers on the machines of members may be stopped"
	if seed.Restore.Member != "" {
		unchanged += ", and etcd on " + seed.Label() + " is stopped"
	}
	return &problem.Problem{
		Summary: notCompleted, Host: seed.Label(), Cause: err.Error(), Err: err, Unchanged: unchanged + ".",
		Next: "correct the cause and apply again: the restore continues where it stopped",
	}
}

// notCompleted and keptByRestore describe a restore that has archived data of members and is not complete.
const (
	notCompleted  = "etcd restore not completed"
	keptByRestore = "the source of the restore; data of former members is in the archives on their machines."
)

// unfinished returns the problem of a restore that the next apply continues.
func unfinished(seed Spec, err error) error {
	return &problem.Problem{
		Summary: notCompleted, Host: seed.Label(), Cause: err.Error(), Err: err, Unchanged: keptByRestore,
		Next: "correct the cause and apply again: the restore continues where it stopped",
	}
}
