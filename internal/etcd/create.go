package etcd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Create makes the member exist: bootstraps together with the peers that
// arrive within the rendezvous window, or joins as a learner and is promoted.
// It adopts what an earlier call that was cut off has left.
func (c *Clusters) Create(ctx context.Context, s Spec) (Status, error) {
	cl := c.of(s)
	for {
		o := cl.arrive(ctx, s)
		if !o.join && o.err != nil {
			return o.status, o.err
		}
		if !o.join {
			return o.status, s.outageEnded(ctx)
		}
		status, err := cl.join(ctx, s)
		if err == nil {
			return status, s.outageEnded(ctx)
		}
		// The cluster that answered can be gone by the time it is this member's
		// turn, when all of its members were destroyed before. Then decide anew.
		if !errors.Is(err, errNoAnswer) || ctx.Err() != nil {
			return status, err
		}
		problem.Progress(ctx, "etcd %s: the cluster no longer answers; looking again", s.Name)
	}
}

// bootstrap makes a new cluster of the given members. Who cannot even be
// prepared is left out of the initial cluster, so that it does not start with a dead member.
func (cl *cluster) bootstrap(ctx context.Context, specs map[string]Spec, machines map[string]found, archive []string) map[string]outcome {
	results := map[string]outcome{}
	var mu sync.Mutex
	ready := map[string]issued{}
	members := map[string]string{}
	_ = each(specs, func(name string, s Spec) error { // errors are in results
		c, err := cl.prepare(ctx, s, machines[name], slices.Contains(archive, name))
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			results[name] = outcome{err: err}
			return nil
		}
		ready[name], members[name] = c, s.PeerURL()
		return nil
	})
	specs = maps.Clone(specs)
	maps.DeleteFunc(specs, func(name string, _ Spec) bool { _, ok := ready[name]; return !ok })
	_ = each(specs, func(name string, s Spec) error { // errors are in results
		status, err := cl.bear(ctx, s, machines[name], ready[name], members)
		mu.Lock()
		defer mu.Unlock()
		results[name] = outcome{status: status, err: err}
		return nil
	})
	return results
}

// prepare does what may be done before it is known who takes part: it changes
// nothing that etcd would see, except that leftovers are archived.
func (cl *cluster) prepare(ctx context.Context, s Spec, f found, archive bool) (issued, error) {
	if archive {
		problem.Progress(ctx, "etcd %s: archiving a bootstrap that was cut off before it had a quorum", s.Name)
		if err := cl.retire(ctx, s); err != nil {
			return issued{}, err
		}
	}
	if err := cl.install(ctx, s, f); err != nil {
		return issued{}, err
	}
	return certificates(s, f, time.Now())
}

// retire stops the unit and archives the data, never wipes it.
func (cl *cluster) retire(ctx context.Context, s Spec) error {
	if _, err := cl.machine(s.Host).Change(ctx, host.Change{}, action{Verb: doRetire, DataDir: s.dataDir(), Archive: archivePath(s)}); err != nil {
		return fmt.Errorf("archive data of %s: %w", s.label(), err)
	}
	return nil
}

// archivePath is a new directory in the archive.
func archivePath(s Spec) string {
	return fmt.Sprintf("%s/%s-%s", archiveRoot(s.dataDir()), s.Name, time.Now().UTC().Format("20060102T150405Z"))
}

func (cl *cluster) install(ctx context.Context, s Spec, f found) error {
	if len(missingArtifacts(s, f)) == 0 {
		return nil
	}
	problem.Progress(ctx, "etcd %s: installing etcd %s", s.Name, s.Version)
	if _, err := cl.machine(s.Host).Install(ctx, s.Source, artifacts(s.Version)); err != nil {
		return &problem.Problem{
			Summary: "etcd not installed", Host: s.label(), Cause: err.Error(), Err: err,
			Unchanged: "no etcd was started, stopped or changed.", Next: "check the artifact source of the provider and the version",
		}
	}
	return nil
}

// bear starts one member of a new cluster and sees it established.
func (cl *cluster) bear(ctx context.Context, s Spec, f found, c issued, members map[string]string) (Status, error) {
	id := staticMemberID(s.PeerURL(), s.Bundle.ClusterID)
	change, timer := birth(s, f, c, id, environment(s.Bundle.ClusterID, "new", members))
	problem.Progress(ctx, "etcd %s: bootstrapping a cluster of %d", s.Name, len(members))
	m := cl.machine(s.Host)
	if _, err := m.Change(ctx, change, action{Verb: doStart, Timer: timer}); err != nil {
		return Status{}, fmt.Errorf("start etcd on %s: %w", s.label(), err)
	}
	conv, err := cl.converse(s)
	if err != nil {
		return Status{}, err
	}
	defer conv.Close()
	v, err := cl.serving(ctx, conv, s, id)
	if err != nil {
		return Status{}, err
	}
	if _, err := m.Change(ctx, host.Change{Remove: []string{envPath}}, action{}); err != nil {
		return Status{}, fmt.Errorf("establish etcd on %s: %w", s.label(), err)
	}
	problem.Progress(ctx, "etcd %s: serving", s.Name)
	change.Files = slices.DeleteFunc(change.Files, func(file host.File) bool { return file.Path == envPath })
	return describe(s, f.after(s, change), &v), nil
}
