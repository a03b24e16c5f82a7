package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// The servers of these tests are etcd's own: they read their pool of
// authorities at the start and certificate and key at each handshake, from
// files, as the process of a unit does.

// at gives the specs another bundle.
func at(specs map[string]Spec, b *pki.Bundle) map[string]Spec {
	out := map[string]Spec{}
	for name, s := range specs {
		s.Bundle = b
		out[name] = s
	}
	return out
}

// updates runs Update for the named members at once and returns what came of it.
func (f *fleet) updates(specs map[string]Spec, names ...string) map[string]error {
	f.t.Helper()
	return together(f.t, specs, func(s Spec) error {
		status, err := f.clusters.Update(f.context(), s)
		if err == nil && len(status.Drift) > 0 {
			err = errors.New(strings.Join(status.Drift, "\n"))
		}
		return err
	}, names...)
}

// rotate brings the named members to the generation of their specs.
func (f *fleet) rotate(specs map[string]Spec, names ...string) {
	f.t.Helper()
	for name, err := range f.updates(specs, names...) {
		if err != nil {
			f.t.Fatalf("update %s: %v", name, err)
		}
	}
	for _, name := range names {
		if m, want := f.marker(specs[name]), specs[name].generation(); m.Generation != want {
			f.t.Errorf("%s is marked with generation %d, want %d", name, m.Generation, want)
		}
	}
}

func (f *fleet) marker(s Spec) marker {
	f.t.Helper()
	found := f.clusters.of(s).look(f.context(), s, s.Name, s.Host)
	if found.Marker == nil {
		f.t.Fatalf("%s has no marker", s.Name)
	}
	return *found.Marker
}

// refused checks that the named members do not change, and say why.
func (f *fleet) refused(specs map[string]Spec, names []string, words ...string) {
	f.t.Helper()
	starts := map[string]int{}
	for name := range specs {
		starts[name] = f.machine(name).starts
	}
	for name, err := range f.updates(specs, names...) {
		if err == nil || !problem.Untouched(err) {
			f.t.Errorf("update %s: %v", name, err)
			continue
		}
		for _, word := range words {
			if !strings.Contains(err.Error(), word) {
				f.t.Errorf("update %s: %q is not in\n%v", name, word, err)
			}
		}
	}
	for name := range specs {
		if f.machine(name).starts != starts[name] {
			f.t.Errorf("%s was restarted", name)
		}
	}
}

// writer is a client of the cluster that knows one generation of the
// authority, as an API server does. Each write is made through a connection of
// its own, so that every one is a handshake.
type writer struct {
	name      string
	tls       *tls.Config
	addresses []string
	acked     map[string]string
}

func (f *fleet) writer(name string, b *pki.Bundle, specs map[string]Spec) *writer {
	f.t.Helper()
	pair, err := b.Issue(pki.APIServerEtcdClient(), time.Now(), time.Hour)
	if err != nil {
		f.t.Fatal(err)
	}
	certificate, err := tls.X509KeyPair([]byte(pair.Certificate), []byte(pair.PrivateKey))
	if err != nil {
		f.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(b.Anchors(pki.Etcd)))
	w := &writer{name: name, tls: &tls.Config{Certificates: []tls.Certificate{certificate}, RootCAs: roots, MinVersion: tls.VersionTLS12}, acked: map[string]string{}}
	for _, s := range specs {
		w.addresses = append(w.addresses, s.Host.Address())
	}
	slices.Sort(w.addresses)
	return w
}

// put writes through the member at one address.
func (w *writer) put(ctx context.Context, address, key, value string) error {
	conv := &conversation{tls: w.tls, dial: func(ctx context.Context, addr string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", addr)
	}}
	defer conv.Close()
	return conv.call(ctx, address, askTimeout, func(ctx context.Context, conn *grpc.ClientConn) error {
		_, err := pb.NewKVClient(conn).Put(ctx, &pb.PutRequest{Key: []byte(key), Value: []byte(value)})
		return err
	})
}

// run writes one key after the other until the end, each through whichever
// member takes it: a quorum has to be there within the time of a call.
func (w *writer) run(ctx context.Context, t *testing.T) {
	for i := 0; ctx.Err() == nil; i++ {
		key, value := fmt.Sprintf("/load/%s/%06d", w.name, i), fmt.Sprint(time.Now().UnixNano())
		begin := time.Now()
		var err error
		for try := 0; ; try++ {
			if err = w.put(context.WithoutCancel(ctx), w.addresses[(i+try)%len(w.addresses)], key, value); err == nil {
				w.acked[key] = value
				break
			}
			if time.Since(begin) > 2*askTimeout {
				t.Errorf("%s: no member takes a write any more: %v", w.name, err)
				return
			}
		}
	}
}

