package etcd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/pkg/v3/flags"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/kubequorum/terraform-provider-kube/internal/connections"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/host/barrier"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/poll"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// testMachine is a machine whose etcd is a real server inside the test's process, on a
// loopback address of its own. It accepts the same files, unit and actions as a machine
// behind SSH. The unit's flags are parsed by etcd's own flag parser; those without an
// equivalent here (ports that all machines would share on 127.0.0.1) are left out.
type testMachine struct {
	t       *testing.T
	address string
	root    string // files and data are below it

	mu        sync.Mutex
	files     map[string]host.File
	server    *embed.Etcd
	enabled   bool
	timer     bool // the timer of scheduled snapshots runs
	archives  int
	starts    int
	ends      int      // exits of a server that fails to start, since its unit was started
	lost      bool     // unreachable over SSH
	hangs     bool     // it accepts connections, and commands never end
	refuses   error    // the SSH error instead, such as an untrusted host key
	silent    error    // the error of connections to its member, until the unit is started again
	broken    bool     // the unit fails to start
	breaks    string   // the unit fails to start if it contains this text
	installed []string // versions in addition to 3.6.16
	free      int64    // free bytes on every disk; 0: not reported
	unsaved   error    // the error of every snapshot
	leases    map[string]*host.Lease
	epochs    map[*host.Lease]int
	taken     map[string]int // how often each lease was acquired again
	expire    func()         // ends the lease that was taken last
	slow      int            // bytes per second from its peers; 0: unlimited
	behind    string         // the address at which its etcd listens then
	late      time.Duration  // how long etcd reads its database before it answers
	skew      time.Duration  // how far its clock is ahead
	observing bool
	bare      bool      // it has none of the programs
	since     time.Time // when systemd says that the unit became active; zero: unknown
	outages   *outages
	stalls    *stalls
}

// outages counts the members that are stopped by a restart at the same time.
type outages struct{ now, most atomic.Int32 }

func (o *outages) begin() {
	n := o.now.Add(1)
	for most := o.most.Load(); n > most && !o.most.CompareAndSwap(most, n); most = o.most.Load() {
	}
}

// end counts the member as back when it serves.
func (o *outages) end(server *embed.Etcd) {
	select {
	case <-server.Server.ReadyNotify():
	case <-server.Server.StopNotify():
	}
	o.now.Add(-1)
}

func (m *testMachine) Address() string { return m.address }

func (m *testMachine) reach() error {
	if m.lost {
		return fmt.Errorf("dial %s: %w", m.address, host.ErrUnreachable)
	}
	return m.refuses
}

func (m *testMachine) hanging() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.hangs
}

func (m *testMachine) at(path string) string { return filepath.Join(m.root, path) }

