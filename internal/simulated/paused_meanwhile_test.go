package simulated

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/runtime"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// interrupted is an endpoint. When the lock of its replicas is taken first, a change of an etcd member in another
// process, which held it, has just been cut off.
type interrupted struct {
	controlplane.Registrar
	once *sync.Once
	stop func()
}

func (e interrupted) Balancers() []host.LeaseTaker {
	e.once.Do(e.stop)
	return e.Registrar.Balancers()
}

// pause has the effect of an Outage that is cut off.
func (m *machine) pause() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range release.Components() {
		m.units[name+".service"].active = false
	}
	m.write(runtime.Named("").PausedPath(), file{mode: "644", owner: "root", group: "root"})
}

// TestPausedMeanwhile: a replica that an Outage of another process has stopped is started, whether it was observed
// before that or after.
func TestPausedMeanwhile(t *testing.T) {
	fleet, p := planeOn(t, 1)
	m, s := fleet.clusters[0].machines[0], p.servers[0]
	running := func() bool {
		return !slices.ContainsFunc(release.Components(), func(name string) bool { return !m.active(name + ".service") })
	}
	calls := &noting{Registrar: s.Registrar} // a drain is not simulated
	s.Registrar = interrupted{calls, &sync.Once{}, m.pause}
	s.EarlyRenewal = 40 * 24 * time.Hour // a change that restarts nothing
	if _, err := p.replicas.Update(t.Context(), s); err != nil || !running() {
		t.Fatalf("an update leaves it running: %t, %v", running(), err)
	}
	s.Registrar = interrupted{calls, &sync.Once{}, m.pause}
	if _, err := p.replicas.Update(t.Context(), s); err != nil || !running() {
		t.Fatalf("an update without drift leaves it running: %t, %v", running(), err)
	}
	m.pause()
	s.Registrar = calls
	calls.take()
	if _, err := p.replicas.Create(t.Context(), s); err != nil || !running() {
		t.Fatalf("a Create whose state was lost leaves it running: %t, %v", running(), err)
	}
	if all := calls.take(); !slices.Contains(all, "drain "+s.Name) {
		t.Errorf("a Create has done %q, and not as an update, under the lock", all)
	}
}

// TestPausedByThisProcess: an update does not start a replica that a change of its member keeps stopped in the same
// process. It begins when that has ended.
func TestPausedByThisProcess(t *testing.T) {
	fleet, p := planeOn(t, 1)
	m, s := fleet.clusters[0].machines[0], p.servers[0]
	calls := &noting{Registrar: s.Registrar}
	s.Registrar = calls
	s.EarlyRenewal = 40 * 24 * time.Hour // a change that restarts nothing
	outage := p.replicas.Outage(controlplane.StackedMember{
		Host: s.Host, Bundle: s.Bundle, EtcdURL: s.EtcdURLs[0],
		Registrar: func(controlplane.Recorded) (controlplane.Registrar, error) { return calls, nil },
	})
	end := outage.Open()
	if err := outage.Begins(t.Context()); err == nil || !strings.Contains(err.Error(), "not simulated") {
		t.Fatalf("the stop itself is not simulated: %v", err)
	}
	m.pause()
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := p.replicas.Update(short, s); !errors.Is(err, context.DeadlineExceeded) ||
		m.active("kube-apiserver.service") {
		t.Errorf("an update does not wait: %v", err)
	}
	updated := make(chan error, 1)
	go func() {
		_, err := p.replicas.Update(t.Context(), s)
		updated <- err
	}()
	time.Sleep(300 * time.Millisecond)
	if m.active("kube-apiserver.service") {
		t.Error("an update has started what the change of its member keeps stopped")
	}
	end()
	if err := <-updated; err != nil || !m.active("kube-apiserver.service") {
		t.Errorf("an update after it: %v", err)
	}
}
