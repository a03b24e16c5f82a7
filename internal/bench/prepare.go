package bench

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
)

// prepare puts the programs and the packages onto bare machines, so that only
// the making of a control plane is measured.
func (b *bench) prepare(ctx context.Context, machines []*lab.Machine) error {
	components, err := build.Components(ctx, "etcd", "kubernetes")
	if err != nil {
		return err
	}
	artifacts, err := artifacts()
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
			if _, err := m.Run(ctx, packagesScript); err != nil {
				return err
			}
			_, err := pool.Host(host.Target{Address: m.Address.String()}).Install(ctx, host.Source{Directory: components}, artifacts)
			return err
		})
	}
	return group.Wait()
}

const packagesScript = `apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y haproxy keepalived socat >/dev/null
systemctl disable --quiet --now haproxy keepalived`

// pool connects as the provider does.
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

// artifacts are all programs that the provider installs.
func artifacts() ([]host.Artifact, error) {
	var all []host.Artifact
	for product, names := range map[string][]string{
		"etcd":       {"etcd", "etcdctl", "etcdutl"},
		"kubernetes": {"kube-apiserver", "kube-controller-manager", "kube-scheduler"},
	} {
		version, err := build.Version(product)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			all = append(all, host.Artifact{Product: product, Version: version, Name: name})
		}
	}
	return all, nil
}

// onEach runs a script on several machines at the same time.
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
