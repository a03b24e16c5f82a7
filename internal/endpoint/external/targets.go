package external

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// target is the observed state of one target.
type target struct {
	name, address string
	port          int
	unreachable   error   // not nil: the machine cannot be observed, and replica is unknown
	replica       Replica // of this endpoint; its Name is "" if there is none
	other         string  // what else the machine has
	notReady      error   // why /readyz does not answer with 200; nil if it does
}

func (t target) ready() bool { return t.notReady == nil }

// member reports whether the target has a replica of the endpoint, or may have one.
func (t target) member() bool { return t.replica.Name != "" || t.unreachable != nil }

func (t target) at() string { return net.JoinHostPort(t.address, strconv.Itoa(t.port)) }

// observe observes all targets in parallel. It never fails: what is wrong is in the result.
func (r *Registrar) observe(ctx context.Context) map[string]target {
	ctx, cancel := context.WithTimeout(ctx, observeTimeout)
	defer cancel()
	var (
		mu   sync.Mutex
		all  sync.WaitGroup
		seen = map[string]target{}
	)
	for name, address := range r.registration.Hosts {
		all.Go(func() {
			t := r.observeTarget(ctx, name, address)
			mu.Lock()
			defer mu.Unlock()
			seen[name] = t
		})
	}
	all.Wait()
	return seen
}

func (r *Registrar) observeTarget(ctx context.Context, name, address string) target {
	t := target{name: name, address: address, port: cmp.Or(r.registration.TargetPort, endpoint.DefaultPort)}
	observed, err := r.recorded(ctx, address)
	switch {
	case err != nil:
		t.unreachable = err
		t.notReady = err
	case observed.Name == "":
		t.notReady = errNoReplica
	case observed.ClusterID != r.registration.ClusterID, observed.Name != name,
		observed.Endpoint != r.registration.Address:
		t.other = fmt.Sprintf("replica %s of endpoint %s", problem.Quote(observed.Name), problem.Quote(observed.Endpoint))
		t.notReady = fmt.Errorf("its machine has %s", t.other)
	default:
		t.replica, t.port = observed, observed.Port
		t.notReady = r.probeTarget(ctx, t)
	}
	if t.unreachable != nil && r.probeThroughOthers(ctx, t) == nil {
		t.notReady = nil
	}
	return t
}

// members returns the names of the targets that have a replica of the endpoint. A machine that
// cannot be observed is not among them.
func (r *Registrar) members(seen map[string]target) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		if seen[name].replica.Name != "" {
			out = append(out, name)
		}
	}
	return out
}

// serving reports whether a replica is ready.
func serving(seen map[string]target) bool {
	for _, t := range seen {
		if t.member() && t.ready() {
			return true
		}
	}
	return false
}

// leaving says why a replica leaves rotation.
type leaving int

const (
	toReturn leaving = iota // for a restart: all others must be ready
	forGood                 // for a removal: another one must be ready
	asLast                  // for a removal: another one must be ready, unless there is no other
)

// mayLeave returns why a replica may not leave rotation, and whether the reason is that no other
// one serves. A replica that is not ready itself may always leave.
func mayLeave(name string, seen map[string]target, how leaving) (why string, last bool) {
	if leaver := seen[name]; !leaver.member() || !leaver.ready() {
		return "", false
	}
	others, ready := 0, 0
	for other, t := range seen {
		if other == name || !t.member() {
			continue
		}
		others++
		if t.ready() {
			ready++
		}
	}
	switch {
	case how == asLast && others == 0:
		return "", false
	case ready == 0 && (how != toReturn || others > 0):
		return "it is the last replica that is ready", true
	case how == toReturn && ready < others:
		return "another replica is not ready, and at most one may be out of rotation", false
	}
	return "", false
}

// table returns the targets as a table for a diagnostic.
func table(seen map[string]target) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TARGET\tADDRESS\tSTATE")
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		t := seen[name]
		state := "ready"
		if !t.ready() {
			state = problem.Line(t.notReady.Error())
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", name, t.at(), state)
	}
	_ = w.Flush() // into memory
	return b.String()
}
