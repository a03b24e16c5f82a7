// Package drill restores the newest snapshot of a cluster on one machine, apart from everything that runs
// there, and proves that an API server serves it: see the restore of package etcd, whose steps it uses.
package drill

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Source is where the snapshot comes from. At most one of Snapshot and Fetch is set; without either,
// the snapshot is the newest one in the member's bucket, or on its machine if it has none.
type Source struct {
	Snapshot        string // a path on the machine
	Fetch           string // commands that bring the snapshot to the machine
	EnvironmentFile string // on the machine, for Fetch; "": none. The bucket has that of the upload
	Identity        string // of age, for a bucket with encrypted snapshots; "": none
}

// kind returns the kind of the source, for start.sh.
func (s Source) kind() string {
	switch {
	case s.Snapshot != "":
		return "snapshot"
	case s.Fetch != "":
		return "fetch"
	}
	return ""
}

// Spec is a drill on the machine of a member that also has a replica.
type Spec struct {
	Member string
	Host   *host.Host
	Bundle *pki.Bundle
	Source Source
}

// label names the member and its machine.
func (s Spec) label() string { return s.Member + " (" + s.Host.Address() + ")" }

const (
	// leaseName is that of the lease under which a machine has one drill at a time. A unit that is there
	// without it is what an interrupted drill has left.
	leaseName = "etcd-restore-drill"
	// clearTime limits the removal of what a drill has made, also after an interruption.
	clearTime = 2 * time.Minute
)

const notDone = "Restore drill failed"

// Run runs a drill, removes everything of it from the machine, and records the result there. The result is
// returned with the error of a drill that failed, and is empty if none was begun.
func Run(ctx context.Context, s Spec) (snapshot.Drill, error) {
	leases, err := host.TakeLeases(ctx, []host.LeaseTaker{s.Host}, leaseName, host.LeaseOptions{What: "restore drill"})
	if err != nil {
		return snapshot.Drill{}, refused(s, err)
	}
	defer leases.Release()
	ctx = leases.Context(ctx)
	at, err := examine(ctx, s) // after a drill of another process, whose record counts
	if err != nil {
		return snapshot.Drill{}, refused(s, err)
	}
	r := snapshot.Drill{
		ClusterID: s.Bundle.ClusterID, Member: s.Member, Started: time.Now().Unix(), LastSuccess: at.lastSuccess,
		Source: cmp.Or(s.Source.kind(), "newest"), Steps: map[string]float64{}, Objects: map[string]int64{},
	}
	err = s.drill(ctx, at, &r)
	finish(&r, time.Now().Unix(), err)
	if r.Succeeded {
		report(ctx, r)
	} else {
		err = failed(s, err)
	}
	// Also after an interruption: nothing of the drill may stay.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), clearTime)
	defer cancel()
	return r, errors.Join(err, s.clear(ctx, at), s.record(ctx, r))
}

// finish completes the record of a drill that ended now with err. The last success may have been recorded by a clock
// that was ahead of this one: a record in which a drill succeeded later than it ended says nothing to its readers.
func finish(r *snapshot.Drill, now int64, err error) {
	r.Finished = max(now, r.Started)
	r.LastSuccess = min(r.LastSuccess, r.Finished)
	if r.Succeeded = err == nil; r.Succeeded {
		r.LastSuccess = r.Finished
	} else {
		r.Problem = shortened(err)
	}
}

// longestProblem is in bytes: what a record of a drill may have.
const longestProblem = 1500

// shortened returns an error for the record. It may contain what the machine has said.
func shortened(err error) string {
	text := problem.Block(err.Error())
	return strings.ToValidUTF8(text[:min(len(text), longestProblem)], "")
}

// drill does the steps of a drill. What it learns is in the result, also if it fails.
func (s Spec) drill(ctx context.Context, at place, r *snapshot.Drill) error {
	problem.Progress(ctx, "restore drill on %s: verifying and restoring the snapshot", s.label())
	keys, err := newCredentials()
	if err != nil {
		return err
	}
	begun, err := s.start(ctx, at, keys)
	if err != nil {
		return err
	}
	begun.fill(r)
	if problems := etcd.Misfits(s.Bundle, begun.staged); len(problems) > 0 {
		return errors.New(strings.Join(problems, "; "))
	}
	r.Encrypted = encrypted(begun.staged)
	problem.Progress(ctx, "restore drill on %s: starting an API server on %s", s.label(), begun.staged)
	api, err := client.New(s.Host, keys.replica(begun.port)).Survey()
	if err != nil {
		return err
	}
	defer api.Close()
	waited := time.Now()
	if err := s.awaitServing(ctx, at, begun.staged.Size, api); err != nil {
		return err
	}
	r.Steps["apiserver"] = rounded(time.Since(waited).Seconds())
	r.RTO = rto(r.Steps)
	return s.inspect(ctx, at, api, r)
}

// report shows the result of a drill that succeeded.
func report(ctx context.Context, r snapshot.Drill) {
	name := cmp.Or(r.Snapshot, "the snapshot")
	problem.Progress(ctx, "restore drill: %s serves after %.1f s (RTO); it was %s old (RPO), revision %d, %s", name, r.RTO,
		time.Duration(r.RPO)*time.Second, r.Revision, membership.Bytes(r.Size))
}

// refused is the problem of a drill that was not begun.
func refused(s Spec, err error) error {
	return &problem.Problem{
		Summary: notDone, Host: s.label(), Cause: err.Error(), Err: err, Unchanged: problem.Nothing,
		Next: "correct the cause, or choose another member, then apply again",
	}
}

// failed is the problem of a drill that failed.
func failed(s Spec, err error) error {
	return &problem.Problem{
		Summary: notDone, Host: s.label(), Cause: err.Error(), Err: err,
		Unchanged: "the cluster and its snapshots; what the drill had on the machine is removed.",
		Next:      "correct the cause, then run the drill again: a restore would fail in the same way",
	}
}
