package controlplane

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// replicaStatus is the state of a replica in rotations and upgrades, as observed on its
// machine.
type replicaStatus struct {
	name, address string
	port          int
	host          *host.Host          // nil if the address is malformed
	version       string              // of its API server, running or defined; "" if unknown
	upgrading     bool                // an upgrade from this version was interrupted
	generations   map[pki.Part]int    // of what is on disk and runs
	keys          map[pki.Part]string // readKeys
	unknown       error               // why the generations are unknown
	between       bool                // because its processes run with other files than its machine has
	runtime       string              // what runs it, as Replica.Runtime
	repository    string              // of the images of its static pods; "" if unknown
	absent        bool                // the machine is reachable and has no replica
	foreign       bool                // it has machine.ForeignAPIServer
}

func (st replicaStatus) machine() string { return st.name + " (" + st.address + ")" }

// unseen describes why the stage of the replica is unknown.
func (st replicaStatus) unseen() string {
	return fmt.Sprintf("cannot determine the rotation stage of replica %s: %v", st.machine(), st.unknown)
}

// otherReplicas reads the status of all other replicas of the endpoint.
func (r *Replicas) otherReplicas(ctx context.Context, s Spec) ([]replicaStatus, error) {
	listed, err := s.Registrar.Replicas(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the replicas of the endpoint: %w", err)
	}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(listed)), func(name string) bool { return name == s.Name })
	out := make([]replicaStatus, len(names))
	group, groupCtx := errgroup.WithContext(ctx)
	for i, name := range names {
		group.Go(func() error {
			out[i] = r.peerStatus(groupCtx, s, name, listed[name])
			return nil
		})
	}
	return out, group.Wait()
}

// allReplicas reads the status of the replicas that exist.
func (r *Replicas) allReplicas(ctx context.Context, s Spec) ([]replicaStatus, error) {
	own := make(chan replicaStatus, 1)
	go func() { own <- ownStatus(ctx, s) }()
	others, err := r.otherReplicas(ctx, s)
	all := append([]replicaStatus{<-own}, others...)
	return slices.DeleteFunc(all, func(st replicaStatus) bool { return st.absent }), err
}

// peerStatus reads the status of one other replica from its machine.
func (r *Replicas) peerStatus(ctx context.Context, s Spec, name, address string) replicaStatus {
	at, port, err := splitAddress(address)
	if err == nil {
		// the provider connects there
		err = errors.Join(component.ValidateName(name), isAddress(at), component.ValidatePort(port))
	}
	if err != nil {
		return replicaStatus{name: name, address: address, unknown: fmt.Errorf("read its address: %w", err)}
	}
	st := replicaStatus{name: name, address: at, port: port, host: r.machine(at)}
	facts, err := askStatus(ctx, st.host)
	if err != nil {
		st.unknown = err
		return st
	}
	st.read(s.Bundle.ClusterID, machine.Interpret(facts))
	return st
}

// askStatus asks another machine for machine.StatusQuery. One that hangs is an error in time.
func askStatus(ctx context.Context, h *host.Host) (facts host.Facts, err error) {
	err = host.InTime(ctx, h.Address(), func(ctx context.Context) (err error) {
		facts, err = h.Observe(ctx, machine.StatusQuery())
		return err
	})
	return facts, err
}

// ownStatus reads the status of the replica itself.
func ownStatus(ctx context.Context, s Spec) replicaStatus {
	st := replicaStatus{name: s.Name, address: s.Host.Address(), port: s.APIPort(), host: s.Host}
	facts, err := s.Host.Observe(ctx, machine.StatusQuery())
	if err != nil {
		st.unknown = err
		return st
	}
	f := machine.Interpret(facts)
	st.read(s.Bundle.ClusterID, f)
	if st.version != "" && f.Record.Port != 0 {
		st.port = f.Record.Port // it serves on this port until the change
	}
	return st
}

// spec returns the parts of the spec that are needed to connect to the replica's API server.
func (st replicaStatus) spec(s Spec) Spec {
	return Spec{
		Replica: component.Replica{
			Name: st.name, Address: st.address, Port: st.port, Bundle: s.Bundle, Version: st.version, Runtime: st.runtime,
			ImageRepository: st.repository,
		},
		Host: st.host, Registrar: s.Registrar,
	}
}

// read sets the status from the observed state.
func (st *replicaStatus) read(cluster string, f machine.Observed) {
	switch {
	case f.RecordErr != nil:
		st.unknown = f.RecordErr
	case f.HasForeignAPIServer():
		st.foreign, st.unknown = true, errForeign
	case f.Record.ClusterID == "":
		st.absent = true
	case f.Record.ClusterID != cluster || f.Record.Name != st.name:
		st.unknown = errors.New("its machine holds " + machine.Describe(f.Record))
	default:
		st.version, st.runtime = f.EffectiveVersion(release.APIServer), f.Record.Runtime
		st.repository = f.ImageRepository()
		st.keys = readKeys(f)
		st.generations, st.unknown = f.Record.Generations, machine.StaleProcess(f, component.Names())
		st.between = st.unknown != nil
		// During an upgrade the old version counts: the replica may go forward, and back. All replicas see it so, because
		// those of a plan share what the first one has observed.
		if st.version != "" && f.Rollback != nil && f.Rollback.Version != "" {
			st.upgrading = f.Rollback.Version != st.version
			st.version = f.Rollback.Version
		}
	}
}

