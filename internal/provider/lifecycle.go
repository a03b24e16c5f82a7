package provider

import (
	"cmp"
	"context"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// keepUnread answers a Read that failed: unreachable is not gone, so the state
// stays as it is and the user is warned. A machine that answers is another matter,
// whatever the user has given up: with an untrusted host key somebody may be in
// the middle.
func keepUnread(diags *diag.Diagnostics, what string, err error) {
	p := asProblem(what+" not read", err)
	if !host.Unreachable(err) {
		diags.AddAttributeError(path.Root("host"), p.Title(), p.Text())
		return
	}
	p.Unchanged = "the state is kept as it was last seen."
	diags.AddWarning(what+" not read", p.Title()+"\n"+p.Text())
}

// warnGone says why a Read takes a resource out of the state: without it a
// plan would show a new one and not a word about the old.
func warnGone(diags *diag.Diagnostics, err error) {
	p := asProblem("Resource is gone", err)
	diags.AddWarning(p.Title(), p.Text())
}

// keepPartial decides what state a failed Create leaves. Where a machine may
// have been touched there is something to lose, so the plan is kept as state:
// Terraform marks it tainted, and both destroy and the next apply know of it.
// Where nothing was touched, nothing is kept.
func keepPartial(ctx context.Context, resp *resource.CreateResponse, model any, err error) {
	if problem.Untouched(err) {
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

// warnDrift warns of drift that an update could not repair, with the next step if it never can.
func warnDrift(diags *diag.Diagnostics, what string, drift []string, remedy string) {
	if len(drift) > 0 {
		diags.AddWarning(what+" still differs", "After the change the machine still differs from what is described:\n  "+
			strings.Join(problem.Lines(drift), "\n  ")+"\nNext step: "+cmp.Or(remedy, "see whether it has gone in the next plan; if not, look at the machine."))
	}
}

// drifted reports whether Read found differences that an apply has to repair.
func drifted(drift types.List) bool { return len(drift.Elements()) > 0 }

// changed reports whether any pair of values differs.
func changed(pairs ...[2]attr.Value) bool {
	for _, pair := range pairs {
		if !pair[0].Equal(pair[1]) {
			return true
		}
	}
	return false
}
