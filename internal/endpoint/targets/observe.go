package targets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

var errNoReplica = errors.New("its machine has no replica")

// Target is the observed state of one target.
type Target struct {
	Name, Address string
	Port          int
	Unreachable   error   // not nil: the machine cannot be observed, and Replica is unknown
	Abandoned     bool    // it is Unreachable, no other machine finds it ready, and the user has declared it lost
	Replica       Replica // of this endpoint; its Name is "" if there is none
	Other         string  // what else the machine has
	Shared        bool    // that is another replica of this endpoint, and Replica is that one; only of Named
	SameCluster   bool    // that is another replica of this cluster, or Moved; only of Observe
	Moved         bool    // that is the replica of this name, whose record does not name the endpoint; only of Observe
	Foreign       bool    // the machine has an API server of this cluster that is not imported yet; only of Observe
	NotReady      error   // why the target gets no requests, such as an answer of /readyz; nil if it does
}

// Ready reports whether the target gets requests.
func (t Target) Ready() bool { return t.NotReady == nil }

// Member reports whether the target has a replica of the endpoint, or may have one.
func (t Target) Member() bool { return t.Replica.Name != "" || t.Unreachable != nil }

// MayServe reports whether clients of the endpoint may reach an API server of the cluster there. A Foreign one is no
// member: nobody takes it out of rotation or returns it.
func (t Target) MayServe() bool { return t.Member() || t.Foreign }

// At returns host:port.
func (t Target) At() string { return net.JoinHostPort(t.Address, strconv.Itoa(t.Port)) }

// Observed is the observed state of all targets, by name.
type Observed map[string]Target

// Observe observes all targets in parallel. It never fails: what is wrong is in the result.
func (s *Set) Observe(ctx context.Context) Observed {
	ctx, cancel := context.WithTimeout(ctx, observeTimeout)
	defer cancel()
	var (
		mu   sync.Mutex
		all  sync.WaitGroup
		seen = Observed{}
	)
	for name, address := range s.Hosts {
		all.Go(func() {
			t := s.observeTarget(ctx, name, address)
			mu.Lock()
			defer mu.Unlock()
			seen[name] = t
		})
	}
	all.Wait()
	return seen
}

func (s *Set) observeTarget(ctx context.Context, name, address string) Target {
	t := Target{Name: name, Address: address, Port: cmp.Or(s.TargetPort, endpoint.DefaultPort)}
	observed, err := s.recordedInTime(ctx, address)
	switch {
	case err != nil:
		t.Unreachable = err
		t.NotReady = s.probeAgain(ctx, t)
		t.Abandoned = t.NotReady != nil && s.Abandoned.Covers(address, err)
	case observed.Foreign && observed.ClusterID == s.ClusterID:
		t.Foreign, t.NotReady = true, s.Probe(ctx, t)
	case observed.Foreign:
		t.Other = "an API server that is not of this cluster, or has lost its record"
		t.NotReady = fmt.Errorf("its machine has %s", t.Other)
	case observed.Name == "":
		t.NotReady = errNoReplica
	case !s.same(observed, name):
		t.Other, t.SameCluster = describe(observed), observed.ClusterID == s.ClusterID
		if t.Moved = t.SameCluster && observed.Name == name; t.Moved {
			t.Port = observed.Port
		}
		t.NotReady = fmt.Errorf("its machine has %s", t.Other)
	default:
		t.Replica, t.Port = observed, observed.Port
		t.NotReady = s.Probe(ctx, t)
	}
	return t
}

// recordedInTime is recorded with an end before that of ctx, so that others can still be asked about a machine that
// hangs.
func (s *Set) recordedInTime(ctx context.Context, address string) (r Replica, err error) {
	err = host.InTime(ctx, address, func(ctx context.Context) (err error) {
		r, err = s.recorded(ctx, address)
		return err
	})
	return r, err
}

