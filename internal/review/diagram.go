package review

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// state is how a component is drawn in the diagram.
type state string

// The states, the most urgent first.
const (
	unknown state = "unknown" // unreachable, or never observed
	down    state = "down"
	drifted state = "drifted"
	changed state = "changed"
	healthy state = "ok"
)

// classes are the colors of the states, readable on light and dark pages.
const classes = `  classDef ok fill:#d3f0d3,stroke:#2b7a2b,color:#123
  classDef changed fill:#d6e6ff,stroke:#2457a8,color:#123
  classDef drifted fill:#ffe9b8,stroke:#a86f00,color:#321
  classDef down fill:#ffd2cf,stroke:#b3261e,color:#311
  classDef unknown fill:#e3e3e3,stroke:#777,color:#222,stroke-dasharray:4 3
`

// diagram draws the endpoint, its replicas and their members in Mermaid.
func (p ControlPlane) diagram(prefix string) string {
	var b strings.Builder
	node := func(id string, s state, lines ...string) {
		labels := slices.DeleteFunc(lines, func(line string) bool { return line == "" })
		for i := range labels {
			labels[i] = mermaidText(labels[i])
		}
		fmt.Fprintf(&b, "  %s[\"%s\"]:::%s\n", id, strings.Join(labels, "<br/>"), s)
	}
	for i, e := range p.Endpoints {
		id, address := fmt.Sprintf("%se%d", prefix, i), fmt.Sprintf("%s:%d", e.Name, e.Port)
		node(id, p.endpointState(e), address, heldBy(e.Holder), actionLabel(e.Resource))
	}
	for i, r := range p.Replicas {
		node(fmt.Sprintf("%sr%d", prefix, i), p.replicaState(r), r.Name, "API "+r.Version, actionLabel(r.Resource))
		for j, e := range p.Endpoints {
			if r.Endpoint == e.Name || r.Endpoint == "" {
				fmt.Fprintf(&b, "  %se%d --> %sr%d\n", prefix, j, prefix, i)
			}
		}
	}
	for i, m := range p.Members {
		role := ""
		switch {
		case m.Leader && !p.unreachable(m.Resource):
			role = ", leader"
		case m.Learner:
			role = ", learner"
		}
		node(fmt.Sprintf("%sm%d", prefix, i), p.memberState(m), m.Name, "etcd "+m.Version+role, actionLabel(m.Resource))
		for j, r := range p.Replicas {
			if slices.Contains(r.Etcd, m.URL) && m.URL != "" || len(r.Etcd) == 0 && r.Name == m.Name {
				fmt.Fprintf(&b, "  %sr%d --> %sm%d\n", prefix, j, prefix, i)
			}
		}
	}
	return b.String()
}

// mermaidText returns text for a quoted Mermaid label, with limited length.
func mermaidText(text string) string {
	const limit = 60
	text = strings.Join(strings.Fields(problem.Line(text)), " ")
	if characters := []rune(text); len(characters) > limit {
		text = string(characters[:limit]) + "…"
	}
	return strings.NewReplacer(`"`, "#quot;", "<", "#lt;", ">", "#gt;", "`", "'", "#", "#35;").Replace(text)
}

func heldBy(holder string) string {
	if holder == "" {
		return ""
	}
	return "on " + holder
}

// actionLabel returns what an apply does to a resource, in one word.
func actionLabel(r Resource) string {
	switch r.Action {
	case Keep:
		return ""
	case Create:
		return "new"
	case Delete:
		return "removed"
	case Update:
		if r.Effect() == None {
			return ""
		}
		return "changes"
	}
	return string(r.Action)
}

// plannedState returns the state that follows from the plan alone.
func plannedState(r Resource) state {
	switch {
	case len(r.Drift) > 0 || r.Missing:
		return drifted
	case r.changes() && (r.Action != Update || r.Effect() > None):
		return changed
	}
	return healthy
}

func (p ControlPlane) endpointState(e Endpoint) state {
	if e.HealthKnown && e.Holder == "" && e.Action != Create {
		return down
	}
	impaired := slices.Contains(slices.Collect(maps.Values(e.Working)), false)
	if impaired && plannedState(e.Resource) == healthy {
		return drifted
	}
	return plannedState(e.Resource)
}

func (p ControlPlane) replicaState(r Replica) state {
	switch {
	case r.Action == Create:
		return changed
	case p.unreachable(r.Resource) || r.Registered == nil:
		return unknown
	case !*r.Registered || len(r.Unhealthy) > 0 || !p.inRotation(r):
		return down
	}
	return plannedState(r.Resource)
}

func (p ControlPlane) memberState(m Member) state {
	switch {
	case m.Action == Create:
		return changed
	case p.unreachable(m.Resource):
		return unknown
	case !m.votes() && !m.Learner:
		return down
	}
	return plannedState(m.Resource)
}
