package combined

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// recording is a registrar that records what it is asked, in a log that all share.
type recording struct {
	id       string
	log      *[]string
	listed   map[string]string
	out      map[string]string
	machines []host.LeaseTaker
	refuse   map[string]error // by operation
	stopping bool
	// announces: its address leads only to replicas in rotation.
	announces bool
}

func (r *recording) note(operation, name string) error {
	*r.log = append(*r.log, r.id+" "+operation+" "+name)
	return r.refuse[operation]
}

func (r *recording) Register(_ context.Context, name, _ string) error {
	return r.note("register", name)
}

func (r *recording) Drain(_ context.Context, name string) error { return r.note("drain", name) }

func (r *recording) Undrain(_ context.Context, name string) error { return r.note("undrain", name) }

func (r *recording) Deregister(_ context.Context, name string) error {
	return r.note("deregister", name)
}

func (r *recording) DrainForDelete(_ context.Context, name string, last bool) error {
	return r.note(fmt.Sprint("leave last=", last), name)
}

func (r *recording) Registered(context.Context, string, string) ([]string, error) {
	if r.out == nil {
		return nil, r.refuse["registered"]
	}
	return []string{"out of rotation"}, r.refuse["registered"]
}

func (r *recording) OutOfRotation(context.Context) (map[string]string, error) { return r.out, nil }
func (r *recording) Replicas(context.Context) (map[string]string, error) {
	return r.listed, r.refuse["replicas"]
}

func (r *recording) ListedAt(_ context.Context, name string) ([]string, error) {
	if at := r.listed[name]; at != "" {
		return []string{at}, r.refuse["replicas"]
	}
	return nil, r.refuse["replicas"]
}

func (r *recording) Balancers() []host.LeaseTaker { return r.machines }
func (r *recording) LeavesByStopping() bool       { return r.stopping }
func (r *recording) AgentsReachDrained() bool     { return !r.announces }

func (r *recording) Serving(context.Context) (map[string]string, error) {
	serving := maps.Clone(r.listed)
	maps.DeleteFunc(serving, func(name, _ string) bool { return r.out[name] != "" })
	return serving, nil
}

// machine is a machine that only has an address.
type machine string

func (m machine) Address() string { return string(m) }

func (machine) TakeLease(context.Context, string, string, *host.Lease) (*host.Lease, error) {
	return nil, errors.New("not part of this test")
}

var errRefused = errors.New("another replica does not serve")

type fixture struct {
	log       []string
	a, b, old *recording
}

func newFixture() *fixture {
	f := &fixture{}
	both := map[string]string{"cp1": "10.0.0.11:6443", "cp2": "10.0.0.12:6443"}
	create := func(id string) *recording {
		return &recording{id: id, log: &f.log, listed: maps.Clone(both), refuse: map[string]error{}}
	}
	f.a, f.b, f.old = create("a"), create("b"), create("old")
	return f
}

func (f *fixture) both() *Registrar { return &Registrar{Endpoints: []Endpoint{at(f.a), at(f.b)}} }

func (f *fixture) moving() *Registrar {
	return &Registrar{Endpoints: []Endpoint{at(f.a)}, Replica: "cp1", Left: []Endpoint{at(f.old)}}
}

func (f *fixture) adding() *Registrar {
	f.b.listed, f.b.out = map[string]string{}, map[string]string{"cp1": "not there", "cp2": "not there"}
	return &Registrar{Endpoints: []Endpoint{at(f.a), at(f.b)}, Replica: "cp1"}
}

func at(r *recording) Endpoint { return Endpoint{ID: r.id, Registrar: r} }

func (f *fixture) expect(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(f.log, want) {
		t.Errorf("did\n  %s\nwant\n  %s", strings.Join(f.log, "\n  "), strings.Join(want, "\n  "))
	}
	f.log = nil
}

