package etcd

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/wait"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// stalls contains the addresses that answer no dial for a while, like a member that is
// short of CPU or memory.
type stalls struct {
	mu    sync.Mutex
	until map[string]time.Time
}

func (s *stalls) begin(address string, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.until == nil {
		s.until = map[string]time.Time{}
	}
	s.until[address] = time.Now().Add(d)
}

func (s *stalls) wait(ctx context.Context, addr string) error {
	address, _, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	s.mu.Lock()
	left := time.Until(s.until[address])
	s.mu.Unlock()
	return wait.Pause(ctx, max(left, 0))
}

// namesake returns a member with the name of another one, on a machine of its own.
func (f *fleet) namesake(specs map[string]Spec, name, at string) Spec {
	s := specs[at]
	s.Name, s.Peers = name, map[string]*host.Host{name: s.Host}
	for other, o := range specs {
		if other != name && other != at {
			s.Peers[other] = o.Host
		}
	}
	return s
}

// TestSlowNamesakeIsNotRemoved verifies that a voter that does not answer for the time of
// one request counts as alive.
func TestSlowNamesakeIsNotRemoved(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1", "cp2", "cp3", "cp4")
	f.create(specs, "cp1", "cp2", "cp3")
	f.calm(specs["cp1"])
	f.clusters = f.coordinator()
	// the first observation of the cluster, and the first one of the join
	f.stalls.begin(f.address("cp3"), 2*client.RequestTimeout+500*time.Millisecond)
	_, err := f.clusters.Create(f.context(), f.namesake(specs, "cp3", "cp4"))
	if err == nil || !strings.Contains(err.Error(), `"cp3" is running`) || !problem.Untouched(err) {
		t.Errorf("create of a namesake: %v", err)
	}
	f.wantRoster(specs["cp1"], "cp1 cp2 cp3")
}

// wantReplaced checks that the cluster of three has the member at the address of another machine.
func (f *fleet) wantReplaced(specs map[string]Spec, name, machine string) {
	f.t.Helper()
	v := f.wantRoster(specs["cp1"], "cp1 cp2 cp3")
	if m, _ := v.ByName(name); m.Address() != f.address(machine) {
		f.t.Errorf("%s is at %s", name, m.Address())
	}
}

// TestDeadNamesakeIsRemoved verifies that a member that stays silent is replaced by one of
// the same name.
func TestDeadNamesakeIsRemoved(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1", "cp2", "cp3", "cp4")
	f.create(specs, "cp1", "cp2", "cp3")
	f.calm(specs["cp1"])
	f.kill("cp3", true)
	f.clusters = f.coordinator()
	begin := time.Now()
	if _, err := f.clusters.Create(f.context(), f.namesake(specs, "cp3", "cp4")); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took < f.clusters.pace.DeadAfter {
		t.Errorf("it was declared dead within %s", took)
	}
	f.wantReplaced(specs, "cp3", "cp4")
}

// TestSlowMemberIsNotDeletedAsDead verifies that, while another voter is down, a working
// member is not removed even if it is slow for a moment, but a dead one is.
func TestSlowMemberIsNotDeletedAsDead(t *testing.T) {
	testrun.Long(t)
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1", "cp2", "cp3", "cp4", "cp5")
	f.create(specs, "cp1", "cp2", "cp3", "cp4", "cp5")
	f.calm(specs["cp1"])
	f.kill("cp5", true)
	f.clusters = f.coordinator()
	f.clusters.pace.DeadAfter = usualPace.DeadAfter
	// the observation before its outage is announced, and the one after it
	f.stalls.begin(f.address("cp3"), 3*client.RequestTimeout)
	err := f.clusters.Delete(f.context(), specs["cp3"], DeleteOptions{})
	if err == nil || !strings.Contains(err.Error(), membership.ErrUnhealthy.Error()) || !problem.Untouched(err) {
		t.Errorf("delete of a slow member beside a dead one: %v", err)
	}
	f.wantRoster(specs["cp1"], "cp1 cp2 cp3 cp4 cp5")
	f.clusters = f.coordinator()
	f.kill("cp3", false)
	if err := f.clusters.Delete(f.context(), specs["cp3"], DeleteOptions{}); err != nil {
		t.Errorf("delete of a dead member beside another one: %v", err)
	}
	f.wantRoster(specs["cp1"], "cp1 cp2 cp4 cp5")
}

// TestExpiredMemberIsNotDeletedAsDead verifies that, while another voter is down, a voter whose server certificate has
// expired is not removed: it answers no request, and it votes.
func TestExpiredMemberIsNotDeletedAsDead(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1", "cp2", "cp3", "cp4")
	f.create(specs, "cp1", "cp2", "cp3", "cp4")
	f.calm(specs["cp1"])
	f.kill("cp4", true)
	f.expire("cp3", pki.EtcdServer("cp3", f.address("cp3")))
	f.clusters = f.coordinator()
	s, v := specs["cp3"], f.view(specs["cp1"])
	m, _ := v.ByName("cp3")
	if answered, err := f.clusters.of(s).answers(f.context(), s, m); !answered || err != nil || m.Healthy {
		t.Errorf("answered %t, %v:\n%s", answered, err, v)
	}
	err := f.clusters.Delete(f.context(), specs["cp3"], DeleteOptions{})
	if err == nil || !strings.Contains(err.Error(), membership.ErrUnhealthy.Error()) || !problem.Untouched(err) {
		t.Errorf("delete of a member that votes beside a dead one: %v", err)
	}
	f.wantRoster(specs["cp1"], "cp1 cp2 cp3 cp4")
}
