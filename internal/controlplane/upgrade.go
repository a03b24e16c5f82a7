package controlplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// errNotAllReady means that an upgrade waits for something that is not ready, or unknown.
var errNotAllReady = errors.New("not all of the control plane is ready")

// changesVersion reports whether a component runs another version than the wanted one, or would
// be started with one.
func changesVersion(s Spec, f machine.Observed) bool {
	return slices.ContainsFunc(release.Components(), func(name string) bool {
		version := f.EffectiveVersion(name)
		return version != "" && version != s.Version
	})
}

// checkUpgrade returns why the replica may not go to its wanted version now. It returns nil
// once everything is prepared. It runs under the lock: no other replica of this process is
// changing.
func (r *Replicas) checkUpgrade(ctx context.Context, s Spec, t heldLock) error {
	seen, all, err := r.observeVersions(ctx, s)
	if err != nil {
		return versionRefused(s, "upgraded to", err.Error(), "fix this, then apply again.", errors.Join(errNotAllReady, err))
	}
	if err := release.CheckSkew(s.Version, s.Name, seen); err != nil {
		return versionRefused(s, "upgraded to", err.Error(), "follow the rule above, then apply again.", err)
	}
	if problems := append(unknownVersions(s, seen), replicasNotReady(ctx, s, all)...); len(problems) > 0 {
		return versionRefused(s, "upgraded to", strings.Join(problems, "; "),
			"bring it back, apply its resource first, or destroy it if it is gone; then apply again.", errNotAllReady)
	}
	return prepare(ctx, s, t, seen, all)
}

// versionRefused is the error of a replica that may not be upgraded to, or created with, its version.
func versionRefused(s Spec, done, cause, next string, err error) error {
	return &problem.Problem{
		Summary: "Control-plane replica not " + done + " " + s.Version, Attribute: "version", Host: s.Machine(),
		Cause: cause, Unchanged: problem.Nothing, Next: next, Err: err,
	}
}

// unknownVersions returns the versions that an upgrade needs to know and that are unknown.
func unknownVersions(s Spec, seen release.Versions) []string {
	var problems []string
	for name, version := range seen.Etcd {
		if version == "" {
			problems = append(problems, "etcd member "+name+" does not answer")
		}
	}
	slices.Sort(problems)
	// Only the minor matters for kubelets; a patch upgrade does not need their versions.
	if seen.Kubelets == nil && !release.SameMinor(seen.Replicas[s.Name], s.Version) {
		problems = append(problems, "no API server lists the nodes, whose kubelets must be compatible with the new version")
	}
	return problems
}

// replicasNotReady returns, for each other replica, what prevents it from serving while this
// one is drained.
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
	_ = group.Wait() // never fails: an error is a reason
	return slices.Concat(reasons...)
}

func (st replicaStatus) notReady(ctx context.Context, s Spec) []string {
	if st.version == "" {
		return []string{fmt.Sprintf("replica %s does not report its version: %v", st.machine(), st.unknown)}
	}
	problems := st.spec(s).client().NotReady(ctx)
	rotation, err := s.Registrar.Registered(ctx, st.name, net.JoinHostPort(st.address, strconv.Itoa(st.port)))
	if err != nil {
		rotation = append(rotation, "its registration cannot be seen: "+err.Error())
	}
	problems = append(problems, rotation...)
	for i, text := range problems {
		problems[i] = "replica " + st.machine() + ": " + text
	}
	return problems
}

// prepare prepares an upgrade before the first machine is changed: the programs are installed
// on every machine, and the first replica to be upgraded saves a snapshot of etcd. Both happen
// once per run.
func prepare(ctx context.Context, s Spec, t heldLock, seen release.Versions, all []replicaStatus) error {
	if t.lock.prepared == s.Version {
		return install(ctx, s)
	}
	if err := installEverywhere(ctx, s, all); err != nil {
		return versionRefused(s, "upgraded to", err.Error(), "fix this, then apply again.", err)
	}
	if runsFirst(s, all) {
		for _, api := range seen.Removed {
			problem.Progress(ctx, "%s: warning: clients have requested %s", s.Machine(), api)
		}
		if err := saveSnapshot(ctx, s, t); err != nil {
			return versionRefused(s, "upgraded to", "no snapshot of etcd could be saved: "+err.Error(),
				"fix this, then apply again.", err)
		}
	}
	t.lock.prepared = s.Version
	return nil
}

// runsFirst reports whether s is the first of the existing replicas, or of those and a new one, to run its version.
// Without another replica, a new one upgrades nothing.
func runsFirst(s Spec, all []replicaStatus) bool {
	return len(all) > 0 && !slices.ContainsFunc(all, func(st replicaStatus) bool {
		return st.upgrading || st.name != s.Name && st.version == s.Version
	})
}

