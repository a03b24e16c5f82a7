package etcd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// SaveSnapshot saves a verified snapshot on the machine of one healthy member that the
// provider manages. It is for callers that change something that depends on etcd. The
// label becomes part of the snapshot's name.
func (c *Clusters) SaveSnapshot(
	ctx context.Context, hosts map[string]*host.Host, b *pki.Bundle, label string,
) (snapshot.Saved, error) {
	return c.saveOnOne(ctx, hosts, b, saving{label: label, dir: snapshot.UpgradesDir})
}

// saveOnOne saves a snapshot on the first of the machines on which that succeeds.
func (c *Clusters) saveOnOne(
	ctx context.Context, hosts map[string]*host.Host, b *pki.Bundle, s saving,
) (snapshot.Saved, error) {
	cl := c.named(b.ClusterID)
	clients, err := cl.connectThrough(b, slices.Collect(maps.Values(hosts)))
	if err != nil {
		return snapshot.Saved{}, err
	}
	defer clients.Close()
	v, err := clients.View(ctx, hostAddresses(hosts))
	if err != nil {
		return snapshot.Saved{}, notSaved(err)
	}
	var errs []error
	at := map[string]*host.Host{}
	for _, h := range hosts {
		at[h.Address()] = h
	}
	for _, m := range v.Members { // sorted, so that the same machine is chosen each time and deletes the oldest ones
		h, known := at[m.Address()]
		if !known || !m.Healthy || m.Learner {
			continue
		}
		s.machine, s.cluster, s.member = cl.machine(h), b.ClusterID, m
		saved, err := cl.save(ctx, s)
		if err == nil || ctx.Err() != nil {
			return saved, err
		}
		errs = append(errs, err)
	}
	if len(errs) == 0 {
		errs = append(errs, errors.New("no healthy member is on a known machine"))
	}
	return snapshot.Saved{}, notSaved(errors.Join(errs...))
}

// saving describes one snapshot that is about to be saved.
type saving struct {
	machine machine.Machine
	cluster string            // cluster ID
	member  membership.Member // on that machine, healthy
	label   string
	dir     func(dataDir string) string
}

// save saves a snapshot on one machine, with the tools and the certificate of its member,
// and keeps the newest ones in its directory.
func (cl *cluster) save(ctx context.Context, s saving) (snapshot.Saved, error) {
	who := membership.Label(s.member.Name, s.machine.Address())
	if err := snapshot.ValidateLabel(s.label); err != nil {
		return snapshot.Saved{}, err
	}
	var to snapshot.Save
	// One that hangs leaves the time to another machine.
	err := host.Within(ctx, cl.pace.Answer, s.machine.Address(), func(ctx context.Context) error {
		program, m, err := machine.Identify(ctx, s.machine, s.cluster)
		if err != nil {
			return err
		}
		to = snapshot.Save{Dir: s.dir(program.DataDir), Tools: program.Tools, Keep: m.UpgradeSnapshots()}
		return nil
	})
	if err != nil {
		return snapshot.Saved{}, fmt.Errorf("%s: %w", who, err)
	}
	to.File = time.Now().UTC().Format(snapshot.TimeLayout) + "-" + s.label + ".db"
	to.ClientURL, to.Need = membership.ClientURL(s.machine.Address()), s.member.DBSize+snapshot.Reserve
	a := machine.Action{Verb: machine.SaveSnapshot, Save: to}
	saved, err := cl.snapshot(ctx, s.machine, who, a)
	if err != nil {
		return snapshot.Saved{}, fmt.Errorf("%s: %w", who, err)
	}
	problem.Progress(ctx, "etcd: saved and verified snapshot %s", saved)
	return saved, nil
}

// snapshot runs the action and parses its output.
func (cl *cluster) snapshot(
	ctx context.Context, on machine.Machine, who string, a machine.Action,
) (snapshot.Saved, error) {
	applied, err := on.Change(ctx, host.Change{}, a)
	if err != nil {
		return snapshot.Saved{}, err
	}
	saved, err := snapshot.ReadSaved(applied.Output)
	if err != nil {
		return snapshot.Saved{}, err
	}
	saved.Host, saved.Path = who, path.Join(a.Save.Dir, a.Save.File)
	return saved, nil
}

func notSaved(err error) error {
	return &problem.Problem{
		Summary: "etcd snapshot not saved", Cause: err.Error(), Err: err, Unchanged: problem.Nothing,
		Next: "recover the members and their machines, or free space on them, depending on the cause; then apply again",
	}
}
