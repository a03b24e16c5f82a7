package etcd

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/connections"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/volume"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// reimaged is a machine that was installed again and has nothing of its member but its volume. Nothing listens on it.
type reimaged struct {
	machine.Machine
	address   string
	unmounted string // what the search for volumes prints

	mu      sync.Mutex
	facts   host.Facts
	changes []host.Change
	report  string // of what was staged; "": nothing is
	ran     int    // commands
	staged  string // the key of what was staged
	hasFile bool   // the snapshot of the restore
	silent  error  // why it does not answer; nil: it does
	forbids bool   // its sshd forbids TCP forwarding
}

func (m *reimaged) Address() string { return m.address }

func (m *reimaged) Observe(_ context.Context, q host.Query) (host.Facts, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.silent != nil {
		return host.Facts{}, m.silent
	}
	facts := m.facts
	if q.Script == volume.SearchScript() {
		facts.Output = m.unmounted
	}
	if strings.HasSuffix(string(q.Script), string(machine.StagedQuestion)) {
		facts.Output = m.staged
	}
	if q.Script == machine.FileQuestion && m.hasFile {
		facts.Output = "yes\n"
	}
	return facts, nil
}

func (m *reimaged) Change(_ context.Context, c host.Change, a machine.Action) (host.Applied, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	files := map[string]host.FileState{}
	for path, file := range m.facts.Files {
		files[path] = file
	}
	for _, path := range c.Remove {
		delete(files, path)
	}
	for _, file := range c.Files {
		files[file.Path] = host.FileState{Content: string(file.Content)}
	}
	if a.Verb == machine.Retire {
		m.facts.Dirs = nil
		if delete(files, layout.EnvPath); !a.KeepRecord {
			delete(files, layout.RecordPath)
		}
	}
	m.facts.Files, m.changes = files, append(m.changes, c)
	return host.Applied{}, nil
}

func (*reimaged) Install(_ context.Context, _ host.Source, all []host.Artifact) ([]host.Artifact, error) {
	return all, nil
}

func (m *reimaged) Run(_ context.Context, c host.Command) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.staged = c.Vars["key"]
	if m.ran++; m.report == "" {
		return "", errors.New("a restore has begun")
	}
	return m.report, nil
}

func (m *reimaged) Dial(context.Context, string, string) (net.Conn, error) {
	if m.forbids {
		return nil, host.ErrForwarding
	}
	return nil, errors.New("connection refused")
}

func (*reimaged) Listen(context.Context, []string) connections.Listener { return connections.Deaf() }

func (m *reimaged) TakeLease(_ context.Context, name, holder string, _ *host.Lease) (*host.Lease, error) {
	lost := make(chan struct{})
	return host.NewLease(m.address, name, holder, lost, func() { close(lost) }), nil
}

