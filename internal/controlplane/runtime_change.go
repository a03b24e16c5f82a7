package controlplane

import (
	"context"
	"fmt"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/runtime"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// leftRuntime returns what runs the components on the machine if s wants another runtime; nil otherwise.
func leftRuntime(s Spec, f machine.Observed) runtime.Runtime {
	if f.OtherRuntime(s.Replica) == "" {
		return nil
	}
	return f.Runtime()
}

// checkMove returns an error before the first change if the runtime and something that a failed change would have to
// undo change together: the version, or a stage of a rotation.
func checkMove(ctx context.Context, s Spec, f machine.Observed) error {
	other := f.OtherRuntime(s.Replica)
	held, begun := f.Identity()
	if other == "" || begun {
		return nil
	}
	before := s.Replica
	before.Runtime = held.Runtime
	was, err := machine.Inspect(ctx, s.Host, before)
	if err != nil {
		return err
	}
	together := "its version"
	if !changesVersion(s, was) {
		if sameGenerations(held.Generations, s.Bundle.Generations()) {
			return nil
		}
		together = "a stage of a rotation"
	}
	return &problem.Problem{
		Summary: "Control-plane replica cannot be changed", Host: s.Machine(), Attribute: "runtime",
		Cause: other + ", and " + together + " would change at once", Unchanged: problem.Nothing,
		Next: "change one of the two, apply, then change the other.",
	}
}

// leaveRuntime stops the components for good and removes their definitions, so that another runtime can run them. Until
// the record says so, the machine counts as one of the former runtime without definitions: a move that is cut off is
// repeated from here, or the components are defined again as they were, whichever the configuration then wants.
func leaveRuntime(ctx context.Context, s Spec, from runtime.Runtime) error {
	problem.Progress(ctx, "%s: stopping the components to change their runtime", s.Machine())
	var definitions []string
	var script host.Script
	for _, name := range component.Names() {
		definitions = append(definitions, from.Path(name))
		if dir := from.DropIns(name); dir != "" {
			script += "rm -rf -- " + host.Words(dir) + "\n"
		}
	}
	script = from.Leave() + script + host.Discard(definitions...)
	if from.OnMachine() {
		script += from.Forget()
	} else {
		// Root has written the audit log. systemd gives the directory of somebody else to the user of the unit.
		script += "if [ -d " + component.AuditLogDir + " ]; then chown -hR root:root " + component.AuditLogDir + "; fi\n"
	}
	script += host.Flush(from.Directories()...)
	if _, err := s.Host.Run(ctx, host.Command{Script: script}); err != nil {
		return fmt.Errorf("stop the components of replica %s to change their runtime: %w", s.Machine(), err)
	}
	return nil
}
