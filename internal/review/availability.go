package review

import (
	"fmt"
	"slices"
	"strings"
)

// availability describes what stays available during an apply, one line of Markdown each: of the etcd clusters and the
// endpoints that have members and replicas in this control plane. Some of these may be in other modules of the whole.
func (p ControlPlane) availability(whole ControlPlane) []string {
	var lines []string
	clusters, servers := whole.clustersIn(p.Module), whole.serversIn(p.Module)
	for i, label := range labels(clusters, nameLabel, addressLabel) {
		lines = append(lines, withLabel("etcd", label, clusters[i].etcdAvailability())...)
	}
	for i, label := range labels(servers, endpointLabel, nameLabel, addressLabel) {
		lines = append(lines, withLabel("API", label, servers[i].apiAvailability())...)
	}
	return append(lines, p.endpointAvailability()...)
}

func quorum(voters int) int { return voters/2 + 1 }

// tally counts the resources of one kind before and during an apply.
type tally struct {
	existing, healthy                            int
	restarted, repaired, added, removed, swapped int
	healthyChanged                               int // how many of the healthy ones an update may stop
	unknown                                      int // how many of the existing ones have no known health
	others                                       int // how many of them have no member in the plan
}

func (t *tally) count(r Resource, healthy bool) {
	if r.Action != Create {
		t.existing++
		if healthy {
			t.healthy++
		}
	}
	switch {
	case r.Action.creates() && r.Action.destroys():
		t.swapped++
	case r.Action.creates():
		t.added++
	case r.Action.destroys():
		t.removed++
	case r.Action == Update && r.Effect() == Restart:
		t.restarted++
	case r.Action == Update && r.Effect() == Repair:
		t.repaired++
	}
	if healthy && r.Action == Update && r.Effect() >= Repair {
		t.healthyChanged++
	}
}

func (t tally) after() int { return t.existing + t.added - t.removed }

// etcdAvailability follows the rules by which the provider lets members of a cluster restart, join and leave
// (internal/etcd/membership, rules.go).
func (p ControlPlane) etcdAvailability() []string {
	var t tally
	for _, m := range p.Members {
		if m.Healthy == nil && m.Action != Create {
			t.unknown++
		}
		t.count(m.Resource, m.votes() && !p.unreachable(m.Resource))
		t.others = m.Others
	}
	restoring := p.restoring()
	switch {
	case restoring != "":
		return []string{restoring}
	case t.existing == 0 && t.added == 0:
		return nil
	case t.existing == 0 && t.others > 0:
		return []string{fmt.Sprintf("etcd: %s `peers` have %s.",
			number(t.added, "member is new. Its", "members are new. Their"),
			number(t.others, "machine that is not in this plan", "machines that are not in this plan"))}
	case t.existing == 0:
		return []string{fmt.Sprintf("etcd: a new cluster of %d. Nothing depends on it yet.", t.added)}
	}
	t.existing, t.unknown = t.existing+t.others, t.unknown+t.others
	if t.after() == 0 {
		return []string{"etcd: **the cluster is destroyed**, and the API with it. " +
			"The last member saves a snapshot first, unless `on_destroy` wipes its data."}
	}
	need := quorum(t.existing)
	var lines []string
	if t.healthy+t.others < need {
		lines = append(lines, fmt.Sprintf("etcd: **no quorum now**: %d of %d members are healthy, and quorum is %d. "+
			"The provider refuses what would make it worse.", t.healthy, t.existing, need))
	}
	if t.restarted+t.repaired > 0 {
		lines = append(lines, t.etcdRestarts(need))
	}
	if t.swapped > 0 {
		lines = append(lines, fmt.Sprintf("etcd: %s. The provider refuses a replacement that would lose quorum.",
			number(t.swapped, "member is replaced", "members are replaced, one at a time")))
	}
	if t.after() != t.existing {
		lines = append(lines, fmt.Sprintf("etcd: from %d to %d members, one at a time. %s.",
			t.existing, t.after(), quorumText(need, quorum(t.after()))))
	}
	if len(lines) == 0 {
		lines = []string{"etcd: no member stops" + t.healthKnown() + "."}
	}
	return lines
}

func quorumText(before, after int) string {
	if before == after {
		return fmt.Sprintf("Quorum stays %d", after)
	}
	return fmt.Sprintf("Quorum changes from %d to %d", before, after)
}

// healthKnown returns how many resources are healthy, if that is known.
func (t tally) healthKnown() string {
	if t.unknown > 0 {
		return ""
	}
	return fmt.Sprintf("; %d of %d are healthy", t.healthy, t.existing)
}

// votes reports whether the member counts for quorum. If its health is not known, it counts
// unless its unit is known to be stopped.
func (m Member) votes() bool {
	if m.Healthy == nil {
		stopped := func(text string) bool {
			return strings.Contains(text, "etcd.service is ") || strings.Contains(text, "static pod etcd is ")
		}
		return !m.Learner && !slices.ContainsFunc(m.Drift, stopped)
	}
	return *m.Healthy && !m.Learner
}

