// Package agent is what those kinds of endpoint share whose address the machines of the replicas have, without
// balancers: an agent on each of these machines gives it to the machine, or announces it, while its own API server
// is ready and its replica is in rotation. The endpoint itself has nothing on any machine.
//
// The registrar owns what is on a replica's machine: the record whose replica it has, the mark of a replica in
// rotation, without which the agent does nothing, the agent's files, and its units. What these are, and how the
// agent is observed, is the Kind: see the packages bgp and kubevip.
package agent

import (
	"context"
	"errors"
	"net/netip"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// ErrDrained is why a replica that is ready is out of rotation: its machine has no mark.
var ErrDrained = errors.New("it was taken out of rotation")

// Kind describes one kind of endpoint. R is what a machine reports of its agent. A function gets the registration
// of the whole endpoint and the name of the replica that it is about. Functions that may be nil say so.
type Kind[R any] struct {
	Text      func(r endpoint.Registration) Text
	ConfigDir string   // has the record and the mark
	Program   string   // directory of the agent's programs
	Units     []string // in the order in which they stop
	Scripts   Scripts

	// Complete makes a registration of another kind one that Validate refuses, so that its settings can be read.
	Complete func(r endpoint.Registration) endpoint.Registration
	// Validate checks a registration that a machine has recorded, or that follows from the configuration.
	Validate func(r endpoint.Registration) error
	// Secrets returns why something secret that the registration names is not known. It may be nil.
	Secrets func(r endpoint.Registration) error

	// Conflict returns why no machine in this state can be one of the endpoint's, whatever is installed on it. It may be
	// nil.
	Conflict func(r endpoint.Registration, m Machine[R]) error

	// Taken returns why no machine may serve the endpoint's address: others have it. seen are all targets, by name. It may
	// be nil.
	Taken func(r endpoint.Registration, seen map[string]Machine[R]) error

	// Query asks for what the kind has on a machine, in addition to the record and the units.
	Query func(r endpoint.Registration, own netip.Addr) host.Query
	// Parse parses the output of the query's script.
	Parse func(output string, r endpoint.Registration, own netip.Addr) R
	// Files are the agent's files on a machine.
	Files func(r endpoint.Registration, name string, own netip.Addr, m Machine[R]) []host.File

	// OutOfRotation returns why the agent does not let clients reach the machine, or nil.
	OutOfRotation func(r endpoint.Registration, m Machine[R]) error
	// Lacks lists what the agent needs, and the machine does not have.
	Lacks func(r endpoint.Registration, m Machine[R]) []string
	// Differs lists how the agent differs from one that has just been started.
	Differs func(r endpoint.Registration, m Machine[R]) []string
	// Silent lists what the agent cannot reach, although the replica is in rotation. It may be nil.
	Silent func(r endpoint.Registration, name string, m Machine[R]) []string
	// Restarts reports whether writing these files would interrupt an agent that may have clients.
	Restarts func(r endpoint.Registration, m Machine[R], wanted []host.File) bool

	// Prepare checks a machine that is not of another endpoint, installs packages on it, and observes it again.
	Prepare func(ctx context.Context, r *Registrar[R], t targets.Target, m Machine[R]) (Machine[R], error)
	// Enter returns when clients reach the machine whose mark was set, as far as that depends on its agent.
	Enter func(ctx context.Context, r *Registrar[R], t targets.Target) error
	// Leave returns when no client is sent to the machine whose mark was removed. others says whether another
	// replica is in rotation.
	Leave func(ctx context.Context, r *Registrar[R], t targets.Target, others bool) error
	// Silence returns why the endpoint answers nobody, or "".
	Silence func(ctx context.Context, r *Registrar[R], h targets.Health) string
	// Next says what to do about an error of the kind; "" about others.
	Next func(err error) string
}

// Text is how messages describe a kind.
type Text struct {
	Attribute    string // of the endpoint, with the kind's arguments
	Serves       string // what the machine of a replica in rotation does, before the address
	Unregistered string // what it means that a replica is not registered
	Taken        string // what it would mean to take machines from another endpoint
	Reconfigured string // what an agent that waits for its turn to be restarted is not
}

// Scripts change a machine under the lock of package endpoint, unless it has another endpoint. Each has the
// functions of package endpoint and Functions, and the variables of Vars.
type Scripts struct {
	Functions host.Script
	Vars      func(r endpoint.Registration) map[string]string
	Apply     host.Script  // after the files are in place
	Admit     host.Script  // sets the mark
	Drain     host.Script  // removes the mark, and ends what the agent does. $removed: whether the replica is removed
	Clean     host.Command // removes the endpoint
}

// Machine is the observed state of one replica's machine.
type Machine[R any] struct {
	Err    error // not nil: the machine cannot be observed
	Facts  host.Facts
	Owner  endpoint.Owner
	Report R
}
