package bgp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

const (
	// sessionTimeout limits the wait for the first session.
	sessionTimeout = 30 * time.Second
	// othersTimeout limits the wait for the other sessions after the first: a router may be down.
	othersTimeout = 5 * time.Second
	// undoTimeout limits Undrain after a failed drain, whose context may have ended.
	undoTimeout = 30 * time.Second
)

// Registrar implements the interface of package controlplane for an endpoint that is announced by
// BGP.
type Registrar struct {
	*targets.Set
	passwords map[string]string
	// recorded means that a machine has recorded the registration. bird is not configured then: the
	// record of a machine that was taken over must not choose the password that is written there.
	recorded bool
}

// For returns the registrar of one registration.
func (e *Endpoints) For(registration endpoint.Registration) *Registrar {
	if registration.BGP == nil {
		registration.BGP = &endpoint.Announcement{} // ValidateRegistration refuses it
	}
	return &Registrar{Set: e.observer.For(registration), passwords: e.passwords}
}

// ForRecorded returns the registrar of a registration that a machine has recorded. It writes no
// password.
func (e *Endpoints) ForRecorded(registration endpoint.Registration) *Registrar {
	r := e.For(registration)
	r.recorded, r.passwords = true, nil
	return r
}

// checkPasswords checks that every password that a peer names is known and valid.
func (r *Registrar) checkPasswords() error {
	if missing := missingPasswords(r.Registration, r.passwords); len(missing) > 0 {
		return fmt.Errorf("%w: %s", errNoPassword, strings.Join(missing, ", "))
	}
	for _, p := range r.BGP.Peers {
		if p.Password == "" {
			continue
		}
		if err := ValidatePassword(r.passwords[p.Password]); err != nil {
			return fmt.Errorf("password %s of peer %s: %w", p.Password, p.Address, err)
		}
	}
	return nil
}

var errNoPassword = errors.New("the configuration has no password of this name")

// Register returns when the replica is ready, and its machine announces the endpoint's address to at
// least one peer. address is IP:port.
func (r *Registrar) Register(ctx context.Context, name, address string) error {
	t, err := r.At(name, address)
	if err == nil {
		err = ValidateRegistration(r.Registration)
	}
	if err == nil && !r.recorded {
		err = r.checkPasswords()
	}
	if err == nil && t.Port != r.Port {
		err = fmt.Errorf("%w: it has port %d, and the endpoint %d", errPort, t.Port, r.Port)
	}
	if err != nil {
		return r.operationError("in rotation", name, err)
	}
	ready := func(ctx context.Context) error { return r.Probe(ctx, t) }
	if err := targets.WaitUntil(ctx, targets.ReadyTimeout, ready); err != nil {
		return r.operationError("in rotation", name, fmt.Errorf("its API server is not ready: %w", err))
	}
	if !r.recorded {
		if err := r.install(ctx, t); err != nil {
			return r.operationError("in rotation", name, err)
		}
	}
	if err := r.admit(ctx, t); err != nil {
		return r.operationError("in rotation", name, err)
	}
	if err := r.waitUntilAnnounced(ctx, t); err != nil {
		return r.operationError("in rotation", name, err)
	}
	problem.Progress(ctx, "replica %s is ready, and its machine announces %s", name, r.Address)
	return nil
}

var (
	errPort     = errors.New("clients reach the API server at the endpoint's address, so both need the same port")
	errBusyPort = errors.New("another program listens on the port of BGP")
	errPackages = errors.New("packages cannot be installed")
)

// install makes the machine as the registration wants it. It changes nothing that is so already.
func (r *Registrar) install(ctx context.Context, t targets.Target) error {
	h := r.Machine(t.Address)
	m := observe(ctx, h, r.Registration)
	if m.err != nil {
		return m.err
	}
	if err := r.preflight(t, m); err != nil {
		return err
	}
	if packages := missingPackages(m.facts); len(packages) > 0 {
		problem.Progress(ctx, "install %s on %s", strings.Join(packages, ", "), t.Name)
		if _, err := h.Run(ctx, install(packages)); err != nil {
			return fmt.Errorf("%w (%s): %w", errPackages, strings.Join(packages, ", "), err)
		}
		if m = observe(ctx, h, r.Registration); m.err != nil {
			return m.err
		}
		if left := missingPackages(m.facts); len(left) > 0 {
			return fmt.Errorf("%w: %s is not there after the installation", errPackages, strings.Join(left, ", "))
		}
	}
	claim := owned(claimScript, r.Registration, map[string]string{"record": recordText(r.Registration, t.Name)})
	if _, err := r.run(ctx, t.Address, claim); err != nil {
		return err
	}
	own, err := netip.ParseAddr(t.Address)
	if err != nil {
		return err
	}
	_, err = h.Apply(ctx, change(r.Registration, own, m.facts, r.passwords))
	return err
}

