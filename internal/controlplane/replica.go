// Package controlplane creates, observes, changes and deletes the replicas of a
// control plane: kube-apiserver, kube-controller-manager and kube-scheduler on a
// machine, with the files, flags and kubeconfigs of kubeadm.
//
// A workflow observes the machine (observe.go), decides in pure functions what has to
// change (decide.go, drift.go), and acts: create.go, update.go, upgrade.go,
// rollback.go, delete.go. What is wanted is described by package component.
package controlplane

import (
	"context"
	"errors"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// ErrGone: the machine is reachable and holds nothing of the replica.
var ErrGone = errors.New("control-plane replica does not exist")

// Registrar puts replicas into and out of the rotation of the endpoint. Every method
// may be repeated. The balancers decide what serves, by their own checks: if none of
// them can be reached, that is an error and never an answer.
type Registrar interface {
	// Register puts the replica into rotation on every balancer. address is host:port.
	Register(ctx context.Context, name, address string) error
	// Drain takes a replica out of rotation that will return: it stops new connections
	// to it on every balancer and waits until its sessions have ended or the drain
	// timeout has passed. It refuses (problem.Untouched) while another replica does not
	// serve. A replica that does not serve may always be drained.
	Drain(ctx context.Context, name string) error
	// Withdraw is Drain of a replica that is deleted. It requires another one that
	// serves; with lastAllowed, only if there is another one. A refusal because none
	// serves has a method LastServing() bool that says so.
	Withdraw(ctx context.Context, name string, lastAllowed bool) error
	// Undrain returns a replica to rotation after Drain or Withdraw, if it is still
	// registered.
	Undrain(ctx context.Context, name string) error
	// Deregister removes the replica from every balancer.
	Deregister(ctx context.Context, name string) error
	// Registered describes, by balancer, what differs from the state after Register
	// (nil: in rotation everywhere).
	Registered(ctx context.Context, name, address string) ([]string, error)
	// OutOfRotation returns the replicas to which a balancer sends no new requests,
	// name → host:port. Unreachable balancers are left out.
	OutOfRotation(ctx context.Context) (map[string]string, error)
	// Replicas returns every replica that a balancer lists, name → host:port.
	// Unreachable balancers are left out.
	Replicas(ctx context.Context) (map[string]string, error)
	// Balancers are the machines on which the lease for changes of rotation is held.
	Balancers() []host.LeaseTaker
}

// Store is the etcd behind the replicas, as far as they depend on it.
type Store interface {
	// Stored calls see for every key below prefix with its stored value.
	Stored(ctx context.Context, prefix string, see func(key string, value []byte)) error
	// Versions are the versions of the members, by name; "" is unknown. There are none
	// if etcd is not on machines of this provider.
	Versions(ctx context.Context) (map[string]string, error)
	// Save keeps a verified snapshot on the machine of one member, with label in its
	// name, and returns its place: HOST:PATH. It is "" if etcd is not on machines of
	// this provider.
	Save(ctx context.Context, label string) (string, error)
}

// Spec is one replica as it is wanted, with what it takes to get there.
type Spec struct {
	component.Replica
	Host      *host.Host // the machine at Replica.Address
	Source    host.Source
	Registrar Registrar // made from Replica.Registration
	// Store is the etcd behind EtcdURLs. Without it, a rotation of encryption rewrites
	// all objects unseen, and the version of etcd is unknown.
	Store Store
}

// Component is the observed status of one of the three programs.
type Component struct {
	Name              string // "kube-apiserver"
	Healthy           bool
	Health            string    // "ok", or the reason in words
	Version           string    // of the running program; "" when it does not answer
	CertificateExpiry time.Time // the earliest of the certificates it uses
}

// Status is the observed status of a replica.
type Status struct {
	Components        []Component // in the order apiserver, controller-manager, scheduler
	Registered        bool
	MachineID         string
	ConfigDigest      string
	CertificateExpiry time.Time // the earliest of all
	Drift             []string  // as etcd.Status.Drift
}

// Replicas coordinates the replicas of each control plane within this process:
// one value per provider. Its methods are safe for the parallel calls that
// Terraform makes.
type Replicas struct {
	turns      turns
	paused     pausedReplicas
	inProgress inProgress
	machine    func(address string) *host.Host
}

// NewReplicas returns an empty coordinator; machine returns the connection for an
// address.
func NewReplicas(machine func(address string) *host.Host) *Replicas {
	return &Replicas{machine: machine}
}

// DeleteOptions qualify Delete.
type DeleteOptions struct {
	Abandon host.Abandoned // machines that are gone for good: deregistered, and left unchanged
	// Superseded reports whether a Create of the same identity (cluster, name,
	// address) has begun in this process. It is called after every wait and before
	// each step; once it is true, nothing more is changed. Nil: never.
	Superseded func() bool
	// Creates describes the parts of the same control plane, replicas aside, that this
	// process is creating, or has failed to create: then the control plane is to
	// continue, and its last replica stays. Nil: none.
	Creates func() []string
	// Left is called if the machine was left unchanged, with the reason. May be nil.
	Left func(why string)
}

func (o DeleteOptions) superseded() bool { return o.Superseded != nil && o.Superseded() }