// reimagedCluster returns a cluster whose machines were installed again, with a restore of all members. Those named
// have mounted their volumes.
func reimagedCluster(t *testing.T, mounted ...string) (*cluster, map[string]Spec, map[string]*reimaged) {
	t.Helper()
	pool, err := host.NewPool(host.Config{})
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := pki.Generate(pki.Options{ClusterName: "prod", Algorithm: pki.ECDSAP256, Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	clusters, machines := NewClusters(), map[string]*reimaged{}
	clusters.machine = func(h *host.Host) machine.Machine { return machines[h.Address()] }
	clusters.pace.Poll, clusters.pace.ConditionTimeout = time.Millisecond, 10*time.Millisecond
	peers, specs := map[string]*host.Host{}, map[string]Spec{}
	for i, name := range trio {
		peers[name] = pool.Host(host.Target{Address: fmt.Sprintf("10.0.0.%d", i+1)})
	}
	var cl *cluster
	for i, name := range trio {
		s := Spec{Spec: machine.Spec{
			Name: name, Host: peers[name], Bundle: bundle, Version: "3.6.16", DataDir: "/srv/etcd/data",
			Volume:  &volume.Spec{Device: "/dev/sdb", MountPath: "/srv/etcd"},
			Restore: &machine.Restore{ID: "one", Fetch: "true"},
		}, Peers: peers}
		m := &reimaged{address: peers[name].Address()}
		machines[m.address] = m
		m.facts.MachineID = strings.Repeat(fmt.Sprint(i+1), 32)
		identity := s.VolumeIdentity(machine.Observed{Facts: m.facts}, machine.ID{Member: uint64(i + 1), Cluster: 9})
		identity.Restored = "zero"
		m.unmounted = "unmounted /dev/sdb " + base64.StdEncoding.EncodeToString(identity.Content()) + "\n"
		specs[name], cl = s, clusters.of(s)
	}
	for _, name := range mounted {
		mount(t, specs[name], machines[peers[name].Address()])
	}
	if err := cl.lease.take(t.Context(), cl); err != nil {
		t.Fatal(err)
	}
	return cl, specs, machines
}

// mount mounts the volume of a machine and records its member, as the resource of the member does.
func mount(t *testing.T, s Spec, m *reimaged) {
	t.Helper()
	encoded := strings.Fields(m.unmounted)[2]
	m.unmounted = ""
	m.facts.Dirs = map[string][]string{s.Directory(): {"member"}}
	m.facts.Output = "volume at 8:16 rw\nvolume device /dev/sdb\nvolume number 8:16\nvolume kind ext4\n" +
		"volume readable\nvolume identity " + encoded + "\n"
	f := machine.Interpret(s.Name, m.address, s.Directory(), m.facts, nil)
	c, due := s.RecordOfVolume(f)
	if !due {
		t.Fatal("the volume brings no record")
	}
	m.facts.Files = map[string]host.FileState{layout.RecordPath: {Content: string(c.Files[0].Content)}}
}

// TestRestoreStartsOnVolumes: members whose volumes have come to machines with nothing else of them are started before
// a restore is decided. They are not recorded as restored: a later apply would take the restore for done.
func TestRestoreStartsOnVolumes(t *testing.T) {
	cl, specs, machines := reimagedCluster(t, trio...)
	s, err := cl.resumeAll(t.Context(), specs, cl.observeCluster(t.Context(), specs["cp1"]))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range trio {
		m := machines[specs[name].Host.Address()]
		if _, there := m.facts.Files[layout.UnitPath]; !there || len(m.changes) != 1 {
			t.Errorf("%s was not started: %d changes", name, len(m.changes))
			continue
		}
		if _, there := m.facts.Files[layout.EnvPath]; there {
			t.Errorf("%s may start without its data", name)
		}
		if r := s.of(specs[name]).Record; r.Restored != "zero" || r.Restoring != "" || r.EtcdCluster != "9" {
			t.Errorf("%s records %+v", name, r)
		}
		identity, err := volume.ReadIdentity(m.facts.Files[specs[name].Volume.IdentityPath()].Content)
		if err != nil || identity.Restored != "zero" {
			t.Errorf("the volume of %s says %+v, %v", name, identity, err)
		}
	}
	if d := cl.decideRestore(t.Context(), specs["cp1"], s, true); d.Case != restoreRun {
		t.Errorf("when none of them gets a quorum: %+v", d)
	}
}

// TestRestoreExceptVolumes: nothing is restored while members may have a quorum on volumes that are not mounted, or
// that nobody of this run can start.
func TestRestoreExceptVolumes(t *testing.T) {
	for name, c := range map[string]struct {
		mounted []string
		reason  string
	}{
		"none is mounted": {nil, `not mounted, and restored data would replace it: member "cp1" on /dev/sdb of cp1`},
		"two are not":     {[]string{"cp1"}, `member "cp2" on /dev/sdb of cp2 (10.0.0.2); member "cp3" on /dev/sdb of cp3`},
		"two of other runs": {
			trio, "have their data on volumes and are not started: cp2 (10.0.0.2), cp3 (10.0.0.3)",
		},
	} {
		cl, specs, _ := reimagedCluster(t, c.mounted...)
		one := map[string]Spec{"cp1": specs["cp1"]}
		results := cl.beginRestore(t.Context(), one, cl.observeCluster(t.Context(), specs["cp1"]))
		if err := results["cp1"].err; err == nil || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s: %v, want %q", name, err, c.reason)
		}
		if _, err := cl.stillLost(t.Context(), specs["cp1"]); err == nil || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s, right before: %v, want %q", name, err, c.reason)
		}
	}
}

// TestRestoreSaysWhatIsStopped: a replica that does not stop ends a restore before any data is archived, when the
// survivor that was copied no longer runs.
func TestRestoreSaysWhatIsStopped(t *testing.T) {
	cl, specs, machines := reimagedCluster(t, trio...)
	s, seed := cl.observeCluster(t.Context(), specs["cp1"]), specs["cp3"]
	seed.StopReplica = func(context.Context, *host.Host) error { return errors.New("it is not stopped") }
	const etcd = "etcd on cp3 (10.0.0.3) is stopped"
	for member, survivor := range map[string]bool{"cp3": true, "": false} {
		seed.Restore = &machine.Restore{ID: "one", Member: member}
		err := cl.retireAll(t.Context(), seed, s)
		if err == nil || !strings.Contains(err.Error(), "API servers on the machines of members may be stopped") ||
			strings.Contains(err.Error(), etcd) != survivor || strings.Contains(err.Error(), "archive") {
			t.Errorf("survivor %q: %v", member, err)
		}
	}
	for address, m := range machines {
		if len(m.changes) > 0 {
			t.Errorf("%s was changed", address)
		}
	}
}

// TestRefusedRestoreKeepsStaged: a restore that is refused removes what it has staged itself. What an earlier one has
// staged may be the last copy of the cluster's data in place.
func TestRefusedRestoreKeepsStaged(t *testing.T) {
	const report = "token prod-0011\nsize 20512\nsaved 1700000000\nrevision 41\nbump 1000000000\nkeys 3\n"
	head := "head " + base64.StdEncoding.EncodeToString([]byte("k8s:enc:secretbox:v1:key7:x")) + "\n"
	for name, c := range map[string]struct {
		report, reason string
		commands       int // the first one stages
	}{
		"staged now":                      {report, "not mounted", 2},
		"staged before":                   {report + "reused yes\n", "not mounted", 1},
		"staged now, with another key":    {report + head, `secretbox key "key7"`, 2},
		"staged before, with another key": {report + "reused yes\n" + head, `secretbox key "key7"`, 1},
	} {
		cl, specs, machines := reimagedCluster(t)
		m := machines["10.0.0.1"]
		m.report = c.report
		_, err := cl.restore(t.Context(), specs["cp1"], cl.observeCluster(t.Context(), specs["cp1"]))
		if err == nil || !strings.Contains(err.Error(), c.reason) || m.ran != c.commands {
			t.Errorf("%s: %d commands, want %d; %v, want %q", name, m.ran, c.commands, err, c.reason)
		}
	}
}
