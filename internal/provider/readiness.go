package provider

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd"
	"github.com/kubequorum/terraform-provider-kube/internal/health"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
	"github.com/kubequorum/terraform-provider-kube/internal/readiness"
)

// reviewData is what was read of a control plane for a review.
type reviewData struct {
	health.ControlPlane
	members  []etcd.ObservedMember
	replicas []controlplane.MachineReview
	nodes    []controlplane.Node
	nodesErr error
	alerts   []client.Alert
	alertErr error
	stored   map[string]controlplane.Stored
	storeErr error
	bundle   *pki.Bundle
}

// reviewControlPlane reads everything in parallel. It reads the nodes through a replica that
// was observed as ready.
func (s *session) reviewControlPlane(ctx context.Context, at queryTarget) reviewData {
	out := reviewData{ControlPlane: health.ControlPlane{Authorities: authoritiesOf(at.bundle)}, bundle: at.bundle}
	var asking sync.WaitGroup
	asking.Go(func() { out.Etcd, out.members = s.clusters.Review(ctx, s.machinesAt(addressesOf(at.urls)), at.bundle) })
	out.replicas, out.Endpoint = observeReplicas(ctx, s, at, func(addresses []string) []controlplane.MachineReview {
		return s.replicas.Review(ctx, addresses, readiness.FilesOf(), at.bundle)
	})
	asking.Go(func() { out.nodes, out.nodesErr = s.replicas.Nodes(ctx, out.replicas, at.bundle) })
	asking.Go(func() { out.alerts, out.alertErr = s.replicas.Alerts(ctx, out.replicas, at.bundle) })
	asking.Go(func() {
		out.stored, out.storeErr = controlplane.CountStored(ctx, s.storeAt(at.urls, at.bundle), at.bundle.Encryption,
			out.replicas)
	})
	asking.Wait()
	var observed []controlplane.Health
	for _, r := range out.replicas {
		observed = append(observed, r.Health)
	}
	out.Replicas = health.Replicas(observed, out.Endpoint.Replicas)
	return out
}

// unreadEvidence returns the evidence for a control plane that could not be queried at all.
func unreadEvidence(why string, now time.Time) readiness.Evidence {
	return readiness.Evidence{
		Now: now, Etcd: readiness.Etcd{Unread: why}, ReplicasUnread: why, NodesUnread: why,
		Encryption: readiness.Encryption{Unread: why}, Alerts: readiness.Alerts{Unread: why},
	}
}

// evidence converts the observed state into evidence for the review. It is pure.
func (r reviewData) evidence(now time.Time) readiness.Evidence {
	e := readiness.Evidence{
		Now: now, Endpoint: r.endpointEvidence(), Members: r.memberEvidence(), Replicas: r.replicaEvidence(now),
		Encryption: r.encryptionEvidence(), Alerts: r.alertEvidence(),
	}
	e.Certificates, e.CertificatesUnread = r.certificateEvidence()
	if d := r.Etcd.LastDrill(); d != nil {
		e.Drill = &readiness.Drill{
			Ended: time.Unix(d.Finished, 0), Succeeded: d.Succeeded, Problem: problem.Indented(d.Problem),
			RTO: time.Duration(d.RTO * float64(time.Second)), RPO: time.Duration(d.RPO) * time.Second,
			Compared: d.Compared,
		}
	}
	if r.Etcd.Silence != nil {
		e.Etcd.Unread = "etcd does not answer: " + problem.Indented(r.Etcd.Silence.Error())
	} else {
		e.Etcd.Voters, e.Etcd.Healthy, _ = r.Etcd.Voting()
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
		e.NodesUnread = "the nodes are unknown: " + problem.Indented(r.nodesErr.Error())
	}
	for _, node := range r.nodes {
		e.Nodes = append(e.Nodes, readiness.Node(node))
	}
	return e
}

func (r reviewData) encryptionEvidence() readiness.Encryption {
	e := readiness.Encryption{
		Provider: string(r.bundle.Encryption.Kind), Resources: r.bundle.Encryption.Resources,
		Stored: map[string]readiness.Stored{},
	}
	if r.storeErr != nil {
		e.StoredUnread = problem.Indented(r.storeErr.Error())
	}
	for resource, stored := range r.stored {
		e.Stored[resource] = readiness.Stored(stored)
	}
	return e
}

// certificateMetrics are the metrics of this provider's alerts about the end of certificates, and those of API servers
// and kubelets. Metrics of other certificates, such as cert-manager's, say nothing about a control plane.
var certificateMetrics = []string{
	"kube_certificate_not_after_timestamp_seconds", "kube_served_certificate_not_after_timestamp_seconds",
	"apiserver_client_certificate_expiration_seconds", "kubelet_certificate_manager_client_ttl_seconds",
	"kubelet_certificate_manager_server_ttl_seconds",
}

var (
	// quotedText matches the values of labels in a query of Prometheus.
	quotedText = regexp.MustCompile("\"(?:[^\"\\\\]|\\\\.)*\"|'(?:[^'\\\\]|\\\\.)*'|`[^`]*`")
	// metricName matches a name in a query, also that of a function or label.
	metricName = regexp.MustCompile(`[A-Za-z_:][A-Za-z0-9_:]*`)
)

// queriesCertificates reports whether a query has a metric about the end of a control plane's certificates.
func queriesCertificates(query string) bool {
	names := metricName.FindAllString(quotedText.ReplaceAllString(query, `""`), -1)
	return slices.ContainsFunc(names, func(name string) bool {
		histogram, isBucket := strings.CutSuffix(name, "_bucket")
		return slices.Contains(certificateMetrics, name) || isBucket && slices.Contains(certificateMetrics, histogram)
	})
}

func (r reviewData) alertEvidence() readiness.Alerts {
	if r.alertErr != nil {
		return readiness.Alerts{Unread: problem.Indented(r.alertErr.Error())}
	}
	out := readiness.Alerts{Rules: len(r.alerts)}
	for _, a := range r.alerts {
		if queriesCertificates(a.Expr) {
			out.Certificates = append(out.Certificates, a.Name)
		}
	}
	return out
}

func (r reviewData) endpointEvidence() readiness.Endpoint {
	out := readiness.Endpoint{
		Address: r.Endpoint.Address, Balancers: len(r.Endpoint.Balancers), Holders: r.Endpoint.HoldersOfAll(),
		Unread: r.Endpoint.Unobserved(), Kind: string(r.Endpoint.Kind), Announced: r.Endpoint.Announced,
	}
	if h := r.Endpoint.Targets; h != nil {
		out.Silence = h.Silence
	}
	for _, name := range slices.Sorted(maps.Keys(r.Endpoint.Replicas)) {
		if r.Endpoint.Registered(name) {
			out.InRotation = append(out.InRotation, name)
		}
	}
	return out
}
