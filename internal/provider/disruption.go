package provider

import (
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/kubequorum/terraform-provider-kube/internal/disruption"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// priorObject is what is known of one resource before the plan.
type priorObject = disruption.Object

// disruption returns where a plan's effects are recorded. It returns nil once a change of the run
// has begun, because the machines are the source of truth from then on.
func (s *session) disruption() *disruption.Plan {
	if s == nil || s.versions.hasBegun() {
		return nil
	}
	return &s.planned
}

// addRefused reports what a plan may not do to the members or replicas of a cluster.
func addRefused(diags *diag.Diagnostics, refused []*problem.Problem) {
	for _, p := range refused {
		addError(diags, path.Empty(), p.Summary, p)
	}
}
