package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// errNotAllReady: an upgrade waits for what is not well, or does not tell.
var errNotAllReady = errors.New("not all of the control plane is ready")

// changesVersion: a component runs, or would be started at, another version than
// the wanted one.
func changesVersion(s Spec, f observed) bool {
	return slices.ContainsFunc(release.Components(), func(name string) bool {
		version := f.effectiveVersion(name)
		return version != "" && version != s.Version
	})
}

// checkUpgrade says why the replica may not go to its wanted version now, or nil
// once everything is prepared for it. It asks inside the turn: no other replica of
// this process is then on its way.
func (r *Replicas) checkUpgrade(ctx context.Context, s Spec, t turn) error {
	seen, all, err := r.observeVersions(ctx, s)
	if err != nil {
		return upgradeRefused(s, err.Error(), "fix this, then apply again.", errors.Join(errNotAllReady, err))
	}
	if err := release.CheckSkew(s.Version, s.Name, seen); err != nil {
		return upgradeRefused(s, err.Error(), "follow the rule above, then apply again.", err)
	}
	if problems := append(unknownVersions(s, seen), replicasNotReady(ctx, s, all)...); len(problems) > 0 {
		return upgradeRefused(s, strings.Join(problems, "; "), "bring it back, apply its resource first, or destroy it if it is gone; then apply again.", errNotAllReady)
	}
	return prepare(ctx, s, t, seen, all)
}

func upgradeRefused(s Spec, cause, next string, err error) error {
	return &problem.Problem{
		Summary: "control-plane replica not upgraded to " + s.Version, Attribute: "version", Host: s.Machine(),
		Cause: cause, Unchanged: problem.Nothing, Next: next, Err: err,
	}
}

// unknownVersions lists whose version an upgrade has to know and does not.
func unknownVersions(s Spec, seen release.Versions) []string {
	var problems []string
	for name, version := range seen.Etcd {
		if version == "" {
			problems = append(problems, "etcd member "+name+" does not answer")
		}
	}
	slices.Sort(problems)
	// Kubelets are judged by the minor alone: another patch needs none of them.
	if seen.Kubelets == nil && !release.SameMinor(seen.Replicas[s.Name], s.Version) {
		problems = append(problems, "no API server lists the nodes, whose kubelets must be compatible with the new version")
	}
	return problems
}

// replicasNotReady says of each other replica what keeps it from carrying the clients
// while this one is away.
func replicasNotReady(ctx context.Context, s Spec, all []replicaStatus) []string {
	reasons := make([][]string, len(all))
	group, groupCtx := errgroup.WithContext(ctx)
	for i, st := range all {
		if st.name == s.Name {
			continue
		}
		group.Go(func() error {
			reasons[i] = st.notReady(groupCtx, s)
			return nil
		})
	}
	_ = group.Wait() // it has no failure: what cannot be seen is a reason
	return slices.Concat(reasons...)
}

func (st replicaStatus) notReady(ctx context.Context, s Spec) []string {
	if st.version == "" {
		return []string{fmt.Sprintf("replica %s does not report its version: %v", st.machine(), st.unknown)}
	}
	problems := componentsNotReady(ctx, st.spec(s))
	rotation, err := s.Registrar.Registered(ctx, st.name, net.JoinHostPort(st.address, strconv.Itoa(st.port)))
	if err != nil {
		rotation = []string{"its registration cannot be seen: " + err.Error()}
	}
	problems = append(problems, rotation...)
	for i, text := range problems {
		problems[i] = "replica " + st.machine() + ": " + text
	}
	return problems
}

// prepare does what an upgrade wants done before the first machine is touched:
// the programs are on every machine, so that nothing about them can go wrong in the
// middle, and the first replica that goes to a version leaves a snapshot of etcd
// behind. What is done in this run is not done again.
func prepare(ctx context.Context, s Spec, t turn, seen release.Versions, all []replicaStatus) error {
	if t.queue.prepared == s.Version {
		return install(ctx, s)
	}
	if err := installEverywhere(ctx, s, all); err != nil {
		return upgradeRefused(s, err.Error(), "fix this, then apply again.", err)
	}
	first := !slices.ContainsFunc(all, func(st replicaStatus) bool { return st.changing || st.name != s.Name && st.version == s.Version })
	if first {
		for _, api := range seen.Removed {
			problem.Progress(ctx, "%s: warning: clients have requested %s", s.Machine(), api)
		}
		if err := saveSnapshot(ctx, s); err != nil {
			return upgradeRefused(s, "no snapshot of etcd could be saved: "+err.Error(), "fix this, then apply again.", err)
		}
	}
	t.queue.prepared = s.Version
	return nil
}

// installEverywhere puts the programs onto the machines of all replicas.
func installEverywhere(ctx context.Context, s Spec, all []replicaStatus) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return install(groupCtx, s) })
	for _, st := range all {
		if st.name == s.Name {
			continue
		}
		other := st.spec(s)
		other.Version, other.Source = s.Version, s.Source
		group.Go(func() error { return install(groupCtx, other) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	problem.Progress(ctx, "%s: Kubernetes %s is on every replica's machine", s.Machine(), s.Version)
	return nil
}

func saveSnapshot(ctx context.Context, s Spec) error {
	place := ""
	if s.Store != nil {
		var err error
		if place, err = s.Store.Save(ctx, "kubernetes-"+s.Version); err != nil {
			return err
		}
	}
	if place == "" {
		problem.Progress(ctx, "%s: etcd is not on machines of this provider: no snapshot is taken before the upgrade", s.Machine())
		return nil
	}
	problem.Progress(ctx, "%s: snapshot of etcd before the upgrade: %s", s.Machine(), place)
	return nil
}

// beginCheckJoin begins to look whether a new replica may run beside what there is; the
// answer comes from the function it returns. A machine that is dead does not keep
// a cluster from growing: one at the wanted minor that answers is enough, for it
// went there when all were within one.
func (r *Replicas) beginCheckJoin(ctx context.Context, s Spec) func() error {
	answer := make(chan error, 1)
	go func() { answer <- r.checkJoin(ctx, s) }()
	return func() error { return <-answer }
}

func (r *Replicas) checkJoin(ctx context.Context, s Spec) error {
	seen, all, err := r.observeVersions(ctx, s)
	if err != nil {
		return upgradeRefused(s, err.Error(), "fix this, then apply again.", err)
	}
	if err := release.CheckSkew(s.Version, s.Name, seen); err != nil {
		return upgradeRefused(s, err.Error(), "follow the rule above, then apply again.", err)
	}
	var unseen []string
	for _, st := range all {
		switch {
		case st.name == s.Name:
		case release.SameMinor(st.version, s.Version):
			return nil
		case st.version == "":
			unseen = append(unseen, fmt.Sprintf("replica %s does not report its version: %v", st.machine(), st.unknown))
		}
	}
	if len(unseen) > 0 {
		return upgradeRefused(s, strings.Join(unseen, "; ")+"; and no other one runs the same minor", "bring it back, or destroy its replica, or choose the version of the others; then apply again.", errNotAllReady)
	}
	return nil
}
