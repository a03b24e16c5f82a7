package controlplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/pod"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/runtime"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/unit"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// StackedMember describes the machine of an etcd member, on which a replica may run.
type StackedMember struct {
	Host    *host.Host
	Bundle  *pki.Bundle
	EtcdURL string // of the member
	// Registrar returns the registrar of the replica that a machine has recorded.
	Registrar func(recorded Recorded) (Registrar, error)
}

// startAndRegister starts the named components as they ran before, waits until the replica is ready, and
// puts it into rotation.
func startAndRegister(ctx context.Context, s Spec, components []string) error {
	if err := bringUp(ctx, s, changes{restart: components, resumes: true}); err != nil {
		return err
	}
	return s.Registrar.Register(ctx, s.Name, s.ServingAddress())
}

// stackedStatus is the observed status of a replica on the machine of an etcd member.
type stackedStatus struct {
	paused  bool // by an Outage
	running bool // its API server runs
	orphan  bool // its only etcd member is on the same machine and does not run
	absent  bool // the machine is reachable and has no replica

	unrecorded bool // the machine has, or may have, an API server that no record describes

	unreached error // why the machine was not reached; nil if it was
	// foreign is an API server that runs, is not taken over, and has no other member, or none that is known; nil if there
	// is none.
	foreign *Spec
}

// recoveryTimeout is how long an API server may take to reconnect to its member by itself. The
// longer the member was away, the less often it retries, up to two minutes apart.
const recoveryTimeout = 5 * time.Second

// recoverAfterMember makes a replica serve again that ran without its member, once the member
// is back, so that the next plan reports no drift. Any other problem of the replica is not a
// failure of the member.
func recoverAfterMember(ctx context.Context, s Spec, state stackedStatus) {
	if !state.running {
		return
	}
	soon, cancel := context.WithTimeout(ctx, recoveryTimeout)
	defer cancel()
	w := readinessWait{reasons: map[string]string{}}
	var components []string
	if w.poll(soon, s, component.APIServer(s.Replica)) != nil {
		components = []string{release.APIServer}
	}
	err := checkListed(ctx, s.Registrar, s.Name, s.Address)
	if err == nil {
		err = startAndRegister(ctx, s, components)
	}
	if err != nil {
		problem.Progress(ctx, "%s: its etcd member serves again, the replica does not yet: %v", s.Machine(), err)
	}
}

// checkListed returns an error if the endpoint has the replica of a name at another machine than the one that says to
// have it. A drain, or a registration, would take that replica out of rotation, and the name is the machine's own word.
// One that no endpoint lists is not registered yet. Another port is no other machine.
func checkListed(ctx context.Context, at Registrar, name, address string) error {
	listed, err := at.ListedAt(ctx, name)
	if err != nil {
		return fmt.Errorf("look for the replica %s at its endpoint: %w", problem.Quote(name), err)
	}
	own, err := netip.ParseAddr(address)
	for _, text := range listed {
		other, bad := netip.ParseAddr(text)
		if text == address || err == nil && bad == nil && other == own {
			continue
		}
		return &problem.Problem{
			Summary: "Replica of another machine not changed", Host: address, Unchanged: problem.Nothing,
			Cause: "the machine says in " + machine.RecordPath + " that its replica is " + problem.Quote(name) +
				", and the endpoint has that one at " + text,
			Next: "if the replica has moved to this machine, or a balancer lists it wrongly, apply the replica or the " +
				"endpoint alone first (-target). Otherwise find out who has changed that file",
		}
	}
	return nil
}

// dependentReplica returns the replica on the machine whose only etcd member this is; nil if
// there is none.
func (b StackedMember) dependentReplica(ctx context.Context) (*Spec, stackedStatus, error) {
	s, state, err := b.replica(ctx)
	if s == nil || err != nil || !slices.Equal(s.EtcdURLs, []string{b.EtcdURL}) {
		return nil, state, err
	}
	return s, state, nil
}

// resumableReplica returns the replica on the machine if its only etcd member is this one, or if
// it is paused; nil otherwise.
func (b StackedMember) resumableReplica(ctx context.Context) (*Spec, stackedStatus, error) {
	s, state, err := b.replica(ctx)
	if s == nil || err != nil || !state.paused && !slices.Equal(s.EtcdURLs, []string{b.EtcdURL}) {
		return nil, state, err
	}
	return s, state, nil
}

// replica returns the replica on the machine, as its record describes it; nil if there
// is none. Only what pausing and resuming need is set.
func (b StackedMember) replica(ctx context.Context) (s *Spec, state stackedStatus, err error) {
	facts, err := b.Host.Observe(ctx, machine.PausedQuery())
	if errors.Is(err, host.ErrUnreachable) {
		state.unreached = err
		return nil, state, nil
	}
	if err != nil {
		return nil, state, fmt.Errorf("read the replica on %s: %w", b.Host.Address(), err)
	}
	// A replica with an unreadable record cannot be paused; its Read reports that.
	r, err := machine.ReadRecord(facts.Files[machine.RecordPath].Content)
	by := runtime.Named(r.Runtime)
	state.running = by.State(facts, release.APIServer).Active == "active"
	_, state.paused = facts.Files[by.PausedPath()]
	if err != nil || r.ClusterID != b.Bundle.ClusterID {
		state.unrecorded = err != nil || machine.Interpret(facts).HasForeignAPIServer()
		state.absent = r.ClusterID == "" && !state.unrecorded
		if err == nil && r.ClusterID == "" {
			state.foreign = b.foreignReplica(facts)
		}
		return nil, state, nil
	}
	_, pod := facts.Files[machine.EtcdManifest] // the kubelet runs the member
	state.orphan = allOnMachine(r.Etcd, b.Host.Address()) && !pod &&
		!machine.ProcessExists(facts.Units[machine.EtcdUnitName])
	registrar, err := b.Registrar(recordedIn(r))
	if err != nil {
		return nil, state, fmt.Errorf("read the endpoint in %s on %s: %w", machine.RecordPath, b.Host.Address(), err)
	}
	return &Spec{
		Replica: component.Replica{
			Name: r.Name, Address: b.Host.Address(), Bundle: b.Bundle, Port: r.Port, EtcdURLs: r.Etcd, Registration: r.Endpoint,
			Runtime: r.Runtime,
		},
		Host: b.Host, Registrar: registrar,
	}, state, nil
}

// foreignReplica returns stackedStatus.foreign for a machine without a record. An API server whose manifest cannot be
// read completely, or which is no static pod, may use this member alone, and have the usual port.
func (b StackedMember) foreignReplica(facts host.Facts) *Spec {
	now := pod.Read(facts.Output, release.APIServer)
	if now.Unit.Active != "active" && facts.Units[unit.Name(release.APIServer)].Active != "active" {
		return nil
	}
	var flags map[string]string
	if now.Inherited != nil {
		flags = now.Inherited.Flags
		if at := flags["etcd-servers"]; at != b.EtcdURL && !component.IsLoopbackURL(at) {
			return nil
		}
	}
	port, err := strconv.Atoi(cmp.Or(flags["secure-port"], strconv.Itoa(component.DefaultPort)))
	if err != nil {
		return nil
	}
	return &Spec{Host: b.Host, Replica: component.Replica{
		Address: b.Host.Address(), Bundle: b.Bundle, Port: port, Runtime: component.StaticPod,
	}}
}

// allOnMachine reports whether all client URLs are on one machine.
func allOnMachine(urls []string, address string) bool {
	if len(urls) != 1 {
		return false
	}
	at, err := url.Parse(urls[0])
	return err == nil && at.Hostname() == address
}