// under runs f while the writers write.
func (f *fleet) under(writers []*writer, do func()) {
	f.t.Helper()
	ctx, stop := context.WithCancel(f.context())
	defer stop()
	var group sync.WaitGroup
	for _, w := range writers {
		group.Go(func() { w.run(ctx, f.t) })
	}
	do()
	stop()
	group.Wait()
}

// accepted checks that every member takes writes of every writer.
func (f *fleet) accepted(writers []*writer) {
	f.t.Helper()
	for _, w := range writers {
		for _, address := range w.addresses {
			done, err := until(f.context(), 20*time.Millisecond, 10*time.Second, func() (bool, error) {
				return w.put(f.context(), address, "/accepted/"+w.name, address) == nil, nil
			})
			if !done || err != nil {
				f.t.Errorf("%s takes no writes of the client %s: %v", address, w.name, w.put(f.context(), address, "/accepted", ""))
			}
		}
	}
}

// TestRotation takes three members through all stages, and back between, under
// clients of the generation before and of the one that comes. The older
// authority vouches for nothing of the newer one here, as where its key is held
// elsewhere: neighbours need no more than the rule.
func TestRotation(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.three(0)
	bundles := lineage(t, f.bundle, 3)
	for _, b := range bundles {
		b.EtcdCARotation.Cross = ""
	}
	everyone := []string{"cp1", "cp2", "cp3"}
	acked := map[string]string{}
	starts := 1
	from := 0
	for step, to := range []int{1, 2, 1, 2, 3, 2, 3} {
		writers := []*writer{
			f.writer(fmt.Sprintf("%d-old-%d", step, from), bundles[from], specs),
			f.writer(fmt.Sprintf("%d-new-%d", step, to), bundles[to], specs),
		}
		f.accepted(writers)
		f.under(writers, func() { f.rotate(at(specs, bundles[to]), everyone...) })
		f.accepted(writers)
		for _, w := range writers {
			if len(w.acked) < 3 {
				t.Errorf("%s wrote only %d keys", w.name, len(w.acked))
			}
			for key, value := range w.acked {
				acked[key] = value
			}
		}
		if bundles[from].Anchors(pki.Etcd) != bundles[to].Anchors(pki.Etcd) {
			starts++ // the pool is read at the start alone
		}
		f.wantStarts(starts)
		for name, s := range at(specs, bundles[to]) {
			if status, err := f.clusters.Read(f.context(), s); err != nil || len(status.Drift) > 0 || !status.Healthy {
				t.Errorf("at %d: read %s: %+v, %v", to, name, status, err)
			}
		}
		from = to
	}
	if most := f.outages.most.Load(); most != 1 {
		t.Errorf("%d members were down at the same time", most)
	}
	last := at(specs, bundles[3])
	for _, name := range everyone {
		f.client(last[name]).wantKeys(name, acked)
	}
	t.Logf("%d writes, none lost", len(acked))
}

// TestRotationCutOff: one member is left a stage behind when the others are
// taken to the next.
func TestRotationCutOff(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.three(0)
	bundles := lineage(t, f.bundle, 3)
	everyone := []string{"cp1", "cp2", "cp3"}
	f.rotate(at(specs, bundles[1]), "cp1", "cp2")
	next := at(specs, bundles[2])

	f.refused(next, []string{"cp1", "cp2"}, "cp3", "still stands at generation 0", "set rotation.etcd back to 1")
	f.machine("cp3").lost = true
	f.refused(next, []string{"cp1"}, "it cannot be told which authority cp3", "bring the machine back, or destroy the member")
	f.machine("cp3").lost = false
	// With it in the same run it goes first, even when it leads: straight to where the others go.
	f.lead(specs["cp3"])
	f.inOrder(next, everyone, "cp3")

	// Two are two stages away from the third stage's end: nothing but the way back helps.
	f.rotate(at(specs, bundles[3]), "cp1")
	f.refused(at(specs, bundles[1]), []string{"cp2", "cp3"}, "cp1", "stands at generation 3", "set rotation.etcd to 2, apply, then lower it again")
	f.rotate(at(specs, rotated(t, bundles[3], 2)), everyone...)
	f.rotate(at(specs, rotated(t, bundles[2], 1)), everyone...)
	f.rotate(at(specs, rotated(t, rotated(t, bundles[2], 1), 0)), everyone...)
	f.accepted([]*writer{f.writer("back", bundles[0], specs)})
}

