package provider

import (
	"context"
	"net/netip"
	"net/url"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// store gives a replica access to etcd's stored data. It implements the interface that package
// controlplane needs with package etcd.
type store struct {
	clusters *etcd.Clusters
	hosts    map[string]*host.Host // the machines of its etcd, by address
	bundle   *pki.Bundle
	machine  func(address string) *host.Host
}

// storeAt returns the store behind etcd's client URLs.
func (s *session) storeAt(urls []string, bundle *pki.Bundle) store {
	return store{
		clusters: s.clusters, hosts: s.machinesAt(addressesOf(urls)), bundle: bundle, machine: s.machine,
	}
}

// addressesOf returns the addresses of the machines that URLs name.
func addressesOf(urls []string) []string {
	var addresses []string
	for _, text := range urls {
		if u, err := url.Parse(text); err == nil {
			address := u.Hostname()
			if ip, err := netip.ParseAddr(address); err == nil {
				address = ip.Unmap().String()
			}
			addresses = append(addresses, address)
		}
	}
	return addresses
}

// Scan calls see with each key below prefix and its stored value.
func (s store) Scan(ctx context.Context, prefix string, see func(key string, value []byte)) error {
	return s.clusters.ReadKeys(ctx, s.hosts, s.bundle, prefix, see)
}

// Versions returns the version of each member, "" for a member that does not answer.
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

// Save keeps a verified snapshot on the machine of one member and returns its location.
func (s store) Save(ctx context.Context, label string) (string, error) {
	saved, err := s.clusters.SaveSnapshot(ctx, s.hosts, s.bundle, label)
	if err != nil {
		return "", s.unlessForeign(ctx, err)
	}
	return saved.Host + ":" + saved.Path, nil
}

// PauseMember calls do in the turn of the member that is a static pod of the machine at an address.
func (s store) PauseMember(
	ctx context.Context, address string, do func(context.Context, controlplane.PausedMember) error,
) error {
	return s.clusters.PauseMember(ctx, s.machine(address), s.machine, s.bundle,
		func(ctx context.Context, m *etcd.PausedMember) error { return do(ctx, m) })
}

// unlessForeign drops an error of an etcd that is not on this provider's machines: such an etcd
// cannot be queried.
func (s store) unlessForeign(ctx context.Context, err error) error {
	if own, unknown := s.clusters.HoldsCluster(ctx, s.hosts, s.bundle); unknown == nil && !own {
		return nil
	}
	return err
}
