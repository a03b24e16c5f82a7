package etcd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/wait"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/poll"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

var (
	olderRelease = pinned(build.MinorBefore("etcd", 1) + "-before")
	oldRelease   = pinned(build.MinorBefore("etcd", 1))
	patchRelease = pinned(build.PatchBefore("etcd"))
	newRelease   = pinned("etcd")
	nextRelease  = pinned("etcd-3.7")
)

// pinned returns the version of a set of programs.
func pinned(set string) string {
	version, err := build.Version(set)
	if err != nil {
		panic(err)
	}
	return version
}

// TestUpgradesOnMachines upgrades members from release to release while a client writes,
// and rolls back one that does not serve.
func TestUpgradesOnMachines(t *testing.T) {
	onMachines(t, "etcdup", "10.89.0.0/24", []string{olderRelease, oldRelease, newRelease}, func(t *testing.T) {
		r := newUpgradeRig(t, olderRelease)
		r.edit(func(s *Spec) { s.Snapshots = &snapshot.Settings{Schedule: never, Kept: 1} }, everyone...)
		r.refuseDisk(oldRelease)
		r.upgrade(oldRelease)
		r.rollBack()
		r.giveUp()
		r.upgrade(newRelease)
		r.all("destroy", r.delete)
	})
}

// TestUpgradeToTheNextMinorOnMachines upgrades members to the minor after the default one.
func TestUpgradeToTheNextMinorOnMachines(t *testing.T) {
	testrun.Long(t)
	onMachines(t, "etcdnext", "10.79.0.0/24", []string{newRelease, nextRelease}, func(t *testing.T) {
		r := newUpgradeRig(t, newRelease)
		r.edit(func(s *Spec) { s.Snapshots = &snapshot.Settings{Schedule: never, Kept: 1} }, everyone...)
		r.upgrade(nextRelease)
		r.all("destroy", r.delete)
	})
}

// TestUpgradeProblemsOnMachines tests the conditions that block an upgrade, and interrupts
// upgrades at every step.
func TestUpgradeProblemsOnMachines(t *testing.T) {
	testrun.Long(t)
	onMachines(t, "etcdtraps", "10.88.0.0/24", []string{oldRelease, patchRelease, newRelease}, func(t *testing.T) {
		r := newUpgradeRig(t, oldRelease)
		r.refuseV2()
		r.refuseDeadMachine()
		r.noWayBack()
		r.cutOffs()
		r.all("destroy", r.delete)
	})
}

func newUpgradeRig(t *testing.T, version string) *rig {
	r := newRig(t)
	r.clusters.pace.ConditionTimeout, r.clusters.pace.Settle = 3*time.Second, time.Second
	r.edit(func(s *Spec) {
		s.Version, s.ExtraArgs = version, map[string]string{"heartbeat-interval": "50", "election-timeout": "500"}
	}, everyone...)
	r.all("create "+version, r.create)
	return r
}

// edit changes the specs of some members.
func (r *rig) edit(f func(*Spec), names ...string) {
	for _, name := range names {
		s := r.specs[name]
		s.ExtraArgs = maps.Clone(s.ExtraArgs)
		f(&s)
		r.specs[name] = s
	}
}

func (r *rig) to(version string) { r.edit(func(s *Spec) { s.Version = version }, everyone...) }

// process switches to a new process, which knows nothing of what the previous one did.
func (r *rig) process() {
	before := r.clusters
	r.clusters = NewClusters()
	r.clusters.machine, r.clusters.pace = before.machine, before.pace
}

func (r *rig) update(ctx context.Context, s Spec) error {
	status, err := r.clusters.Update(ctx, s)
	if err == nil && (!status.Healthy || len(status.Drift) > 0 || status.Version != s.Version) {
		err = fmt.Errorf("updated to %+v", status)
	}
	return err
}

// view returns the current view of the cluster.
func (r *rig) view() membership.View {
	r.t.Helper()
	v, err := r.clusters.of(r.specs["cp1"]).view(r.t.Context(), r.specs["cp1"])
	if err != nil {
		r.t.Fatal(err)
	}
	return v
}

