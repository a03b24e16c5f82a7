// Package controlplane makes, reads, changes and removes the replicas of one
// control plane: kube-apiserver, kube-controller-manager and kube-scheduler on
// a machine, with kubeadm's files, flags and kubeconfigs.
package controlplane

import (
	"context"
	"errors"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// ErrGone: the host answers and nothing of the replica is there.
var ErrGone = errors.New("control-plane replica does not exist")

// Registrar puts replicas in and out of the endpoint's rotation. Every method
// may be repeated. What serves is the balancers' to say, by their own checks:
// where none of them can be asked, that is an error and never an answer.
type Registrar interface {
	// Register puts the replica into rotation on every balancer. address is host:port.
	Register(ctx context.Context, name, address string) error
	// Drain takes a replica out of rotation that comes back: it stops new
	// connections to it on every balancer and waits until its sessions have ended
	// or the drain timeout has passed. It refuses (problem.Untouched) while another
	// one does not serve. One that serves nothing has nothing to lose, and may.
	Drain(ctx context.Context, name string) error
	// Withdraw is Drain of a replica that leaves for good, which needs one other
	// that serves; with lastAllowed, none where there is no other at all. A refusal
	// for want of one that serves has a method LastServing() bool that says so.
	Withdraw(ctx context.Context, name string, lastAllowed bool) error
	// Undrain puts a replica back into rotation that Drain or Withdraw has taken
	// out of it, where it is still registered.
	Undrain(ctx context.Context, name string) error
	// Deregister removes the replica from every balancer.
	Deregister(ctx context.Context, name string) error
	// Registered says in words what is not as after Register on which balancer
	// (nil: in rotation everywhere).
	Registered(ctx context.Context, name, address string) ([]string, error)
	// OutOfRotation gives the replicas that a balancer sends no new requests,
	// name → host:port. A balancer that cannot be reached says nothing.
	OutOfRotation(ctx context.Context) (map[string]string, error)
	// Replicas gives every replica that a balancer lists, name → host:port. A
	// balancer that cannot be reached says nothing.
	Replicas(ctx context.Context) (map[string]string, error)
	// Balancers are the machines on which the lease of those who change what is in
	// rotation is held.
	Balancers() []host.LeaseTaker
}

// Store is the etcd behind the replicas, as far as they depend on it.
type Store interface {
	// Stored calls see for every key below prefix with its stored value.
	Stored(ctx context.Context, prefix string, see func(key string, value []byte)) error
	// Versions are those that the members run, by member; "" is one that does
	// not tell. Where etcd is not on machines of this provider there is none.
	Versions(ctx context.Context) (map[string]string, error)
	// Save keeps a verified snapshot on the machine of one member, whose name
	// carries label, and says where: HOST:PATH. It is "" where etcd is not on
	// machines of this provider.
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

// Component is one of the three programs as it was found.
type Component struct {
	Name              string // "kube-apiserver"
	Healthy           bool
	Health            string    // "ok", or the reason in words
	Version           string    // of the running program; "" when it does not answer
	CertificateExpiry time.Time // the earliest of the certificates it uses
}

// Status is one replica as it was found.
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

// NewReplicas returns an empty coordinator; machine gives the connection for an
// address.
func NewReplicas(machine func(address string) *host.Host) *Replicas {
	return &Replicas{machine: machine}
}

// DeleteOptions qualify Delete.
type DeleteOptions struct {
	Abandon host.Abandoned // machines that are gone for good: deregistered, and left as they are
	// Superseded reports whether a Create of the same identity (cluster, name,
	// address) has begun in this process. It is asked again after every wait and
	// before each step; once it is so, nothing more is touched. Nil: never.
	Superseded func() bool
	// Creates says in words which parts of the same control plane other than
	// replicas this process is making, or has failed to make: it is meant to go on,
	// so that its last replica stays. Nil: none.
	Creates func() []string
	// Left is told where the machine was left as it is, and why. Nil: nobody is.
	Left func(why string)
}

func (o DeleteOptions) superseded() bool { return o.Superseded != nil && o.Superseded() }
