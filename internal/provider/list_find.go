package provider

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/list"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/haproxy"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

func newMemberList() list.ListResource {
	return &machineList{
		kind: "kube_etcd_member", find: findMembers, make: newEtcdMemberResource,
		description: "Lists the etcd members of a cluster, which the cluster's own member list names, from any one of " +
			"its machines.",
	}
}

func newReplicaList() list.ListResource {
	return &machineList{
		kind: "kube_control_plane_replica", find: findReplicas, make: newReplicaResource,
		description: "Lists the replicas of a control plane, which its endpoint names, from any one of its machines.",
	}
}

func newEndpointList() list.ListResource {
	return &machineList{
		kind: "kube_control_plane_endpoint", find: findEndpoints, make: newEndpointResource,
		description: "Lists the endpoints at which the replicas of a control plane are registered, from any one of its " +
			"machines.",
	}
}

// findMembers asks the member on the machine, or one that the replica there uses.
func findMembers(ctx context.Context, s *session, from *host.Host) ([]listed, error) {
	observed, err := s.clusters.Import(ctx, from)
	if err != nil && !host.Unreachable(err) {
		if _, recorded, nearErr := s.replicaNear(ctx, from); nearErr == nil {
			for _, address := range addressesOf(recorded.Etcd) {
				if observed, err = s.clusters.Import(ctx, s.machine(address)); err == nil {
					break
				}
			}
		}
	}
	if err != nil {
		return nil, err
	}
	return onMachines("etcd member", observed.Peers), nil
}

// registrationNear returns the machine of a replica near a machine, and where that replica is registered.
func (s *session) registrationNear(ctx context.Context, from *host.Host) (*host.Host, endpoint.Registration, error) {
	near, recorded, err := s.replicaNear(ctx, from)
	if err != nil {
		return nil, endpoint.Registration{}, err
	}
	registration, err := registrationIn(recorded.Registration)
	if err != nil {
		err = fmt.Errorf("read where the replica on %s is registered: %w", near.Address(), err)
	}
	return near, registration, err
}

// findReplicas asks the balancers; without balancers, the endpoint's targets are its replicas.
func findReplicas(ctx context.Context, s *session, from *host.Host) ([]listed, error) {
	_, registration, err := s.registrationNear(ctx, from)
	if err != nil {
		return nil, err
	}
	replicas := map[string]string{}
	for _, each := range registration.All() {
		if withoutBalancers(each) {
			maps.Copy(replicas, each.Hosts)
			continue
		}
		listedThere, err := s.registrars.For(each).Replicas(ctx)
		if err != nil {
			return nil, err
		}
		for name, address := range listedThere {
			if at, _, err := net.SplitHostPort(address); err == nil {
				replicas[name] = at
			}
		}
	}
	return onMachines("control-plane replica", replicas), nil
}

// findEndpoints reads where a replica is registered. On a machine with a balancer only, it reads the
// endpoint there.
func findEndpoints(ctx context.Context, s *session, from *host.Host) ([]listed, error) {
	near, registration, err := s.registrationNear(ctx, from)
	if err != nil {
		return nil, err
	}
	var all []listed
	for _, each := range registration.All() {
		via := near.Address()
		if hosts := slices.Sorted(maps.Values(each.Hosts)); !withoutBalancers(each) && len(hosts) > 0 &&
			!slices.Contains(hosts, via) {
			via = hosts[0]
		}
		wanted := each.Address
		if slices.ContainsFunc(registration.All(), func(other endpoint.Registration) bool {
			return other.Address == each.Address && other.ID() != each.ID()
		}) {
			wanted = kindAndAddress(each)
		}
		all = append(all, listed{
			name: "endpoint " + each.Address, importID: via + "/" + wanted,
			identity: map[string]string{"address": wanted, "host": via},
		})
	}
	return all, nil
}

// onMachines describes resources of which each machine has at most one, sorted by name.
func onMachines(what string, addresses map[string]string) []listed {
	var all []listed
	for _, name := range slices.Sorted(maps.Keys(addresses)) {
		address := addresses[name]
		all = append(all, listed{
			name: fmt.Sprintf("%s %s (%s)", what, name, address), importID: address,
			identity: map[string]string{"address": address},
		})
	}
	return all
}

// replicaNear returns a machine with a replica of the same control plane: the machine itself; else
// one that the balancer there has in rotation; else one whose API server uses the member there.
func (s *session) replicaNear(ctx context.Context, from *host.Host) (*host.Host, controlplane.Recorded, error) {
	recorded, err := s.replicas.Recorded(ctx, from)
	if err != nil || recorded.ClusterID != "" {
		return from, recorded, err
	}
	var near []string
	if balancer, err := haproxy.Import(ctx, from, s.machine); err == nil {
		near = balancer.Replicas
	}
	if servers, err := s.clusters.APIServersOf(ctx, from); err == nil {
		near = append(near, servers...)
	}
	for _, address := range near {
		at := s.machine(address)
		if recorded, err = s.replicas.Recorded(ctx, at); err == nil && recorded.ClusterID != "" {
			return at, recorded, nil
		}
	}
	return nil, recorded, &problem.Problem{
		Summary: "No control plane found", Host: from.Address(), Unchanged: problem.Nothing,
		Cause: "the machine has no replica of this provider, and neither a balancer nor an etcd member there leads to one",
		Next:  "use the address of a machine of the control plane.",
		Err:   errors.Join(err),
	}
}
