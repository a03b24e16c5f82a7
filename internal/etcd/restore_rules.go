package etcd

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/staticpod"
)

// restoreCase is what a restore that the configuration requests means now.
type restoreCase int

const (
	restoreRefuse   restoreCase = iota
	restoreDone                 // it was completed before: the members join and start as always
	restoreRun                  // there is no quorum, and no machine that could have one is unknown
	restoreContinue             // an earlier run has begun it on Seed
	restoreResume               // members may only be stopped: start them, then decide again
	restoreAwait                // members of a former cluster run: give them time to elect a leader, then decide again
)

func (c restoreCase) String() string {
	return [...]string{"refuse", "done", "run", "continue", "resume", "await"}[c]
}

// restoreDecision is what to do about a restore.
type restoreDecision struct {
	Case   restoreCase
	Seed   string // of restoreContinue: the member whose machine has the restored data
	Reason string // of a refusal
	Next   string
}

// restoreInput is what the decision depends on.
type restoreInput struct {
	ID        string
	Cluster   string             // the bundle's cluster ID
	Machines  []machine.Observed // all that belong or have belonged to the cluster
	Serves    string             // who serves: a member list backed by a quorum, or its own health check; "": none
	Served    uint64             // its etcd cluster, by its member list or the record of that machine; 0: not known
	Unasked   string             // whose sshd forbids to ask the running members whether they serve; "": nobody's
	Abandoned host.Abandoned
	Resumed   bool // members with data were started, and had time to answer
	// Lists are the member lists that running members have in memory, by address. Nil: not asked yet.
	Lists map[string]membership.View
}

// decideRestore is the only place that can decide to restore a cluster, which gives up
// whatever its members still have.
//
// Safety argument: a cluster that serves is never restored over, and one that may serve is
// not either: every machine was reached, or the user has declared it lost. A restored
// cluster has a new identity, so a machine that comes back later belongs to another
// cluster, and its data is archived. A restore that was begun goes on only while nobody but
// what it has made serves, and no quorum of another cluster runs: machines that it has given
// up may be back, with a quorum of the former cluster, and clients would write to two. That
// a restore was done is in the record of every member, so the same configuration does
// nothing again, and a machine that joins later joins as always.
func decideRestore(in restoreInput) restoreDecision {
	if d, known := begunRestore(in); known {
		return d
	}
	if in.Serves != "" {
		return restoreDecision{
			Reason: "the cluster serves, and a cluster that serves is never replaced by older data: " + in.Serves +
				". No machine records that the restore " + in.ID + " was done",
			Next: "remove restore from the configuration. To go back to an earlier state on purpose, stop etcd on all " +
				"machines (of static pods, move etcd.yaml out of " + staticpod.Directory + ") and move the data directories " +
				"away, then apply again" + emptyInherited(in.Machines),
		}
	}
	if in.Unasked != "" {
		return refuseUnasked(in)
	}
	if different := machine.DifferentClusters(in.Machines); different != "" {
		return restoreDecision{Reason: different, Next: differentClustersNext}
	}
	var silent []machine.Observed
	var alien, unstarted []string
	stopped := false
	for _, m := range in.Machines {
		switch {
		case !m.Reached() && !in.Abandoned.Covers(m.Address, m.Err):
			silent = append(silent, m)
		case m.Reached() && m.Foreign(in.Cluster, m.DataDir) != "":
			alien = append(alien, m.Foreign(in.Cluster, m.DataDir))
		case m.Reached() && m.Data:
			stopped = true
			if m.OnVolumeOnly() {
				unstarted = append(unstarted, m.Label())
			}
		}
	}
	switch {
	case len(alien) > 0:
		return restoreDecision{
			Reason: strings.Join(alien, "; "),
			Next:   "if that data is not needed, move it away; otherwise use other machines",
		}
	case len(silent) > 0:
		return restoreDecision{
			Reason: "members may serve on machines that could not be reached: " + unreachedCauses(silent),
			Next:   silentNext(silent),
		}
	case stopped && !in.Resumed:
		return restoreDecision{Case: restoreResume}
	case len(unstarted) > 0:
		return restoreDecision{
			Reason: "members that may have a quorum have their data on volumes and are not started: " +
				strings.Join(unstarted, ", "),
			Next: "apply all members together, with their volumes; if that data is not needed, move it away",
		}
	}
	return restoreDecision{Case: restoreRun}
}

