package controlplane

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Read observes the replica. It returns ErrGone if it does not exist, and
// host.ErrUnreachable if the machine cannot be reached.
func (r *Replicas) Read(ctx context.Context, s Spec) (Status, error) {
	var rotation []string
	var registrarErr error
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		rotation, registrarErr = s.Registrar.Registered(ctx, s.Name, s.ServingAddress())
	}()
	status, f, err := observeStatus(ctx, s)
	<-asked
	switch {
	case err != nil:
		return Status{}, err
	case f.IsEmpty(s.Replica):
		return Status{}, missing(s)
	case registrarErr != nil:
		return Status{}, fmt.Errorf("check whether replica %s is registered: %w", s.Machine(), registrarErr)
	}
	status.Registered = len(rotation) == 0
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
	parts := component.Of(s.Replica)
	health := make([]string, len(parts))
	var asking sync.WaitGroup
	for i, c := range parts {
		asking.Go(func() { health[i] = askOnce(ctx, s, c) })
	}
	f, err := machine.Observe(ctx, s.Host, s.Replica)
	asking.Wait()
	if err != nil {
		return Status{}, machine.Observed{}, err
	}
	return status(s, f, health, time.Now()), f, nil
}

func askOnce(ctx context.Context, s Spec, c component.Component) string {
	check, err := newChecker(s, c)
	if err != nil {
		return err.Error()
	}
	defer check.close()
	return check.ask(ctx)
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
			Healthy:           health[i] == healthy,
			Health:            health[i],
			Version:           f.Version(c.Name),
			CertificateExpiry: expiry,
		})
		out.CertificateExpiry = sooner(out.CertificateExpiry, expiry)
	}
	out.CertificateExpiry = sooner(out.CertificateExpiry, earliest(f, []string{component.AdminConf}))
	return out
}

// earliest returns when the first of the certificates in files expires. Unreadable certificates
// are drift and do not count here.
func earliest(f machine.Observed, files []string) time.Time {
	var end time.Time
	for _, path := range files {
		certificate := f.Facts.Files[path].Content
		if text, ok := f.Kubeconfigs[path]; ok {
			info, err := pki.ParseKubeconfig(text)
			if err != nil {
				continue
			}
			certificate = info.ClientCertificate
		}
		if info, err := pki.Inspect(certificate); err == nil {
			end = sooner(end, info.NotAfter)
		}
	}
	return end
}

// sooner returns the earlier of two times; a zero time does not count.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// allReady reports whether all three components are ready.
func allReady(ctx context.Context, s Spec) bool { return len(componentsNotReady(ctx, s)) == 0 }

// componentsNotReady returns, for each component that is not ready, the reason.
func componentsNotReady(ctx context.Context, s Spec) []string {
	parts := component.Of(s.Replica)
	health := make([]string, len(parts))
	var asking sync.WaitGroup
	for i, c := range parts {
		asking.Go(func() { health[i] = askOnce(ctx, s, c) })
	}
	asking.Wait()
	var problems []string
	for i, c := range parts {
		if health[i] != healthy {
			problems = append(problems, c.Name+" "+health[i])
		}
	}
	return problems
}