func TestRegisteredEverywhere(t *testing.T) {
	f := newFixture()
	r := f.both()
	if err := r.Register(t.Context(), "cp1", "10.0.0.11:6443"); err != nil {
		t.Fatal(err)
	}
	f.expect(t, "a register cp1", "b register cp1")
	if err := r.Drain(t.Context(), "cp1"); err != nil {
		t.Fatal(err)
	}
	f.expect(t, "a drain cp1", "b drain cp1")
	if err := r.DrainForDelete(t.Context(), "cp1", true); err != nil {
		t.Fatal(err)
	}
	f.expect(t, "a leave last=true cp1", "b leave last=true cp1")
}

func TestRefusedDrainIsReverted(t *testing.T) {
	f := newFixture()
	f.b.refuse["drain"] = errRefused
	if err := f.both().Drain(t.Context(), "cp1"); !errors.Is(err, errRefused) {
		t.Errorf("got %v, want the refusal", err)
	}
	f.expect(t, "a drain cp1", "b drain cp1", "a undrain cp1")

	f.a.refuse["undrain"] = errors.New("no answer")
	err := f.both().Drain(t.Context(), "cp1")
	if err == nil || problem.Untouched(err) || !strings.Contains(err.Error(), "no answer") {
		t.Errorf("a drain that is not reverted counts as untouched, or does not say why: %v", err)
	}
}

func TestReplicaLeavesAfterItIsInRotation(t *testing.T) {
	f := newFixture()
	r := f.moving()
	if err := r.Drain(t.Context(), "cp1"); err != nil {
		t.Fatal(err)
	}
	f.expect(t, "a drain cp1", "old drain cp1")
	if err := r.Register(t.Context(), "cp1", "10.0.0.11:6443"); err != nil {
		t.Fatal(err)
	}
	f.expect(t, "a register cp1", "old deregister cp1")

	f.a.refuse["register"] = errors.New("not ready")
	if err := r.Register(t.Context(), "cp1", "10.0.0.11:6443"); err == nil {
		t.Error("the failure is lost")
	}
	f.expect(t, "a register cp1", "old undrain cp1") // still at the old endpoint
}

// TestReturnedWhereItServed: a replica that was drained everywhere, and cannot be registered at its new endpoint,
// serves at the old one, also if the apply has ended. One at which it never served is left alone.
func TestReturnedWhereItServed(t *testing.T) {
	f := newFixture()
	r := f.moving()
	r.Left = append(r.Left, Endpoint{ID: "tried", Registrar: f.b, Attempted: true})
	f.a.refuse["register"] = &problem.Problem{Summary: "Not in rotation", Next: "set the balancer up"}
	ctx, cancel := context.WithCancel(t.Context())
	if err := r.Drain(ctx, "cp1"); err != nil {
		t.Fatal(err)
	}
	cancel()
	f.log = nil
	err := r.Register(ctx, "cp1", "10.0.0.11:6443")
	f.expect(t, "a register cp1", "old undrain cp1")
	for _, want := range []string{"Not in rotation", "set the balancer up", "in rotation at the endpoint old"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}

	f.a.refuse["register"] = errRefused
	f.old.refuse["undrain"] = errors.New("no answer")
	err = r.Register(t.Context(), "cp1", "10.0.0.11:6443")
	if !errors.Is(err, errRefused) || !strings.Contains(err.Error(), "no answer") ||
		strings.Contains(err.Error(), "in rotation at the endpoint old") {
		t.Errorf("got %v, want both failures", err)
	}
}

