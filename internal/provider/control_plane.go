package provider

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/health"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// queryTarget is what a data source about a whole control plane queries.
type queryTarget struct {
	bundle       *pki.Bundle
	urls         []string // of etcd
	registration endpoint.Registration
	unavailable  string // why no query is possible; "" if one is
}

// queryTarget decodes the attributes of querySchema.
func (s *session) queryTarget(ctx context.Context, bundle types.String, signed types.Object, urls types.Set,
	registration types.Object, diags *diag.Diagnostics,
) queryTarget {
	a := queryTarget{bundle: s.bundle(bundle, diags), urls: stringsOf(ctx, urls, diags)}
	a.registration = decodeEndpoint(ctx, registration, a.bundle, diags)
	if leaves := clientLeaves(); a.bundle != nil && signed.IsNull() {
		s.installedOnAny(ctx, a.bundle, leaves, addressesOf(a.urls)).into(a.bundle, leaves, time.Now())
	} else if a.bundle != nil {
		problems := s.readSigned(ctx, signed, diags).into(a.bundle, leaves, time.Now())
		for _, leaf := range leaves {
			if err := problems[leaf.Name]; err != nil {
				addUnusable(leaf, err.Error(), diags)
			}
		}
	}
	switch {
	case !s.asks():
		a.unavailable = errNoSettings.Error()
	case a.bundle == nil:
		a.unavailable = errNoBundle.Error()
	}
	return a
}

// observeControlPlane queries everything in parallel and returns within the deadline with the
// answers it has.
func (s *session) observeControlPlane(ctx context.Context, at queryTarget) health.ControlPlane {
	out := health.ControlPlane{Authorities: authoritiesOf(at.bundle)}
	var asking sync.WaitGroup
	asking.Go(func() { out.Etcd = s.clusters.Health(ctx, s.machinesAt(addressesOf(at.urls)), at.bundle) })
	observed, balancers := observeReplicas(ctx, s, at, func(addresses []string) []controlplane.Health {
		return s.replicas.Health(ctx, addresses, at.bundle)
	})
	asking.Wait()
	out.Endpoint, out.Replicas = balancers, health.Replicas(observed, balancers.Replicas)
	return out
}

// observeReplicas searches for replicas in parallel on all machines that the arguments name. A
// replica may be on another machine, which is known only once the balancers have answered. The
// balancers get two thirds of the time.
func observeReplicas[T any](
	ctx context.Context, s *session, at queryTarget, ask func(addresses []string) []T,
) ([]T, health.Endpoint) {
	named := slices.AppendSeq(addressesOf(at.urls), maps.Values(at.registration.Hosts))
	slices.Sort(named)
	named = slices.Compact(named)
	var asking sync.WaitGroup
	var there []T
	asking.Go(func() { there = ask(named) })
	first, cancel := context.WithCancel(ctx)
	if end, bounded := ctx.Deadline(); bounded {
		cancel()
		first, cancel = context.WithTimeout(ctx, time.Until(end)*2/3)
	}
	defer cancel()
	balancers := s.registrars.health(first, at.registration)
	elsewhere := ask(health.UnnamedMachines(balancers.Replicas, named))
	asking.Wait()
	return append(there, elsewhere...), balancers
}

// authoritiesOf returns the expiry of each of the bundle's authorities.
func authoritiesOf(bundle *pki.Bundle) map[string]time.Time {
	out := map[string]time.Time{}
	for _, authority := range []pki.Authority{pki.Kubernetes, pki.Etcd, pki.FrontProxy} {
		info, err := pki.Inspect(bundle.Signing(authority))
		if err != nil {
			info = pki.Info{}
		}
		out[string(authority)] = info.NotAfter
	}
	return out
}
