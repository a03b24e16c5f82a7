package etcd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// slowly listens for the peers of a machine at its address and forwards the traffic, at
// rate bytes per second in each direction, to the address at which its etcd listens.
func (m *testMachine) slowly(rate int) (behind string) {
	m.t.Helper()
	behind = strings.Replace(m.address, "127.77.", "127.78.", 1)
	l, err := net.Listen("tcp", net.JoinHostPort(m.address, "2380"))
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = l.Close() })
	in, out := make(chan struct{}, 1), make(chan struct{}, 1) // all connections share the line
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			onto, err := net.Dial("tcp", net.JoinHostPort(behind, "2380"))
			if err != nil {
				_ = from.Close()
				continue
			}
			go relay(from, onto, in, rate)
			go relay(onto, from, out, rate)
		}
	}()
	return behind
}

// relay copies at a rate until one of the two ends.
func relay(from, to net.Conn, line chan struct{}, rate int) {
	defer func() { _, _ = from.Close(), to.Close() }()
	piece := make([]byte, 32<<10)
	for {
		n, err := from.Read(piece)
		if n > 0 {
			line <- struct{}{}
			time.Sleep(time.Duration(n) * time.Second / time.Duration(rate))
			<-line
			if _, err := to.Write(piece[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// movement prints what machine.MovementScript prints.
func (m *testMachine) movement() string {
	command, _, _ := systemd.ParseUnit(string(m.files[layout.UnitPath].Content))
	root := m.at(command.Flags["data-dir"] + "/member")
	var b strings.Builder
	_ = filepath.Walk(root, func(path string, info os.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() {
			name, _ := filepath.Rel(root, path)
			fmt.Fprintf(&b, "%d %d.%09d0 %s\n", info.Size(), info.ModTime().Unix(), info.ModTime().Nanosecond(), name)
		}
		return nil // files come and go
	})
	return b.String()
}

// fill writes the given number of values of one megabyte through the member on a machine.
func (f *fleet) fill(s Spec, megabytes int) {
	f.t.Helper()
	clients, err := f.clusters.of(s).connect(s)
	if err != nil {
		f.t.Fatal(err)
	}
	defer clients.Close()
	value := make([]byte, 1<<20)
	for i := range megabytes {
		if err := clients.Call(f.context(), s.Host.Address(), 10*time.Second,
			func(ctx context.Context, member *clientv3.Client) error {
				_, err := member.Put(ctx, fmt.Sprintf("key%d", i), string(value))
				return err
			}); err != nil {
			f.t.Fatal(err)
		}
	}
}

// bySnapshot makes the leader truncate its log, so that a joining member receives a
// snapshot.
var bySnapshot = map[string]string{"snapshot-count": "10", "snapshot-catchup-entries": "5"}

func (f *fleet) withArgs(args map[string]string, names ...string) map[string]Spec {
	specs := f.specs(names...)
	for name, s := range specs {
		s.ExtraArgs = args
		specs[name] = s
	}
	return specs
}

// slowRate is the rate of a slow line, in bytes per second.
const slowRate = 3 << 19

// TestSlowLearner verifies that a member joins whose data takes longer than the stall
// timeout, either by a snapshot of the database or by the log.
func TestSlowLearner(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		args map[string]string
		slow string // machine with the slow line: a snapshot is sent to the learner, but the learner fetches the log
		long bool
	}{
		{"snapshot", bySnapshot, "cp2", false},
		// On a busy computer, such as one that runs all packages, etcd breaks the leader's stream off (its writes time out
		// after 5 seconds) and sends the log again, and nothing moves for longer than the stall timeout.
		{"log", nil, "cp1", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.long {
				testrun.Long(t)
			}
			t.Parallel()
			f := newFleet(t)
			specs := f.withArgs(c.args, "cp1", "cp2")
			f.machine(c.slow).slow = slowRate
			f.create(specs, "cp1")
			f.fill(specs["cp1"], 84)
			f.clusters = f.coordinator()
			f.clusters.pace.StallTimeout = 45 * time.Second
			begin := time.Now()
			f.create(specs, "cp2")
			took := time.Since(begin)
			t.Logf("84 MiB at %.1f MiB/s: %s", float64(slowRate)/(1<<20), took.Round(time.Millisecond))
			if took < f.clusters.pace.StallTimeout {
				t.Errorf("joined in %s: that is too fast to show anything", took)
			}
			f.wantRoster(specs["cp1"], "cp1 cp2")
		})
	}
}

// TestHungLearner verifies that a member without progress is given up and removed.
func TestHungLearner(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.withArgs(bySnapshot, "cp1", "cp2")
	f.create(specs, "cp1")
	f.fill(specs["cp1"], 20)
	f.machine("cp2").slow = 1 // byte per second
	f.clusters = f.coordinator()
	f.clusters.pace.StallTimeout = time.Second
	begin := time.Now()
	_, err := f.clusters.Create(f.context(), specs["cp2"])
	if err == nil || !strings.Contains(err.Error(), "it has made no progress for") {
		t.Fatalf("create over a dead line: %v", err)
	}
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("it took %s to give up", took)
	}
	f.wantRoster(specs["cp1"], "cp1")
}

// TestCatchUpGoesOnInTheNextApply verifies that a learner stays if the join's deadline
// passes while its data is being transferred, and that the next Create completes it.
func TestCatchUpGoesOnInTheNextApply(t *testing.T) {
	testrun.Long(t)
	t.Parallel()
	f := newFleet(t)
	specs := f.withArgs(bySnapshot, "cp1", "cp2")
	f.create(specs, "cp1")
	f.fill(specs["cp1"], 24)
	f.machine("cp2").slow = 3 << 19
	f.clusters = f.coordinator()
	ctx, cancel := context.WithTimeout(f.context(), 10*time.Second)
	defer cancel()
	_, err := f.clusters.Create(ctx, specs["cp2"])
	if !errors.Is(err, ErrAdopted) || !strings.Contains(err.Error(), "still catching up") {
		t.Fatalf("create whose time ended: %v", err)
	}
	learner, listed := f.view(specs["cp1"]).ByPeerURL(specs["cp2"].PeerURL())
	if !listed || !learner.Learner {
		t.Fatalf("the learner did not stay: %+v", learner)
	}
	f.clusters = f.coordinator()
	f.create(specs, "cp2")
	if v := f.wantRoster(specs["cp1"], "cp1 cp2"); machine.EntryOf(&v, specs["cp2"].Spec).ID != learner.ID {
		t.Error("the learner was not continued but made anew")
	}
	if n := f.machine("cp2").starts; n != 1 {
		t.Errorf("etcd was started %d times", n)
	}
}

// TestTwoProcessesWithASlowLearner verifies that another process's learner is waited for
// as long as it makes progress.
func TestTwoProcessesWithASlowLearner(t *testing.T) {
	testrun.Long(t)
	t.Parallel()
	f := newFleet(t)
	specs := f.withArgs(bySnapshot, "cp1", "cp2", "cp3")
	f.create(specs, "cp1")
	f.fill(specs["cp1"], 40)
	f.machine("cp2").slow = 2 << 20
	other := f.coordinator()
	other.pace.StallTimeout = 6 * time.Second
	joined := make(chan error, 1)
	go func() {
		_, err := other.Create(f.context(), specs["cp2"])
		joined <- err
	}()
	for len(f.view(specs["cp1"]).Members) == 1 {
		time.Sleep(20 * time.Millisecond)
	}
	f.clusters = f.coordinator()
	f.clusters.pace.StallTimeout, f.clusters.pace.ConditionTimeout = 6*time.Second, time.Second
	begin := time.Now()
	f.create(specs, "cp3")
	if took := time.Since(begin); took < 3*f.clusters.pace.StallTimeout {
		t.Errorf("cp3 joined in %s: that is too fast to show anything", took)
	}
	if err := <-joined; err != nil {
		t.Errorf("cp2: %v", err)
	}
	f.wantRoster(specs["cp1"], "cp1 cp2 cp3")
}

// TestRestartOfALargeMember verifies that a plain restart has the same time to read the
// database as an upgrade.
func TestRestartOfALargeMember(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1")
	f.create(specs, "cp1")
	f.fill(specs["cp1"], 64)
	f.machine("cp1").late = 5 * time.Second
	f.clusters = f.coordinator()
	f.clusters.pace.StallTimeout = 4 * time.Second
	s := specs["cp1"]
	s.ExtraArgs = map[string]string{"max-txn-ops": "256"}
	if status, err := f.clusters.Update(f.context(), s); err != nil || !status.Healthy {
		t.Errorf("restart on 64 MiB, which take 4s at the least rate that is counted on: %+v, %v", status, err)
	}
}

// TestStoppedLargeMemberIsResumed verifies the same for a stopped member that is started
// by a Create that cannot tell yet whether its cluster is lost.
func TestStoppedLargeMemberIsResumed(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1")
	f.create(specs, "cp1")
	f.fill(specs["cp1"], 64)
	f.kill("cp1", false)
	f.machine("cp1").late = 5 * time.Second
	f.clusters = f.coordinator()
	f.clusters.pace.ConditionTimeout = 4 * time.Second
	f.create(specs, "cp1")
}

// listenElsewhere makes a machine's etcd listen for peers behind a slow line.
func (m *testMachine) listenElsewhere(args map[string]string) {
	if m.slow == 0 {
		return
	}
	if m.behind == "" {
		m.behind = m.slowly(m.slow)
	}
	args["listen-peer-urls"] = membership.PeerURL(m.behind)
}