// TestRegisteredAtTheOthers: an endpoint that fails keeps no other one without the replica, and the replica leaves no
// endpoint then.
func TestRegisteredAtTheOthers(t *testing.T) {
	f := newFixture()
	r := f.adding()
	r.Left = []Endpoint{at(f.old)}
	f.a.refuse["register"] = errRefused
	if err := r.Register(t.Context(), "cp1", ""); !errors.Is(err, errRefused) {
		t.Errorf("got %v, want the failure", err)
	}
	f.expect(t, "a register cp1", "b register cp1", "old undrain cp1")

	gone := errors.New("b does not answer")
	f.b.refuse["register"] = gone
	err := r.Register(t.Context(), "cp1", "")
	if !errors.Is(err, errRefused) || !errors.Is(err, gone) || !strings.Contains(err.Error(), "b does not answer") {
		t.Errorf("got %v, want both failures", err)
	}
	f.expect(t, "a register cp1", "b register cp1", "old undrain cp1")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Register(ctx, "cp1", ""); !errors.Is(err, errRefused) {
		t.Errorf("got %v, want the failure", err)
	}
	f.expect(t, "a register cp1", "old undrain cp1") // the apply has ended

	f.b.listed, f.b.refuse = f.a.listed, nil
	f.a.refuse = map[string]error{"register": errRefused}
	if err := r.Register(t.Context(), "cp2", ""); !errors.Is(err, errRefused) {
		t.Errorf("got %v, want the failure", err)
	}
	f.expect(t, "a register cp2", "b register cp2", "old register cp2")
	f.a.refuse, f.a.listed = map[string]error{"replicas": gone}, nil
	if err := r.Register(t.Context(), "cp2", ""); !errors.Is(err, gone) {
		t.Errorf("got %v, want that one endpoint does not say whether it lists the replica", err)
	}
	f.expect(t, "b register cp2", "old register cp2")
}

// TestRotationOfThoseThatAnswer: an endpoint that does not say whether a replica is in rotation hides none at which it
// is not.
func TestRotationOfThoseThatAnswer(t *testing.T) {
	gone := errors.New("no answer")
	want := []string{"endpoint b: out of rotation"}
	for _, r := range []func(*fixture) *Registrar{(*fixture).both, func(f *fixture) *Registrar {
		r := f.both()
		r.Replica = "cp9" // whose endpoints change
		f.a.refuse["replicas"], f.a.listed = gone, nil
		return r
	}} {
		f := newFixture()
		f.a.refuse["registered"] = gone
		f.b.out = map[string]string{"cp1": "10.0.0.11:6443"}
		got, err := r(f).Registered(t.Context(), "cp1", "")
		if !errors.Is(err, gone) || !slices.Equal(got, want) {
			t.Errorf("got %q, %v, want %q and the error", got, err, want)
		}
	}
}

// TestOthersReturnWhereTheyWere: another replica that returns to rotation keeps the old endpoint, and is
// not registered at the new one, whose name its certificate may lack.
func TestOthersReturnWhereTheyWere(t *testing.T) {
	f := newFixture()
	delete(f.a.listed, "cp2")
	if err := f.moving().Register(t.Context(), "cp2", "10.0.0.12:6443"); err != nil {
		t.Fatal(err)
	}
	f.expect(t, "old register cp2")
}

// TestOthersAreKnownWhereTheyAre: while a replica moves, the others count although they are at the old
// endpoint only.
func TestOthersAreKnownWhereTheyAre(t *testing.T) {
	f := newFixture()
	f.a.listed = map[string]string{"cp1": "10.0.0.11:6443"}
	f.a.out = map[string]string{"cp2": "not there"}
	r := f.moving()
	if listed, err := r.Replicas(t.Context()); err != nil || listed["cp2"] == "" {
		t.Errorf("the others are %v, %v", listed, err)
	}
	if differences, err := r.Registered(t.Context(), "cp2", "10.0.0.12:6443"); err != nil || len(differences) > 0 {
		t.Errorf("cp2 is not in rotation: %v, %v", differences, err)
	}
	if differences, err := r.Registered(t.Context(), "cp1", "10.0.0.11:6443"); err != nil || len(differences) == 0 {
		t.Errorf("cp1 is in rotation at the new endpoint: %v", err)
	}
}