func (m *testMachine) Observe(ctx context.Context, q host.Query) (host.Facts, error) {
	if m.hanging() {
		<-ctx.Done()
		return host.Facts{}, ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.reach(); err != nil {
		return host.Facts{}, err
	}
	facts := host.Facts{
		MachineID: "machine-" + m.address, Architecture: "amd64", Systemd: "252", ClockOffset: m.skew,
		Files: map[string]host.FileState{}, Dirs: map[string][]string{}, Units: map[string]host.UnitState{},
		Listeners: map[int]host.Listener{},
		DiskFree:  map[string]int64{},
	}
	for _, path := range slices.Concat(q.Contents, q.Notes, q.Files) {
		if f, ok := m.files[path]; ok {
			facts.Files[path] = host.FileState{
				Mode: f.Mode, Owner: machine.OrRoot(f.Owner), Group: machine.OrRoot(f.Group),
				Size: int64(len(f.Content)), SHA256: machine.Digest(f.Content), Content: string(f.Content),
			}
		}
	}
	for _, path := range slices.Concat(q.Notes, q.Files) {
		_, known := facts.Files[path]
		info, err := os.Stat(m.at(path))
		switch {
		case err != nil || known:
		case info.IsDir(): // its owner is the test's user here, and that of the unit on a machine
			facts.Files[path] = host.FileState{Mode: fs.ModeDir | 0o700, Owner: layout.User, Group: layout.User}
		default: // what a script has written
			facts.Files[path] = host.FileState{Mode: 0o600, Owner: "root", Group: "root"}
		}
	}
	for _, dir := range slices.Concat(q.Dirs, q.SharedDirs) {
		entries, err := os.ReadDir(m.at(dir))
		if err != nil {
			continue
		}
		facts.Dirs[dir] = []string{}
		for _, e := range entries {
			facts.Dirs[dir] = append(facts.Dirs[dir], e.Name())
		}
	}
	programs := append(slices.Clone(m.installed), "3.6.16")
	if m.bare {
		programs = nil
	}
	for _, version := range programs {
		facts.Dirs[machine.ArtifactDir(version)] = []string{"etcd", "etcdctl", "etcdutl"}
	}
	for _, disk := range q.Disks {
		if m.free > 0 {
			facts.DiskFree[disk] = m.free
		}
	}
	unit := host.UnitState{Load: "not-found", Active: "inactive"}
	if _, ok := m.files[layout.UnitPath]; ok {
		unit = host.UnitState{Load: "loaded", Active: "inactive", Enabled: "disabled"}
		if m.enabled {
			unit.Enabled = "enabled"
		}
		if m.ends > 0 && m.server == nil { // systemd restarts it again and again
			m.ends++
			unit.Active, unit.Sub, unit.Restarts = "activating", "auto-restart", m.ends
		}
		if m.observing {
			unit.Active, unit.Sub = "activating", "start"
		}
		if m.running() {
			unit.Active = "activating"
			select {
			case <-m.server.Server.ReadyNotify():
				unit.Active = "active"
			default:
			}
			unit.Since = m.since
			facts.Listeners[2379] = host.Listener{Process: "etcd", Addresses: []string{m.address}}
		}
	}
	facts.Units[layout.Unit] = unit
	if strings.HasSuffix(string(q.Script), machine.PlaceQuestion) {
		facts.Output = "beside\n"
	}
	if q.Script == machine.FileQuestion || strings.HasSuffix(string(q.Script), string(machine.StagedQuestion)) {
		facts.Output, _ = m.shell(q.Script, q.Vars, nil) // as on a machine, where a failure is ignored
	}
	if strings.HasSuffix(string(q.Script), machine.MovementScript) {
		facts.Output = m.movement()
	}
	if _, ok := m.files[snapshot.TimerPath]; ok {
		facts.Units[snapshot.Timer] = host.UnitState{Load: "loaded", Active: "inactive", Enabled: "disabled"}
	}
	if m.timer {
		facts.Units[snapshot.Timer] = host.UnitState{Load: "loaded", Active: "active", Enabled: "enabled"}
	}
	return facts, nil
}

// running reports whether the server runs: a member that was removed stops by itself.
func (m *testMachine) running() bool {
	if m.server == nil {
		return false
	}
	select {
	case <-m.server.Server.StopNotify():
		return false
	default:
		return true
	}
}

func (m *testMachine) Install(_ context.Context, _ host.Source, artifacts []host.Artifact) ([]host.Artifact, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.reach(); err != nil {
		return nil, err
	}
	m.installed, m.bare = append(m.installed, artifacts[0].Version), false
	return artifacts, nil
}

// Barriers returns none: the machine has neither firewalld nor SELinux.
func (m *testMachine) Barriers(context.Context, barrier.Needs) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return nil, m.reach()
}

// Listen does not listen: all machines are on this computer, where nothing is closed.
func (m *testMachine) Listen(context.Context, []string) connections.Listener {
	return connections.Deaf()
}

func (m *testMachine) UnitLog(context.Context, string, int) (string, error) {
	return "the unit's log", nil
}

func (m *testMachine) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	m.mu.Lock()
	err := cmp.Or(m.reach(), m.silent)
	m.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if err := m.stalls.wait(ctx, addr); err != nil {
		return nil, err
	}
	var d net.Dialer
	return d.DialContext(ctx, network, addr)
}

