package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// runsDefinition reports whether the member runs from the definition that is there: an inherited one does not, nor one
// whose definition was written by a run that was cut off before its restart, or by hand.
func runsDefinition(f machine.Observed) bool {
	at := machine.DefinitionFile(f.Definition())
	noted := f.StartedWith()[at.Path]
	return !f.IsInherited() && (noted == "" || noted == machine.Digest(at.Content))
}

// changesDefinition reports whether the member serves, and r restarts it with another definition than it runs from.
func changesDefinition(f machine.Observed, entry *membership.Member, r machine.Repair) bool {
	former := f.Definition()
	if entry == nil || !entry.Healthy || r.Returns || r.Remount || former == "" {
		return false
	}
	at := machine.DefinitionFile(former)
	return !runsDefinition(f) || slices.ContainsFunc(r.Change.Files, func(file host.File) bool {
		return file.Path == at.Path && string(file.Content) != former
	})
}

// formerDefinition returns the definition with which the member serves, if r replaces it, and it is still there;
// otherwise "".
func formerDefinition(f machine.Observed, entry *membership.Member, r machine.Repair) string {
	if !runsDefinition(f) || !changesDefinition(f, entry, r) {
		return ""
	}
	return f.Definition()
}

// mayChangeDefinition refuses to give a member another definition after one of another member did not start in this
// run: the same change would stop this one too.
func (c *updating) mayChangeDefinition(v *membership.View, r machine.Repair) error {
	failed := c.cl.unstartedMember()
	if failed == "" || failed == c.s.Name || !changesDefinition(c.f, machine.EntryOf(v, c.s.Spec), r) {
		return nil
	}
	return refusal("etcd member not changed", c.s, v,
		fmt.Sprintf("member %q did not serve after a change of its flags or unit in this run", failed), problem.Nothing,
		"fix the cause reported for it, then apply again")
}

// returnTo starts the member with the definition that it had before, and reports the result as an error. It starts the
// member also if the caller's time is over; then nobody sees it serve.
func (c *updating) returnTo(ctx context.Context, former string, cause error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("wait for etcd on %s: %w; the next apply continues from there", c.s.Label(), cause)
	}
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.cl.pace.Cleanup)
	defer cancel()
	p := &problem.Problem{
		Summary: "etcd member not changed, and rolled back", Host: c.s.Label(), Err: cause,
		Cause: fmt.Sprintf("etcd was started with the new flags and unit, but %s", cause),
		Unchanged: fmt.Sprintf("%s serves again as before, with the same data; the other members were not changed.",
			c.s.Name),
		Next:   "fix the cause shown in the log below, or set the arguments back, and apply again",
		Detail: "--- last lines of " + layout.Unit + " with the new flags and unit\n" + c.cl.lastLog(ctx, c.s),
	}
	problem.Progress(ctx, "etcd %s: rolling back: etcd was started with the new flags and unit, but %s", c.s.Name, cause)
	_, err := c.cl.machine(c.s.Host).Change(undo, host.Change{Files: []host.File{machine.DefinitionFile(former)}},
		machine.Action{Verb: machine.Start})
	if err == nil {
		err = c.waitServing(ctx, c.s.Version)
	}
	if err != nil {
		p.Summary = "etcd member does not serve"
		p.Cause += fmt.Sprintf("; with the former flags and unit, which are installed again: %s", err)
		p.Unchanged = "its data; the other members were not changed."
		p.Next = "check its log (" + c.s.LogCommand() + "), then apply again"
		p.Detail += "\n--- last lines of " + layout.Unit + " with the former flags and unit\n" + c.cl.lastLog(ctx, c.s)
		return p
	}
	problem.Progress(ctx, "etcd %s: serving as before", c.s.Name)
	return p
}

// notStartedAnew returns the error for an inherited member that does not serve with the provider's manifest. It is not
// rolled back: kubeadm's manifest is kept, and starts it as it was.
func (c *updating) notStartedAnew(ctx context.Context, cause error) error {
	err := c.cl.notServing(ctx, c.s, cause)
	var p *problem.Problem
	if errors.As(err, &p) {
		p.Next += "; to start it as it was, copy the manifest of kubeadm, which is kept in " + machine.KeptManifest +
			", to " + machine.ManifestPath
	}
	return err
}

// unstartedMember returns the member that did not serve after a change of its definition in this process, or "".
func (cl *cluster) unstartedMember() string {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.unstarted
}

func (cl *cluster) noteUnstarted(name string) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	cl.unstarted = name
}