// TestOthersComeToANewEndpointInTheirTurn: while a replica comes to another endpoint and leaves none, the others count,
// and return to rotation, where they are.
func TestOthersComeToANewEndpointInTheirTurn(t *testing.T) {
	f := newFixture()
	r := f.adding()
	if differences, err := r.Registered(t.Context(), "cp2", "10.0.0.12:6443"); err != nil || len(differences) > 0 {
		t.Errorf("cp2 is not in rotation: %v, %v", differences, err)
	}
	if differences, err := r.Registered(t.Context(), "cp1", "10.0.0.11:6443"); err != nil || len(differences) == 0 {
		t.Errorf("cp1 is in rotation at the new endpoint: %v", err)
	}
	if differences, err := r.Registered(t.Context(), "cp9", "10.0.0.19:6443"); err != nil || len(differences) == 0 {
		t.Errorf("one that no endpoint lists is in rotation: %v", err)
	}
	if err := r.Register(t.Context(), "cp2", "10.0.0.12:6443"); err != nil {
		t.Fatal(err)
	}
	f.expect(t, "a register cp2")
	if err := r.Register(t.Context(), "cp1", "10.0.0.11:6443"); err != nil {
		t.Fatal(err)
	}
	f.expect(t, "a register cp1", "b register cp1")
}

// TestUnreachableOldEndpoint: one of which nothing answers does not prevent that a replica leaves it. One that stays
// must answer.
func TestUnreachableOldEndpoint(t *testing.T) {
	for _, why := range []error{host.ErrUnreachable, endpoint.ErrSilent} {
		f := newFixture()
		gone := fmt.Errorf("connect: %w", why)
		f.old.refuse = map[string]error{"drain": gone, "deregister": gone}
		r := f.moving()
		if err := errors.Join(r.Drain(t.Context(), "cp1"), r.Register(t.Context(), "cp1", "")); err != nil {
			t.Errorf("an old endpoint that is gone prevents the move: %v", err)
		}
		f.a.refuse = map[string]error{"drain": gone}
		if err := r.Drain(t.Context(), "cp1"); !errors.Is(err, why) {
			t.Errorf("got %v: the endpoints that stay must be reachable", err)
		}
		f.old.refuse = map[string]error{"drain": errRefused}
		f.a.refuse = nil
		if err := r.Drain(t.Context(), "cp1"); !errors.Is(err, errRefused) {
			t.Errorf("got %v: a refusal of the old endpoint counts", err)
		}
	}
	f := newFixture()
	f.old.refuse = map[string]error{"drain": fmt.Errorf("%w: %w", endpoint.ErrSilent, context.Canceled)}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.moving().Drain(ctx, "cp1"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that the apply was cancelled", err)
	}
}

// TestAttemptedEndpoint: a replica leaves an endpoint at which its registration has failed, and whatever still fails
// there prevents no change at the others.
func TestAttemptedEndpoint(t *testing.T) {
	f := newFixture()
	r := f.moving()
	r.Left[0].Attempted = true
	for name, err := range map[string]error{"works": nil, "fails": errors.New("the key was not accepted")} {
		f.old.refuse = map[string]error{"drain": err, "deregister": err}
		if err := errors.Join(r.Drain(t.Context(), "cp1"), r.Register(t.Context(), "cp1", "")); err != nil {
			t.Errorf("it %s: %v", name, err)
		}
		f.expect(t, "a drain cp1", "old drain cp1", "a register cp1", "old deregister cp1")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f.old.refuse = map[string]error{"deregister": ctx.Err()}
	if err := r.Register(ctx, "cp1", ""); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that the apply was cancelled", err)
	}
}

