package soak

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/lab/services"
	"github.com/kubequorum/terraform-provider-kube/internal/load"
	"github.com/kubequorum/terraform-provider-kube/internal/supplied"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// endpointKind is a kind of endpoint, and what surrounds it.
type endpointKind struct {
	name    string
	example string // in examples: its variable machines are addresses by name
	// changed is the endpoint of the example after a change of its settings, which concerns the machines too: a balancer
	// that notices later makes API servers stop later.
	changed string
	// start starts what others run on a machine of its own, and sets the variables of the example.
	start func(ctx context.Context, a *surroundings) error
	// reached waits until clients reach the machines of all replicas, as far as those that surround the control
	// plane know.
	reached func(ctx context.Context, a *surroundings, replicas fleet) error
	// vacated waits until those that surround a destroyed control plane know no machine of it; nil if they hear of none.
	vacated func(ctx context.Context, a *surroundings) error
	held    bool          // one machine has the address, and is the one that loses its power
	away    time.Duration // how long clients may be without an answer when a machine is dead
	listed  time.Duration // how long a dead machine may be listed (ListedFor)
	excuse  []load.Excuse // in addition to those of every change
}

// surroundings are what others run beside a control plane.
type surroundings struct {
	env       *Env
	machines  fleet          // of the replicas
	server    *lab.Machine   // of what others run
	variables map[string]any // of the example, but for its machines
	names     services.NameServers
	router    services.Router
	dial      load.Dial // of clients; nil: as usual
}

// servicesMachine is the machine of what others run.
const servicesMachine = "services"

// surround starts what surrounds the kind of endpoint, for replicas on the named machines.
func (k endpointKind) surround(ctx context.Context, e *Env, names []string) (*surroundings, error) {
	if err := e.Lab.Add(ctx, slices.Concat(names, []string{servicesMachine})...); err != nil {
		return nil, err
	}
	a := &surroundings{env: e, server: e.Lab.Machine(servicesMachine), variables: map[string]any{}}
	for _, name := range names {
		a.machines = append(a.machines, e.Lab.Machine(name))
	}
	return a, k.start(ctx, a)
}

// forget ends what start has changed on this computer.
func (a *surroundings) forget(ctx context.Context) {
	if a != nil && a.router.Machine != nil {
		a.router.Forget(context.WithoutCancel(ctx))
	}
}

// config returns the example, in a directory from which it finds the module: dir is where the workspace will be.
func (k endpointKind) config(dir string) (fs.FS, error) {
	root, err := build.Checkout()
	if err != nil {
		return nil, err
	}
	modules := filepath.Join(dir, "..", "..", "modules") // as in the example's source
	if err := os.RemoveAll(modules); err != nil {
		return nil, err
	}
	config := os.DirFS(filepath.Join(root, "examples", k.example))
	return config, os.CopyFS(modules, os.DirFS(filepath.Join(root, "modules")))
}

// dir returns where the workspace is.
func (k endpointKind) dir(e *Env) string { return filepath.Join(e.Dir, "examples", k.example) }

// mostEnded is how many requests of each client may end with their connections, for each change.
const mostEnded = 60

// How long the address may lead to a dead machine.
const (
	detectedByBFD = time.Second     // three intervals of 300 ms
	holdTimeOver  = 4 * time.Second // hold_time of the example, and the router's own timer, which counts seconds
	// leaseTaken: the Lease lasts 5 s from when the next holder has seen the last renewal, at most a second late. It
	// tries once a second, and its write waits for etcd's election, as its leader is dead too.
	leaseTaken = 5*time.Second + 2*time.Second + elected
	// elected is the longest time until etcd has another leader: twice its election timeout of a second.
	elected = 2 * time.Second
	// pinged is when client-go closes a connection on which nothing arrives (30 s until it asks, 15 s for the
	// answer), and has opened another one. Where a connection leads to the dead machine itself, or a balancer keeps it
	// open, nothing else ends it.
	pinged = 50 * time.Second
	// recordRemoved: the agents of the others ask every check_interval (1 s), remove the record at the third failure, and
	// resolvers keep it for the TTL of 5 s. The rest is for a request to a dead machine, which waits for its timeout, and
	// for name servers that get the update from the primary server.
	recordRemoved = 30 * time.Second
)

