package review

import (
	"fmt"
	"slices"
	"strings"
)

// available describes what stays available during an apply, one sentence per line.
func (p Plane) available() []string {
	return slices.Concat(p.etcdAvailable(), p.apiAvailable(), p.endpointAvailable())
}

func quorum(voters int) int { return voters/2 + 1 }

// tally counts the resources of one kind before and during an apply.
type tally struct {
	there, well                            int
	restart, repair, come, leave, replaced int
	hurt                                   int // of the healthy ones: how many an update may stop
	unknown                                int // of the existing ones: how many have no known health
}

func (t *tally) count(r Resource, well bool) {
	if r.Action != Create {
		t.there++
		if well {
			t.well++
		}
	}
	switch {
	case r.comes() && r.leaves():
		t.replaced++
	case r.comes():
		t.come++
	case r.leaves():
		t.leave++
	case r.Action == Update && r.Effect() == Restart:
		t.restart++
	case r.Action == Update && r.Effect() == Repair:
		t.repair++
	}
	if well && r.Action == Update && r.Effect() >= Repair {
		t.hurt++
	}
}

func (t tally) after() int { return t.there + t.come - t.leave }

// etcdAvailable follows the rules by which the provider lets members restart, join and leave
// (internal/etcd/membership, rules.go).
func (p Plane) etcdAvailable() []string {
	var t tally
	for _, m := range p.Members {
		if m.Healthy == nil && m.Action != Create {
			t.unknown++
		}
		t.count(m.Resource, m.serves() && !p.unreachable(m.Resource))
	}
	need := quorum(t.there)
	switch {
	case t.there == 0 && t.come == 0:
		return nil
	case t.there == 0:
		return []string{fmt.Sprintf("etcd: a new cluster of %d, which nothing depends on yet.", t.come)}
	case t.after() == 0:
		return []string{"etcd: **goes away**, and the API with it. The last member saves a snapshot first, unless `on_destroy` wipes its data."}
	}
	var says []string
	if t.well < need {
		says = append(says, fmt.Sprintf("etcd: **no quorum now**: %d of %d members were seen healthy, and %d have to be. What would make it worse is refused.", t.well, t.there, need))
	}
	if t.restart+t.repair > 0 {
		says = append(says, t.etcdRestarts(need))
	}
	if t.replaced > 0 {
		says = append(says, fmt.Sprintf("etcd: %s: what remains keeps quorum, or it is refused.", number(t.replaced, "member is replaced", "members are replaced, one at a time")))
	}
	if t.after() != t.there {
		says = append(says, fmt.Sprintf("etcd: from %d to %d members, one at a time; quorum goes from %d to %d.", t.there, t.after(), need, quorum(t.after())))
	}
	if len(says) == 0 {
		says = []string{"etcd: no member stops" + t.healthy() + "."}
	}
	return says
}

// healthy returns how many resources are healthy, if that is known.
func (t tally) healthy() string {
	if t.unknown > 0 {
		return ""
	}
	return fmt.Sprintf("; %d of %d healthy", t.well, t.there)
}

// serves reports whether the member counts for quorum. If its health is not known, it counts
// unless its unit is known to be stopped.
func (m Member) serves() bool {
	if m.Healthy == nil {
		stopped := func(text string) bool { return strings.Contains(text, "etcd.service is ") }
		return !m.Learner && !slices.ContainsFunc(m.Drift, stopped)
	}
	return *m.Healthy && !m.Learner
}

func (t tally) etcdRestarts(need int) string {
	restart := "restart"
	if t.restart == 0 {
		restart = "may restart"
	}
	switch {
	case t.hurt == 0:
		return fmt.Sprintf("etcd: only unhealthy members are changed; %d of %d stay, and quorum is %d.", t.well, t.there, need)
	case t.there == 1:
		return fmt.Sprintf("etcd: the only member %s: **no reads and no writes meanwhile**.", map[bool]string{true: "restarts", false: "may restart"}[t.restart > 0])
	case t.there == 2:
		return fmt.Sprintf("etcd: members %s one at a time. Of two **each is needed for quorum**: a short interruption each time.", restart)
	case t.well-1 < need:
		return fmt.Sprintf("etcd: members %s one at a time. %d of %d are healthy, and %d have to be: a healthy one is **not restarted** before the others are back.", restart, t.well, t.there, need)
	}
	return fmt.Sprintf("etcd: members %s one at a time: %d of %d stay, and quorum is %d.", restart, t.well-1, t.there, need)
}

// apiAvailable applies the rule that at most one replica of an endpoint is out of rotation at a
// time.
func (p Plane) apiAvailable() []string {
	var t tally
	for _, r := range p.Replicas {
		t.count(r.Resource, r.Registered != nil && *r.Registered && p.serves(r) && !p.unreachable(r.Resource))
	}
	switch {
	case t.there == 0 && t.come == 0:
		return nil
	case t.there == 0:
		return []string{fmt.Sprintf("API: %s, the first of this endpoint.", number(t.come, "server", "servers"))}
	case t.after() == 0:
		return []string{"API: **goes away**."}
	}
	paused := p.pausedByEtcd()
	var says []string
	switch busy := t.restart + t.repair + t.replaced + paused; {
	case t.there == 1 && busy > 0:
		says = append(says, "API: **its only server stops** for what needs a restart: no answer meanwhile.")
	case busy > 0:
		leaves := "leaves"
		if t.restart+t.replaced+paused == 0 {
			leaves = "may leave"
		}
		says = append(says, fmt.Sprintf("API: one server at a time %s rotation, drained first: %d of %d keep serving.", leaves, max(t.well-1, 0), t.there))
	}
	if paused > 0 {
		says = append(says, "API: a server whose only etcd member is restarted or replaced leaves rotation meanwhile.")
	}
	if t.after() != t.there {
		says = append(says, fmt.Sprintf("API: from %d to %d servers; who leaves is drained first.", t.there, t.after()))
	}
	if len(says) == 0 {
		says = []string{fmt.Sprintf("API: no server stops; %d of %d in rotation.", t.well, t.there)}
	}
	return says
}

// serves reports HAProxy's status of the replica, if it is known.
func (p Plane) serves(r Replica) bool {
	for _, e := range p.Endpoints {
		if state, ok := e.Backends[r.Name]; ok {
			return strings.HasPrefix(state, "UP")
		}
	}
	return true
}

// pausedByEtcd counts the replicas whose only etcd member is restarted or replaced by an apply.
func (p Plane) pausedByEtcd() int {
	paused := 0
	for _, r := range p.Replicas {
		for _, m := range p.Members {
			stops := m.Action == Update && m.Effect() == Restart || m.leaves() && m.comes()
			if len(r.Etcd) == 1 && m.URL == r.Etcd[0] && stops && !r.leaves() {
				paused++
			}
		}
	}
	return paused
}

func (p Plane) endpointAvailable() []string {
	var says []string
	for _, e := range p.Endpoints {
		switch e.Action {
		case Delete:
			says = append(says, fmt.Sprintf("Endpoint %s: **goes away**.", code(e.Name)))
		case Replace, CreateFirst:
			says = append(says, fmt.Sprintf("Endpoint %s: **replaced**: clients of the old address lose it.", code(e.Name)))
		case Update:
			if e.Effect() >= Repair {
				says = append(says, fmt.Sprintf("Endpoint %s: goes on answering; connections stay where a reload repairs the drift.", code(e.Name)))
			} else {
				says = append(says, fmt.Sprintf("Endpoint %s: goes on answering; connections stay, but for those through a machine that leaves its balancers.", code(e.Name)))
			}
		}
	}
	return says
}

func number(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
