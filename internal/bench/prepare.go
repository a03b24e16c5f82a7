package bench

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// prepare installs the packages and the programs of some releases on bare machines, so that
// only the creation of a control plane is measured.
func (b *bench) prepare(ctx context.Context, machines []*lab.Machine, releases ...workspace.Release) error {
	var all []host.Artifact
	for _, r := range releases {
		of, err := artifacts(r)
		if err != nil {
			return err
		}
		all = append(all, of...)
	}
	if err := b.onEach(ctx, machines, packagesScript); err != nil {
		return err
	}
	return b.install(ctx, machines, all)
}

// install installs programs on machines.
func (b *bench) install(ctx context.Context, machines []*lab.Machine, programs []host.Artifact) error {
	directory, err := build.Components(ctx)
	if err != nil {
		return err
	}
	pool, err := b.pool()
	if err != nil {
		return err
	}
	defer pool.Close()
	group, ctx := errgroup.WithContext(ctx)
	for _, m := range machines {
		group.Go(func() error {
			source := host.Source{Directory: directory}
			_, err := pool.Host(host.Target{Address: m.Address.String()}).Install(ctx, source, programs)
			return err
		})
	}
	return group.Wait()
}

// pool returns connections like those of the provider.
func (b *bench) pool() (*host.Pool, error) {
	key, err := b.lab.PrivateKey()
	if err != nil {
		return nil, err
	}
	known, err := b.lab.KnownHosts()
	if err != nil {
		return nil, err
	}
	return host.NewPool(host.Config{
		Credentials: host.Credentials{PrivateKey: key},
		KnownHosts:  known,
	})
}

// artifacts returns all programs of a release that the provider installs.
func artifacts(r workspace.Release) ([]host.Artifact, error) {
	etcd, kubernetes, err := r.Versions()
	if err != nil {
		return nil, err
	}
	all := etcdArtifacts(etcd)
	for _, name := range components {
		all = append(all, host.Artifact{Product: "kubernetes", Version: kubernetes, Name: name})
	}
	return all, nil
}

func etcdArtifacts(version string) []host.Artifact {
	var all []host.Artifact
	for _, name := range []string{"etcd", "etcdctl", "etcdutl"} {
		all = append(all, host.Artifact{Product: "etcd", Version: version, Name: name})
	}
	return all
}

// components of a replica, in start order.
var components = []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"}

// onEach runs a script on several machines in parallel.
func (b *bench) onEach(ctx context.Context, machines []*lab.Machine, script string) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, m := range machines {
		group.Go(func() error { return run(ctx, m, script) })
	}
	return group.Wait()
}

func run(ctx context.Context, m *lab.Machine, script string) error {
	if _, err := m.Run(ctx, script); err != nil {
		return fmt.Errorf("on %s: %w", m.Name, err)
	}
	return nil
}
