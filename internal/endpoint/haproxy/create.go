package haproxy

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/packages"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Create claims every host, installs and starts HAProxy and keepalived on them, and waits until
// exactly one of them holds the VIP, HAProxy answers there, and the others reach it. If it fails and
// replicas are in rotation, the error is endpoint.ErrAdopted.
func Create(ctx context.Context, s Spec) (endpoint.Status, error) {
	if err := s.validate(); err != nil {
		return endpoint.Status{}, refusedError(s, "created", err)
	}
	query := balancerQuery(s, true)
	if !s.Inherit {
		addFormer(&query)
	}
	seen, err := observe(ctx, s, query)
	if err != nil {
		return endpoint.Status{}, refusedError(s, "created", err)
	}
	status, err := createOn(ctx, s, seen)
	if inUse(s, seen) != nil {
		err = endpoint.Adopted(err)
	}
	return status, err
}

// createOn is Create after the hosts were observed. If one of them has the endpoint, from an apply that was cut off or
// another resource, the rest is done as in an Update. Hosts that only records name are those that leave.
func createOn(ctx context.Context, s Spec, seen map[string]balancer) (endpoint.Status, error) {
	if err := refuseOtherEndpoints(s, "created", seen); err != nil {
		return endpoint.Status{}, err
	}
	former, err := forgottenHosts(ctx, s, Spec{}, seen)
	if err != nil {
		return endpoint.Status{}, refusedError(s, "created", err)
	}
	if err := checkCreate(ctx, s, seen, former); err != nil {
		return endpoint.Status{}, err
	}
	if _, err := cleanHosts(ctx, former.Spec, former.lost, notCreated); err != nil {
		return endpoint.Status{}, err
	}
	if err := claim(ctx, s, "created", seen, former.remaining()); err != nil {
		return endpoint.Status{}, err
	}
	if err := installOn(ctx, s, seen); err != nil {
		return endpoint.Status{}, err
	}
	return configure(ctx, s, seen)
}

// checkCreate refuses to create an endpoint before anything is changed.
func checkCreate(ctx context.Context, s Spec, seen map[string]balancer, former forgotten) error {
	if err := refuseStep(ctx, s.before(seen), s, seen, former.Spec); err != nil {
		return err
	}
	if err := preflight(s, seen); err != nil {
		return err
	}
	if err := requireAbandoned(ctx, former.Spec, former.lost, s.Abandon, notCreated, problem.Nothing); err != nil {
		return err
	}
	if err := checkLeaving(s, former.Spec, seen, former.seen); err != nil {
		return err
	}
	if err := checkTakeOver(ctx, s, seen); err != nil {
		return err
	}
	if err := checkBarriers(ctx, s, "created", seen); err != nil {
		return err
	}
	if err := checkConnections(ctx, s, seen); err != nil {
		return err
	}
	return checkTrust(ctx, s, "created", seen)
}

// before returns what a Create finds: s as the hosts have it, as far as steps depend on it.
func (s Spec) before(seen map[string]balancer) Spec {
	has := s
	has.Inherit = anyInstalled(seen) &&
		slices.ContainsFunc(names(seen), func(name string) bool { return seen[name].formerGives(s) })
	return has
}

// converge waits until the endpoint is healthy, and checks that the other hosts reach it. Lists that
// differ, because replicas were registered or deregistered in the meantime, are repaired.
func converge(ctx context.Context, s Spec) (endpoint.Status, error) {
	const rounds = 3
	for round := 1; ; round++ {
		observed, seen, err := waitUntilHealthy(ctx, s)
		if err != nil {
			return observed, err
		}
		if round == rounds {
			return observed, checkReachable(ctx, s, seen)
		}
		servers, again := s.servers(ctx, reachableOf(seen)), false
		for _, name := range names(servers) {
			if servers[name] == seen[name].facts.Files[backendsPath].Content {
				continue
			}
			again = true
			if err := applyOn(ctx, s, name, seen[name], servers[name]); err != nil {
				return observed, err
			}
		}
		if !again {
			return observed, checkReachable(ctx, s, seen)
		}
	}
}

// installOn brings the missing packages to every reachable host, in parallel.
func installOn(ctx context.Context, s Spec, seen map[string]balancer) error {
	return onHosts(names(seen), func(name string) error {
		missing := packages.HAProxy().Missing(seen[name].facts)
		if seen[name].unreachable != nil || len(missing) == 0 {
			return nil
		}
		problem.Progress(ctx, "install %s on %s", strings.Join(missing, ", "), name)
		if _, err := s.Hosts[name].Run(ctx, packages.HAProxy().Install(seen[name].facts)); err != nil {
			return &problem.Problem{
				Summary:   "Packages not installed",
				Host:      s.label(name),
				Cause:     err.Error(),
				Unchanged: "no configuration was written and nothing was started on this host.",
				Next:      "make " + strings.Join(missing, ", ") + " installable there, or install them by hand, and apply again",
				Err:       err,
			}
		}
		return nil
	})
}

// applyOn configures one host and starts or reloads its programs.
func applyOn(ctx context.Context, s Spec, name string, b balancer, servers string) error {
	problem.Progress(ctx, "configure HAProxy and keepalived on %s", name)
	_, err := s.Hosts[name].Apply(ctx, change(s, name, b, servers))
	if err == nil {
		return nil
	}
	failure := &problem.Problem{
		Summary: "Endpoint not configured",
		Host:    s.label(name),
		Cause:   err.Error(),
		Next:    "fix the error above and apply again; completed steps are skipped",
		Err:     err,
	}
	var exit *host.ExitError
	if errors.As(err, &exit) {
		failure.Detail, _ = s.Hosts[name].UnitLog(ctx, haproxyUnit, 8) // optional: the error is complete without it
	}
	return failure
}