// emptyInherited is the next step if what serves may be the empty cluster of a member that runs from kubeadm's
// manifest; "" if there is none. The manifest of the machine of kubeadm init forms a cluster whenever there is no data.
func emptyInherited(machines []machine.Observed) string {
	var inherited []string
	for _, m := range machines {
		if m.Reached() && m.IsInherited() {
			inherited = append(inherited, m.Label())
		}
	}
	if len(inherited) == 0 {
		return ""
	}
	return ". If a member that runs from kubeadm's manifest (" + strings.Join(inherited, ", ") + ") has lost its data, " +
		"it may serve an empty cluster: then move etcd.yaml out of " + staticpod.Directory + " and the data directory " +
		"away on its machine only, and apply again"
}

// refuseUnasked refuses a restore while a running member may serve.
func refuseUnasked(in restoreInput) restoreDecision {
	return restoreDecision{
		Reason: "whether the cluster serves cannot be asked on " + in.Unasked + ": " + host.ErrForwarding.Error(),
		Next:   allowForwarding(in.Unasked),
	}
}

// begunRestore decides by the records of the machines; known is false if none has begun
// this restore.
func begunRestore(in restoreInput) (d restoreDecision, known bool) {
	for _, m := range in.Machines {
		if m.Record == nil || m.Record.ClusterID != in.Cluster {
			continue
		}
		switch in.ID {
		case m.Record.Restored:
			return decideDone(in), true
		case m.Record.Restoring:
			if m.Data && m.Record.ID() != 0 { // a member that was retired for it has no ID
				d, known = decideContinue(in, m), true
			}
		}
	}
	return d, known
}

// decideDone is the decision about a restore that was completed. A member that joined now would join the cluster that
// serves, which may be the former one.
func decideDone(in restoreInput) restoreDecision {
	if next := servesFormer(in); next != "" {
		return restoreDecision{
			Reason: "the restore " + in.ID + " was done, and what serves is the former cluster: " + in.Serves,
			Next:   next + "; to keep the former one instead, remove restore from the configuration",
		}
	}
	return restoreDecision{Case: restoreDone}
}

// servesFormer is the next step if the cluster that serves is what a completed restore has given up; "" if the records
// do not say so.
func servesFormer(in restoreInput) string {
	ids := map[string]uint64{}
	for _, m := range in.Machines {
		if in.Served == 0 || !m.Reached() || !m.Data || m.Record == nil || m.Record.ClusterID != in.Cluster {
			continue
		}
		id, restored := membership.ParseID(m.Record.EtcdCluster), m.Record.Restored == in.ID
		if id == in.Served && restored {
			return ""
		}
		if id == in.Served || restored {
			ids[m.Address] = id
		}
	}
	return formerNext(in.Cluster, in.Machines, ids)
}

// decideContinue is the decision about a restore that has put its data in place on the machine seed. Members of another
// cluster that run may be electing a leader: they get the time for it, and serve later if a quorum of them runs.
func decideContinue(in restoreInput, seed machine.Observed) restoreDecision {
	proceed := restoreDecision{Case: restoreContinue, Seed: seed.Name}
	former := runningFormer(in, seed)
	switch {
	case in.Serves != "" && in.Served != 0 && in.Served == membership.ParseID(seed.Record.EtcdCluster):
		return proceed
	case in.Serves != "":
		return refuseStart(in, seed, "another etcd cluster serves: "+in.Serves)
	case in.Unasked != "":
		return refuseUnasked(in)
	case len(former) == 0:
		return proceed
	case in.Lists == nil:
		return restoreDecision{Case: restoreAwait}
	}
	if reason := runningQuorum(former, in.Lists); reason != "" {
		return refuseStart(in, seed, "another etcd cluster may serve: "+reason)
	}
	return proceed
}

// refuseStart refuses to start the restored data on seed beside another cluster.
func refuseStart(in restoreInput, seed machine.Observed, reason string) restoreDecision {
	return restoreDecision{
		Reason: "the restore " + in.ID + " has put its data in place on " + seed.Label() + " and is not complete, and " +
			reason,
		Next: "to go on with the restore, give up the other cluster: for each of its machines, " + stopFormer +
			", then apply again, which archives its data. To keep that cluster instead, remove restore from the " +
			"configuration and apply, which archives the restored data and joins " + seed.Name,
	}
}

// abandoned names the machines that do not answer and that the user has given up.
func abandoned(in restoreInput) []string {
	var all []string
	for _, m := range in.Machines {
		if !m.Reached() && in.Abandoned.Covers(m.Address, m.Err) {
			all = append(all, m.Label())
		}
	}
	return all
}

// unreachedCauses says why machines were not reached.
func unreachedCauses(silent []machine.Observed) string {
	var causes []string
	for _, m := range silent {
		causes = append(causes, m.Label()+": "+m.Err.Error())
	}
	return strings.Join(causes, "; ")
}

