package simulated

import (
	"context"
	"net"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/haproxy"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd"
	etcdmachine "github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// plane is a control plane on simulated machines, as the provider's packages
// see it.
type plane struct {
	machine    func(address string) *host.Host
	registrars *haproxy.Registrars
	clusters   *etcd.Clusters
	replicas   *controlplane.Replicas
	endpoint   haproxy.Spec
	members    []etcd.Spec
	servers    []controlplane.Spec
}

// TestPlane creates a control plane with the provider's own packages, and reads it: nothing
// differs, and each read is one command on each machine involved, over one connection for all
// of them.
func TestPlane(t *testing.T) {
	fleet, p := planeOn(t, 2)
	fleet.Count()
	for range 2 {
		p.read(t)
	}
	c := fleet.Count()
	if c.Connections != 0 {
		t.Errorf("%d connections were made to machines that had one", c.Connections)
	}
	// An endpoint, a member and a replica on each of three machines, read twice.
	if want := 2 * 3 * perCluster; c.Commands != want || c.Kinds["observe"] != want {
		t.Errorf("%d commands, wanted %d: %v", c.Commands, want, c.Kinds)
	}
}

// TestMembersJoin: the first member is bootstrapped, and the others join it, after a snapshot was saved.
func TestMembersJoin(t *testing.T) {
	_, p := bareOn(t, 1)
	if _, err := haproxy.Create(t.Context(), p.endpoint); err != nil {
		t.Fatal(err)
	}
	for _, s := range p.members {
		if _, err := p.clusters.Create(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range p.members {
		if status, err := p.clusters.Read(t.Context(), s); err != nil || len(status.Drift) > 0 || !status.Healthy {
			t.Errorf("%s: %+v, %v", s.Name, status, err)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	_, p := planeOn(b, 1)
	for b.Loop() {
		p.read(b)
	}
}

// planeOn starts a fleet of that many control planes, and creates the first one.
func planeOn(t testing.TB, size int) (*Fleet, plane) {
	t.Helper()
	fleet, p := bareOn(t, size)
	p.create(t)
	return fleet, p
}

// bareOn starts a fleet of that many control planes, and creates none.
func bareOn(t testing.TB, size int) (*Fleet, plane) {
	t.Helper()
	fleet, err := Start(t.Context(), size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = fleet.Close() })
	pool := poolTo(t, fleet)
	bundle, err := pki.Generate(pki.Options{ClusterName: "prod", Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	machine := func(address string) *host.Host { return pool.Host(host.Target{Address: address}) }
	p := plane{
		machine: machine, registrars: haproxy.NewRegistrars(machine), clusters: etcd.NewClusters(),
		replicas: controlplane.NewReplicas(machine),
	}
	first := fleet.clusters[0]
	hosts := map[string]*host.Host{}
	for _, m := range first.machines {
		hosts[m.name] = machine(m.address)
	}
	p.endpoint = haproxy.Spec{
		ClusterID: bundle.ClusterID, ClusterName: bundle.ClusterName, Address: first.vip,
		Hosts: hosts, CACertificate: bundle.CA.Certificate, LivenessProbe: true,
	}
	source := host.Source{Directory: programs(t)}
	for _, m := range first.machines {
		p.members = append(p.members, etcd.Spec{
			Spec: etcdmachine.Spec{
				Name: m.name, Host: hosts[m.name], Bundle: bundle, Version: "3.6.16", Source: source,
				LivenessProbe: true,
			},
			Peers: hosts,
		})
		p.servers = append(p.servers, controlplane.Spec{
			Replica: component.Replica{
				Name: m.name, Address: m.address, Bundle: bundle, Version: "1.36.3", EndpointHost: first.vip,
				EtcdURLs: []string{membership.ClientURL(m.address)}, ServiceCIDRs: []string{"10.96.0.0/12"},
				LivenessProbe: true,
			},
			Host: hosts[m.name], Source: source, Registrar: p.registrars.For(p.endpoint.Registration()),
		})
	}
	return fleet, p
}

func poolTo(t testing.TB, fleet *Fleet) *host.Pool {
	t.Helper()
	key, err := fleet.PrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	overrides := map[string]host.Override{}
	for address, m := range fleet.machines {
		at := m.listener.Addr().(*net.TCPAddr)
		overrides[address] = host.Override{Address: at.IP.String(), Port: at.Port, HostKey: fleet.hostKey()}
	}
	pool, err := host.NewPool(host.Config{Credentials: host.Credentials{PrivateKey: key}, Overrides: overrides})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	return pool
}

// programs returns files in place of the programs that a control plane installs.
func programs(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	var all []host.Artifact
	for _, name := range []string{"etcd", "etcdctl", "etcdutl"} {
		all = append(all, host.Artifact{Product: "etcd", Version: "3.6.16", Name: name})
	}
	for _, name := range release.Components() {
		all = append(all, host.Artifact{Product: "kubernetes", Version: "1.36.3", Name: name})
	}
	if err := Programs(dir, all); err != nil {
		t.Fatal(err)
	}
	return dir
}

func (p plane) create(t testing.TB) {
	t.Helper()
	if _, err := haproxy.Create(t.Context(), p.endpoint); err != nil {
		t.Fatal(err)
	}
	each(t, p.members, func(ctx context.Context, s etcd.Spec) error {
		_, err := p.clusters.Create(ctx, s)
		return err
	})
	each(t, p.servers, func(ctx context.Context, s controlplane.Spec) error {
		_, err := p.replicas.Create(ctx, s)
		return err
	})
}

// read performs a refresh, in Terraform's order.
func (p plane) read(t testing.TB) {
	t.Helper()
	status, err := p.registrars.Read(t.Context(), p.endpoint)
	if err != nil || len(status.Drift) > 0 {
		t.Fatalf("endpoint: %v, %v", status.Drift, err)
	}
	each(t, p.members, func(ctx context.Context, s etcd.Spec) error {
		status, err := p.clusters.Read(ctx, s)
		if err == nil && (len(status.Drift) > 0 || !status.Healthy) {
			t.Errorf("member %s: %+v", s.Name, status)
		}
		return err
	})
	each(t, p.servers, func(ctx context.Context, s controlplane.Spec) error {
		status, err := p.replicas.Read(ctx, s)
		if err == nil && (len(status.Drift) > 0 || !status.Registered) {
			t.Errorf("replica %s: %+v", s.Name, status)
		}
		return err
	})
}

// each calls f for all specs in parallel.
func each[S any](t testing.TB, specs []S, f func(context.Context, S) error) {
	t.Helper()
	group, ctx := errgroup.WithContext(t.Context())
	for _, s := range specs {
		group.Go(func() error { return f(ctx, s) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}