// TestListedByEndpointsThatAreLeft: what an endpoint lists that is left, or was only attempted, overrides nothing.
func TestListedByEndpointsThatAreLeft(t *testing.T) {
	for _, attempted := range []bool{false, true} {
		f := newFixture()
		delete(f.a.listed, "cp2")
		f.old.listed["cp1"] = "10.0.0.66:6443"
		f.old.out = map[string]string{"cp2": "10.0.0.12:6443"}
		r := f.moving()
		r.Left[0].Attempted = attempted
		listed, err := r.Replicas(t.Context())
		if err != nil || listed["cp1"] != "10.0.0.11:6443" || (listed["cp2"] == "") != attempted {
			t.Errorf("attempted %t: listed are %v, %v", attempted, listed, err)
		}
		out, err := r.OutOfRotation(t.Context())
		if err != nil || (len(out) == 0) != attempted {
			t.Errorf("attempted %t: out of rotation are %v, %v", attempted, out, err)
		}
		err = r.Register(t.Context(), "cp2", "")
		if err != nil || (len(f.log) == 0) != attempted {
			t.Errorf("attempted %t: did %q, %v", attempted, f.log, err)
		}
	}
}

// TestUndrainedEverywhere: an endpoint that is left and that the drain has skipped makes a refusal no other error, and
// one at which the return to rotation fails keeps no other one drained.
func TestUndrainedEverywhere(t *testing.T) {
	gone := fmt.Errorf("connect: %w", host.ErrUnreachable)
	f := newFixture()
	r := f.moving()
	r.Left = append(r.Left, at(f.b))
	f.old.refuse = map[string]error{"drain": gone, "undrain": gone}
	f.b.refuse["drain"] = &problem.Problem{Summary: "Not drained", Unchanged: problem.Nothing}
	if err := r.Drain(t.Context(), "cp1"); !problem.Untouched(err) {
		t.Errorf("got %v, want the refusal", err)
	}
	f.expect(t, "a drain cp1", "old drain cp1", "b drain cp1", "a undrain cp1", "old undrain cp1")

	f.a.refuse["undrain"] = gone
	if err := r.Drain(t.Context(), "cp1"); problem.Untouched(err) || !strings.Contains(err.Error(), "at the endpoint a,") {
		t.Errorf("got %v, want that it is out of rotation at a", err)
	}
	f.expect(t, "a drain cp1", "old drain cp1", "b drain cp1", "a undrain cp1", "old undrain cp1")
}

func TestStateOfAllEndpoints(t *testing.T) {
	f := newFixture()
	f.b.listed["cp3"] = "10.0.0.13:6443"
	f.b.out = map[string]string{"cp2": "10.0.0.12:6443"}
	f.a.machines = []host.LeaseTaker{machine("10.0.0.1"), machine("10.0.0.2")}
	f.b.machines = []host.LeaseTaker{machine("10.0.0.2"), machine("10.0.0.3")}
	r := f.both()
	differences, err := r.Registered(t.Context(), "cp2", "")
	if want := []string{"endpoint b: out of rotation"}; err != nil || !slices.Equal(differences, want) {
		t.Errorf("Registered: %v, %v, want %v", differences, err, want)
	}
	names := func(m map[string]string, err error) string {
		if err != nil {
			t.Error(err)
		}
		return strings.Join(slices.Sorted(maps.Keys(m)), " ")
	}
	for what, test := range map[string]struct{ got, want string }{
		"Replicas":      {names(r.Replicas(t.Context())), "cp1 cp2 cp3"},
		"Serving":       {names(r.Serving(t.Context())), "cp1"},
		"OutOfRotation": {names(r.OutOfRotation(t.Context())), "cp2"},
	} {
		if test.got != test.want {
			t.Errorf("%s: %q, want %q", what, test.got, test.want)
		}
	}
	var leases []string
	for _, m := range r.Balancers() {
		leases = append(leases, m.Address())
	}
	if want := []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"}; !slices.Equal(leases, want) {
		t.Errorf("leases on %v, want %v", leases, want)
	}
	if r.LeavesByStopping() {
		t.Error("no endpoint waits for the API server to stop")
	}
	f.b.stopping = true
	if !r.LeavesByStopping() {
		t.Error("one endpoint waits for the API server to stop")
	}
}

