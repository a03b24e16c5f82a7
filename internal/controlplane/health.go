package controlplane

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/client"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// Health is the observed state of a machine that may have a replica.
type Health struct {
	Address           string
	Err               error       // why it could not be observed; nothing below is known then
	Port              int         // of its API server
	Name              string      // of the replica of this cluster; "" if it has none
	Foreign           string      // describes the foreign replica that it has instead
	Version           string      // of the API server that runs, or would be started
	Components        []Component // as Status.Components
	CertificateExpiry time.Time   // the earliest of all
	// CertificatesUnread are the paths of its certificates that are missing, or cannot be parsed.
	CertificatesUnread []string
}

// Healthy reports whether all three components are ready.
func (h Health) Healthy() bool {
	return len(h.Components) > 0 && !slices.ContainsFunc(h.Components, func(c Component) bool { return !c.Healthy })
}

// Health observes machines and the components of their replicas, all in parallel. It never
// fails: it returns what is known before ctx ends, in the order of addresses.
func (r *Replicas) Health(ctx context.Context, addresses []string, b *pki.Bundle) []Health {
	out := make([]Health, len(addresses))
	var machines sync.WaitGroup
	for i, address := range addresses {
		machines.Go(func() { out[i], _ = healthAt(ctx, r.machine(address), b, "") })
	}
	machines.Wait()
	return out
}

// healthAt first reads the record, which contains the address of the API server. script is run
// in the same round trip; its output lines differ from those of the query.
func healthAt(ctx context.Context, h *host.Host, b *pki.Bundle, script host.Script) (health Health, output string) {
	s := Spec{Replica: component.Replica{Address: h.Address(), Bundle: b}, Host: h}
	q := machine.HealthQuery(s.Replica)
	q.Script = script + q.Script
	facts, err := h.Observe(ctx, q)
	if err != nil {
		return Health{Address: h.Address(), Err: err}, ""
	}
	f := machine.Interpret(facts)
	s.Name, s.Port = f.Record.Name, f.Record.Port
	if f.Facts.Files[f.Runtime().Path(component.KonnectivityServer)].Content != "" {
		s.Konnectivity = &component.Konnectivity{} // the probe needs no more
	}
	answers := make([]string, len(component.Of(s.Replica)))
	if f.HasReplicaOf(b.ClusterID) {
		answers = s.client().Health(ctx)
	}
	return healthOf(s.Replica, f, answers), facts.Output
}

// healthOf combines the observations. The state of a unit that does not run explains more than
// a request without an answer.
func healthOf(s component.Replica, f machine.Observed, health []string) Health {
	out := Health{Address: s.Address}
	if !f.HasReplicaOf(s.Bundle.ClusterID) {
		switch {
		case f.RecordErr != nil:
			out.Foreign = f.RecordErr.Error()
		case f.HasForeignAPIServer():
			out.Foreign = machine.ForeignAPIServer
		default:
			out.Foreign = machine.Describe(f.Record)
		}
		return out
	}
	out.Name, out.Port, out.Version = f.Record.Name, s.APIPort(), f.EffectiveVersion(release.APIServer)
	by := f.Runtime()
	for i, c := range component.Of(s) {
		status := Component{
			Name: c.Name, Healthy: health[i] == client.Healthy, Health: health[i],
			Version: f.Version(c.Name), CertificateExpiry: earliest(f, c.Certificates),
		}
		if reason := machine.UnitProblem(by.State(f.Facts, c.Name)); reason != "" {
			status.Healthy, status.Health = false, fmt.Sprintf("%s %s", by.Unit(c.Name), reason)
		}
		out.Components = append(out.Components, status)
		out.CertificatesUnread = append(out.CertificatesUnread, unreadCertificates(f, c.Certificates)...)
		out.CertificateExpiry = earlier(out.CertificateExpiry, status.CertificateExpiry)
	}
	out.CertificateExpiry = earlier(out.CertificateExpiry, earliest(f, []string{component.AdminConf}))
	if _, there := f.Kubeconfigs[component.AdminConf]; there { // it is optional
		out.CertificatesUnread = append(out.CertificatesUnread, unreadCertificates(f, []string{component.AdminConf})...)
	}
	return out
}
