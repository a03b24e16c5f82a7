package controlplane

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// rollbackTimeout limits a rollback. A rollback has its own context, because it is needed most
// when the caller's time is up.
const rollbackTimeout = returnTimeout

// rollBack reverts a change after which the replica did not become ready. It restores the unit
// files, waits until the replica is ready, and puts it back into rotation. It returns the
// failure, with the result of the rollback.
//
// An API server may go back by a minor: the other replicas are at the older minor, or within
// one minor of it, so they can read everything that the newer one has stored.
func rollBack(ctx context.Context, s Spec, b machine.RollbackRecord, failure error, drained bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	problem.Progress(ctx, "%s: not ready, rolling back to %s", s.Machine(), b.Version)
	err := restore(ctx, s, b)
	if err == nil {
		problem.Progress(ctx, "%s: serving %s again", s.Machine(), b.Version)
	}
	return rollbackProblem(s, b, failure, err, drained)
}

// asBefore returns s as it was before a change: with what ran, and at the endpoints that it had.
func asBefore(s Spec, b machine.RollbackRecord) Spec {
	s.Version, s.Port, s.EtcdURLs = b.Version, b.Port, b.Etcd
	s.Previous = &component.Previous{Definitions: b.Definitions, Settings: b.Settings}
	s.ConfigFiles = b.ConfigFiles()
	if s.Before != nil {
		s.Replica, s.Registrar = s.Before.At(s.Replica), s.Before.Registrar
		s.Leaves = nil
	}
	return s
}

func restore(ctx context.Context, s Spec, b machine.RollbackRecord) error {
	s = asBefore(s, b)
	if err := restoreConfigFiles(ctx, s, b); err != nil {
		return err
	}
	f, err := machine.Observe(ctx, s.Host, s.Replica)
	if err != nil {
		return err
	}
	d, err := decide(s.Replica, f, time.Now())
	if err != nil {
		return err
	}
	if d.restarts(release.APIServer) {
		for _, name := range d.restart {
			if name != release.APIServer && name != component.KonnectivityServer {
				d.stopFirst = append(d.stopFirst, name) // a newer component must not reach the older API server
			}
		}
	}
	if d.restarts(component.KonnectivityServer) && s.Registrar.AgentsReachDrained() {
		d.agents = agentsWait{limit: agentsMayReturn}
	}
	if err := bringUp(ctx, s, d); err != nil {
		return err
	}
	if err := settleFilesList(ctx, s, d); err != nil {
		return err
	}
	if err := s.Registrar.Register(ctx, s.Name, s.ServingAddress()); err != nil {
		return fmt.Errorf("it is ready, but could not be put into rotation: %w", err)
	}
	if err := recordArrival(ctx, s, d.record); err != nil {
		return err
	}
	return removeRollbackRecord(ctx, s)
}

// removeRollbackRecord completes a change, or its rollback.
func removeRollbackRecord(ctx context.Context, s Spec) error {
	if _, err := s.Host.Run(ctx, host.Command{
		Script: host.Discard(machine.RollbackRecordPath) + "rm -rf " + machine.KeptFilesDir + "\n" +
			host.Flush(component.KubernetesDir),
	}); err != nil {
		return fmt.Errorf("finish the change of replica %s: %w", s.Machine(), err)
	}
	return nil
}

// rollbackProblem reports a change that was rolled back, or could not be.
func rollbackProblem(s Spec, b machine.RollbackRecord, failure, undo error, drained bool) error {
	p := &problem.Problem{
		Host: s.Machine(), Cause: failure.Error(), Next: "fix the cause and apply again.", Err: errors.Join(failure, undo),
	}
	var failed *problem.Problem
	if errors.As(failure, &failed) {
		p.Cause, p.Next, p.Detail = failed.Cause, cmp.Or(failed.Next, p.Next), failed.Detail
	}
	what := "changed"
	if b.Version != s.Version {
		what = "upgraded to " + s.Version
	}
	if undo == nil {
		p.Summary = fmt.Sprintf("Control-plane replica not %s: rolled back to %s", what, b.Version)
		p.Unchanged = fmt.Sprintf("the replica serves %s in rotation again, as before; no other one is changed after it "+
			"in this run.", b.Version)
		return p
	}
	p.Summary = fmt.Sprintf("Control-plane replica not %s, and not rolled back", what)
	cause := undo.Error()
	var why *problem.Problem
	if errors.As(undo, &why) {
		cause = why.Cause
		p.Detail += "--- after rolling back to " + b.Version + "\n" + why.Detail
	}
	p.Cause += fmt.Sprintf("; rolling back to %s failed as well: %s", b.Version, cause)
	p.Unchanged = rotationAfter(drained)
	return p
}

// rotationAfter describes whether a failure without a rollback leaves the replica in rotation.
func rotationAfter(drained bool) string {
	if drained {
		return "it is left out of rotation: the endpoint sends it no requests until it is ready and applied again."
	}
	return "it stays registered as it was."
}

