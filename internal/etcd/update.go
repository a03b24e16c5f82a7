package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

// repair is what brings an established member to its spec.
type repair struct {
	Change  host.Change
	Restart string // why etcd must be restarted; "" when it need not be
	Link    bool   // start at boot again
	Timer   timerVerb
}

func (r repair) needed() bool {
	return r.Restart != "" || r.Link || r.Timer != timerLeft || len(r.Change.Files)+len(r.Change.Remove) > 0
}

// repairs compares a machine with s. entry is the member as the cluster lists
// it, or nil.
func repairs(s Spec, f found, v *membership.View, now time.Time) (repair, error) {
	var r repair
	entry := entryOf(v, s)
	if f.Marker == nil && !f.recordLost(s, v) {
		return repair{}, refusal("etcd member not changed", s, v, f.foreign(s.Bundle.ClusterID, s.dataDir()), problem.Nothing,
			"bring the member back until the cluster lists it as healthy, and apply again: its record is then written anew")
	}
	for _, file := range fixedFiles(s) {
		have, ok := f.facts.Files[file.Path]
		if !ok || have.SHA256 != digest(file.Content) || have.Mode.Perm() != file.Mode {
			r.Change.Files = append(r.Change.Files, file)
		}
	}
	r.repairSnapshots(s, f)
	c, err := certificates(s, f, now)
	if err != nil {
		return repair{}, err
	}
	// The marker is the last file: it vouches for those before it.
	if id := f.identity(v, entry); len(c.Files) > 0 || !f.recordFits(s, id) {
		r.Change.Files = append(r.Change.Files, c.Files...)
		r.Change.Files = append(r.Change.Files, markerFile(s, id, c.Pairs))
	}
	for _, name := range f.facts.Dirs[dropInDir] {
		r.Change.Remove = append(r.Change.Remove, path.Join(dropInDir, name))
	}
	r.Restart = restartReason(s, f, entry)
	if f.Pending && entry != nil && !entry.Learner && entry.Started() {
		r.Change.Remove = append(r.Change.Remove, envPath)
	}
	if f.unfinished() && entry != nil && entry.Healthy && entry.Version == s.Version {
		r.Change.Remove = append(r.Change.Remove, beforePath)
	}
	r.Link = f.Unit.Enabled != "enabled"
	if r.needed() {
		base := layout(s)
		r.Change.Users, r.Change.Dirs, r.Change.Links = base.Users, base.Dirs, base.Links
	}
	return r, nil
}

// restartReason says why etcd must be restarted so that it runs on what s says,
// or "". It reads certificate and key at each handshake, so they alone restart
// nothing, and connections that there are stay as they are; the CA pool and the
// flags it reads at start, and the note of that start tells what they were: an
// edit that no process has read is undone without a restart.
func restartReason(s Spec, f found, entry *membership.Member) string {
	switch {
	case f.Unit.Active != "active":
		return "it is " + cmp.Or(f.Unit.Active, "not there")
	case len(f.facts.Dirs[dropInDir]) > 0:
		return "a drop-in goes"
	case entry != nil && entry.Version != "" && entry.Version != s.Version:
		return fmt.Sprintf("etcd %s runs", entry.Version)
	case f.unfinished() && (entry == nil || !entry.Healthy):
		return "its upgrade was cut off"
	}
	noted := systemd.ReadStartNote(f.facts.Files[startNote].Content)
	for _, file := range fixedFiles(s) {
		if noted[file.Path] != digest(file.Content) {
			return "it was started with another " + file.Path
		}
	}
	if f.Unit.NeedReload && f.facts.Files[unitPath].SHA256 == noted[unitPath] {
		return "systemd has read another " + unitPath
	}
	return ""
}

// rebuilt reports whether the machine was rebuilt, or the member never established.
func rebuilt(f found) bool { return !f.Data || f.Pending }