func (t tally) etcdRestarts(need int) string {
	verb, verbs := "restarts", "restart"
	if t.restarted == 0 {
		verb, verbs = "may restart", "may restart"
	}
	serving := func(n int) string {
		if t.others > 0 {
			return fmt.Sprintf("%d of %d members are not in this plan; quorum is %d.", t.others, t.existing, need)
		}
		return fmt.Sprintf("%d of %d keep serving; quorum is %d.", n, t.existing, need)
	}
	switch {
	case t.healthyChanged == 0:
		return "etcd: only unhealthy members change. " + serving(t.healthy)
	case t.existing == 1:
		return fmt.Sprintf("etcd: the only member %s: **no reads and no writes meanwhile**.", verb)
	case t.existing == 2:
		return fmt.Sprintf("etcd: members %s one at a time. With two members, **quorum needs both**: "+
			"a short interruption for each.", verbs)
	case t.healthy+t.others-1 < need:
		return fmt.Sprintf("etcd: members %s one at a time. %d of %d are healthy, and quorum is %d: "+
			"healthy members **do not restart** until the others are healthy.", verbs, t.healthy, t.existing, need)
	}
	return fmt.Sprintf("etcd: members %s one at a time. %s", verbs, serving(t.healthy-1))
}

// apiAvailability applies the rule that at most one replica of an endpoint is out of rotation
// at a time.
func (p ControlPlane) apiAvailability() []string {
	var t tally
	for _, r := range p.Replicas {
		t.count(r.Resource, r.Registered != nil && *r.Registered && p.inRotation(r) && !p.unreachable(r.Resource))
	}
	switch {
	case t.existing == 0 && t.added == 0:
		return nil
	case t.existing == 0:
		return []string{fmt.Sprintf("API: %s, the first of this endpoint.", number(t.added, "server", "servers"))}
	case t.after() == 0:
		return []string{"API: **all servers are destroyed**."}
	case p.restoring() != "":
		return []string{"API: **no server serves** until etcd is restored."}
	}
	paused := p.pausedByEtcd()
	var lines []string
	switch busy := t.restarted + t.repaired + t.swapped + paused; {
	case t.existing == 1 && busy > 0:
		lines = append(lines, "API: **the only server stops** during a restart, and requests fail meanwhile.")
	case busy > 0:
		verb := "leaves"
		if t.restarted+t.swapped+paused == 0 {
			verb = "may leave"
		}
		lines = append(lines, fmt.Sprintf("API: one server at a time %s rotation, drained first. %d of %d keep serving.",
			verb, max(t.healthy-1, 0), t.existing))
	}
	if slices.ContainsFunc(p.replicas(), Resource.ends) {
		lines = append(lines, "API: what announces the endpoint changes on one machine after the other, and "+
			"**connections through it may end**. Clients connect again.")
	}
	if paused > 0 {
		lines = append(lines, "API: a server is out of rotation while its only etcd member restarts or is replaced.")
	}
	if t.after() != t.existing {
		lines = append(lines, fmt.Sprintf("API: from %d to %d servers. A server that leaves is drained first.",
			t.existing, t.after()))
	}
	if len(lines) == 0 {
		lines = []string{fmt.Sprintf("API: no server stops; %d of %d are in rotation.", t.healthy, t.existing)}
	}
	return lines
}

// inRotation reports the status of the replica in HAProxy of its endpoint, if it is known.
func (p ControlPlane) inRotation(r Replica) bool {
	for _, e := range p.Endpoints {
		if state, ok := e.Backends[r.Name]; ok && (e.Name == r.Endpoint || r.Endpoint == "") {
			return strings.HasPrefix(state, "UP")
		}
	}
	return true
}

// pausedByEtcd counts the replicas whose only etcd member is restarted or replaced by an apply.
func (p ControlPlane) pausedByEtcd() int {
	paused := 0
	for _, r := range p.Replicas {
		for _, m := range p.Members {
			stops := m.Action == Update && m.Effect() == Restart || m.Action.destroys() && m.Action.creates()
			if len(r.Etcd) == 1 && m.URL == r.Etcd[0] && stops && !r.Action.destroys() {
				paused++
			}
		}
	}
	return paused
}

func (p ControlPlane) endpointAvailability() []string {
	var lines []string
	for _, e := range p.Endpoints {
		switch name := code(e.Name); {
		case e.Action == Delete:
			lines = append(lines, fmt.Sprintf("Endpoint %s: **destroyed**.", name))
		case e.Action.destroys():
			lines = append(lines, fmt.Sprintf("Endpoint %s: **replaced**. Clients of the old address lose it.", name))
		case e.Action != Update:
		case e.ends() || len(e.Drift) == 0 && e.Effect() >= Repair:
			lines = append(lines, fmt.Sprintf("Endpoint %s: **connections may end**, and new ones may fail until the address "+
				"answers again. Clients connect again.", name))
		case e.Effect() == None, e.Means != "haproxy" && e.Means != "":
			lines = append(lines, fmt.Sprintf("Endpoint %s: keeps answering. Connections survive.", name))
		case e.Effect() >= Repair:
			lines = append(lines, fmt.Sprintf("Endpoint %s: keeps answering. "+
				"Connections survive if a reload repairs the drift.", name))
		default:
			lines = append(lines, fmt.Sprintf("Endpoint %s: keeps answering. Connections survive, "+
				"except through a machine that leaves its balancers.", name))
		}
	}
	return lines
}