// preflight returns why the machine must not be changed.
func (r *Registrar) preflight(t targets.Target, m machine) error {
	if m.owner.other(r.Registration) {
		return fmt.Errorf("%w: %s", errOther, m.owner)
	}
	if len(missingPackages(m.facts)) > 0 && !hasInstaller(m.facts) {
		return fmt.Errorf("%w: the machine has none of %s", errPackages, strings.Join(installers(), ", "))
	}
	listener, busy := m.facts.Listeners[bgpPort]
	if !busy || m.facts.Units[birdUnit].MainPID > 0 {
		return nil
	}
	own, err := netip.ParseAddr(t.Address)
	if err != nil {
		return err
	}
	for _, text := range listener.Addresses {
		at, bad := netip.ParseAddr(strings.Trim(text, "[]"))
		if text == "*" || bad == nil && (at.IsUnspecified() || at.Unmap() == own) {
			return fmt.Errorf("%w: %s on %s port %d", errBusyPort, listener.Process, text, bgpPort)
		}
	}
	return nil
}

// admit puts the replica into rotation on its machine.
func (r *Registrar) admit(ctx context.Context, t targets.Target) error {
	answer, err := r.run(ctx, t.Address, owned(admitScript, r.Registration, nil))
	if err == nil && answer != answerOwned {
		err = fmt.Errorf("unexpected answer %s", problem.Quote(answer))
	}
	return err
}

// The answers of scripts that check the owner.
const (
	answerOther  = "other"
	answerOwned  = "ours"
	answerAbsent = "absent" // nothing of the endpoint is there
)

// run runs a script that answers whose the machine is.
func (r *Registrar) run(ctx context.Context, address string, c host.Command) (string, error) {
	output, err := r.Machine(address).Run(ctx, c)
	if err != nil {
		return "", err
	}
	answer := strings.TrimSpace(output)
	switch answer {
	case answerOther:
		return "", errOther
	case answerOwned, answerAbsent:
		return answer, nil
	}
	return "", fmt.Errorf("unexpected answer %s", problem.Quote(answer))
}

