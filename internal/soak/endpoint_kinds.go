package soak

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/lab/services"
	"github.com/kubequorum/terraform-provider-kube/internal/load"
	"github.com/kubequorum/terraform-provider-kube/internal/supplied"
)

// endpointKind is a kind of endpoint, and what surrounds it.
type endpointKind struct {
	name    string
	example string // in examples: its variable machines are addresses by name
	// start starts what others run on a machine of its own, and sets the variables of the example.
	start func(ctx context.Context, s *endpointSite) error
	// settle waits until clients reach these machines; nil: they do when the apply ends.
	settle func(ctx context.Context, s *endpointSite, addresses []string) error
	held   bool          // one machine has the address, and is the one that loses its power
	away   time.Duration // how long clients may be without an answer when a machine is dead
	excuse []load.Excuse // in addition to those of every change
}

// mostEnded is how many requests of each client may end with their connections, for each change.
const mostEnded = 60

// endpointKinds are the kinds, the default first.
func endpointKinds() []endpointKind {
	return []endpointKind{
		{name: "haproxy", example: "stacked", start: startNothing, held: true, away: addressBack},
		{name: "external", example: "external-balancer", start: startHAProxy, away: 50 * time.Second},
		{name: "external with hooks", example: "external-balancer", start: startNginx, away: 50 * time.Second},
		{
			name: "dns", example: "dns-endpoint", start: startNameServers, settle: settleNames,
			away: 30 * time.Second,
		},
		{
			name: "bgp", example: "bgp-endpoint", start: startRouter, settle: settleRoutes, away: 3 * time.Second,
			excuse: []load.Excuse{load.Rerouted(mostEnded)},
		},
		{
			name: "kube_vip", example: "kube-vip-endpoint", start: startKubeVIP, held: true, away: 12 * time.Second,
			excuse: load.Moved(mostEnded),
		},
	}
}

func startNothing(context.Context, *endpointSite) error { return nil }

// targets returns what a balancer sends requests to: every machine, also those that have no replica yet.
func (s *endpointSite) targets(machines []*lab.Machine) map[string]string {
	all := map[string]string{}
	for _, m := range machines {
		all[m.Name] = net.JoinHostPort(m.Address.String(), "6443")
	}
	return all
}

func startHAProxy(ctx context.Context, s *endpointSite) error {
	if err := services.InstallBalancers(ctx, s.beside); err != nil {
		return err
	}
	s.setExternal(nil)
	return services.HAProxy.Start(ctx, s.beside, s.targets(s.machines), "/readyz")
}

func startNginx(ctx context.Context, s *endpointSite) error {
	if err := services.InstallBalancers(ctx, s.beside); err != nil {
		return err
	}
	if err := services.InstallPool(ctx, s.beside, nil); err != nil {
		return err
	}
	s.setExternal(services.PoolHooks(s.env.Lab, s.beside))
	return services.Nginx.Start(ctx, s.beside, nil, "")
}

func (s *endpointSite) setExternal(hooks map[string]any) {
	s.variables["endpoint_address"] = s.beside.Address.String()
	s.variables["health_check"] = map[string]any{"interval": "500ms", "threshold": 2}
	s.variables["hooks"] = hooks
}

func startNameServers(ctx context.Context, s *endpointSite) error {
	n, err := services.StartNameServers(ctx, s.beside)
	if err != nil {
		return err
	}
	// The agent's packages are there, so that a machine without a replica has them too.
	if _, err := s.machines.each(ctx, "apt-get install -y -q bind9-dnsutils >/dev/null 2>&1"); err != nil {
		return err
	}
	maps.Copy(s.variables, n.Variables(5*time.Second))
	s.names, s.dial = n, n.Dial(s.env.Log)
	return nil
}

func settleNames(ctx context.Context, s *endpointSite, addresses []string) error {
	_, err := s.names.Await(ctx, addresses)
	return err
}

func startRouter(ctx context.Context, s *endpointSite) error {
	r, err := services.StartRouter(ctx, s.beside, s.env.Lab.Subnet)
	if err != nil {
		return err
	}
	maps.Copy(s.variables, r.Variables(services.ReplicasASN))
	s.router = r
	return nil
}

func settleRoutes(ctx context.Context, s *endpointSite, addresses []string) error {
	_, err := s.router.Await(ctx, addresses)
	return err
}

// errNoKubeVIP means that the kind was not measured.
var errNoKubeVIP = errors.New(supplied.KubeVIP + " is not set to the path of kube-vip")

func startKubeVIP(ctx context.Context, s *endpointSite) error {
	path := os.Getenv(supplied.KubeVIP)
	if path == "" {
		return errNoKubeVIP
	}
	path, err := supplied.Unpack(ctx, path, s.env.Dir)
	if err != nil {
		return err
	}
	for _, m := range s.machines {
		if err := services.InstallKubeVIP(ctx, m, path); err != nil {
			return fmt.Errorf("start kube-vip: %w", err)
		}
	}
	return nil
}
