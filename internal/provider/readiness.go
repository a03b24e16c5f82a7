package provider

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/readiness"
)

// reviewData is what was read of a control plane for a review.
type reviewData struct {
	controlPlane
	members  []etcd.ObservedMember
	replicas []controlplane.MachineReview
	nodes    []controlplane.Node
	nodesErr error
	bundle   *pki.Bundle
}

// reviewControlPlane reads everything in parallel. It reads the nodes through a replica that
// was observed as ready.
func (s *session) reviewControlPlane(ctx context.Context, at queryTarget) reviewData {
	out := reviewData{controlPlane: controlPlane{authorities: authoritiesOf(at.bundle)}, bundle: at.bundle}
	var asking sync.WaitGroup
	asking.Go(func() { out.etcd, out.members = s.clusters.Review(ctx, s.machinesAt(addressesOf(at.urls)), at.bundle) })
	out.replicas, out.endpoint = observeReplicas(ctx, s, at, func(addresses []string) []controlplane.MachineReview {
		return s.replicas.Review(ctx, addresses, readiness.FilesOf(), at.bundle)
	})
	out.nodes, out.nodesErr = s.replicas.Nodes(ctx, out.replicas, at.bundle)
	asking.Wait()
	var observed []controlplane.Health
	for _, r := range out.replicas {
		observed = append(observed, r.Health)
	}
	out.controlPlane.replicas = listedReplicas(observed, out.endpoint.Replicas)
	return out
}

// unreadEvidence returns the evidence for a control plane that could not be queried at all.
func unreadEvidence(why string, now time.Time) readiness.Evidence {
	return readiness.Evidence{
		Now: now, Etcd: readiness.Etcd{Unread: why}, ReplicasUnread: why, NodesUnread: why,
		Encryption: readiness.Encryption{Unread: why},
	}
}

// evidence converts the observed state into evidence for the review. It is pure.
func (r reviewData) evidence(now time.Time) readiness.Evidence {
	e := readiness.Evidence{
		Now: now, Endpoint: r.endpointEvidence(), Members: r.memberEvidence(), Replicas: r.replicaEvidence(),
		Certificates: r.certificateEvidence(),
		Encryption: readiness.Encryption{
			Provider:  string(r.bundle.Encryption.Kind),
			Resources: r.bundle.Encryption.Resources,
		},
	}
	if r.etcd.Silence != nil {
		e.Etcd.Unread = "etcd does not answer: " + indented(r.etcd.Silence.Error())
	} else {
		e.Etcd.Voters, e.Etcd.Healthy, _ = r.etcd.Voting()
	}
	if len(e.Replicas) == 0 {
		e.ReplicasUnread = "no replica was observed, neither on the balancers nor on the machines"
	}
	for _, authority := range []pki.Authority{pki.Kubernetes, pki.Etcd, pki.FrontProxy} {
		if r.bundle.External(authority) {
			e.SignedOutside = append(e.SignedOutside, string(authority))
		}
	}
	if r.nodesErr != nil {
		e.NodesUnread = "the nodes are unknown: " + indented(r.nodesErr.Error())
	}
	for _, node := range r.nodes {
		e.Nodes = append(e.Nodes, readiness.Node(node))
	}
	return e
}

func (r reviewData) endpointEvidence() readiness.Endpoint {
	out := readiness.Endpoint{
		Address: r.endpoint.Address, Balancers: len(r.endpoint.Balancers), Holders: r.endpoint.HoldersOfAll(),
		Unread: r.endpoint.Unobserved(),
	}
	if h := r.endpoint.targets; h != nil {
		out.External, out.Silence = true, h.Silence
	}
	for _, name := range slices.Sorted(maps.Keys(r.endpoint.Replicas)) {
		if r.endpoint.Registered(name) {
			out.InRotation = append(out.InRotation, name)
		}
	}
	return out
}

// memberEvidence returns the members that the cluster lists. If no member list is available, it
// returns the members observed on the machines.
func (r reviewData) memberEvidence() []readiness.Member {
	var out []readiness.Member
	listed := r.etcd.Members
	if r.etcd.Silence != nil {
		for _, machine := range r.etcd.Machines {
			listed = append(listed, membership.MemberStatus{
				Member:  membership.Member{Name: machine.Member},
				Address: machine.Address,
			})
		}
	}
	for _, m := range listed {
		member := readiness.Member{
			Name: nameOr(m.Name, m.Address), Address: m.Address, DBSize: m.DBSize,
			Quota: r.etcd.QuotaOf(m),
		}
		member.Unread = r.unreadMember(m.Address)
		for _, review := range r.members {
			if review.Address == m.Address {
				addReview(&member, review)
			}
		}
		out = append(out, member)
	}
	return out
}

// addReview adds what was read on the member's machine.
func addReview(m *readiness.Member, review etcd.ObservedMember) {
	m.Process, m.OwnDisk, m.Disk, m.Memory = processOf(review.Process), review.OwnDisk, review.Disk, review.Memory
	m.Fsync, m.Fsyncs = review.Fsync, review.Fsyncs
	if review.FsyncErr != nil {
		m.FsyncUnread = indented(review.FsyncErr.Error())
	}
	for _, timer := range review.Timers {
		m.Schedules = append(m.Schedules, readiness.Schedule(timer))
	}
	m.Scheduled = (*readiness.Scheduled)(review.Scheduled)
}

// unreadMember returns why the machine of a member could not be observed, or "" if it was.
func (r reviewData) unreadMember(address string) string {
	for _, machine := range r.etcd.Machines {
		switch {
		case machine.Address != address:
		case machine.Err != nil:
			return "its machine could not be observed: " + unreachedBecause(machine.Err, address)
		default:
			return ""
		}
	}
	return "its machine is not in the argument etcd"
}

func (r reviewData) replicaEvidence() []readiness.Replica {
	var out []readiness.Replica
	for _, name := range slices.Sorted(maps.Keys(r.controlPlane.replicas)) {
		seen := r.controlPlane.replicas[name]
		replica := readiness.Replica{Name: name, Address: seen.Address}
		switch {
		case seen.Err != nil:
			replica.Unread = "its machine could not be observed: " + unreachedBecause(seen.Err, seen.Address)
		case seen.Name != name:
			replica.Unread = "its machine has no such replica"
		}
		for _, review := range r.replicas {
			if review.Address == seen.Address && replica.Unread == "" {
				replica.APIServer = processOf(review.Processes[release.APIServer])
				replica.ControllerManager = processOf(review.Processes[release.ControllerManager])
				replica.Scheduler = processOf(review.Processes[release.Scheduler])
				replica.Files = review.Files
			}
		}
		out = append(out, replica)
	}
	return out
}

func (r reviewData) certificateEvidence() []readiness.Certificate {
	var out []readiness.Certificate
	add := func(of string, end time.Time) {
		if !end.IsZero() {
			out = append(out, readiness.Certificate{Of: of, End: end})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.authorities)) {
		add("CA "+name, r.authorities[name])
	}
	for _, m := range r.etcd.Machines {
		add(labelled("etcd member", m.Member, m.Address), m.CertificateExpiry)
	}
	for _, name := range slices.Sorted(maps.Keys(r.controlPlane.replicas)) {
		seen := r.controlPlane.replicas[name]
		add(labelled("replica", name, seen.Address), seen.CertificateExpiry)
	}
	return out
}

func processOf(p host.Process) readiness.Process { return readiness.Process(p) }

func nameOr(name, otherwise string) string {
	if strings.TrimSpace(name) == "" {
		return otherwise
	}
	return name
}
