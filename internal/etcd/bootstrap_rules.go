package etcd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
)

// startCase is how the members that arrived together start.
type startCase int

const (
	startRefuse    startCase = iota
	startJoin                // the cluster answers: each joins it
	startBootstrap           // there is no cluster: start together with one static initial-cluster
	startResume              // a cluster may exist and only be stopped: start its members, then decide again
)

func (c startCase) String() string {
	return [...]string{"refuse", "join", "bootstrap", "resume"}[c]
}

// startDecision is what to do with a batch of members that arrived together.
type startDecision struct {
	Case    startCase
	Archive []string // members of the batch whose leftovers are stopped and archived before a bootstrap
	Reason  string   // of a refusal
	Next    string
	Lost    bool   // of a refusal: the cluster has members, and no quorum
	Detail  string // of a refusal that is Lost: what its members know, for a diagnostic
}

// decideStart is the only place that can decide to bootstrap a cluster, so it must never
// do so while another cluster may exist. machines are all peers of the batch. answered
// reports whether any member returned a linearizable member list.
//
// Safety argument: a cluster is bootstrapped only if every peer was reached, and no quorum
// of any earlier initial-cluster among them has ever begun. A commit needs the disks of a
// quorum, so fewer members cannot have committed anything, and the data of those few is
// archived, not deleted. A machine that was reached but had been emptied by hand after a
// full bootstrap could count as "never begun" only if its record was removed too and the
// few remaining members had never been established, which means before any resource that
// uses the cluster was created. Even then the archive keeps their data.
//
// A member whose raft log has no entry has not written anything that a commit needs. It
// does not count once the members were started and had time to answer: until then it might
// get entries from another one.
//
// Data that a restore has made, and not put in place yet, is all that may be left of a cluster: no empty one is
// bootstrapped beside it. Nor is one if the machine with that data was lost: the machines of the retired members say
// that a restore was begun.
func decideStart(
	clusterID, dataDir string, machines []machine.Observed, batch []string, answered, resumed bool,
) startDecision {
	if answered {
		return startDecision{Case: startJoin}
	}
	var unreachable, alien, staged, retired []string
	var began []machine.Observed
	for _, m := range machines {
		if m.Staged != "" {
			staged = append(staged, m.Staged+" on "+m.Label())
		}
		switch {
		case !m.Reached():
			unreachable = append(unreachable, m.Label()+": "+m.Err.Error())
		case m.Foreign(clusterID, dataDir) != "":
			alien = append(alien, m.Foreign(clusterID, dataDir))
		case m.HasMember():
			began = append(began, m)
		}
		if m.Retired() != "" {
			retired = append(retired, m.Label())
		}
	}
	switch {
	case machine.DifferentClusters(machines) != "":
		return startDecision{Reason: machine.DifferentClusters(machines), Next: differentClustersNext}
	case len(alien) > 0:
		return startDecision{
			Reason: strings.Join(alien, "; "),
			Next: "if that data is not needed, move the data directory and " + layout.ConfigDir +
				" away; otherwise use other machines",
		}
	case len(unreachable) > 0:
		return startDecision{
			Reason: "no member of the cluster answers, and a cluster may exist on the peers that could not be reached: " +
				strings.Join(unreachable, "; "),
			Next: "make every host in peers reachable over SSH, or remove machines that no longer exist from peers; " +
				"a cluster is bootstrapped only if it is verified that none of them has etcd data",
		}
	case len(staged)+len(retired) > 0 && !mayHaveCommitted(notEmptied(began)):
		return restoreBegun(staged, retired)
	case len(began) == 0:
		return startDecision{Case: startBootstrap}
	case !mayHaveCommitted(began):
		return startDecision{Case: startBootstrap, Archive: intersect(names(began), batch)}
	case !resumed:
		return startDecision{Case: startResume}
	case !mayHaveCommitted(withEntries(began)):
		return startDecision{Case: startBootstrap, Archive: intersect(names(began), batch)}
	}
	return startDecision{
		Reason: "quorum lost: the cluster has members on " + strings.Join(machine.Labels(began), ", ") +
			", but no quorum of them answers",
		Next: lostNext(nil, machine.Spec{}),
		Lost: true,
	}
}