// awayFor returns how long clients may be without an answer when the address leads to a living machine after a time.
// A client that keeps its connection learns that from the reset that answers its next retransmission. Linux sends
// them 200 ms after the packet, and each time after twice the time (RFC 6298, 5.5). Etcd's leader is dead too. The
// rest is for the new connection, and for a computer that is late.
func awayFor(back time.Duration) time.Duration {
	at := time.Duration(0)
	for wait := 200 * time.Millisecond; at < back; wait *= 2 {
		at += wait
	}
	return max(at, elected) + 600*time.Millisecond
}

// endpointKinds are the kinds, the default first.
func endpointKinds() []endpointKind {
	return []endpointKind{
		{
			name: "haproxy", example: "stacked", start: startNothing, reached: heldByOne, held: true, away: addressBack,
			changed: `{ address = var.endpoint_address, metrics = { address = "0.0.0.0" } }`,
		},
		{
			name: "external", example: "external-balancer", start: startHAProxy, reached: balanced, away: pinged,
			changed: `{
				address  = var.endpoint_address
				external = { health_check = { interval = "3s", threshold = 2 }, hooks = var.hooks }
			}`,
		},
		{
			name: "external with hooks", example: "external-balancer", start: startNginx, reached: pooled, away: pinged,
			vacated: func(ctx context.Context, a *surroundings) error { return inPool(ctx, a, nil) },
			changed: `{
				address = var.endpoint_address
				external = {
					health_check = { interval = "3s", threshold = 2 }
					hooks        = { for action, command in var.hooks : action => concat(command, ["again"]) }
				}
			}`,
		},
		{
			name: "dns", example: "dns-endpoint", start: startNameServers, reached: resolved, away: pinged,
			listed: recordRemoved, vacated: func(ctx context.Context, a *surroundings) error { return resolved(ctx, a, nil) },
			changed: `{
				address = var.endpoint_name
				dns = {
					zone = var.zone, server = var.name_server, name_servers = var.name_servers, tsig_key = var.tsig_key
					ttl  = "6s"
				}
			}`,
		},
		{
			name: "bgp", example: "bgp-endpoint", start: startRouter, reached: routed, away: awayFor(detectedByBFD),
			listed: 2 * detectedByBFD, excuse: load.Rerouted(mostEnded), vacated: unrouted,
			changed: `{ address = var.endpoint_address, bgp = { asn = var.asn, peers = var.peers, hold_time = "4s" } }`,
		},
		{
			name: "kube_vip", example: "kube-vip-endpoint", start: startKubeVIP, reached: heldByOne, held: true,
			away: awayFor(leaseTaken), excuse: load.Moved(mostEnded),
			changed: `{
				address  = var.endpoint_address
				kube_vip = { sha256 = var.kube_vip_sha256, lease_duration = "6s" }
			}`,
		},
		{
			name: "kube_vip by BGP", example: "kube-vip-bgp-endpoint", start: startKubeVIPAndRouter, reached: routed,
			away: awayFor(holdTimeOver), listed: holdTimeOver + time.Second, excuse: load.Rerouted(mostEnded),
			vacated: unrouted,
			changed: `{
				address  = var.endpoint_address
				kube_vip = { mode = "bgp", asn = var.asn, peers = var.peers, hold_time = "4s", sha256 = var.kube_vip_sha256 }
			}`,
		},
	}
}

func startNothing(context.Context, *surroundings) error { return nil }

// targets returns what a balancer sends requests to: every machine, also those that have no replica yet.
func (f fleet) targets() map[string]string {
	all := map[string]string{}
	for _, m := range f {
		all[m.Name] = net.JoinHostPort(m.Address.String(), "6443")
	}
	return all
}

func startHAProxy(ctx context.Context, a *surroundings) error {
	if err := services.InstallBalancers(ctx, a.server); err != nil {
		return err
	}
	a.setExternal(nil)
	return services.HAProxy.Start(ctx, a.server, a.machines.targets(), "/readyz")
}

func startNginx(ctx context.Context, a *surroundings) error {
	if err := services.InstallBalancers(ctx, a.server); err != nil {
		return err
	}
	if err := services.InstallPool(ctx, a.server, nil); err != nil {
		return err
	}
	a.setExternal(services.PoolHooks(a.env.Lab, a.server))
	return services.Nginx.Start(ctx, a.server, nil, "")
}

