package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/client"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/poll"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// restartTimeout is how long an apply waits for a component that ended after it was ready. systemd starts it after
// two seconds.
const restartTimeout = 30 * time.Second

// readRestartTimeout is the same for a read, which must report a component that ends again and again.
const readRestartTimeout = 8 * time.Second

// Read observes the replica. It returns ErrGone if it does not exist, and
// host.ErrUnreachable or host.ErrNoAnswer if the machine cannot be reached or hangs. An endpoint that does not say
// whether the replica is in rotation is no error, but Status.RotationErr.
func (r *Replicas) Read(ctx context.Context, s Spec) (Status, error) {
	if err := s.checkHost(); err != nil {
		return Status{}, err
	}
	var rotation []string
	var registrarErr error
	queried := make(chan struct{})
	go func() {
		defer close(queried)
		rotation, registrarErr = s.Registrar.Registered(ctx, s.Name, s.ServingAddress())
	}()
	status, f, err := observeUntil(ctx, s, host.AnswerLimit(ctx, readRestartTimeout), isStarted)
	<-queried
	switch {
	case err != nil:
		return Status{}, err
	case f.IsGone(s.Replica):
		return Status{}, missing(s)
	case registrarErr != nil:
		registrarErr = fmt.Errorf("check whether replica %s is registered: %w", s.Machine(), registrarErr)
		if host.Unusable(registrarErr) || errors.Is(ctx.Err(), context.Canceled) {
			return Status{}, registrarErr
		}
	}
	status.Registered = len(rotation) == 0 && registrarErr == nil
	status.RotationErr = registrarErr
	status.Drift = append(status.Drift, rotation...)
	return status, nil
}

// missing returns ErrGone with the evidence, which the next plan shows together with the new
// replica.
func missing(s Spec) error {
	return &problem.Problem{
		Summary: fmt.Sprintf("Control-plane replica %q is gone", s.Name), Host: s.Machine(), Err: ErrGone,
		Cause: "the machine is reachable and holds nothing of it",
		Next:  "apply to create it again; to keep it deleted, remove it from the configuration",
	}
}

// observeStatus observes the machine and probes the components in parallel.
func observeStatus(ctx context.Context, s Spec) (Status, machine.Observed, error) {
	probed := make(chan []string, 1)
	go func() { probed <- s.client().Health(ctx) }()
	var f machine.Observed
	err := host.InTime(ctx, s.Host.Address(), func(ctx context.Context) (err error) {
		f, err = machine.Observe(ctx, s.Host, s.Replica)
		return err
	})
	health := <-probed
	if err != nil {
		return Status{}, machine.Observed{}, err
	}
	out := status(s, f, health, time.Now())
	out.Drift = append(out.Drift, kubeletDrift(s, f)...)
	return out, f, nil
}

// observeReady observes a replica that has just become ready. It waits, at most restartTimeout, for a component
// that systemd restarts: kube-scheduler and kube-controller-manager answer that they are healthy until they have
// not renewed their lease for ten seconds, and then end. Their API server's own restart can take as long.
func observeReady(ctx context.Context, s Spec) (Status, error) {
	status, _, err := observeUntil(ctx, s, restartTimeout, isUp)
	return status, err
}

// observeUntil observes the replica until an observation is enough, at most for the given time. It returns the last
// observation.
func observeUntil(ctx context.Context, s Spec, limit time.Duration, enough func(machine.Observed, Status) bool) (
	Status, machine.Observed, error,
) {
	var status Status
	var f machine.Observed
	_, err := poll.Until(ctx, pollInterval, limit, func() (bool, error) {
		var err error
		status, f, err = observeStatus(ctx, s)
		return err == nil && enough(f, status), err
	})
	return status, f, err
}

// isUp reports whether all components are ready, and none has ended and waits for its next start.
func isUp(f machine.Observed, status Status) bool {
	return isStarted(f, status) &&
		!slices.ContainsFunc(status.Components, func(c Component) bool { return !c.Healthy })
}

// isStarted reports whether no component has ended and waits for its next start. kube-scheduler and
// kube-controller-manager end when they lose their lease, as after a slow election of etcd: a plan of just then would
// report drift that is gone two seconds later.
func isStarted(f machine.Observed, status Status) bool {
	by := f.Runtime()
	return !slices.ContainsFunc(status.Components, func(c Component) bool {
		return by.State(f.Facts, c.Name).Sub == "auto-restart"
	})
}

// status combines the observations. The registrar reports whether the replica is registered.
func status(s Spec, f machine.Observed, health []string, now time.Time) Status {
	out := Status{
		MachineID:    f.Facts.MachineID,
		ConfigDigest: f.ConfigDigest(s.Replica),
		Drift:        drift(s.Replica, f, now),
	}
	for i, c := range component.Of(s.Replica) {
		expiry := earliest(f, c.Certificates)
		out.Components = append(out.Components, Component{
			Name:              c.Name,
			Healthy:           health[i] == client.Healthy,
			Health:            health[i],
			Version:           f.Version(c.Name),
			CertificateExpiry: expiry,
		})
		out.CertificateExpiry = earlier(out.CertificateExpiry, expiry)
	}
	out.CertificateExpiry = earlier(out.CertificateExpiry, earliest(f, []string{component.AdminConf}))
	return out
}

// earliest returns when the first of the certificates in files expires. Unreadable certificates
// are drift and do not count here.
func earliest(f machine.Observed, files []string) time.Time {
	var end time.Time
	for _, path := range files {
		if info, err := inspect(f, path); err == nil {
			end = earlier(end, info.NotAfter)
		}
	}
	return end
}

// unreadCertificates returns the files that earliest does not count.
func unreadCertificates(f machine.Observed, files []string) []string {
	var unread []string
	for _, path := range files {
		if _, err := inspect(f, path); err != nil {
			unread = append(unread, path)
		}
	}
	return unread
}

// inspect reads the certificate in an observed file, which may be a kubeconfig.
func inspect(f machine.Observed, path string) (pki.Info, error) {
	certificate := f.Facts.Files[path].Content
	if text, ok := f.Kubeconfigs[path]; ok {
		info, err := pki.ParseKubeconfig(text)
		if err != nil {
			return pki.Info{}, err
		}
		certificate = info.ClientCertificate
	}
	return pki.Inspect(certificate)
}

// earlier returns the earlier of two times; a zero time does not count.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