// TestAgentsReachDrained: agents may use any of the endpoints, so each of them must lead to a replica that is out of
// rotation. One at which nobody ever was in rotation does not count.
func TestAgentsReachDrained(t *testing.T) {
	for name, c := range map[string]struct {
		alter func(f *fixture, r *Registrar)
		want  bool
	}{
		"all":  {func(*fixture, *Registrar) {}, true},
		"one":  {func(f *fixture, _ *Registrar) { f.b.announces = true }, false},
		"left": {func(f *fixture, _ *Registrar) { f.old.announces = true }, false},
		"attempted": {func(f *fixture, r *Registrar) {
			f.old.announces, r.Left[0].Attempted = true, true
		}, true},
	} {
		f := newFixture()
		r := f.both()
		r.Replica, r.Left = "cp1", []Endpoint{at(f.old)}
		c.alter(f, r)
		if got := r.AgentsReachDrained(); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}

// TestListedAtAttempted: where an endpoint that was only attempted lists a replica counts too. The name is the word of
// a machine, which could otherwise have the replica of another one deregistered.
func TestListedAtAttempted(t *testing.T) {
	f := newFixture()
	f.old.listed["cp2"] = "10.0.0.12:6443"
	r := f.moving()
	delete(f.a.listed, "cp2")
	r.Left[0].Attempted = true
	at, err := r.ListedAt(t.Context(), "cp2")
	if err != nil || !slices.Contains(at, "10.0.0.12:6443") {
		t.Errorf("got %q, %v", at, err)
	}
}

// TestExpectedEndpoint: a replica whose move has not finished returns to where it was. At the new endpoint, which may
// have nobody else, it is drained and returned to rotation too if it is there already; what fails counts then.
// Otherwise nothing is asked of that endpoint, which may never have worked.
func TestExpectedEndpoint(t *testing.T) {
	broken := errors.New("the key was not accepted")
	failing := map[string]error{"drain": broken, "undrain": broken, "deregister": broken}
	f := newFixture()
	r := f.moving()
	r.Left[0].Expected = true
	delete(f.old.listed, "cp1")
	f.old.refuse = failing
	if err := errors.Join(r.Drain(t.Context(), "cp1"), r.Register(t.Context(), "cp1", "")); err != nil {
		t.Errorf("it is not there yet: %v", err)
	}
	f.expect(t, "a drain cp1", "a register cp1")
	f.old.listed["cp1"] = "10.0.0.11:6443"
	if err := r.Drain(t.Context(), "cp1"); !errors.Is(err, broken) {
		t.Errorf("it is there, and was not drained: %v", err)
	}
	f.expect(t, "a drain cp1", "old drain cp1", "a undrain cp1")
	if err := r.Register(t.Context(), "cp1", ""); !errors.Is(err, broken) {
		t.Errorf("it is there, and was not returned to rotation: %v", err)
	}
	f.expect(t, "a register cp1", "old undrain cp1")
	f.old.refuse = nil
	if err := errors.Join(r.Drain(t.Context(), "cp1"), r.Register(t.Context(), "cp1", "")); err != nil {
		t.Error(err)
	}
	f.expect(t, "a drain cp1", "old drain cp1", "a register cp1", "old undrain cp1")
	f.old.refuse = map[string]error{"replicas": fmt.Errorf("connect: %w", host.ErrUnreachable)}
	delete(f.old.listed, "cp1")
	if err := r.Drain(t.Context(), "cp1"); err != nil {
		t.Errorf("nobody can be asked there: %v", err)
	}
	f.expect(t, "a drain cp1")
	f.a.refuse["register"], f.old.refuse = broken, nil
	if err := r.Register(t.Context(), "cp1", ""); !errors.Is(err, broken) {
		t.Errorf("got %v, want that it is not registered", err)
	}
	f.expect(t, "a register cp1", "old undrain cp1")
}