var errForeign = errors.New("its machine has " + machine.ForeignAPIServer)

func isAddress(text string) error {
	if ip, err := netip.ParseAddr(text); err != nil || ip.Zone() != "" {
		return fmt.Errorf("%s is no IP address", problem.Quote(text))
	}
	return nil
}

// splitAddress splits host:port.
func splitAddress(address string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, err
	}
	port, err = strconv.Atoi(text)
	return host, port, err
}

var errNoReplica = errors.New("it holds no control-plane replica of this provider")

// EtcdTrust returns the authorities and the certificate with which the API server on a machine uses etcd. It returns an
// error if they are unknown, or if the machine has no replica of this provider.
func (r *Replicas) EtcdTrust(ctx context.Context, address string) (pki.Trust, error) {
	facts, err := askStatus(ctx, r.machine(address))
	if err != nil {
		return pki.Trust{}, fmt.Errorf("look for the API server on %s: %w", address, err)
	}
	rec, err := machine.ReadRecord(facts.Files[machine.RecordPath].Content)
	if err == nil && rec.ClusterID == "" {
		err = errNoReplica
	}
	if err == nil {
		err = machine.StaleProcess(machine.Interpret(facts), []string{release.APIServer})
	}
	if err != nil {
		return pki.Trust{}, fmt.Errorf("determine which etcd authority the API server on %s trusts: %w", address, err)
	}
	return pki.Trust{
		Generation: rec.Generations[pki.EtcdPart], Roots: facts.Files[component.EtcdClientCA].Content,
		Certificate: facts.Files[component.EtcdClientCert].Content,
	}, nil
}

// skewTimeout limits the observation of all versions. Detecting that a machine is down takes a
// connection timeout (10 s).
const skewTimeout = 30 * time.Second

// Versions returns the versions that run in the replica's control plane: those of all API
// servers, of etcd and of the kubelets. A version that cannot be read is "".
func (r *Replicas) Versions(ctx context.Context, s Spec) (release.Versions, error) {
	if err := s.checkHost(); err != nil {
		return release.Versions{}, err
	}
	seen, _, err := r.observeVersions(ctx, s)
	return seen, err
}

// observeVersions returns the versions and the status of each replica, starting with the
// replica itself if it exists.
func (r *Replicas) observeVersions(ctx context.Context, s Spec) (release.Versions, []replicaStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, skewTimeout)
	defer cancel()
	seen := release.Versions{Replicas: map[string]string{}}
	var etcdErr error
	var queries sync.WaitGroup
	if s.Store != nil {
		queries.Go(func() {
			if seen.Etcd, etcdErr = etcdVersions(ctx, s.Store); etcdErr != nil {
				etcdErr = fmt.Errorf("read the versions of etcd: %w", etcdErr)
			}
		})
	}
	all, err := r.allReplicas(ctx, s)
	for _, st := range all {
		seen.Replicas[st.name] = st.version
	}
	queries.Go(func() { seen.Removed = requestedRemovedAPIs(ctx, s, all) })
	seen.Kubelets = kubelets(ctx, s, all)
	queries.Wait()
	return seen, all, errors.Join(err, etcdErr)
}

// etcdVersions asks etcd once more if it gives no answer: members may join, or elect a leader, at the same time.
func etcdVersions(ctx context.Context, store Store) (map[string]string, error) {
	versions, err := store.Versions(ctx)
	if err != nil && ctx.Err() == nil {
		versions, err = store.Versions(ctx)
	}
	return versions, err
}

// kubelets returns the kubelet versions from the first API server that answers; nil if
// none does. Without any replica there are none.
func kubelets(ctx context.Context, s Spec, all []replicaStatus) map[string]string {
	if len(all) == 0 {
		return map[string]string{}
	}
	for _, st := range all {
		if st.version == "" {
			continue
		}
		nodes, err := nodeVersions(ctx, st.spec(s))
		if err == nil {
			return nodes
		}
		problem.Detail(ctx, "%s: nodes unknown: %v", st.machine(), err)
	}
	return nil
}

func nodeVersions(ctx context.Context, s Spec) (map[string]string, error) {
	nodes, err := s.client().Nodes(ctx)
	if err != nil {
		return nil, err
	}
	versions := map[string]string{}
	for _, node := range nodes {
		versions[node.Name] = strings.TrimPrefix(node.Status.NodeInfo.KubeletVersion, "v")
	}
	return versions, nil
}