// replaced reports whether a new member has to take the place of this one.
func replaced(s Spec, f found, v *membership.View) bool {
	entry := entryOf(v, s)
	return v != nil && entry == nil || // it was removed
		entry != nil && entry.HasAlarm(membership.AlarmCorrupt) || // its data is corrupt
		v != nil && f.earlier(v.ClusterID) != "" || // its data is that of an earlier cluster
		entry != nil && !entry.Healthy && f.memberID() != 0 && f.memberID() != entry.ID // or that of another member
}

// Update brings the member to s: one member at a time, followers before the
// leader, leadership moved away first, restarting only when a file that etcd
// does not reload has changed.
func (c *Clusters) Update(ctx context.Context, s Spec) (Status, error) {
	status, err := c.update(ctx, s)
	return c.of(s).withUnmanaged(s, status, err)
}

func (c *Clusters) update(ctx context.Context, s Spec) (Status, error) {
	cl := c.of(s)
	turn := cl.turns.enter()
	f := cl.look(ctx, s, s.Name, s.Host)
	if !f.reached() {
		turn.leave()
		return Status{}, unreached("etcd member not changed", s, f.Err)
	}
	if rebuilt(f) { // that is Create's work, with all its checks
		turn.leave()
		return c.Create(ctx, s)
	}
	defer turn.leave()
	if err := cl.oneCluster(ctx, s); err != nil {
		return Status{}, err
	}
	v, err := cl.askAbout(ctx, s)
	if err != nil {
		return Status{}, err
	}
	if err := fitness(s, f); err != nil && !f.recordLost(s, v) {
		return Status{}, err
	}
	if replaced(s, f, v) {
		turn.leave()
		return c.Create(ctx, s)
	}
	entry := entryOf(v, s)
	r, err := repairs(s, f, v, time.Now())
	if err != nil || !r.needed() && len(missingArtifacts(s, f)) == 0 && !HasAlarm(v, entry) {
		return describe(s, f, v), err // nothing to wait for
	}
	if err := turn.wait(ctx); err != nil {
		return Status{}, err
	}
	return cl.tend(cl.fenced(ctx), turn, s)
}

// converging is one established member on its way to its spec, in its turn.
type converging struct {
	cl    *cluster
	s     Spec
	turn  *turn
	conv  *client.Clients
	f     found
	since lapse    // of the wait for the rules
	aside bool     // the outage was announced: its end must be too
	near  approach // to the generation of s

	step    versionStep
	size    int64  // of its database, as last seen
	saved   string // the snapshot from before the upgrade
	lasting bool   // a rollback took its own time, and so may what follows it
}

// converge looks, compares and acts until nothing differs.
func (cl *cluster) converge(ctx context.Context, turn *turn, s Spec) (Status, error) {
	conv, err := cl.connect(s)
	if err != nil {
		return Status{}, err
	}
	defer conv.Close()
	c := &converging{cl: cl, s: s, turn: turn, conv: conv}
	c.near = approach{cl: cl, s: s, turn: turn, conv: conv, summary: "etcd member not changed", unchanged: problem.Nothing}
	status, err := c.loop(ctx)
	if c.aside {
		if c.lasting {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), 3*cl.pace.Serving)
			defer cancel()
		}
		err = errors.Join(err, s.outageEnded(ctx))
	}
	return status, err
}

// loop looks, compares and acts.
func (c *converging) loop(ctx context.Context) (Status, error) {
	cl, s := c.cl, c.s
	for {
		c.f = cl.look(ctx, s, s.Name, s.Host)
		if !c.f.reached() {
			return Status{}, unreached("etcd member not changed", s, c.f.Err)
		}
		view, err := c.observe(ctx)
		if err != nil {
			return Status{}, err
		}
		entry := entryOf(view, s)
		r, err := repairs(s, c.f, view, time.Now())
		if err != nil {
			return Status{}, err
		}
		c.step = c.f.versionStep(s, entry)
		if entry != nil {
			c.size = max(c.size, entry.DBSize)
		}
		if !r.needed() && len(missingArtifacts(s, c.f)) == 0 {
			return describe(s, c.f, view), nil
		}
		done, err := c.apply(ctx, view, r)
		if err != nil || done {
			return c.final(ctx, err)
		}
	}
}