// restoreBegun refuses a bootstrap because of a restore that was not completed. staged are the directories with its
// data, retired the machines whose members were archived for it.
func restoreBegun(staged, retired []string) startDecision {
	var causes, leftovers []string
	next := "apply with the same restore again if its source still exists, otherwise with another source and a new id"
	if len(staged) > 0 {
		causes = append(causes, "its data is in "+strings.Join(staged, ", "))
		leftovers = append(leftovers, "that directory")
		next = "apply with the same restore again, which completes it"
	}
	if len(retired) > 0 {
		causes = append(causes, "the data of the members on "+strings.Join(retired, ", ")+" is archived for it")
		leftovers = append(leftovers, layout.RecordPath+" on these machines")
	}
	return startDecision{
		Reason: "a restore was begun and not completed: " + strings.Join(causes, "; "),
		Next:   next + "; to bootstrap an empty cluster instead, move " + strings.Join(leftovers, " and ") + " away",
	}
}

// lostNext is the next step of a cluster without quorum, of which s is a member. One that cannot be asked because of
// sshd may have a quorum.
func lostNext(survivors []survivor, s machine.Spec) string {
	if next := forwardingNext(survivors); next != "" {
		return next
	}
	next := "bring the machines back and start etcd on them (" + s.StartCommand() + ", " + s.LogCommand() +
		") until a majority of the members answers, and apply again; "
	if best := freshest(survivors); best != "" {
		next += fmt.Sprintf("if that is impossible, go on with the data of the survivor that knows most: set restore = "+
			"{ id = \"a new name\", member = %q } on every member; or name a snapshot in restore instead (snapshot, file, "+
			"bucket or fetch), and what was written after it is lost", best)
	} else {
		next += "if that is impossible, set restore = { id = \"a new name\", member = \"a member that has its data\" } on " +
			"every member, or name a snapshot in it instead (snapshot, file, bucket or fetch)"
	}
	return next + "; to bootstrap an empty cluster, move the data directory and " + layout.ConfigDir +
		" away on all machines"
}

// differentClustersNext is the next step for machines with data of different clusters.
const differentClustersNext = "determine which cluster is the current one, move the data directory and " +
	layout.ConfigDir +
	" away on the machines with data of another cluster, and apply again"

// mayHaveCommitted reports whether the members that began may have committed anything: one
// of them is established, one joined an existing cluster, or they are a quorum of a
// recorded initial-cluster.
func mayHaveCommitted(began []machine.Observed) bool {
	for _, m := range began {
		if !m.Pending || !m.New || len(m.Initial) == 0 {
			return true
		}
		same := 0
		for _, other := range began {
			if m.Token == other.Token && slices.Equal(m.Initial, other.Initial) {
				same++
			}
		}
		if same >= membership.Quorum(len(m.Initial)) {
			return true
		}
	}
	return false
}

// notEmptied returns the machines that have data, or may be about to have it.
func notEmptied(began []machine.Observed) []machine.Observed {
	return slices.DeleteFunc(slices.Clone(began), func(m machine.Observed) bool { return !m.Data && !m.Running() })
}

// withEntries returns the machines whose members may have an entry in their raft log.
func withEntries(began []machine.Observed) []machine.Observed {
	return slices.DeleteFunc(slices.Clone(began), func(m machine.Observed) bool { return m.EmptyLog })
}

// neverServed reports whether no member was ever observed serving: each is still
// bootstrapping a cluster that no client can have used.
func neverServed(began []machine.Observed) bool {
	return !slices.ContainsFunc(began, func(m machine.Observed) bool { return !m.Pending || !m.New })
}

func names(machines []machine.Observed) []string {
	var out []string
	for _, m := range machines {
		out = append(out, m.Name)
	}
	return out
}

func intersect(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return !slices.Contains(b, s) })
}
