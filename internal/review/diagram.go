package review

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// state is how a component is drawn in the diagram.
type state string

// The states, the most urgent first.
const (
	unseen  state = "unseen" // unreachable, or never observed
	down    state = "down"
	drifted state = "drifted"
	altered state = "changed"
	fine    state = "ok"
)

// classes are the colors of the states, readable on light and dark pages.
const classes = `  classDef ok fill:#d3f0d3,stroke:#2b7a2b,color:#123
  classDef changed fill:#d6e6ff,stroke:#2457a8,color:#123
  classDef drifted fill:#ffe9b8,stroke:#a86f00,color:#321
  classDef down fill:#ffd2cf,stroke:#b3261e,color:#311
  classDef unseen fill:#e3e3e3,stroke:#777,color:#222,stroke-dasharray:4 3
`

// diagram draws the endpoint, its replicas and their members in Mermaid.
func (p Plane) diagram(prefix string) string {
	var b strings.Builder
	node := func(id string, s state, lines ...string) {
		labels := slices.DeleteFunc(lines, func(line string) bool { return line == "" })
		for i := range labels {
			labels[i] = escaped(labels[i])
		}
		fmt.Fprintf(&b, "  %s[\"%s\"]:::%s\n", id, strings.Join(labels, "<br/>"), s)
	}
	for i, e := range p.Endpoints {
		node(fmt.Sprintf("%se%d", prefix, i), p.endpointState(e), fmt.Sprintf("%s:%d", e.Name, e.Port), on(e.Holder), fate(e.Resource))
	}
	for i, r := range p.Replicas {
		node(fmt.Sprintf("%sr%d", prefix, i), p.replicaState(r), r.Name, "API "+r.Version, fate(r.Resource))
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
		node(fmt.Sprintf("%sm%d", prefix, i), p.memberState(m), m.Name, "etcd "+m.Version+role, fate(m.Resource))
		for j, r := range p.Replicas {
			if slices.Contains(r.Etcd, m.URL) && m.URL != "" || len(r.Etcd) == 0 && r.Name == m.Name {
				fmt.Fprintf(&b, "  %sr%d --> %sm%d\n", prefix, j, prefix, i)
			}
		}
	}
	return b.String()
}

// escaped returns text for a quoted Mermaid label, with limited length.
func escaped(text string) string {
	const most = 60
	text = strings.Join(strings.Fields(problem.Line(text)), " ")
	if characters := []rune(text); len(characters) > most {
		text = string(characters[:most]) + "…"
	}
	return strings.NewReplacer(`"`, "#quot;", "<", "#lt;", ">", "#gt;", "`", "'", "#", "#35;").Replace(text)
}

func on(holder string) string {
	if holder == "" {
		return ""
	}
	return "on " + holder
}

// fate returns what an apply does to a resource, in one word.
func fate(r Resource) string {
	switch r.Action {
	case Keep:
		return ""
	case Create:
		return "new"
	case Delete:
		return "leaves"
	case Update:
		if r.Effect() == None {
			return ""
		}
		return "changes"
	}
	return string(r.Action)
}

// common returns the state that follows from what all resources have in common.
func common(r Resource) state {
	switch {
	case len(r.Drift) > 0 || r.Gone:
		return drifted
	case r.changes() && (r.Action != Update || r.Effect() > None):
		return altered
	}
	return fine
}

func (p Plane) endpointState(e Endpoint) state {
	if e.Asked && e.Holder == "" && e.Action != Create {
		return down
	}
	if e.Impaired && common(e.Resource) == fine {
		return drifted
	}
	return common(e.Resource)
}

func (p Plane) replicaState(r Replica) state {
	switch {
	case r.Action == Create:
		return altered
	case p.unreachable(r.Resource) || r.Registered == nil:
		return unseen
	case !*r.Registered || len(r.Unhealthy) > 0 || !p.serves(r):
		return down
	}
	return common(r.Resource)
}

func (p Plane) memberState(m Member) state {
	switch {
	case m.Action == Create:
		return altered
	case p.unreachable(m.Resource):
		return unseen
	case !m.serves() && !m.Learner:
		return down
	}
	return common(m.Resource)
}
