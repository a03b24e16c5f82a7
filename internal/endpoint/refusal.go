package endpoint

import "github.com/kubequorum/terraform-provider-kube/internal/problem"

// Refusal is the error of a replica that may not leave rotation.
type Refusal struct {
	*problem.Problem
	Last bool // no other replica serves
}

// Unwrap returns the problem.
func (r *Refusal) Unwrap() error { return r.Problem }

// LastServing reports whether the reason is that no other replica serves.
func (r *Refusal) LastServing() bool { return r.Last }