// refused runs an update that must be refused before any change.
func (r *rig) refused(name, what string, words ...string) {
	r.t.Helper()
	before := r.processes()
	begin := time.Now()
	_, err := r.clusters.Update(r.t.Context(), r.specs[name])
	r.t.Logf("%s: refused after %s:\n%v", what, time.Since(begin).Round(time.Millisecond), err)
	if err == nil || !problem.Untouched(err) {
		r.t.Fatalf("%s: %v", what, err)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			r.t.Errorf("%s: lacks %q", what, word)
		}
	}
	if after := r.processes(); !maps.Equal(before, after) {
		r.t.Errorf("%s: etcd was restarted: %v, before %v", what, after, before)
	}
}

// processes returns the machines' etcd processes.
func (r *rig) processes() map[string]string {
	r.t.Helper()
	all := map[string]string{}
	for _, name := range everyone {
		if running, err := r.lab.Machine(name).Running(); err == nil && running && name != r.cutOff {
			all[name] = r.sh(name, "systemctl show --property=MainPID --value etcd")
		}
	}
	return all
}

// refuseV2 verifies that a member with the v2 API enabled, and then with content in its v2
// store, is not upgraded to 3.6, and that the reported next step works.
func (r *rig) refuseV2() {
	r.t.Helper()
	r.edit(func(s *Spec) { s.ExtraArgs["enable-v2"] = "true" }, "cp3")
	r.only([]string{"cp3"}, "enable the v2 API", r.update)
	r.v2(r.specs["cp3"], http.MethodPut, "old", http.StatusCreated)
	plain := maps.Clone(r.specs)
	r.to(newRelease)
	r.refused("cp1", "a member with the v2 API", "cp3", "--enable-v2", "remove enable-v2")
	r.specs = plain
	r.edit(func(s *Spec) { delete(s.ExtraArgs, "enable-v2") }, "cp3")
	r.only([]string{"cp3"}, "disable the v2 API", r.update)
	plain = maps.Clone(r.specs)
	r.to(newRelease)
	r.refused("cp1", "keys in the v2 store", "cp1", "cp2", "cp3", "contains keys of the v2 store", `snapshot-count = "1"`)
	for name := range r.specs {
		if left := r.sh(name, "ls -A /var/lib/etcd"); strings.TrimSpace(left) != "member" {
			r.t.Errorf("%s has %s", name, left)
		}
	}
	// The reported next step works.
	r.specs = plain
	r.edit(func(s *Spec) { s.ExtraArgs["enable-v2"] = "true" }, "cp3")
	r.only([]string{"cp3"}, "enable the v2 API", r.update)
	r.v2(r.specs["cp3"], http.MethodDelete, "old", http.StatusOK)
	r.edit(func(s *Spec) { delete(s.ExtraArgs, "enable-v2") }, "cp3")
	r.edit(func(s *Spec) { s.ExtraArgs["snapshot-count"] = "1" }, everyone...)
	r.all("take raft snapshots", r.update)
	r.edit(func(s *Spec) { delete(s.ExtraArgs, "snapshot-count") }, everyone...)
	r.all("take no more of them", r.update)
	r.process()
}