// TakeLease takes the lease of the machine as over SSH, without the connection.
func (m *testMachine) TakeLease(_ context.Context, name, holder string, previous *host.Lease) (*host.Lease, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.reach(); err != nil {
		return nil, err
	}
	if m.hangs { // the request has a limit of its own
		return nil, fmt.Errorf("%s: %w", m.address, host.ErrUnreachable)
	}
	if current, ok := m.leases[name]; ok && current.Held() {
		return nil, &host.HeldError{Address: m.address, Name: name, Holder: "another process"}
	}
	if previous != nil && m.epochs[previous] != m.taken[name] {
		return nil, host.ErrLeaseLost
	}
	if m.leases == nil {
		m.leases, m.epochs, m.taken = map[string]*host.Lease{}, map[*host.Lease]int{}, map[string]int{}
	}
	if previous == nil {
		m.taken[name]++
	}
	lost := make(chan struct{})
	m.expire = sync.OnceFunc(func() { close(lost) })
	lease := host.NewLease(m.address, name, holder, lost, m.expire)
	m.leases[name], m.epochs[lease] = lease, m.taken[name]
	return lease, nil
}

// takeOver gives the lease of the machine to another process, as if the holder had been suspended.
func (m *testMachine) takeOver(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire()
	m.taken[name]++
	m.leases[name] = host.NewLease(m.address, name, "another process", make(chan struct{}), func() {})
}

