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

// reportUnread handles a Read that failed. A machine that is unreachable, or hangs, is not a deleted one, so the
// state is kept and the user gets a warning. A machine that answers but cannot be trusted is an
// error even if the user has abandoned it: an untrusted host key can mean a man-in-the-middle
// attack.
func reportUnread(diags *diag.Diagnostics, at path.Path, what string, err error) {
	p := asProblem(what+" not read", err)
	if !host.Unanswered(err) {
		diags.AddAttributeError(at, p.Title(), p.Text())
		return
	}
	p.Unchanged = "the state keeps the last observed values."
	diags.AddWarning(what+" not read", p.Title()+"\n"+p.Text())
}

// warnRotationUnknown warns that an endpoint has not said whether a replica is in rotation. The plan goes on: it may be
// what repairs the endpoint.
func warnRotationUnknown(diags *diag.Diagnostics, what string, err error) {
	p := asProblem("Rotation not read", err)
	p.Unchanged = "registered keeps the last observed value."
	diags.AddWarning(what+": rotation not read", p.Title()+"\n"+p.Text())
}

// warnGone warns why a Read removes a resource from the state. Without the warning, the plan
// would show a new resource and no reason.
func warnGone(diags *diag.Diagnostics, err error) {
	p := asProblem("Resource is gone", err)
	diags.AddWarning(p.Title(), p.Text())
}

// keepPartial decides which state a failed Create leaves. If a machine may have been changed,
// the plan is kept as the state. Terraform then marks the resource as tainted, so both destroy
// and the next apply know of it. If nothing was changed, no state is kept.
func keepPartial(ctx context.Context, resp *resource.CreateResponse, model any, err error) {
	if problem.Untouched(err) {
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, model)...)
}

// warnDrift warns of drift that an update could not repair. remedy is the next step if no
// update can.
func warnDrift(diags *diag.Diagnostics, what string, drift []string, remedy string) {
	if len(drift) > 0 {
		diags.AddWarning(what+" still differs", "After the change, the machine still differs from the "+
			"configuration:\n  "+
			strings.Join(problem.Lines(drift), "\n  ")+"\nNext step: "+cmp.Or(remedy, "check whether the next "+
			"plan still shows the drift; if it does, inspect the machine."))
	}
}

// drifted reports whether Read found drift that an apply has to repair.
func drifted(drift types.List) bool { return len(drift.Elements()) > 0 }

// changed reports whether the values of any pair differ.
func changed(pairs ...[2]attr.Value) bool {
	for _, pair := range pairs {
		if !pair[0].Equal(pair[1]) {
			return true
		}
	}
	return false
}
