package provider

import (
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// runtimeChange is the plan of an existing member or replica that moves to another runtime.
type runtimeChange struct {
	title           string // "Member"
	label           string // `etcd member "cp1"`
	product         string // whose version it has: "etcd"
	from, to        string // runtimes
	before, version types.String
	steps           string // what happens, and what changes hands on the machine
}

// plan says what changes hands. It refuses another version at the same time, as the apply does: a step to another
// version can be rolled back, and the change of the runtime would be in its way.
func (c runtimeChange) plan(diags *diag.Diagnostics) {
	const summary = "Runtime and version change at once"
	if c.version.IsUnknown() || c.version.Equal(c.before) {
		diags.AddAttributeWarning(path.Root("runtime"), c.title+" moves to another runtime", c.steps)
		return
	}
	addError(diags, path.Root("runtime"), summary, &problem.Problem{
		Summary: summary, Unchanged: problem.Nothing,
		Cause: fmt.Sprintf("%s would move from %s to %s, and from %s %s to %s", c.label, c.from, c.to, c.product,
			c.before.ValueString(), c.version.ValueString()),
		Next: "change one of the two, apply, then change the other.",
	})
}