func (m *testMachine) Change(ctx context.Context, c host.Change, a machine.Action) (host.Applied, error) {
	if _, err := host.LeasesOn(ctx, m.address); err != nil {
		return host.Applied{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.reach(); err != nil {
		return host.Applied{}, err
	}
	if err := ctx.Err(); err != nil {
		return host.Applied{}, err
	}
	for _, f := range c.Files {
		m.files[f.Path] = f
		if err := os.MkdirAll(filepath.Dir(m.at(f.Path)), 0o755); err != nil {
			return host.Applied{}, err
		}
		if err := os.WriteFile(m.at(f.Path), f.Content, 0o600); err != nil {
			return host.Applied{}, err
		}
	}
	for _, path := range c.Remove {
		delete(m.files, path)
	}
	m.enabled = m.enabled || slices.Contains(c.Links, machine.UnitLink)
	on := strings.Contains(string(a.Timers), "systemctl restart "+snapshot.Timer)
	off := strings.Contains(string(a.Timers), "systemctl stop "+snapshot.Timer)
	m.timer = on || m.timer && !off && a.Verb != machine.Retire && a.Verb != machine.Clear
	if a.Verb == machine.SaveSnapshot {
		return m.snapshot(a)
	}
	return host.Applied{}, errors.Join(m.do(a), m.dropStaged(string(a.Timers)))
}

var dropped = regexp.MustCompile(`(?s)data=(/[a-z0-9/]+)\n.*/restoring`)

// dropStaged removes what restores have staged if a script does.
func (m *testMachine) dropStaged(script string) error {
	data := dropped.FindStringSubmatch(script)
	if data == nil {
		return nil
	}
	return os.RemoveAll(m.at(layout.ArchiveRoot(data[1])) + "/restoring")
}

// snapshot saves the database and prints what the script prints.
func (m *testMachine) snapshot(a machine.Action) (host.Applied, error) {
	if m.free > 0 && m.free < a.Save.Need {
		return host.Applied{}, fmt.Errorf("not enough space: %d bytes are needed", a.Save.Need)
	}
	if !m.running() {
		return host.Applied{}, errors.New("no server to be saved")
	}
	if m.unsaved != nil {
		return host.Applied{}, m.unsaved
	}
	saved := m.server.Server.Backend().Snapshot()
	defer func() { _ = saved.Close() }()
	_ = os.MkdirAll(m.at(a.Save.Dir), 0o700)
	file, err := os.Create(filepath.Join(m.at(a.Save.Dir), a.Save.File))
	if err != nil {
		return host.Applied{}, err
	}
	size, err := saved.WriteTo(file)
	output := fmt.Sprintf("size %d\n{\"hash\":1,\"revision\":%d,\"totalKey\":1,\"totalSize\":%d}\n", size,
		m.server.Server.KV().Rev(), size)
	return host.Applied{Output: output}, errors.Join(err, file.Close())
}

func (m *testMachine) do(a machine.Action) error {
	switch a.Verb {
	case machine.Start, machine.Resume:
		restart := m.running()
		if restart {
			m.outages.begin()
		}
		m.stop()
		err := m.start()
		if restart && m.server != nil {
			go m.outages.end(m.server)
		}
		return err
	case machine.Stop, machine.Pause:
		m.stop()
		m.ends = 0
	case machine.PlaceRestored:
		return m.place(a)
	case machine.Retire, machine.Clear:
		m.stop()
		m.ends = 0
		m.enabled = false
		if err := m.away(a); err != nil {
			return err
		}
		delete(m.files, layout.EnvPath)
		if !a.KeepRecord {
			delete(m.files, layout.RecordPath)
		}
		if a.Verb == machine.Clear {
			m.files = map[string]host.File{}
		}
	}
	return nil
}

// away does what archive.sh does.
func (m *testMachine) away(a machine.Action) error {
	part := m.at(machine.PartOf(layout.ArchiveRoot(a.DataDir), a.Member))
	_, err := os.Stat(m.at(a.DataDir))
	switch {
	case a.Wipe:
		if err := os.RemoveAll(m.at(a.DataDir)); err != nil {
			return err
		}
	case err == nil:
		_ = os.MkdirAll(part, 0o700)
		if err := os.Rename(m.at(a.DataDir), part+"/data"); err != nil {
			return err
		}
	}
	if _, err := os.Stat(part); err != nil {
		return nil
	}
	m.archives++
	return os.Rename(part, strings.TrimSuffix(part, "part")+fmt.Sprint(m.archives))
}

func (m *testMachine) stop() {
	if m.server == nil {
		return
	}
	server := m.server
	m.server = nil
	select {
	case <-server.Server.ReadyNotify():
		server.Close()
		return
	default:
	}
	// Close would wait for what only begins with readiness.
	server.Server.HardStop()
	for _, l := range server.Clients {
		_ = l.Close()
	}
	for _, l := range server.Peers {
		_ = l.Close()
	}
}

// start does what systemd does with the unit.
func (m *testMachine) start() error {
	m.starts++
	m.ends, m.silent = 0, nil
	unit := string(m.files[layout.UnitPath].Content)
	command, _, _ := systemd.ParseUnit(unit)
	got := command.Flags
	env := machine.ParseEnvironment(string(m.files[layout.EnvPath].Content))
	if _, err := os.Stat(m.at(got["data-dir"]) + "/member"); err != nil && len(env) == 0 {
		return nil // the assertions fail, and the unit is not started
	}
	if m.broken || m.breaks != "" && strings.Contains(unit, m.breaks) {
		m.ends++
		return nil
	}
	config, err := m.config(got, env)
	if err != nil {
		return err
	}
	note := ""
	for _, path := range []string{layout.UnitPath, layout.CAPath} {
		note += systemd.StartNoteEntry(machine.Digest(m.files[path].Content), path)
	}
	m.files[layout.StartNote] = host.File{Path: layout.StartNote, Content: []byte(note), Mode: 0o644}
	if m.late == 0 {
		m.server, err = m.startEtcd(config)
		return err
	}
	m.observing = true
	time.AfterFunc(m.late, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.observing = false
		if m.server, err = m.startEtcd(config); err != nil {
			m.t.Error(err)
		}
	})
	return nil
}

// startEtcd starts etcd, and again while the members that it joins have not decided the cluster's version, which takes
// them a moment after the first start. etcd exits then, and systemd starts it again.
func (m *testMachine) startEtcd(config *embed.Config) (server *embed.Etcd, err error) {
	_, _ = poll.Until(m.t.Context(), 100*time.Millisecond, 10*time.Second, func() (bool, error) {
		server, err = embed.StartEtcd(config)
		return err == nil || !strings.Contains(err.Error(), "incompatible with current running cluster"), nil
	})
	return server, err
}

func (m *testMachine) config(args, env map[string]string) (*embed.Config, error) {
	config := embed.NewConfig()
	set := flag.NewFlagSet("etcd", flag.ContinueOnError)
	config.AddFlags(set)
	delete(args, "listen-metrics-urls")
	args["data-dir"] = m.at(args["data-dir"])
	args["listen-client-urls"] = membership.ClientURL(m.address)
	m.listenElsewhere(args)
	for name, value := range args {
		if strings.HasSuffix(name, "-file") {
			value = m.at(value)
		}
		if set.Lookup(name) == nil {
			return nil, fmt.Errorf("etcd has no flag --%s", name)
		}
		if err := set.Set(name, value); err != nil {
			return nil, fmt.Errorf("--%s=%s: %w", name, value, err)
		}
	}
	urls := func(name string) []url.URL { return flags.UniqueURLsFromFlag(set, name) }
	config.ListenPeerUrls, config.AdvertisePeerUrls = urls("listen-peer-urls"), urls("initial-advertise-peer-urls")
	config.ListenClientUrls, config.AdvertiseClientUrls = urls("listen-client-urls"), urls("advertise-client-urls")
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	if initial := env["ETCD_INITIAL_CLUSTER"]; initial != "" {
		config.InitialCluster = initial
		config.ClusterState = env["ETCD_INITIAL_CLUSTER_STATE"]
		config.InitialClusterToken = env["ETCD_INITIAL_CLUSTER_TOKEN"]
	}
	config.TickMs, config.ElectionMs = 20, 200
	config.LogLevel, config.LogOutputs = "fatal", []string{"/dev/null"}
	config.UnsafeNoFsync = true
	return config, config.Validate()
}

// fleet is a set of machines and one coordinator for them.
type fleet struct {
	t        *testing.T
	clusters *Clusters
	bundle   *pki.Bundle
	pool     *host.Pool
	machines map[string]*testMachine // by address
	outages  outages
	stalls   stalls
	net      int
}

var nets = struct {
	sync.Mutex
	next int
}{next: 10}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	testrun.Slow(t)
	return newSmallFleet(t)
}