// silentNext is the next step for machines that were not reached. One that answers, and cannot be worked on, is never
// lost: see host.Abandoned.
func silentNext(silent []machine.Observed) string {
	var next, lost, unnamed []string
	for _, m := range silent {
		if errors.Is(m.Err, errUnnamed) {
			unnamed = append(unnamed, m.Address)
		} else if host.MayBeLost(m.Err) {
			lost = append(lost, m.Address)
		} else if remedy := accessRemedy(m.Err); !slices.Contains(next, remedy) {
			next = append(next, remedy)
		}
	}
	if len(lost) > 0 {
		next = append(next, "make "+strings.Join(lost, ", ")+" reachable over SSH; if a machine is permanently lost, "+
			"switch it off and "+host.AbandonRemedy(lost...))
	}
	if len(unnamed) > 0 {
		next = append(next, "apply together with the members at "+strings.Join(unnamed, ", ")+"; if a machine is "+
			"permanently lost, switch it off and "+host.AbandonRemedy(unnamed...))
	}
	return strings.Join(next, "; ")
}

// survivor is a member without quorum, as it describes itself.
type survivor struct {
	Name     string
	Address  string
	Term     uint64
	Index    uint64 // of the last entry that it knows to be committed
	Revision int64
	// Learner: etcd does not start alone with its data. A start with --force-new-cluster only removes the other members
	// from what it knows, and raft ends without a voter; a learner that has received nothing yet would start empty. What
	// it knows is committed all the same.
	Learner bool
	Err     error // why it did not answer
}

// fresher returns the survivors that know more of the cluster's log than the named one.
// What a member knows to be committed is a prefix of what any other one knows, so the
// index alone tells which has more.
func fresher(survivors []survivor, name string) []survivor {
	chosen := slices.IndexFunc(survivors, func(s survivor) bool { return s.Name == name })
	if chosen < 0 {
		return nil
	}
	var more []survivor
	for _, s := range survivors {
		if s.Name != name && s.Err == nil && (survivors[chosen].Err != nil || s.Index > survivors[chosen].Index) {
			more = append(more, s)
		}
	}
	return more
}

// quiet returns the survivors except the named one that did not answer, so that they may know more.
func quiet(survivors []survivor, name string) []survivor {
	return slices.DeleteFunc(slices.Clone(survivors), func(s survivor) bool { return s.Name == name || s.Err == nil })
}

// freshest returns the survivor that knows most of those that can start alone; "" if none answers.
func freshest(survivors []survivor) string {
	answering := slices.DeleteFunc(slices.Clone(survivors), func(s survivor) bool { return s.Err != nil || s.Learner })
	if len(answering) == 0 {
		return ""
	}
	return slices.MaxFunc(answering, func(a, b survivor) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.Revision, b.Revision), -strings.Compare(a.Name, b.Name))
	}).Name
}

// learnerProblem says that the named survivor is a learner; "" if it is none.
func learnerProblem(survivors []survivor, name string) string {
	if !slices.ContainsFunc(survivors, func(s survivor) bool { return s.Name == name && s.Learner }) {
		return ""
	}
	return "member " + name + " is a learner: etcd does not start alone with its data"
}

// learnerNext is the next step for data that only a learner has.
const learnerNext = "name a voter in restore; or, while the learner answers, save a snapshot with etcdctl on its " +
	"machine and name that one"

// fresherNext is the next step if survivors know more than the named one.
func fresherNext(survivors []survivor, name string) string {
	const older = ", or accept_older = true if its data is not usable"
	if best := freshest(survivors); best != "" && best != name {
		return fmt.Sprintf("set member = %q in restore", best) + older
	}
	return "the others are learners, with whose data etcd does not start alone: " + learnerNext + "; or set " +
		"accept_older = true, which loses what only they have"
}

// survivorTable describes the survivors for a diagnostic.
func survivorTable(survivors []survivor) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SURVIVOR\tADDRESS\tTERM\tINDEX\tREVISION")
	for _, s := range survivors {
		if s.Learner {
			s.Name += " (learner)"
		}
		if s.Err != nil {
			why := "does not answer"
			if errors.Is(s.Err, host.ErrForwarding) {
				why = "cannot be asked: sshd forbids TCP forwarding"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t\t\n", s.Name, s.Address, why)
			continue
		}
		term := "-" // its metrics do not say it
		if s.Term > 0 {
			term = strconv.FormatUint(s.Term, 10)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\n", s.Name, s.Address, term, s.Index, s.Revision)
	}
	_ = w.Flush() // into memory
	return b.String()
}
