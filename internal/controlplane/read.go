package controlplane

import (
	"context"
	"fmt"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/client"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Read observes the replica. It returns ErrGone if it does not exist, and
// host.ErrUnreachable if the machine cannot be reached.
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
	status, f, err := observeStatus(ctx, s)
	<-queried
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
	probed := make(chan []string, 1)
	go func() { probed <- s.client().Health(ctx) }()
	f, err := machine.Observe(ctx, s.Host, s.Replica)
	health := <-probed
	if err != nil {
		return Status{}, machine.Observed{}, err
	}
	out := status(s, f, health, time.Now())
	out.Drift = append(out.Drift, kubeletDrift(s, f)...)
	return out, f, nil
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
		certificate := f.Facts.Files[path].Content
		if text, ok := f.Kubeconfigs[path]; ok {
			info, err := pki.ParseKubeconfig(text)
			if err != nil {
				continue
			}
			certificate = info.ClientCertificate
		}
		if info, err := pki.Inspect(certificate); err == nil {
			end = earlier(end, info.NotAfter)
		}
	}
	return end
}

// earlier returns the earlier of two times; a zero time does not count.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