// TestRotationWaitsForTheRestart: files of the stage are there, the process
// knows nothing of them, because the apply was cut off between the two.
func TestRotationWaitsForTheRestart(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.three(0)
	bundles := lineage(t, f.bundle, 2)
	f.rotate(at(specs, bundles[1]), "cp1", "cp2")
	third := at(specs, bundles[1])["cp3"]
	found := f.clusters.of(third).look(f.context(), third, third.Name, third.Host)
	r, err := repairs(third, found, nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.machine("cp3").Change(f.context(), r.Change, action{}); err != nil {
		t.Fatal(err)
	}
	next := at(specs, bundles[2])
	f.refused(next, []string{"cp1"}, "cp3", "between two generations", "runs with another "+caPath, "set rotation.etcd to 1")
	f.lead(specs["cp3"])
	f.inOrder(next, []string{"cp1", "cp2", "cp3"}, "cp3")
}

// TestRotationCutOffAtAnyFile: whatever part of a member's files was written,
// the way forward and the way back are open.
func TestRotationCutOffAtAnyFile(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.three(0)
	bundles := lineage(t, f.bundle, 2)
	everyone := []string{"cp1", "cp2", "cp3"}
	f.rotate(at(specs, bundles[1]), everyone...)
	third := at(specs, bundles[2])["cp3"]
	for written := 1; ; written++ {
		found := f.clusters.of(third).look(f.context(), third, third.Name, third.Host)
		r, err := repairs(third, found, nil, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if written > len(r.Change.Files) {
			break
		}
		r.Change.Files = r.Change.Files[:written]
		if _, err := f.machine("cp3").Change(f.context(), r.Change, action{}); err != nil {
			t.Fatal(err)
		}
		if written%2 == 0 {
			f.rotate(at(specs, bundles[2]), everyone...)
		}
		f.rotate(at(specs, bundles[1]), everyone...)
	}
	f.calm(at(specs, bundles[1])["cp1"])
	f.wantStarts(2)
}

// lead makes a member the leader.
func (f *fleet) lead(s Spec) {
	f.t.Helper()
	conv, err := f.clusters.of(s).converse(s)
	if err != nil {
		f.t.Fatal(err)
	}
	defer conv.Close()
	done, err := until(f.context(), 50*time.Millisecond, 10*time.Second, func() (bool, error) {
		v := f.calm(s)
		if v.leader() == s.Name {
			return true, nil
		}
		leader, _ := v.member(v.Leader)
		return false, conv.moveLeader(f.context(), leader.address(), entryOf(&v, s).ID)
	})
	if !done || err != nil {
		f.t.Fatalf("%s does not lead: %v", s.Name, err)
	}
}

// inOrder updates the members at once and checks who is done first.
func (f *fleet) inOrder(specs map[string]Spec, names []string, first string) {
	f.t.Helper()
	order := make(chan string, len(names))
	for name, err := range together(f.t, specs, func(s Spec) error {
		_, err := f.clusters.Update(f.context(), s)
		order <- s.Name
		return err
	}, names...) {
		if err != nil {
			f.t.Fatalf("update %s: %v", name, err)
		}
	}
	if got := <-order; got != first {
		f.t.Errorf("%s was changed first, want %s", got, first)
	}
}

// TestJoinDuringARotation: a machine that comes anew is made at the generation
// that is wanted, if the members go along with it.
func TestJoinDuringARotation(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1", "cp2", "cp3")
	bundles := lineage(t, f.bundle, 3)
	f.create(specs, "cp1")
	if _, err := f.clusters.Create(f.context(), at(specs, bundles[2])["cp2"]); err == nil || !problem.Untouched(err) ||
		!strings.Contains(err.Error(), "cp1") || !strings.Contains(err.Error(), "still stands at generation 0") {
		t.Fatalf("join at 2 beside a voter at 0: %v", err)
	}
	f.wantRoster(specs["cp1"], "cp1")
	f.create(at(specs, bundles[1]), "cp2")
	f.rotate(at(specs, bundles[1]), "cp1")
	f.rotate(at(specs, bundles[2]), "cp1", "cp2")
	f.create(at(specs, bundles[3]), "cp3")
	f.rotate(at(specs, bundles[3]), "cp1", "cp2")
	f.calm(at(specs, bundles[3])["cp1"])

	// A machine that was rebuilt holds nothing that would have to be asked, and
	// a dead one does not keep others of its generation from joining.
	specs = at(f.specs("cp1", "cp2", "cp3", "cp4", "cp5"), bundles[3])
	f.wipe("cp2")
	f.rotate(specs, "cp2")
	f.create(specs, "cp4")
	f.calm(specs["cp1"])
	f.kill("cp4", true)
	if _, err := f.clusters.Create(f.context(), at(specs, rotated(t, bundles[3], 4))["cp5"]); err == nil || !problem.Untouched(err) ||
		!strings.Contains(err.Error(), "it cannot be told which authority cp4") {
		t.Errorf("join at 4 beside one at 3 that cannot be asked: %v", err)
	}
	f.create(specs, "cp5")
	f.wantRoster(specs["cp1"], "cp1 cp2 cp3 cp4 cp5")
}

// apiServers is what the provider knows of the API servers.
type apiServers struct {
	sync.Mutex
	at    map[string]int
	asked int
	then  func(asked int) // after each question
}

func (a *apiServers) EtcdGeneration(_ context.Context, address string) (int, error) {
	a.Lock()
	defer a.Unlock()
	a.asked++
	generation, ok := a.at[address]
	if a.then != nil {
		a.then(a.asked)
	}
	if !ok {
		return 0, errors.New("nothing is known of it")
	}
	return generation, nil
}

// TestRotationWaitsForAPIServers: those that list themselves in the cluster
// have to go along with the stage.
func TestRotationWaitsForAPIServers(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1")
	f.create(specs, "cp1")
	bundles := lineage(t, f.bundle, 3)
	servers := &apiServers{at: map[string]int{"10.9.0.1": 0, "fd00::2": 0}}
	to := func(generation int) map[string]Spec {
		all := at(specs, bundles[generation])
		for name, s := range all {
			s.Clients = servers
			all[name] = s
		}
		return all
	}
	f.rotate(to(1), "cp1")
	if servers.asked != 0 {
		t.Error("an API server was asked that nobody lists")
	}
	c := f.client(specs["cp1"])
	for address := range servers.at {
		if err := c.put("cp1", masterLeases+address, "lease"); err != nil {
			t.Fatal(err)
		}
	}
	f.refused(to(2), []string{"cp1"}, "the API server at 10.9.0.1 still stands at generation 0", "fd00::2", "set rotation.etcd back to 1")
	servers.at = map[string]int{"10.9.0.1": 1}
	f.refused(to(2), []string{"cp1"}, "it cannot be told which authority the API server at fd00::2 trusts: nothing is known", "15 s")
	servers.then = func(asked int) { // the other one follows while it is waited for
		if asked%2 == 0 {
			servers.at["fd00::2"] = 1
		}
	}
	f.rotate(to(2), "cp1")
	asked := servers.asked
	f.rotate(to(2), "cp1")
	if servers.asked != asked {
		t.Error("API servers were asked although nothing changes")
	}
}

// TestStored reads page after page, as of one moment, from whoever answers.
func TestStored(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1", "cp2", "cp3")
	f.create(specs, "cp2")
	f.machine("cp1").lost = true
	c := f.client(specs["cp2"])
	put := func(key, value string) {
		if err := c.put("cp2", key, value); err != nil {
			t.Fatal(err)
		}
	}
	const prefix, n = "/registry/secrets/", 2*pageKeys + 1
	for i := range n {
		put(fmt.Sprintf("%s%05d", prefix, i), fmt.Sprint("value", i))
	}
	put("/registry/secrets", "before")
	put("/registry/secrets0", "after")
	read := func(prefix string, during func(i int)) map[string]int {
		t.Helper()
		seen := map[string]int{}
		var order []string
		err := f.clusters.Stored(f.context(), specs["cp1"].Peers, f.bundle, prefix, func(key string, value []byte) {
			during(len(order))
			seen[key], order = len(value), append(order, key)
		})
		if err != nil || !slices.IsSorted(order) || len(seen) != len(order) {
			t.Fatalf("%d keys, %d of them once, in order %v: %v", len(order), len(seen), slices.IsSorted(order), err)
		}
		return seen
	}
	seen := read(prefix, func(i int) {
		if i == 3 { // changes behind and before the present page are not seen
			put(prefix+"00000-new", "new")
			put(prefix+"00700-new", "new")
		}
	})
	if len(seen) != n || seen[prefix+"00000"] != len("value0") {
		t.Errorf("%d keys below the prefix, want %d", len(seen), n)
	}
	if seen = read("", func(int) {}); len(seen) != n+4 {
		t.Errorf("%d keys in all, want %d", len(seen), n+4)
	}
	if seen = read("/nothing/", func(int) {}); len(seen) != 0 {
		t.Errorf("keys where there are none: %v", seen)
	}
	// More than one answer may have.
	for i := range pageBytes>>20 + 4 {
		put(fmt.Sprintf("/large/%02d", i), strings.Repeat("x", 1<<20))
	}
	if seen = read("/large/", func(int) {}); len(seen) != pageBytes>>20+4 {
		t.Errorf("%d large keys", len(seen))
	}
	f.kill("cp2", false)
	err := f.clusters.Stored(f.context(), specs["cp1"].Peers, f.bundle, prefix, func(string, []byte) {})
	if !errors.Is(err, errNoAnswer) || !problem.Untouched(err) {
		t.Errorf("nobody answers: %v", err)
	}
}

func TestPrefixEnd(t *testing.T) {
	for prefix, want := range map[string]string{"a/": "a0", "a\xff": "b", "\xff\xff": "\x00", "": "\x00"} {
		if got := string(prefixEnd(prefix)); got != want {
			t.Errorf("%q ends before %q, want %q", prefix, got, want)
		}
	}
}
