package review

import (
	"fmt"
	"slices"
	"strings"
)

// available says what stays available during an apply, one sentence a line.
func (p Plane) available() []string {
	return slices.Concat(p.etcdAvailable(), p.apiAvailable(), p.endpointAvailable())
}

func quorum(voters int) int { return voters/2 + 1 }

// tally counts a kind of resources before and during an apply.
type tally struct{ there, well, restart, mend, come, leave, replaced int }

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
	case r.Action == Update && r.Effect() == Mend:
		t.mend++
	}
}

func (t tally) after() int { return t.there + t.come - t.leave }

// etcdAvailable follows the rules by which the provider lets members restart,
// join and leave (internal/etcd, rules.go).
func (p Plane) etcdAvailable() []string {
	var t tally
	for _, m := range p.Members {
		t.count(m.Resource, m.Healthy != nil && *m.Healthy && !m.Learner)
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
	if t.restart+t.mend > 0 {
		says = append(says, t.etcdRestarts(need))
	}
	if t.replaced > 0 {
		says = append(says, fmt.Sprintf("etcd: %s replaced, one at a time: what remains keeps quorum before each one leaves, or it is refused.", number(t.replaced, "member is", "members are")))
	}
	if t.after() != t.there {
		says = append(says, fmt.Sprintf("etcd: from %d to %d members, one at a time; quorum goes from %d to %d.", t.there, t.after(), need, quorum(t.after())))
	}
	if len(says) == 0 {
		says = []string{fmt.Sprintf("etcd: no member stops; %d of %d healthy.", t.well, t.there)}
	}
	return says
}

func (t tally) etcdRestarts(need int) string {
	restarts := "restart"
	if t.restart == 0 {
		restarts = "may restart"
	}
	switch {
	case t.there == 1:
		return fmt.Sprintf("etcd: **its only member %ss**: no reads and no writes meanwhile.", strings.Replace(restarts, "may restart", "may restart, if it ha", 1))
	case t.there == 2:
		return fmt.Sprintf("etcd: members %s one at a time. Of two **each is needed for quorum**: a short interruption each time.", restarts)
	case t.well-1 < need:
		return fmt.Sprintf("etcd: members %s one at a time. %d of %d are healthy, and %d have to be: a healthy one is **not restarted** before the others are back.", restarts, t.well, t.there, need)
	}
	return fmt.Sprintf("etcd: members %s one at a time: %d of %d stay, and quorum is %d.", restarts, t.well-1, t.there, need)
}

// apiAvailable: at most one replica of an endpoint is out of rotation at a time.
func (p Plane) apiAvailable() []string {
	var t tally
	for _, r := range p.Replicas {
		t.count(r.Resource, r.Registered != nil && *r.Registered && p.serves(r))
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
	switch busy := t.restart + t.mend + t.replaced + paused; {
	case t.there == 1 && busy > 0:
		says = append(says, "API: **its only server stops** for what needs a restart: no answer meanwhile.")
	case busy > 0:
		says = append(says, fmt.Sprintf("API: one server at a time leaves rotation, drained first: %d of %d go on serving.", max(t.well-1, 0), t.there))
	}
	if paused > 0 {
		says = append(says, "API: a server whose only etcd member is restarted or replaced steps aside meanwhile.")
	}
	if t.after() != t.there {
		says = append(says, fmt.Sprintf("API: from %d to %d servers; who leaves is drained first.", t.there, t.after()))
	}
	if len(says) == 0 {
		says = []string{fmt.Sprintf("API: no server stops; %d of %d in rotation.", t.well, t.there)}
	}
	return says
}

// serves is HAProxy's word, where there is one.
func (p Plane) serves(r Replica) bool {
	for _, e := range p.Endpoints {
		if state, ok := e.Backends[r.Name]; ok {
			return strings.HasPrefix(state, "UP")
		}
	}
	return true
}

// pausedByEtcd counts the replicas whose only etcd is a member that an apply
// restarts or takes away.
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
			says = append(says, fmt.Sprintf("Endpoint %s: answers all the time; connections stay, but for those through a machine that leaves its balancers.", code(e.Name)))
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