// newSmallFleet returns the fleet of a test with one or two members, which takes a few seconds.
func newSmallFleet(t *testing.T) *fleet {
	t.Helper()
	pool, err := host.NewPool(host.Config{})
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := pki.Generate(pki.Options{
		ClusterName: "prod", Algorithm: pki.ECDSAP256, Now: time.Now(),
		Deletable: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	nets.Lock()
	nets.next++
	f := &fleet{t: t, bundle: bundle, pool: pool, machines: map[string]*testMachine{}, net: nets.next}
	nets.Unlock()
	f.clusters = f.coordinator()
	t.TempDir() // called first, so that the directories are removed after the servers
	t.Cleanup(func() {
		for _, m := range f.machines {
			m.mu.Lock()
			m.stop()
			m.mu.Unlock()
		}
	})
	return f
}

// coordinator returns the coordinator of another process on the same machines.
func (f *fleet) coordinator() *Clusters {
	c := NewClusters()
	c.pace = pace{
		BatchWindow: 300 * time.Millisecond, RestoreWindow: time.Second, Poll: 20 * time.Millisecond,
		ConditionTimeout: 2 * time.Second,
		Settle:           500 * time.Millisecond, StallTimeout: 15 * time.Second, DeadAfter: time.Second,
		Cleanup: 10 * time.Second, Answer: time.Minute,
	}
	c.machine = func(h *host.Host) machine.Machine { return f.machines[h.Address()] }
	return c
}

func (f *fleet) address(name string) string { return fmt.Sprintf("127.77.%d.%s", f.net, name[2:]) }

func (f *fleet) machine(name string) *testMachine { return f.machines[f.address(name)] }

// specs returns the members with the given names, each with all of them as peers.
func (f *fleet) specs(names ...string) map[string]Spec {
	peers := map[string]*host.Host{}
	for _, name := range names {
		address := f.address(name)
		peers[name] = f.pool.Host(host.Target{Address: address})
		if f.machines[address] == nil {
			f.machines[address] = &testMachine{
				t: f.t, address: address, root: f.t.TempDir(), files: map[string]host.File{},
				outages: &f.outages, stalls: &f.stalls,
			}
		}
	}
	specs := map[string]Spec{}
	for _, name := range names {
		specs[name] = Spec{Spec: machine.Spec{
			Name: name, Host: peers[name], Bundle: f.bundle, Version: "3.6.16",
			OnDestroy: machine.Archive,
		}, Peers: peers}
	}
	return specs
}

// together runs f for all names in parallel, as Terraform does.
func together(t *testing.T, specs map[string]Spec, f func(Spec) error, names ...string) map[string]error {
	t.Helper()
	errs := map[string]error{}
	var mu sync.Mutex
	var group sync.WaitGroup
	for _, name := range names {
		group.Go(func() {
			err := f(specs[name])
			mu.Lock()
			defer mu.Unlock()
			errs[name] = err
		})
	}
	group.Wait()
	return errs
}

func (f *fleet) create(specs map[string]Spec, names ...string) {
	f.t.Helper()
	for name, err := range together(f.t, specs, func(s Spec) error {
		status, err := f.clusters.Create(f.context(), s)
		if err == nil && (!status.Healthy || status.Learner || len(status.Drift) > 0 ||
			status.ConfigDigest != machine.WantedDigest(s.Spec)) {
			err = fmt.Errorf("created as %+v", status)
		}
		return err
	}, names...) {
		if err != nil {
			f.t.Fatalf("create %s: %v", name, err)
		}
	}
}

// context ends an operation that hangs. TestSlowLearner needs more than a minute on a busy computer.
func (f *fleet) context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	f.t.Cleanup(cancel)
	return ctx
}

// view returns the current view of the cluster.
func (f *fleet) view(s Spec) membership.View {
	f.t.Helper()
	v, err := f.clusters.of(s).view(f.context(), s)
	if err != nil {
		f.t.Fatal(err)
	}
	return v
}

// roster returns the names of the members, with "+" before a learner.
func roster(v membership.View) string {
	var out []string
	for _, m := range v.Members {
		if m.Learner {
			out = append(out, "+"+m.Name)
		} else {
			out = append(out, m.Name)
		}
	}
	return strings.Join(out, " ")
}

func (f *fleet) wantRoster(s Spec, want string) membership.View {
	f.t.Helper()
	v := f.view(s)
	if got := roster(v); got != want {
		f.t.Fatalf("members are %q, want %q\n%s", got, want, v)
	}
	return v
}

// calm waits until every member is healthy.
func (f *fleet) calm(s Spec) membership.View {
	f.t.Helper()
	var v membership.View
	done, err := poll.Until(f.context(), 20*time.Millisecond, 20*time.Second, func() (bool, error) {
		var err error
		v, err = f.clusters.of(s).view(f.context(), s)
		return err == nil && membership.RequireAllHealthy(v) == nil, nil
	})
	if !done || err != nil {
		f.t.Fatalf("the cluster did not calm down: %v\n%s", err, v)
	}
	return v
}

// leaderOf returns the name of the leader.
func leaderOf(v membership.View) string {
	m, _ := v.Member(v.Leader)
	return m.Name
}

// record returns the record on the machine of a member.
func (f *fleet) record(name string) machine.Record {
	m := f.machine(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	var record machine.Record
	if err := json.Unmarshal(m.files[layout.RecordPath].Content, &record); err != nil {
		f.t.Errorf("%s: %v", name, err)
	}
	return record
}

func (f *fleet) kill(name string, andSSH bool) {
	m := f.machine(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stop()
	m.lost = andSSH
}

// wipe turns a machine into a rebuilt one.
func (f *fleet) wipe(name string) {
	m := f.machine(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stop()
	m.files, m.enabled = map[string]host.File{}, false
	if err := os.RemoveAll(m.at(layout.DefaultDataDir)); err != nil {
		f.t.Fatal(err)
	}
}

func (m *testMachine) wantClean() {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.running() || len(m.files) > 0 {
		m.t.Errorf("%s is not clean: running %v, files %v", m.address, m.running(), len(m.files))
	}
	if _, err := os.Stat(m.at(layout.DefaultDataDir)); err == nil {
		m.t.Errorf("%s still has its data directory", m.address)
	}
}