// v2 changes the v2 store, which only its own HTTP API can do.
func (r *rig) v2(s Spec, method, key string, want int) {
	r.t.Helper()
	clients, err := r.clusters.of(s).connect(s)
	if err != nil {
		r.t.Fatal(err)
	}
	defer clients.Close()
	config := clients.TLS.Clone()
	config.ServerName = s.Host.Address()
	transport := &http.Transport{TLSClientConfig: config, DialContext: func(ctx context.Context, _, addr string) (net.Conn,
		error,
	) {
		return clients.Dial(ctx, addr)
	}}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(r.t.Context(), method, s.ClientURL()+"/v2/keys/"+key,
		strings.NewReader("value=v"))
	if err != nil {
		r.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := transport.RoundTrip(request)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != want {
		r.t.Fatalf("%s %s in the v2 store: %s", method, key, response.Status)
	}
}

// refuseDisk verifies that the upgrade is refused if there is no room for the snapshot.
func (r *rig) refuseDisk(version string) {
	r.t.Helper()
	plain := maps.Clone(r.specs)
	r.sh("cp1", "mkdir -p /var/lib/etcd-archive && mount -t tmpfs -o size=64m tmpfs /var/lib/etcd-archive")
	r.to(version)
	r.refused("cp1", "no room", "not enough space", "67108864 are free")
	r.sh("cp1", "umount /var/lib/etcd-archive")
	r.specs = plain
	r.process()
}

// refuseDeadMachine verifies that an unreachable machine blocks the upgrade of all
// members.
func (r *rig) refuseDeadMachine() {
	r.t.Helper()
	plain := maps.Clone(r.specs)
	r.to(newRelease)
	if err := r.lab.Machine("cp2").Cut(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	r.cutOff = "cp2"
	r.refused("cp1", "a dead machine", "cp2")
	r.cutOff = ""
	if err := r.lab.Machine("cp2").Heal(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	r.specs = plain
	r.process()
	r.calm()
}

// calm waits until every member is healthy.
func (r *rig) calm() {
	r.t.Helper()
	done, err := poll.Until(r.t.Context(), 100*time.Millisecond, time.Minute, func() (bool, error) {
		v, err := r.clusters.of(r.specs["cp1"]).view(r.t.Context(), r.specs["cp1"])
		return err == nil && membership.RequireAllHealthy(v) == nil, nil
	})
	if !done || err != nil {
		r.t.Fatalf("the cluster did not calm down: %v", err)
	}
}

// rollBack gives a follower a flag with a value that etcd does not accept, together with
// the version.
func (r *rig) rollBack() {
	r.t.Helper()
	v := r.view()
	followers := slices.DeleteFunc(slices.Clone(everyone), func(name string) bool { return name == leaderOf(v) })
	first := followers[0]
	plain := maps.Clone(r.specs)
	r.to(newRelease)
	r.edit(func(s *Spec) { s.ExtraArgs["auto-compaction-retention"] = "often" }, first)
	before := r.processes()
	begin := time.Now()
	_, err := r.clusters.Update(r.t.Context(), r.specs[first])
	r.t.Logf("rolled back after %s:\n%v", time.Since(begin).Round(time.Millisecond), err)
	var p *problem.Problem
	if !errors.As(err, &p) || p.Summary != "etcd not upgraded, and rolled back" ||
		!strings.Contains(p.Unchanged, first+" serves with etcd "+oldRelease+" again") ||
		!strings.Contains(p.Cause, "exited") || !strings.Contains(p.Detail, "often") ||
		!strings.Contains(p.Next, "/var/lib/etcd-archive/upgrades/") {
		r.t.Fatalf("upgrade that cannot come up: %v", err)
	}
	after := r.processes()
	if before[first] == after[first] {
		r.t.Error("the member was never tried")
	}
	delete(before, first)
	delete(after, first)
	if !maps.Equal(before, after) {
		r.t.Errorf("others were restarted: %v, before %v", after, before)
	}
	// The other members are not upgraded by this process.
	for _, name := range everyone {
		if name != first {
			r.refused(name, "after a failure", `member "`+first+`" did not start with etcd `+newRelease)
		}
	}
	status, err := r.clusters.Read(r.t.Context(), r.specs[first])
	if err != nil || status.Version != oldRelease || !status.Healthy || !strings.Contains(strings.Join(status.Drift, "\n"),
		"the running server is etcd "+oldRelease+", wanted "+newRelease) {
		r.t.Errorf("read of the one that was rolled back: %+v, %v", status, err)
	}
	r.specs = plain
	r.all("given up", r.update)
	r.process()
}

// giveUp upgrades one member to the next minor version and, as the others have not left
// the previous one, downgrades it again, with the data that the newer one has written.
func (r *rig) giveUp() {
	r.t.Helper()
	v := r.view()
	first := slices.DeleteFunc(slices.Clone(everyone), func(name string) bool { return name == leaderOf(v) })[0]
	plain := maps.Clone(r.specs)
	r.to(newRelease)
	r.only([]string{first}, "upgrade one", r.update)
	w := r.writer()
	done, err := poll.Until(r.t.Context(), 10*time.Millisecond, time.Minute, func() (bool, error) {
		return w.count.Load() > 50, nil
	})
	if !done || err != nil {
		r.t.Fatalf("writes do not get through: %v", err)
	}
	r.specs = plain
	r.process()
	r.all("give up", r.update)
	r.savesOnSchedule()
	acknowledged, _ := w.stop()
	r.all("read", r.same)
	r.readBack(acknowledged)
	r.sameData()
	r.process()
}

// upgrade upgrades all members to a release in parallel, while a client writes.
func (r *rig) upgrade(version string) {
	r.t.Helper()
	from := r.specs["cp1"].Version
	acknowledged := r.changeVersion("upgrade", version)
	r.all("read", r.same)
	r.readBack(acknowledged)
	r.sameData()
	r.restorable(from, version)
	r.savesOnSchedule()
	if s, err := r.clusters.Survey(r.t.Context(), r.specs["cp1"].Peers, r.specs["cp1"].Bundle); err != nil ||
		membership.MayUpgrade(s, version) != nil {
		r.t.Errorf("survey after it: %+v, %v", s, err)
	}
}

// changeVersion updates all members in parallel, while a client writes, and returns what was acknowledged.
// The leader is the last one.
func (r *rig) changeVersion(what, version string) (acknowledged []string) {
	r.t.Helper()
	leader, from := leaderOf(r.view()), r.specs["cp1"].Version
	w := r.writer()
	var mu sync.Mutex
	var order []string
	r.to(version)
	r.all(what+" "+from+" to "+version, func(ctx context.Context, s Spec) error {
		err := r.update(ctx, s)
		mu.Lock()
		defer mu.Unlock()
		order = append(order, s.Name)
		return err
	})
	acknowledged, failed := w.stop()
	r.t.Logf("%d writes were acknowledged and %d were not; order %v, the leader was %s", len(acknowledged), failed, order,
		leader)
	if order[2] != leader {
		r.t.Errorf("the leader %s was not the last: %v", leader, order)
	}
	return acknowledged
}

// savesOnSchedule verifies that scheduled snapshots use the tools of the running version.
func (r *rig) savesOnSchedule() {
	r.t.Helper()
	for _, name := range everyone {
		if got := strings.TrimSpace(r.sh(name, startSnapshot)); got != "success" {
			r.t.Errorf("%s: a scheduled snapshot ended with %s", name, got)
		}
	}
	if saved := r.sh(leaderOf(r.view()), savedThere); saved == "" {
		r.t.Error("the leader's machine has no scheduled snapshot")
	}
}

// keysWriter writes one key after another, each through the next member.
type keysWriter struct {
	cancel       context.CancelFunc
	done         chan struct{}
	acknowledged []string
	count        atomic.Int64 // of acknowledged, while it writes
	failed       int
}

func (r *rig) writer() *keysWriter {
	ctx, cancel := context.WithCancel(r.t.Context())
	w := &keysWriter{cancel: cancel, done: make(chan struct{})}
	clients, err := r.clusters.of(r.specs["cp1"]).connect(r.specs["cp1"])
	if err != nil {
		r.t.Fatal(err)
	}
	run := time.Now().UnixNano()
	go func() {
		defer close(w.done)
		defer clients.Close()
		for i := 0; ctx.Err() == nil; i++ {
			key := fmt.Sprintf("/w/%d/%06d", run, i)
			address := r.specs[everyone[i%len(everyone)]].Host.Address()
			err := clients.Call(ctx, address, client.RequestTimeout, func(ctx context.Context, member *clientv3.Client) error {
				_, err := member.Put(ctx, key, key)
				return err
			})
			if err == nil {
				w.acknowledged = append(w.acknowledged, key)
				w.count.Add(1)
			} else if ctx.Err() == nil {
				w.failed++
			}
			_ = wait.Pause(ctx, 5*time.Millisecond)
		}
	}()
	return w
}

func (w *keysWriter) stop() (acknowledged []string, failed int) {
	w.cancel()
	<-w.done
	return w.acknowledged, w.failed
}

// readBack checks that every acknowledged write exists.
func (r *rig) readBack(keys []string) {
	r.t.Helper()
	if len(keys) < 100 {
		r.t.Errorf("only %d writes were acknowledged", len(keys))
	}
	held := map[string]bool{}
	err := r.clusters.ReadKeys(r.t.Context(), r.specs["cp1"].Peers, r.specs["cp1"].Bundle,
		"/w/", func(key string, value []byte) { held[key] = key == string(value) })
	if err != nil {
		r.t.Fatal(err)
	}
	for _, key := range keys {
		if !held[key] {
			r.t.Fatalf("%s was acknowledged and is not there", key)
		}
	}
}

// sameData compares the data of all members.
func (r *rig) sameData() {
	r.t.Helper()
	clients, err := r.clusters.of(r.specs["cp1"]).connect(r.specs["cp1"])
	if err != nil {
		r.t.Fatal(err)
	}
	defer clients.Close()
	difference, comparable, err := clients.CompareData(r.t.Context(), r.view().Members)
	if difference != "" || !comparable || err != nil {
		r.t.Errorf("the members' data: %q, comparable %v, %v", difference, comparable, err)
	}
}

// restorable restores the snapshots from before the upgrade (an attempt that was rolled
// back has one too).
func (r *rig) restorable(from, to string) {
	r.t.Helper()
	got := 0
	for _, name := range everyone {
		files := strings.Fields(r.sh(name, "ls "+snapshot.UpgradesDir(layout.DefaultDataDir)+" 2>/dev/null || true"))
		for _, file := range files {
			if !strings.HasSuffix(file, snapshot.UpgradeLabel(from, to)+".db") {
				continue
			}
			got++
			out := r.sh(name, fmt.Sprintf(`cd %[1]s
stat -c '%%a %%U' %[2]s
/opt/kube/etcd/%[3]s/etcdutl snapshot restore %[2]s --data-dir=/tmp/restored >/dev/null 2>&1
ls /tmp/restored/member/snap/db
rm -rf /tmp/restored`, snapshot.UpgradesDir(layout.DefaultDataDir), file, from))
			r.t.Logf("%s has %s: %s", name, path.Join(snapshot.UpgradesDir(layout.DefaultDataDir), file), strings.ReplaceAll(out,
				"\n", " "))
			if !strings.HasPrefix(out, "600 root\n") {
				r.t.Errorf("%s: %s", file, out)
			}
		}
	}
	if got == 0 {
		r.t.Error("there is no snapshot from before the upgrade")
	}
}

// noWayBack covers a last member to leave 3.5 that does not serve with 3.6 after the
// cluster version became 3.6: no rollback is possible.
func (r *rig) noWayBack() {
	r.t.Helper()
	r.to(newRelease)
	r.only([]string{"cp1", "cp2"}, "upgrade two", r.update)
	s := r.specs["cp3"]
	command := []string{"systemd-run --unit=byhand --uid=etcd --gid=etcd", machine.Artifacts(newRelease)[0].Path()}
	flags := machine.ServerFlags(s.Spec)
	for _, flag := range slices.Sorted(maps.Keys(flags)) {
		command = append(command, "--"+flag+"="+flags[flag])
	}
	r.sh("cp3", "systemctl stop etcd\n"+strings.Join(command, " "))
	done, err := poll.Until(r.t.Context(), 200*time.Millisecond, 30*time.Second, func() (bool, error) {
		seen, err := r.clusters.Survey(r.t.Context(), s.Peers, s.Bundle)
		return seen.ClusterVersion == "3.6", err
	})
	if !done || err != nil {
		r.t.Fatalf("the members did not agree on 3.6: %v", err)
	}
	r.sh("cp3", "systemctl stop byhand")
	r.edit(func(s *Spec) { s.ExtraArgs["auto-compaction-retention"] = "often" }, "cp3")
	_, err = r.clusters.Update(r.t.Context(), r.specs["cp3"])
	r.t.Logf("no way back:\n%v", err)
	var p *problem.Problem
	if !errors.As(err, &p) || p.Summary != "etcd not upgraded, and not rolled back" ||
		!strings.Contains(p.Cause, "cluster version is now 3.6") ||
		!strings.Contains(p.Unchanged, "keep quorum") || !strings.Contains(p.Next, "-replace") ||
		!strings.Contains(p.Next, "/var/lib/etcd-archive/upgrades/") {
		r.t.Fatalf("no way back: %v", err)
	}
	r.edit(func(s *Spec) { delete(s.ExtraArgs, "auto-compaction-retention") }, "cp3")
	r.process()
	r.all("upgrade the last one", r.update)
	r.all("read", r.same)
}

// cutting is a process that is killed at one of its changes.
type cutting struct {
	machine.Machine
	cut *cut
}

// cut is when the process is killed: before or after the change with that number.
type cut struct {
	mu    sync.Mutex
	at    int
	after bool
	seen  int
	dead  bool
	what  string
}

var errKilled = errors.New("the process was killed")

// next counts a change and reports whether it is made, and whether the caller learns of
// it.
func (c *cut) next(what string) (made, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		return false, false
	}
	c.seen++
	if c.seen == c.at {
		c.dead, c.what = true, what
		return c.after, false
	}
	return true, true
}

func (c cutting) alive() error {
	c.cut.mu.Lock()
	defer c.cut.mu.Unlock()
	if c.cut.dead {
		return errKilled
	}
	return nil
}

func (c cutting) Observe(ctx context.Context, q host.Query) (host.Facts, error) {
	if err := c.alive(); err != nil {
		return host.Facts{}, err
	}
	return c.Machine.Observe(ctx, q)
}

func (c cutting) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if err := c.alive(); err != nil {
		return nil, err
	}
	return c.Machine.Dial(ctx, network, addr)
}

func (c cutting) Install(ctx context.Context, src host.Source, a []host.Artifact) ([]host.Artifact, error) {
	made, known := c.cut.next("install")
	var out []host.Artifact
	err := errKilled
	if made {
		out, err = c.Machine.Install(ctx, src, a)
	}
	if !known {
		err = errKilled
	}
	return out, err
}

func (c cutting) Change(ctx context.Context, change host.Change, a machine.Action) (host.Applied, error) {
	made, known := c.cut.next(fmt.Sprintf("change %d", a.Verb))
	var out host.Applied
	err := errKilled
	if made {
		out, err = c.Machine.Change(ctx, change, a)
	}
	if !known {
		return host.Applied{}, errKilled
	}
	return out, err
}

// cutOffs kills the process before and after each change of an upgrade, and of one that is
// rolled back. The next apply completes it.
func (r *rig) cutOffs() {
	r.t.Helper()
	for _, mistake := range []bool{false, true} {
		target := patchRelease
		for at := 1; ; at++ {
			ended := false
			for _, after := range []bool{false, true} {
				r.to(target)
				right := r.specs["cp1"]
				if mistake {
					r.edit(func(s *Spec) { s.ExtraArgs["auto-compaction-retention"] = "often" }, "cp1")
				}
				c := &cut{at: at, after: after}
				r.process()
				whole := r.clusters.machine
				r.clusters.machine = func(h *host.Host) machine.Machine { return cutting{whole(h), c} }
				ctx, cancel := context.WithTimeout(r.t.Context(), 30*time.Second)
				_, err := r.clusters.Update(ctx, r.specs["cp1"])
				cancel()
				ended = ended || !c.dead
				r.t.Logf("%s, mistake %v, killed at change %d (%s, after: %v): %.200v", target, mistake, at, c.what, after, err)
				r.process()
				r.clusters.machine = whole
				r.specs["cp1"] = right
				r.only([]string{"cp1"}, "the next apply", r.update)
				r.only([]string{"cp1"}, "read", r.same)
				r.sh("cp1", "test ! -e "+layout.RollbackUnitPath+"; test -z \"$(ls "+snapshot.UpgradesDir(layout.DefaultDataDir)+
					" | grep part)\"")
				r.only([]string{"cp2", "cp3"}, "the others", r.update)
				target = map[string]string{patchRelease: newRelease, newRelease: patchRelease}[target]
			}
			if ended {
				break
			}
		}
	}
}