// waitUntilAnnounced returns when every peer knows the address, or when at least one does and the
// others do not answer. Then the network has had the time to follow.
func (r *Registrar) waitUntilAnnounced(ctx context.Context, t targets.Target) error {
	var silent []string
	first := time.Time{}
	err := targets.WaitUntil(ctx, sessionTimeout, func(ctx context.Context) error {
		m := observe(ctx, r.Machine(t.Address), r.Registration)
		if m.err != nil {
			return m.err
		}
		if why := m.outOfRotation(r.Registration); why != nil {
			first = time.Time{}
			if silent = m.silentPeers(r.Registration); len(silent) > 0 {
				why = fmt.Errorf("%w: %s", why, strings.Join(silent, "; "))
			}
			return why
		}
		if first.IsZero() {
			first = time.Now()
		}
		silent = m.silentPeers(r.Registration)
		if len(silent) > 0 && time.Since(first) < othersTimeout {
			return errNotAnnounced
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, line := range silent {
		problem.Progress(ctx, "replica %s: %s", t.Name, line)
	}
	return r.propagate(ctx)
}

// propagate waits until the network has followed.
func (r *Registrar) propagate(ctx context.Context) error {
	select {
	case <-ctx.Done():
	case <-time.After(r.BGP.Propagation):
	}
	return ctx.Err()
}

// Drain takes a replica out of rotation for a restart: its machine withdraws the address. All other
// replicas must be in rotation.
func (r *Registrar) Drain(ctx context.Context, name string) error {
	return r.leave(ctx, name, targets.ToReturn)
}

// DrainForDelete drains a replica that is removed: at least one other replica must be in rotation.
// With lastAllowed, the only replica may be removed too.
func (r *Registrar) DrainForDelete(ctx context.Context, name string, lastAllowed bool) error {
	if lastAllowed {
		return r.leave(ctx, name, targets.AsLast)
	}
	return r.leave(ctx, name, targets.ForGood)
}

func (r *Registrar) leave(ctx context.Context, name string, how targets.Leaving) error {
	seen := r.inRotation(ctx)
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := r.MayLeave(name, seen, how); err != nil {
		return err
	}
	t, known := seen[name]
	if !known || t.Unreachable != nil && t.NotReady != nil {
		return nil // a machine that is down announces nothing
	}
	err := r.withdraw(ctx, t)
	if err == nil {
		return nil
	}
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	if undone := r.Undrain(undo, name); undone != nil {
		err = fmt.Errorf("%w; returning it to rotation failed too: %w", err, undone)
	}
	return r.operationError("drained", name, err)
}

// withdraw returns when no peer has the route from the machine any more.
func (r *Registrar) withdraw(ctx context.Context, t targets.Target) error {
	answer, err := r.run(ctx, t.Address, owned(drainScript, r.Registration, nil))
	if errors.Is(err, errOther) || err == nil && answer == answerAbsent {
		return nil // it announces nothing for this endpoint
	}
	if err != nil {
		return err
	}
	m := observe(ctx, r.Machine(t.Address), r.Registration)
	if m.err != nil {
		return m.err
	}
	for i, p := range r.BGP.Peers {
		if m.report.Sessions[peerName(i)].Exported {
			return fmt.Errorf("%w to peer %s", errStillAnnounced, p.Address)
		}
	}
	return r.propagate(ctx)
}

var errStillAnnounced = errors.New("its machine still announces the address")

// Undrain reverts Drain and DrainForDelete if the replica is still registered. Its machine announces
// the address again when the API server is ready.
func (r *Registrar) Undrain(ctx context.Context, name string) error {
	if r.Hosts[name] == "" {
		return nil
	}
	_, err := r.run(ctx, r.Hosts[name], owned(admitScript, r.Registration, nil))
	if errors.Is(err, errOther) {
		return nil
	}
	return r.operationError("put back", name, err)
}

// Deregister removes everything from the machine. A machine that cannot be reached is skipped: if it
// is up, Delete of the endpoint removes the rest.
func (r *Registrar) Deregister(ctx context.Context, name string) error {
	if r.Hosts[name] == "" {
		return nil
	}
	return r.operationError("deregistered", name, r.clean(ctx, name))
}

func (r *Registrar) clean(ctx context.Context, name string) error {
	address := r.Hosts[name]
	_, err := r.run(ctx, address, owned(cleanScript, r.Registration, map[string]string{"state": packagesDir}))
	switch {
	case errors.Is(err, errOther):
		return nil
	case errors.Is(err, host.ErrUnreachable) && ctx.Err() == nil:
		problem.Progress(ctx, "skipped: machine %s: %v", name, err)
		return nil
	}
	return err
}

// Registered returns the differences from the state after Register, or nil.
func (r *Registrar) Registered(ctx context.Context, name, address string) ([]string, error) {
	t, err := r.At(name, address)
	if errors.Is(err, targets.ErrNotATarget) {
		return []string{err.Error()}, nil
	} else if err == nil {
		err = ValidateRegistration(r.Registration)
	}
	if err != nil {
		return nil, r.operationError("observed", name, err)
	}
	own, err := netip.ParseAddr(t.Address)
	if err != nil {
		return nil, r.operationError("observed", name, err)
	}
	m := observe(ctx, r.Machine(t.Address), r.Registration)
	if m.err != nil {
		return nil, r.operationError("observed", name, m.err)
	}
	differences := m.drift(r.Registration, own, r.passwords)
	if err := r.Probe(ctx, t); err != nil {
		differences = append(differences, "not ready: "+problem.Line(err.Error()))
	}
	return differences, ctx.Err()
}

// inRotation observes all targets. One that is ready, and whose machine does not announce the
// address, is not ready for requests.
func (r *Registrar) inRotation(ctx context.Context) targets.Observed {
	seen := r.Observe(ctx)
	var (
		mu  sync.Mutex
		all sync.WaitGroup
		out = targets.Observed{}
	)
	for name, t := range seen {
		all.Go(func() {
			if t.Member() && t.Ready() && t.Unreachable == nil {
				m := observe(ctx, r.Machine(t.Address), r.Registration)
				if t.NotReady = m.err; m.err == nil {
					t.NotReady = m.outOfRotation(r.Registration)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			out[name] = t
		})
	}
	all.Wait()
	return out
}

// OutOfRotation returns the replicas that get no requests, name → host:port.
func (r *Registrar) OutOfRotation(ctx context.Context) (map[string]string, error) {
	return r.inRotation(ctx).OutOfRotation(), ctx.Err()
}

// Serving returns the replicas that get requests, name → host:port.
func (r *Registrar) Serving(ctx context.Context) (map[string]string, error) {
	return r.inRotation(ctx).Serving(), ctx.Err()
}

// LeavesByStopping returns false: the address is withdrawn before a replica stops.
func (*Registrar) LeavesByStopping() bool { return false }

// operationError is nil if err is.
func (r *Registrar) operationError(what, name string, err error) error {
	if err == nil {
		return nil
	}
	return &problem.Problem{
		Summary: "Replica " + name + " not " + what + " at endpoint " + r.Address,
		Host:    r.Hosts[name], Cause: err.Error(), Next: nextStep(err), Err: err,
	}
}

// nextStep says what to do about a machine that does not announce the address.
func nextStep(err error) string {
	switch {
	case errors.Is(err, targets.ErrNotATarget):
		return "add the replica to bgp.targets of the endpoint, then apply again"
	case errors.Is(err, errNoPassword):
		return "set the password of the session in the configuration of the provider, then apply again"
	case errors.Is(err, errPackages):
		return "make the packages installable on the machine, or install them by hand, then apply again"
	case errors.Is(err, errBusyPort):
		return "let the other program bind another address, or none (such as passive sessions), then apply again"
	case errors.Is(err, errPort):
		return "give the replica the endpoint's port (port), then apply again"
	case errors.Is(err, errNoSession):
		return "check that the router (bgp.peers) has the machine as a neighbor, with the same ASNs and password, and that " +
			"TCP port 179 is open between them, then apply again"
	}
	return "fix the cause and apply again; completed steps are skipped"
}
