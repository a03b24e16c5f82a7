package demo

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// screen is what the demonstration ends with.
type screen struct {
	State   State
	answer  answer
	Timings []workspace.Timing // of the apply; nil when there was none
	Total   time.Duration
	Now     time.Time
}

// answer is what the API said through the virtual IP.
type answer struct {
	Ready   string // "ok"
	Version string // "v1.36.3"
}

// Text draws the screen.
func (s screen) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nControl plane %q\n\n", s.State.Cluster)
	fmt.Fprintf(&b, "  %s answers: %s, Kubernetes %s\n", s.State.URL, s.answer.Ready, s.answer.Version)
	fmt.Fprintf(&b, "  The virtual IP is on %s.\n", s.State.Holder)
	b.WriteString("\netcd members\n")
	b.WriteString(s.members())
	b.WriteString("\nReplicas\n")
	b.WriteString(s.replicas())
	if len(s.Timings) > 0 {
		b.WriteString("\nDurations\n")
		b.WriteString(s.timings())
	}
	b.WriteString("\nTry next\n")
	b.WriteString(table([][]string{
		{"bin/demo apply -var-file=five.tfvars.json", "scale to five machines"},
		{"bin/kube-lab poweroff --name demo cp2", "kill a machine, then run bin/demo plan"},
		{"bin/demo destroy", "return to bare machines; make demo-down removes them"},
	}))
	b.WriteString("\n  To use the API, run bin/demo-kubectl get namespaces\n\n")
	return b.String()
}

func (s screen) members() string {
	rows := [][]string{{"NAME", "ID", "VERSION", "ROLE", "DB SIZE", "HEALTH"}}
	for _, m := range s.State.Members {
		role, health := "follower", "ok"
		switch {
		case m.Leader:
			role = "leader"
		case m.Learner:
			role = "learner"
		}
		if !m.Healthy {
			health = "not healthy"
		}
		rows = append(rows, []string{
			m.Name, m.ID, m.Version, role, fmt.Sprintf("%.1f MiB", float64(m.DBSize)/(1<<20)),
			health,
		})
	}
	return table(rows)
}

func (s screen) replicas() string {
	rows := [][]string{{"REPLICA", "COMPONENT", "HEALTH", "VERSION", "CERTIFICATE", "IN ROTATION"}}
	for _, r := range s.State.Replicas {
		rotation := "yes"
		if !r.Registered {
			rotation = "no"
		}
		name := r.Name
		for _, component := range slices.Sorted(maps.Keys(r.Components)) {
			c := r.Components[component]
			rows = append(rows, []string{name, component, c.Health, c.Version, s.days(c.Expiry), rotation})
			name, rotation = "", ""
		}
	}
	return table(rows)
}

// days is how long a certificate still lasts.
func (s screen) days(expiry string) string {
	at, err := time.Parse(time.RFC3339, expiry)
	if err != nil {
		return "unknown"
	}
	return fmt.Sprintf("%d days left", int(at.Sub(s.Now).Hours()/24))
}

func (s screen) timings() string {
	var rows [][]string
	for _, t := range s.Timings {
		rows = append(rows, []string{t.Address, fmt.Sprintf("%5.1f s", t.Took.Seconds())})
	}
	rows = append(rows, []string{"the whole apply", fmt.Sprintf("%5.1f s", s.Total.Seconds())})
	return table(rows)
}

// table sets rows in columns, indented.
func table(rows [][]string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, "  "+strings.Join(row, "\t"))
	}
	_ = w.Flush() // a strings.Builder does not fail
	return b.String()
}