// rollbackTarget returns what a change to s can be rolled back to, or nil. The target is what
// runs now, if all of it is ready, or what ran when an interrupted change began. A stage of a
// rotation is never rolled back automatically: other replicas may rely on it.
func rollbackTarget(ctx context.Context, s Spec, f machine.Observed) *machine.RollbackRecord {
	target := s.Bundle.Generations()
	// A takeover has no record yet. It is refused unless the files are those of the bundle.
	if !f.TakesOver(s.Replica) && !sameGenerations(f.Record.Generations, target) {
		return nil
	}
	recorded := f.Rollback
	if recorded != nil && !sameGenerations(recorded.Generations, target) {
		recorded = nil
	}
	ready := running(s, f)
	if ready != nil && len(asObserved(s, f).client().NotReady(ctx)) > 0 {
		ready = nil
	}
	return chooseTarget(f, ready, recorded)
}

// chooseTarget returns what a change can be rolled back to: what runs and is ready, or what an interrupted change has
// recorded. Either is nil if there is none. An upgrade that ended after its API server was ready leaves a mix of two
// versions, which may be ready, but what it has recorded is what is known to work.
func chooseTarget(f machine.Observed, ready, recorded *machine.RollbackRecord) *machine.RollbackRecord {
	if ready == nil || recorded != nil && mixesVersions(f) {
		return recorded
	}
	return ready
}

// mixesVersions reports whether the components of a replica have different versions.
func mixesVersions(f machine.Observed) bool {
	first := f.EffectiveVersion(release.APIServer)
	return slices.ContainsFunc(release.Components(), func(name string) bool {
		version := f.EffectiveVersion(name)
		return version != "" && version != first
	})
}

// running returns what runs now, or nil if that could not be restored.
func running(s Spec, f machine.Observed) *machine.RollbackRecord {
	if f.TakesOver(s.Replica) {
		return f.BeforeTakeover(s.Replica)
	}
	if !runsItsRecord(f) {
		return nil
	}
	now := f.RollbackRecord(s.Bundle.Generations())
	return &now
}

// runsItsRecord reports whether the processes run with what the record and the files on the
// machine describe. Only then can these be restored.
func runsItsRecord(f machine.Observed) bool {
	return f.Record.Port != 0 && f.StaleConfigFile() == "" && machine.StaleProcess(f, component.Names()) == nil
}

// asObserved returns s with the port that it serves on until the change, and with a proxy server only
// if it has one until then.
func asObserved(s Spec, f machine.Observed) Spec {
	s.Port, s.Konnectivity = cmp.Or(f.Record.Port, s.Port), nil
	if f.Facts.Files[f.Runtime().Path(component.KonnectivityServer)].Content != "" {
		s.Konnectivity = &component.Konnectivity{} // the probe needs no more
	}
	return s
}

//go:embed rollback_files.sh
var rollbackFunctions host.Script

// keepCommand copies each file to machine.KeptFilesDir that still is as the record says.
func keepCommand(files map[string]machine.KeptFile) host.Command {
	return filesCommand(files, `keep "$name" "$sum"`, `flush "$kept_dir" "${kept_dir%/*}"`)
}

// restoreCommand makes the files as they were. A file that changed since is copied back.
func restoreCommand(files map[string]machine.KeptFile) host.Command {
	return filesCommand(files, `restore "$name" "$sum" "$mode" "$owner"`, `flush "$files_dir" "${files_dir%/*}"`)
}

// filesCommand calls a function for each file, and another one after that. Not even a digest is on the command line:
// the digest of a short password can be guessed.
func filesCommand(files map[string]machine.KeptFile, each, last host.Script) host.Command {
	var lines strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		k := files[name]
		fmt.Fprintf(&lines, "%s %s %04o %s\n", name, k.SHA256, k.Mode, k.Owner)
	}
	return host.Command{
		Script: host.FlushFunction() + rollbackFunctions + "while read -r name sum mode owner; do " + each + "; done\n" +
			last + "\n",
		Vars:  map[string]string{"files_dir": component.FilesDir, "kept_dir": machine.KeptFilesDir},
		Stdin: strings.NewReader(lines.String()),
	}
}

// keepConfigFiles copies the files of the user that a change alters, before it does.
func keepConfigFiles(ctx context.Context, s Spec, b machine.RollbackRecord) error {
	if len(b.Files) == 0 {
		return nil
	}
	if _, err := s.Host.Run(ctx, keepCommand(b.Files)); err != nil {
		return fmt.Errorf("keep the files of replica %s for a rollback: %w", s.Machine(), err)
	}
	return nil
}

// restoreConfigFiles restores the files of the user. Files that the change added are removed
// with everything else that is not wanted.
func restoreConfigFiles(ctx context.Context, s Spec, b machine.RollbackRecord) error {
	if len(b.Files) == 0 {
		return nil
	}
	if _, err := s.Host.Run(ctx, restoreCommand(b.Files)); err != nil {
		return fmt.Errorf("restore the files in %s: %w", component.FilesDir, err)
	}
	return nil
}
