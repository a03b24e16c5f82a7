package provider

import (
	"context"
	"net/url"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// store shows a replica how etcd holds what it stores: what package
// controlplane asks of package etcd.
type store struct {
	clusters *etcd.Clusters
	hosts    map[string]*host.Host // by address: the machines of its etcd
	bundle   *pki.Bundle
}

// storeAt is the store behind etcd's client URLs.
func (s *session) storeAt(urls []string, bundle *pki.Bundle) store {
	hosts := map[string]*host.Host{}
	for _, text := range urls {
		if u, err := url.Parse(text); err == nil {
			hosts[u.Hostname()] = s.machine(u.Hostname())
		}
	}
	return store{clusters: s.clusters, hosts: hosts, bundle: bundle}
}

// Stored calls see for every key below prefix with its stored value.
func (s store) Stored(ctx context.Context, prefix string, see func(key string, value []byte)) error {
	return s.clusters.Stored(ctx, s.hosts, s.bundle, prefix, see)
}