// Named returns the target of that name. If its machine cannot be observed, the port is that of
// the endpoint's targets.
func (s *Set) Named(ctx context.Context, name string) Target {
	t := Target{Name: name, Address: s.Hosts[name], Port: s.TargetPort}
	switch observed, err := s.recordedInTime(ctx, t.Address); {
	case err != nil || observed.Name == "":
	case observed.ClusterID == s.ClusterID && observed.Name == name:
		t.Port = observed.Port // also if it has left the endpoint: its record names those that it has now
	default:
		t.Other, t.Shared = describe(observed), s.same(observed, observed.Name)
		if t.Shared {
			t.Replica = observed
		}
	}
	return t
}

// WithMoved returns the observed targets, of which that name is a replica of the endpoint also if it has Moved: the
// record names the endpoints that it has after a change, which may have been cut off before it left this one.
func (s *Set) WithMoved(ctx context.Context, seen Observed, name string) Observed {
	t := seen[name]
	if !t.Moved {
		return seen
	}
	out := maps.Clone(seen)
	out[name] = Target{
		Name: name, Address: t.Address, Port: t.Port, NotReady: s.Probe(ctx, t),
		Replica: Replica{Name: name, Port: t.Port, ClusterID: s.ClusterID},
	}
	return out
}

// Occupant returns the target of the replica that has the machine of a Shared one.
func (t Target) Occupant() Target {
	return Target{Name: t.Replica.Name, Address: t.Address, Port: t.Replica.Port, Replica: t.Replica}
}

// same reports whether an observed replica is the one of that name at this endpoint.
func (s *Set) same(observed Replica, name string) bool {
	return observed.ClusterID == s.ClusterID && observed.Name == name &&
		slices.Contains(observed.Endpoints, s.ID())
}

func describe(r Replica) string {
	return fmt.Sprintf("replica %s of endpoint %s", problem.Quote(r.Name), problem.Quote(strings.Join(r.Endpoints, ", ")))
}

// ErrNotATarget means that the endpoint does not know the replica at its address.
var ErrNotATarget = errors.New("the endpoint's targets do not have the replica at this address")

// At returns the target of a replica, whose address is IP:port.
func (s *Set) At(name, address string) (Target, error) {
	at, text, err := net.SplitHostPort(address)
	if err != nil {
		return Target{}, err
	}
	port, err := strconv.Atoi(text)
	if err == nil {
		err = endpoint.ValidatePort(port)
	}
	if err != nil {
		return Target{}, fmt.Errorf("%s is not a TCP port", problem.Quote(text))
	}
	if s.Hosts[name] != at {
		return Target{}, fmt.Errorf("%w: %s", ErrNotATarget, at)
	}
	return Target{Name: name, Address: at, Port: port}, nil
}

// members returns the names of the targets that have a replica of the endpoint. A machine that
// cannot be observed is not among them.
func (o Observed) members() []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(o)) {
		if o[name].Replica.Name != "" {
			out = append(out, name)
		}
	}
	return out
}

// Serving returns the replicas that get requests, name → host:port.
func (o Observed) Serving() map[string]string {
	return o.where(func(t Target) bool { return t.Member() && t.Ready() })
}

// OutOfRotation returns the replicas that get no requests, name → host:port.
func (o Observed) OutOfRotation() map[string]string {
	return o.where(func(t Target) bool { return t.Member() && !t.Ready() })
}

func (o Observed) where(want func(Target) bool) map[string]string {
	out := map[string]string{}
	for name, t := range o {
		if want(t) {
			out[name] = t.At()
		}
	}
	return out
}

// Table returns the targets as a table for a diagnostic.
func (o Observed) Table() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TARGET\tADDRESS\tSTATE")
	for _, name := range slices.Sorted(maps.Keys(o)) {
		t := o[name]
		state := "ready"
		if !t.Ready() {
			state = problem.Line(t.NotReady.Error())
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", name, t.At(), state)
	}
	_ = w.Flush() // into memory
	return b.String()
}
