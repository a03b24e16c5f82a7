// Package controlplane creates, observes, changes and deletes the replicas of a control plane:
// kube-apiserver, kube-controller-manager and kube-scheduler on a machine, with the files,
// flags and kubeconfigs of kubeadm.
//
// A workflow observes the machine (package machine), decides in pure functions what has to change
// (decide.go, drift.go), and acts: create.go, update.go, drain.go, apply.go, ready.go. An update may
// be an upgrade (upgrade.go, rollback.go) or a stage of a rotation (rotation.go,
// encryption_rewrite.go). delete.go ends a replica; member_outage.go stops it while its etcd member
// changes. What the other replicas run is in peers.go; change_lock.go lets one change at a time.
// Package component describes the desired state, and package client asks the components.
package controlplane

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/client"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/runtime"
	"github.com/kubequorum/terraform-provider-kube/internal/firewall"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// ErrGone means that the machine is reachable and has no part of the replica.
var ErrGone = errors.New("control-plane replica does not exist")

// Registrar puts replicas into and out of the rotation of the endpoint. Every method can be
// repeated. The load balancers decide what serves, with their own health checks. If none of
// them can be reached, that is an error and never an answer.
type Registrar interface {
	// Register puts the replica into rotation on every load balancer. address is host:port.
	Register(ctx context.Context, name, address string) error
	// Drain temporarily takes a replica out of rotation: it stops new connections to it on
	// every load balancer and waits until its sessions have ended or the drain timeout has
	// passed. It refuses (problem.Untouched) while another replica does not serve. A replica
	// that does not serve may always be drained.
	Drain(ctx context.Context, name string) error
	// DrainForDelete is Drain for a replica that is deleted. It requires that another replica serves;
	// with lastAllowed, only if another replica exists. A refusal because none serves has a
	// method LastServing() bool that returns true.
	DrainForDelete(ctx context.Context, name string, lastAllowed bool) error
	// Undrain returns a replica to rotation after Drain or DrainForDelete, if it is still
	// registered.
	Undrain(ctx context.Context, name string) error
	// Deregister removes the replica from every load balancer.
	Deregister(ctx context.Context, name string) error
	// Registered returns the differences from the state after Register, by load balancer (nil:
	// in rotation everywhere). With an error, which means that one does not say, they are those of the others.
	Registered(ctx context.Context, name, address string) ([]string, error)
	// OutOfRotation returns the replicas to which a load balancer sends no new requests, name →
	// host:port. Unreachable load balancers are skipped.
	OutOfRotation(ctx context.Context) (map[string]string, error)
	// Replicas returns every replica that a load balancer lists, name → host:port. Unreachable
	// load balancers are skipped.
	Replicas(ctx context.Context) (map[string]string, error)
	// ListedAt returns the addresses of the machines at which a load balancer lists the replica: more than one if load
	// balancers differ. Unreachable load balancers are skipped.
	ListedAt(ctx context.Context, name string) ([]string, error)
	// Balancers are the machines that hold the lease for changes of rotation.
	Balancers() []host.LeaseTaker
	// LeavesByStopping reports whether a replica stays in rotation until its API server stops:
	// Deregister changes nothing, and the load balancers notice that the replica is not ready.
	LeavesByStopping() bool
	// AgentsReachDrained reports whether the agents of konnectivity reach a replica through the endpoint while it is out
	// of rotation: drained, or not registered yet. If not, a drain may also end the connections that they have.
	AgentsReachDrained() bool
}

// Store is the etcd cluster of the replicas, as far as they depend on it.
type Store interface {
	// Scan calls see for every key below prefix with its stored value.
	Scan(ctx context.Context, prefix string, see func(key string, value []byte)) error
	// Versions returns the versions of the members, by name; "" is unknown. There are none if
	// etcd is not managed by this provider.
	Versions(ctx context.Context) (map[string]string, error)
	// Save stores a verified snapshot on the machine of one member, with label in its name, and
	// returns its location as HOST:PATH. The location is "" if etcd is not managed by this
	// provider.
	Save(ctx context.Context, label string) (string, error)
	// PauseMember calls do in the turn of the member that is a static pod of the machine at an address: no other member
	// is changed meanwhile, by any process. If there is no such member, do has nothing to stop.
	PauseMember(ctx context.Context, address string, do func(ctx context.Context, m PausedMember) error) error
}

