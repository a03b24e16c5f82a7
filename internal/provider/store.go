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
	return store{clusters: s.clusters, hosts: s.machinesAt(addressesOf(urls)), bundle: bundle}
}

// addressesOf are the machines that URLs name.
func addressesOf(urls []string) []string {
	var addresses []string
	for _, text := range urls {
		if u, err := url.Parse(text); err == nil {
			addresses = append(addresses, u.Hostname())
		}
	}
	return addresses
}

// Stored calls see for every key below prefix with its stored value.
func (s store) Stored(ctx context.Context, prefix string, see func(key string, value []byte)) error {
	return s.clusters.ReadKeys(ctx, s.hosts, s.bundle, prefix, see)
}

// Versions tells which version each member runs, "" where it does not answer.
func (s store) Versions(ctx context.Context) (map[string]string, error) {
	survey, err := s.clusters.Survey(ctx, s.hosts, s.bundle)
	if err != nil {
		return nil, s.unlessForeign(ctx, err)
	}
	running := map[string]string{}
	for _, m := range survey.Members {
		running[m.Name] = m.Version
	}
	return running, nil
}

// Save keeps a verified snapshot on the machine of one member, and says where.
func (s store) Save(ctx context.Context, label string) (string, error) {
	saved, err := s.clusters.SaveSnapshot(ctx, s.hosts, s.bundle, label)
	if err != nil {
		return "", s.unlessForeign(ctx, err)
	}
	return saved.Host + ":" + saved.Path, nil
}

// unlessForeign drops an error that came of asking an etcd that is not on
// machines of this provider: there is nothing to be asked then.
func (s store) unlessForeign(ctx context.Context, err error) error {
	if ours, unknown := s.clusters.HoldsCluster(ctx, s.hosts, s.bundle); unknown == nil && !ours {
		return nil
	}
	return err
}