// installEverywhere installs the programs on the machines of all replicas.
func installEverywhere(ctx context.Context, s Spec, all []replicaStatus) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return install(groupCtx, s) })
	for _, other := range othersToInstall(s, all) {
		group.Go(func() error { return install(groupCtx, other) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	problem.Progress(ctx, "%s: Kubernetes %s is on every replica's machine", s.Machine(), s.Version)
	return nil
}

// othersToInstall returns the other replicas as far as installing the version of s on their machines requires. Those of
// another runtime install when it is their turn. So do static pods if the image repository that they will have is not
// known: it is none that can be read, or that of s changes together with the version.
func othersToInstall(s Spec, all []replicaStatus) []Spec {
	stays := slices.ContainsFunc(all, func(st replicaStatus) bool {
		return st.name == s.Name && st.repository == cmp.Or(s.ImageRepository, component.DefaultImageRepository)
	})
	var others []Spec
	for _, st := range all {
		known := s.Runtime != component.StaticPod || stays && st.repository != ""
		if st.name == s.Name || st.runtime != s.Runtime || !known {
			continue
		}
		other := st.spec(s)
		other.Version, other.Source = s.Version, s.Source
		others = append(others, other)
	}
	return others
}

// saveSnapshot saves a snapshot of etcd before the first API server runs the version of s, once per run.
func saveSnapshot(ctx context.Context, s Spec, t heldLock) error {
	if t.lock.saved == s.Version {
		return nil
	}
	place := ""
	if s.Store != nil {
		var err error
		if place, err = s.Store.Save(ctx, "kubernetes-"+s.Version); err != nil {
			return err
		}
	}
	t.lock.saved = s.Version
	if place == "" {
		problem.Progress(ctx, "%s: etcd is not on machines of this provider: no snapshot is taken before the upgrade",
			s.Machine())
		return nil
	}
	problem.Progress(ctx, "%s: snapshot of etcd before the upgrade: %s", s.Machine(), place)
	return nil
}

// saveBeforeJoin saves a snapshot of etcd for a new replica that is the first to run its version.
func (r *Replicas) saveBeforeJoin(ctx context.Context, s Spec) error {
	t, err := r.changeLocks.acquire(ctx, s)
	if err != nil {
		return err
	}
	defer t.release()
	if err := saveSnapshot(t.context(ctx), s, t); err != nil {
		return versionRefused(s, "created with", "no snapshot of etcd could be saved: "+err.Error(),
			"fix this, then apply again.", err)
	}
	return nil
}

// beginCheckJoin starts to check whether a new replica may run together with the existing ones. The returned function
// waits for the result, and reports whether the replica is the first to run its version. A dead machine does not
// prevent a cluster from growing: one replica at the wanted minor is enough, because it moved there when all were
// within one minor.
func (r *Replicas) beginCheckJoin(ctx context.Context, s Spec) func() (first bool, err error) {
	answer := make(chan error, 1)
	first := false
	go func() {
		var err error
		first, err = r.checkJoin(ctx, s)
		answer <- err
	}()
	return func() (bool, error) {
		err := <-answer
		return first, err
	}
}

func (r *Replicas) checkJoin(ctx context.Context, s Spec) (first bool, err error) {
	seen, all, err := r.observeVersions(ctx, s)
	if err != nil {
		return false, versionRefused(s, "created with", err.Error(), "fix this, then apply again.", err)
	}
	if err := release.CheckSkew(s.Version, s.Name, seen); err != nil {
		return false, versionRefused(s, "created with", err.Error(), "follow the rule above, then apply again.", err)
	}
	var unseen []string
	for _, st := range all {
		switch {
		case st.name == s.Name:
		case release.SameMinor(st.version, s.Version):
			return runsFirst(s, all), nil
		case st.version == "":
			unseen = append(unseen, fmt.Sprintf("replica %s does not report its version: %v", st.machine(), st.unknown))
		}
	}
	if len(unseen) > 0 {
		return false, versionRefused(s, "created with", strings.Join(unseen, "; ")+"; and no other one runs the same minor",
			"bring it back, or destroy its replica, or choose the version of the others; then apply again.", errNotAllReady)
	}
	return runsFirst(s, all), nil
}

// requestedRemovedAPIs returns the APIs that clients have requested and that the wanted version
// no longer serves. It queries the API servers that run an older minor. The result is a hint:
// an API server that does not answer is skipped.
func requestedRemovedAPIs(ctx context.Context, s Spec, all []replicaStatus) []string {
	want, err := release.Minor(s.Version)
	if err != nil {
		return nil
	}
	var mu sync.Mutex
	var removed []string
	var queries sync.WaitGroup
	for _, st := range all {
		if has, err := release.Minor(st.version); err != nil || has >= want {
			continue
		}
		queries.Go(func() {
			requested, err := st.spec(s).client().RemovedAPIs(ctx, want)
			if err != nil {
				problem.Detail(ctx, "%s: deprecated APIs unknown: %v", st.machine(), err)
			}
			mu.Lock()
			defer mu.Unlock()
			removed = append(removed, requested...)
		})
	}
	queries.Wait()
	slices.Sort(removed)
	return slices.Compact(removed)
}