// PausedMember is a member of etcd in its turn. Its methods return nil for a machine that has none.
type PausedMember interface {
	// Stop stops the member, once the rules of a restart allow that.
	Stop(ctx context.Context) error
	// Start starts it, and waits until it serves.
	Start(ctx context.Context) error
}

// Spec is the desired state of one replica, with what is needed to reach it.
type Spec struct {
	component.Replica
	Host      *host.Host // the connection to the machine at Replica.Address; checkHost compares them
	Source    host.Source
	Registrar Registrar // created from Replica.Registration
	// Before is where the replica is in rotation before a change of its endpoints. Nil means that
	// they do not change.
	Before *InRotation
	// Store is the etcd cluster behind EtcdURLs. Without it, a rotation of encryption rewrites
	// all objects without checking, and the version of etcd is unknown.
	Store Store
	// Rules are what its machine accepts from others of the control plane, and they from it. A Create
	// tries them.
	Rules []firewall.Rule
}

// InRotation is where a replica is in rotation.
type InRotation struct {
	Registrar Registrar
	// At returns the replica as it is there: with the addresses that its certificates have, and where it listens.
	At func(component.Replica) component.Replica
}

// Validate rejects an invalid replica before any machine is reached.
func (s Spec) Validate() error {
	if err := s.checkHost(); err != nil {
		return err
	}
	if err := s.Replica.Validate(); err != nil {
		return err
	}
	return runtime.Of(s.Replica).Validate(s.Replica)
}

// checkHost returns an error if Host is not the machine at Address: files would be written to one
// machine, and the other registered.
func (s Spec) checkHost() error {
	if at := s.Host.Address(); at != s.Address {
		return fmt.Errorf("replica %s: %w: %s", s.Machine(), errOtherHost, at)
	}
	return nil
}

var errOtherHost = errors.New("the connection leads to another address")

// client returns the client for the replica's components.
func (s Spec) client() client.Client { return client.New(s.Host, s.Replica) }

// ConfigDigest returns the digest of every file whose content depends on s alone. It is known
// before the replica exists, and equals Status.ConfigDigest of a machine that has exactly those
// files. It does not cover certificates and keys.
func (s Spec) ConfigDigest() string { return machine.ConfigDigest(s.Replica) }

// Component is the observed status of one of the three programs.
type Component struct {
	Name              string // "kube-apiserver"
	Healthy           bool
	Health            string    // "ok", or the reason
	Version           string    // of the running program; "" if it does not answer
	CertificateExpiry time.Time // the earliest of the certificates it uses
}

// Status is the observed status of a replica.
type Status struct {
	Components        []Component // in the order apiserver, controller-manager, scheduler
	Registered        bool
	RotationErr       error // why Registered is not known; only set by Read
	MachineID         string
	ConfigDigest      string
	CertificateExpiry time.Time // the earliest of all
	Drift             []string  // as etcd.Status.Drift
}

// Replicas coordinates the replicas of each control plane within this process:
// one value per provider. Its methods are safe for the parallel calls that
// Terraform makes.
type Replicas struct {
	changeLocks changeLocks
	paused      pausedReplicas
	inProgress  inProgress
	machine     func(address string) *host.Host
}

// NewReplicas returns an empty coordinator. machine returns the connection for an address.
func NewReplicas(machine func(address string) *host.Host) *Replicas {
	return &Replicas{machine: machine}
}

// DeleteOptions are the options of Delete.
type DeleteOptions struct {
	Abandon host.Abandoned // machines that are permanently lost: deregistered, and left unchanged
	// Superseded reports whether a Create of the same identity (cluster, name, address) has
	// begun in this process. It is called after every wait and before each step; once it
	// returns true, nothing more is changed. Nil means never.
	Superseded func() bool
	// Creates describes the other parts of the same control plane that this process is
	// creating, or has failed to create. In that case the control plane is to continue, and its
	// last replica stays. Replicas are not included. Nil means none.
	Creates func() []string
	// Left is called with the reason if the machine was left unchanged. May be nil.
	Left func(why string)
	// Cordoned is called with the reason if a change of the kubelet had left the node cordoned, and it still is. May be
	// nil.
	Cordoned func(why string)
}

func (o DeleteOptions) superseded() bool { return o.Superseded != nil && o.Superseded() }
