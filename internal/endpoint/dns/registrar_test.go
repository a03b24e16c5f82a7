package dns

import (
	"context"
	"encoding/base64"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// withPrimary returns a registrar whose zone has these addresses, and the zone's server. recorded is what the machines
// say, by address. Nothing can be run on them, and no API server answers.
func withPrimary(
	t *testing.T, recorded map[string]targets.Replica, records ...string,
) (r *Registrar, zone *primary) {
	t.Helper()
	pool, err := host.NewPool(host.Config{})
	if err == nil {
		err = pool.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	key := Key{Algorithm: "hmac-sha256", Secret: base64.StdEncoding.EncodeToString([]byte("a secret of this test"))}
	zone = &primary{addresses: addresses(t, records...)}
	at := zone.start(t, key)
	observer := targets.NewObserver(func(address string) *host.Host { return pool.Host(host.Target{Address: address}) },
		func(_ context.Context, address string) (targets.Replica, error) { return recorded[address], nil })
	r = New(observer, map[string]Key{"api-key": key}).For(testSpec().Registration())
	r.zone.around, r.zone.TTL = nil, time.Millisecond
	r.zone.dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", at)
	}
	return r, zone
}

// TestMovedReplicaIsDrained: the record on the machine does not name the endpoint any more, and the zone still sends
// clients there: an apply that moves the replica was cut off. Another replica's machine is left alone.
func TestMovedReplicaIsDrained(t *testing.T) {
	for name, want := range map[string]string{"cp1": "10.0.0.12", "cp9": "10.0.0.11, 10.0.0.12"} {
		r, zone := withPrimary(t, map[string]targets.Replica{
			"10.0.0.11": {Name: name, ClusterID: "abc", Port: 6443, Endpoints: []string{"haproxy 10.0.0.100"}},
			"10.0.0.12": {Name: "cp2", ClusterID: "abc", Port: 6443, Endpoints: []string{"dns api.example.com"}},
		}, "10.0.0.11", "10.0.0.12")
		if err := r.Drain(t.Context(), "cp1"); err != nil {
			t.Errorf("%s is there: %v", name, err)
		}
		if got := addressList(zone.addresses); got != want {
			t.Errorf("%s is there: after the drain of cp1, the records are %s, want %s", name, got, want)
		}
	}
}

// TestNotReadyIsNotListed: a replica that is not ready gets no record when its drain is undone.
func TestNotReadyIsNotListed(t *testing.T) {
	r, zone := withPrimary(t, nil, "10.0.0.12")
	if err := r.relist(t.Context(), targets.Target{Name: "cp1", Address: "10.0.0.11", Port: 6443}); err != nil {
		t.Error(err)
	}
	if got := addressList(zone.addresses); got != "10.0.0.12" {
		t.Errorf("the records are %s", got)
	}
}

// TestSucceed: the name has no address after the last replica only.
func TestSucceed(t *testing.T) {
	leaver := netip.MustParseAddr("10.0.0.11")
	notReady := errors.New("not ready")
	ready := targets.Target{Address: "10.0.0.12", Replica: targets.Replica{Name: "cp2"}}
	failing, lost, gone := ready, ready, ready
	failing.NotReady, lost.Unreachable = notReady, host.ErrUnreachable
	gone.Replica, gone.NotReady = targets.Replica{}, notReady
	for name, c := range map[string]struct {
		other targets.Target
		agent bool // of the other one
		want  string
	}{
		"another one is ready, without a record": {ready, true, "DNS update, add 10.0.0.12, delete 10.0.0.11"},
		"it leaves too":                          {ready, false, ""},
		"it is not ready":                        {failing, true, ""},
		"it cannot be observed":                  {lost, true, ""},
		"there is none":                          {gone, true, "DNS update, delete 10.0.0.11"},
	} {
		own := targets.Target{Address: "10.0.0.11", Replica: targets.Replica{Name: "cp1"}, NotReady: notReady}
		u, err := succeed("cp1", leaver, targets.Observed{"cp1": own, "cp2": c.other},
			func(targets.Target) bool { return c.agent })
		if kept := errors.Is(err, errLastRecord); kept != (c.want == "") || !kept && u.String() != c.want {
			t.Errorf("%s: %s, %v, want %q", name, u, err, c.want)
		}
	}
}

// TestLastRecord: a replica that is deleted while it is not ready leaves its record if it is the last one, and another
// replica exists.
func TestLastRecord(t *testing.T) {
	replica := func(name string) targets.Replica {
		return targets.Replica{Name: name, ClusterID: "abc", Port: 6443, Endpoints: []string{"dns api.example.com"}}
	}
	for want, recorded := range map[string]map[string]targets.Replica{
		"10.0.0.11": {"10.0.0.11": replica("cp1"), "10.0.0.12": replica("cp2")},
		"":          {"10.0.0.11": replica("cp1")},
	} {
		for what, leave := range map[string]func(r *Registrar) error{
			"DrainForDelete": func(r *Registrar) error { return r.DrainForDelete(t.Context(), "cp1", true) },
			"Deregister":     func(r *Registrar) error { return r.Deregister(t.Context(), "cp1") },
		} {
			r, zone := withPrimary(t, recorded, "10.0.0.11")
			if err := leave(r); err != nil {
				t.Errorf("%s of one of %d: %v", what, len(recorded), err)
			}
			if got := addressList(zone.addresses); got != want {
				t.Errorf("%s of one of %d: the records are %q, want %q", what, len(recorded), got, want)
			}
		}
	}
}

// TestServerGone: what a replica that leaves the endpoint for another one gets when the name server is gone for good.
func TestServerGone(t *testing.T) {
	r, _ := withPrimary(t, nil, "10.0.0.11")
	r.zone.dial = func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no route") }
	for what, err := range map[string]error{
		"Drain": r.Drain(t.Context(), "cp1"), "Deregister": r.Deregister(t.Context(), "cp1"),
	} {
		if !errors.Is(err, endpoint.ErrSilent) || errors.Is(err, host.ErrUnreachable) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestKeyGone: the key of an endpoint that a replica leaves is not in tsig_keys any more, is another one, or may not
// change the name any more. The replica keeps its agent and its record, which nobody would maintain otherwise.
func TestKeyGone(t *testing.T) {
	other := Key{Algorithm: "hmac-sha256", Secret: base64.StdEncoding.EncodeToString([]byte("a secret of another key"))}
	own := Key{Algorithm: "hmac-sha256", Secret: base64.StdEncoding.EncodeToString([]byte("a secret of this test"))}
	for name, c := range map[string]struct {
		key     *Key
		refuses bool
		want    error
		next    string
	}{
		"gone":    {nil, false, errNoKey, "keep it there until no replica is at the endpoint"},
		"another": {&other, false, errSignature, "compare the name, the algorithm and the secret"},
		"refused": {&own, true, errRefused, "allow the key to change"},
	} {
		for what, leave := range map[string]func(r *Registrar) error{
			"Drain":          func(r *Registrar) error { return r.Drain(t.Context(), "cp1") },
			"DrainForDelete": func(r *Registrar) error { return r.DrainForDelete(t.Context(), "cp1", true) },
			"Deregister":     func(r *Registrar) error { return r.Deregister(t.Context(), "cp1") },
		} {
			r, zone := withPrimary(t, map[string]targets.Replica{
				"10.0.0.11": {Name: "cp1", ClusterID: "abc", Port: 6443, Endpoints: []string{"dns api.example.com"}},
				"10.0.0.12": {Name: "cp2", ClusterID: "abc", Port: 6443, Endpoints: []string{"dns api.example.com"}},
			}, "10.0.0.11", "10.0.0.12")
			r.zone.key, zone.refuses = c.key, c.refuses
			err := leave(r)
			var p *problem.Problem
			if !errors.Is(err, c.want) || !errors.As(err, &p) || !strings.Contains(p.Next, c.next) ||
				p.Unchanged != keptRecord || zone.changes > 0 {
				t.Errorf("%s, %s: %v after %d changes", name, what, err, zone.changes)
			}
		}
	}
}

// TestOtherNameServers: a name server that is in another zone is resolved where the name servers are asked from. If the
// name is unknown there, addresses of the name servers help.
func TestOtherNameServers(t *testing.T) {
	r, _ := withPrimary(t, nil, "10.0.0.11")
	r.zone.lookup = func(_ context.Context, name string) ([]netip.Addr, error) {
		if name != "ns1.example.net" {
			return nil, targets.ErrUnresolved
		}
		return addresses(t, "10.0.0.53", "fd00::53", "10.0.0.54"), nil
	}
	at, err := r.zone.resolve(t.Context(), "ns1.example.net")
	if got := addressList(at); err != nil || got != "10.0.0.53, 10.0.0.54" {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := r.zone.resolve(t.Context(), "ns2.example.net"); !strings.Contains(nextStep(err), "dns.name_servers") {
		t.Errorf("%v; next step: %s", err, nextStep(err))
	}
	from := testSpec()
	from.ProbeFrom = "10.0.0.12"
	_, err = testEndpoints(nil).For(from.Registration()).zone.lookup(t.Context(), "-s")
	if err == nil || !strings.Contains(err.Error(), "10.0.0.12") {
		t.Errorf("it is asked for somewhere else: %v", err)
	}
}

// TestRevertedNameIsLeft: the record of a name that is not wanted any more is removed, also with what a machine has
// recorded. The machine's record names the other endpoint already, and nothing can be run on the machine.
func TestRevertedNameIsLeft(t *testing.T) {
	at := func(name string) targets.Replica {
		return targets.Replica{Name: name, ClusterID: "abc", Port: 6443, Endpoints: []string{"dns api.example.org"}}
	}
	for want, records := range map[string][]string{
		"10.0.0.12": {"10.0.0.11", "10.0.0.12"}, "": {"10.0.0.11"}, "10.0.0.13": {"10.0.0.13"},
	} {
		r, zone := withPrimary(t, map[string]targets.Replica{"10.0.0.11": at("cp1"), "10.0.0.12": at("cp2")}, records...)
		r.recorded = true
		for range 2 {
			if err := r.Deregister(t.Context(), "cp1"); err != nil {
				t.Errorf("%q: %v", want, err)
			}
		}
		if got := addressList(zone.addresses); got != want {
			t.Errorf("the records are %q, want %q", got, want)
		}
	}
}

// TestReplacedRecord: one update replaces the record, so that the name has an address at any time.
func TestReplacedRecord(t *testing.T) {
	r, zone := withPrimary(t, nil, "10.0.0.11")
	both := addresses(t, "10.0.0.11", "10.0.0.12")
	err := r.zone.change(t.Context(), func(recordSet) (update, error) {
		return update{add: both[1:], remove: both[:1]}, nil
	})
	if got := addressList(zone.addresses); err != nil || got != "10.0.0.12" || zone.changes != 1 {
		t.Errorf("the records are %s after %d changes, %v", got, zone.changes, err)
	}
}

// TestRemoveLeft: an endpoint that has other targets by now removes what a former one has left as the last record. An
// address of nobody's stays, and is refused elsewhere.
func TestRemoveLeft(t *testing.T) {
	former, zone := withPrimary(t, nil, "10.0.0.11", "10.0.0.13", "10.0.0.99")
	set := *former.Set
	set.Hosts = map[string]string{"cp3": "10.0.0.13"}
	now := *former
	now.Set = &set
	for range 2 {
		if err := now.removeLeft(t.Context(), former); err != nil {
			t.Error(err)
		}
		if got := addressList(zone.addresses); got != "10.0.0.13, 10.0.0.99" {
			t.Errorf("the records are %s", got)
		}
	}
}

// TestFormerTargetServes: a replica that is replaced serves until the new one does, and its address may be no target
// any more. An address of nobody's is refused.
func TestFormerTargetServes(t *testing.T) {
	former, _ := withPrimary(t, nil, "10.0.0.11", "10.0.0.13")
	set := *former.Set
	set.Hosts = map[string]string{"cp3": "10.0.0.13"}
	now := *former
	now.Set = &set
	if err := now.checkOwners(t.Context(), now.left(former)); err != nil {
		t.Error(err)
	}
	if err := now.checkOwners(t.Context(), nil); !errors.Is(err, errStrangers) {
		t.Errorf("a new endpoint gets %v", err)
	}
	former.Hosts = map[string]string{"cp2": "10.0.0.12"}
	if err := now.checkOwners(t.Context(), now.left(former)); !errors.Is(err, errStrangers) {
		t.Errorf("the address of nobody gives %v", err)
	}
}

// TestFromAnotherZone: a replica whose clients have its address from another zone is not restarted. Other settings of
// the zone change nothing for clients.
func TestFromAnotherZone(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*endpoint.Zone)
		want   string
	}{
		"the same":       {func(*endpoint.Zone) {}, ""},
		"another TTL":    {func(z *endpoint.Zone) { z.TTL++ }, ""},
		"another server": {func(z *endpoint.Zone) { z.Server = "10.0.0.54:53" }, " at 10.0.0.54:53"},
		"another zone":   {func(z *endpoint.Zone) { z.Name = "api.example.com" }, "api.example.com at "},
	} {
		r := testRegistrar(nil)
		before := testSpec().Registration()
		was := *before.Zone
		c.change(&was)
		before.Zone = &was
		if got := r.From(before).former; (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: the former zone is %q, want %q", name, got, c.want)
		}
	}
	r := testRegistrar(nil)
	r.former = "example.com at 10.0.0.54:53"
	if err := r.servesFormer("cp1"); !strings.Contains(err.Error(), r.former) {
		t.Error(err)
	}
}