// observe is the cluster's view; nil where nobody answers. Without one, nothing is
// started beside data of another life of the cluster.
func (c *converging) observe(ctx context.Context) (*membership.View, error) {
	v, err := c.cl.observeToChange(ctx, c.conv, c.s)
	switch {
	case err == nil:
		return &v, nil
	case !errors.Is(err, client.ErrNoAnswer):
		return nil, err
	}
	if mixed := differentLives(c.cl.lookAround(ctx, c.s)); mixed != "" {
		return nil, refusal("etcd member not changed", c.s, nil, mixed, problem.Nothing, livesNext)
	}
	return nil, nil
}

func entryOf(v *membership.View, s Spec) *membership.Member {
	if v == nil {
		return nil
	}
	if m, ok := v.ByPeerURL(s.PeerURL()); ok {
		return &m
	}
	return nil
}

// final is the status after a change.
func (c *converging) final(ctx context.Context, err error) (Status, error) {
	if err != nil {
		return Status{}, err
	}
	return c.cl.statusNow(ctx, c.conv, c.s)
}

// apply makes one repair when the rules allow it now. It returns false when
// it had to wait and everything must be looked at again.
func (c *converging) apply(ctx context.Context, v *membership.View, r repair) (bool, error) {
	if v != nil {
		if err := c.mayRun(ctx, *v); err != nil {
			return false, err
		}
	}
	if c.f.Marker != nil && c.f.Marker.Generation != c.s.generation() {
		if near, err := c.near.reached(ctx, v); !near {
			return false, err
		}
	}
	if c.step.due() {
		if ready, err := c.prepared(ctx, v); !ready {
			return false, err
		}
	}
	if err := c.cl.install(ctx, c.s, c.f); err != nil {
		return false, err
	}
	if r.Restart == "" {
		return true, c.write(ctx, r)
	}
	if ready, err := c.readyToRestart(ctx, v); !ready || err != nil {
		return false, err
	}
	if !c.aside {
		c.aside = true
		return false, c.s.outageBegins(ctx) // it takes time: look again
	}
	problem.Progress(ctx, "etcd %s: restarting: %s", c.s.Name, r.Restart)
	if c.step.due() {
		return true, c.change(ctx, v, r)
	}
	if _, err := c.cl.machine(c.s.Host).Change(ctx, r.Change, action{Verb: doStart, Timer: r.Timer}); err != nil {
		return false, fmt.Errorf("restart etcd on %s: %w", c.s.label(), err)
	}
	if err := c.comesUp(ctx, c.s.Version); err != nil {
		return false, c.cl.stuck(ctx, c.s, err)
	}
	c.cl.mu.Lock()
	c.cl.restarted = time.Now()
	c.cl.mu.Unlock()
	if c.f.unfinished() {
		return true, c.finish(ctx) // it was given up
	}
	return true, nil
}

// mayRun checks the version against the running ones before anything is done.
func (c *converging) mayRun(ctx context.Context, v membership.View) error {
	if entryOf(&v, c.s) == nil {
		return refusal("etcd member not changed", c.s, &v, "the cluster does not list this member", problem.Nothing, "plan again: the member has to be created anew")
	}
	if unit := unitVersion(c.f.facts.Files[unitPath].Content); !c.step.due() && (unit == "" || unit == c.s.Version) {
		return nil // as it is
	}
	if err := membership.MayUpgrade(c.conv.Survey(ctx, v), c.s.Version); err != nil {
		return &problem.Problem{
			Summary: "etcd version not possible", Attribute: "version", Host: c.s.label(), Cause: err.Error(),
			Unchanged: problem.Nothing, Next: "choose a version that can follow", Detail: v.String(),
		}
	}
	return nil
}

// write makes a change that needs no restart.
func (c *converging) write(ctx context.Context, r repair) error {
	if _, err := c.cl.machine(c.s.Host).Change(ctx, r.Change, action{Timer: r.Timer}); err != nil {
		return fmt.Errorf("change etcd on %s: %w", c.s.label(), err)
	}
	return nil
}