func (a *surroundings) setExternal(hooks map[string]any) {
	a.variables["endpoint_address"] = a.server.Address.String()
	a.variables["health_check"] = map[string]any{"interval": "500ms", "threshold": 2}
	a.variables["hooks"] = hooks
}

func startNameServers(ctx context.Context, a *surroundings) error {
	n, err := services.StartNameServers(ctx, a.server)
	if err != nil {
		return err
	}
	// The agent's packages are there, so that a machine without a replica has them too.
	if _, err := a.machines.each(ctx, "apt-get install -y -q bind9-dnsutils >/dev/null 2>&1"); err != nil {
		return err
	}
	maps.Copy(a.variables, n.Variables(5*time.Second))
	a.names, a.dial = n, n.Dial(a.env.Log)
	return nil
}

func startRouter(ctx context.Context, a *surroundings) error {
	r, err := services.StartRouter(ctx, a.server, a.env.Lab.Subnet)
	if err != nil {
		return err
	}
	maps.Copy(a.variables, r.Variables(services.ReplicasASN))
	a.router = r
	return nil
}

// errNoKubeVIP means that the kind was not measured.
var errNoKubeVIP = errors.New(supplied.KubeVIP + " is not set to the path of kube-vip")

func startKubeVIP(ctx context.Context, a *surroundings) error {
	path := os.Getenv(supplied.KubeVIP)
	if path == "" {
		return errNoKubeVIP
	}
	if err := os.MkdirAll(a.env.Dir, 0o700); err != nil {
		return err
	}
	path, err := supplied.Unpack(ctx, path, a.env.Dir)
	if err != nil {
		return err
	}
	for _, m := range a.machines {
		if err := services.InstallKubeVIP(ctx, m, path); err != nil {
			return fmt.Errorf("start kube-vip: %w", err)
		}
	}
	return nil
}

func startKubeVIPAndRouter(ctx context.Context, a *surroundings) error {
	if err := startKubeVIP(ctx, a); err != nil {
		return err
	}
	return startRouter(ctx, a)
}

// addresses returns the addresses of machines.
func (f fleet) addresses() []string {
	var all []string
	for _, m := range f {
		all = append(all, m.Address.String())
	}
	return all
}

func resolved(ctx context.Context, a *surroundings, replicas fleet) error {
	_, err := a.names.Await(ctx, replicas.addresses())
	return err
}

func routed(ctx context.Context, a *surroundings, replicas fleet) error {
	_, err := a.router.Await(ctx, replicas.addresses())
	return err
}

func unrouted(ctx context.Context, a *surroundings) error { return routed(ctx, a, nil) }

// pooled waits until the pool of the balancer has exactly the replicas, and the balancer answers.
func pooled(ctx context.Context, a *surroundings, replicas fleet) error {
	if err := inPool(ctx, a, replicas); err != nil {
		return err
	}
	return balanced(ctx, a, replicas)
}

func inPool(ctx context.Context, a *surroundings, replicas fleet) error {
	var names []string
	for _, m := range replicas {
		names = append(names, m.Name)
	}
	_, err := services.AwaitPool(ctx, a.server, names)
	return err
}

// balanced waits until the balancer answers.
func balanced(ctx context.Context, a *surroundings, _ fleet) error {
	return eventually(ctx, clusterTimeout, time.Second, func(ctx context.Context) error {
		_, err := a.server.Run(ctx, "curl --silent --insecure --fail --max-time 2 --output /dev/null "+
			"https://127.0.0.1:6443/readyz")
		return err
	})
}

// heldByOne waits until exactly one machine has the virtual IP.
func heldByOne(ctx context.Context, a *surroundings, _ fleet) error {
	vip := workspace.VIP(a.env.Lab)
	return eventually(ctx, clusterTimeout, time.Second, func(ctx context.Context) error {
		printed, err := a.machines.each(ctx, "ip -o address show to "+vip)
		if err != nil {
			return err
		}
		var holders []string
		for name, out := range printed {
			if strings.TrimSpace(out) != "" {
				holders = append(holders, name)
			}
		}
		if len(holders) != 1 {
			return fmt.Errorf("%s is on %v", vip, holders)
		}
		return nil
	})
}
