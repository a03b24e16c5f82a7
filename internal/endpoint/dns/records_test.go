package dns

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	miekg "github.com/miekg/dns"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
)

func testZone(family uint16) zone {
	return zone{
		Zone: endpoint.Zone{Name: "example.com", TTL: 5 * time.Second, TSIGKey: "key"}, host: "api.example.com",
		family: family,
	}
}

func addresses(t *testing.T, texts ...string) []netip.Addr {
	t.Helper()
	var out []netip.Addr
	for _, text := range texts {
		out = append(out, netip.MustParseAddr(text))
	}
	return out
}

// TestLeave: no update removes the last address of a target.
func TestLeave(t *testing.T) {
	one, two := netip.MustParseAddr("10.0.0.11"), netip.MustParseAddr("10.0.0.12")
	own := map[netip.Addr]bool{one: true, two: true}
	both, only := recordSet{Addresses: []netip.Addr{one, two}}, recordSet{Addresses: []netip.Addr{one}}
	if u, err := leave(both, one, own); err != nil || len(u.remove) != 1 || u.remove[0] != one {
		t.Errorf("leaving one of two: %+v, %v", u, err)
	}
	if u, err := leave(only, one, own); !errors.Is(err, errLastRecord) || !u.empty() {
		t.Errorf("leaving as the last: %+v, %v", u, err)
	}
	if u, err := leave(only, two, own); err != nil || !u.empty() {
		t.Errorf("leaving without a record: %+v, %v", u, err)
	}
	stranger := recordSet{Addresses: addresses(t, "10.0.0.11", "10.0.0.66")}
	if u, err := leave(stranger, one, own); !errors.Is(err, errLastRecord) || !u.empty() {
		t.Errorf("leaving as the last, with a stranger's address: %+v, %v", u, err)
	}
	if text := (update{add: only.Addresses}).String(); text != "DNS update, add 10.0.0.11" {
		t.Errorf("an update is described as %q", text)
	}
	if text := (update{remove: only.Addresses}).String(); text != "DNS update, delete 10.0.0.11" {
		t.Errorf("an update is described as %q", text)
	}
	both.Addresses = []netip.Addr{two}
	text := (update{add: both.Addresses, remove: only.Addresses}).String()
	if text != "DNS update, add 10.0.0.12, delete 10.0.0.11" {
		t.Errorf("an update is described as %q", text)
	}
	if u := join(only, one); !u.empty() {
		t.Errorf("joining twice: %+v", u)
	}
	if u := join(only, two); len(u.add) != 1 || u.add[0] != two {
		t.Errorf("joining: %+v", u)
	}
}

// TestRenewed: who leaves after the time to live was lowered does not wait for caches with the longer one. So an Update
// that was cut off after it had changed the records waits the next time.
func TestRenewed(t *testing.T) {
	const short, long = 5 * time.Second, 30 * time.Second
	for _, c := range []struct {
		records         time.Duration // 0: there are none
		before, longest time.Duration
		changes         bool
	}{
		{records: 0, before: long},
		{records: short},
		{records: short, before: short, longest: short},
		{records: long, before: long, longest: long, changes: true},
		{records: long, longest: long, changes: true}, // by another version of the configuration
		{records: short, before: long, longest: long},
		{records: time.Second, before: time.Second, longest: time.Second, changes: true},
	} {
		now := recordSet{TTL: c.records}
		if c.records > 0 {
			now.Addresses = addresses(t, "10.0.0.11")
		}
		u, longest, err := renewed(now, short, c.before)
		if err != nil || longest != c.longest || u.empty() == c.changes {
			t.Errorf("%+v: %+v, %s, %v", c, u, longest, err)
		}
	}
	now := recordSet{TTL: time.Hour, Addresses: addresses(t, "10.0.0.11")}
	if _, _, err := renewed(now, short, long); !errors.Is(err, errLongTTL) {
		t.Errorf("a time to live of an hour: %v", err)
	}
}

// TestMessage: the prerequisite of an update is the set of records that it was decided on.
func TestMessage(t *testing.T) {
	now := recordSet{Addresses: addresses(t, "10.0.0.11", "10.0.0.12")}
	for name, c := range map[string]struct {
		family uint16
		now    recordSet
		update update
		want   []string // in this order
	}{
		"remove": {
			miekg.TypeA, now,
			update{remove: now.Addresses[:1]},
			[]string{
				"api.example.com.\t0\tIN\tA\t10.0.0.11", "api.example.com.\t0\tIN\tA\t10.0.0.12", "NONE\tA\t10.0.0.11",
			},
		},
		"first": {
			miekg.TypeA,
			recordSet{},
			update{add: now.Addresses[:1]},
			[]string{"NONE\tA", "api.example.com.\t5\tIN\tA\t10.0.0.11"},
		},
		"IPv6": {
			miekg.TypeAAAA,
			recordSet{},
			update{add: addresses(t, "fd00::11")},
			[]string{"NONE\tAAAA", "api.example.com.\t5\tIN\tAAAA\tfd00::11"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := testZone(c.family).message(c.now, c.update)
			wire, err := m.Pack()
			if err != nil {
				t.Fatal(err)
			}
			var sent miekg.Msg
			if err := sent.Unpack(wire); err != nil {
				t.Fatal(err)
			}
			text := sent.String()
			for _, want := range c.want {
				_, after, ok := strings.Cut(text, want)
				if !ok {
					t.Fatalf("%q is missing, or not in this order:\n%s", want, sent.String())
				}
				text = after
			}
		})
	}
}

func TestAddressesIn(t *testing.T) {
	var rrs []miekg.RR
	for _, text := range []string{
		"API.example.com. 7 IN A 10.0.0.12", "api.example.com. 7 IN A 10.0.0.11", "other.example.com. 7 IN A 10.0.0.13",
	} {
		rr, err := miekg.NewRR(text)
		if err != nil {
			t.Fatal(err)
		}
		rrs = append(rrs, rr)
	}
	set, alias := addressesIn(rrs, "api.example.com")
	if addressList(set.Addresses) != "10.0.0.11, 10.0.0.12" || set.TTL != 7*time.Second || alias != "" {
		t.Errorf("read %+v, alias %q", set, alias)
	}
	aaaa, _ := miekg.NewRR("api.example.com. 7 IN AAAA fd00::11")
	if set, _ := addressesIn([]miekg.RR{aaaa}, "api.example.com"); addressList(set.Addresses) != "fd00::11" {
		t.Errorf("read %+v", set)
	}
	cname, _ := miekg.NewRR("api.example.com. 7 IN CNAME lb.example.net.")
	set, alias = addressesIn([]miekg.RR{cname}, "api.example.com")
	if len(set.Addresses) != 0 || alias != "lb.example.net." {
		t.Errorf("read %+v, alias %q", set, alias)
	}
}

// TestReached: serial numbers wrap around.
func TestReached(t *testing.T) {
	for _, c := range []struct {
		serial, wanted uint32
		want           bool
	}{{5, 5, true}, {6, 5, true}, {4, 5, false}, {1, 0xffffffff, true}, {0xffffffff, 1, false}} {
		if got := reached(c.serial, c.wanted); got != c.want {
			t.Errorf("reached(%d, %d) is %v", c.serial, c.wanted, got)
		}
	}
}

// TestRefusal: what a server's answer means.
func TestRefusal(t *testing.T) {
	for rcode, want := range map[int]error{
		miekg.RcodeSuccess: nil, miekg.RcodeNameError: nil, miekg.RcodeNXRrset: errChanged,
		miekg.RcodeYXRrset: errChanged, miekg.RcodeRefused: errRefused, miekg.RcodeNotAuth: errNotInZone,
		miekg.RcodeNotZone: errNotInZone, miekg.RcodeServerFailure: errRefused,
	} {
		answer := &miekg.Msg{MsgHdr: miekg.MsgHdr{Rcode: rcode}}
		if got := refusal(answer); !errors.Is(got, want) || (want == nil) != (got == nil) {
			t.Errorf("%s: %v, want %v", miekg.RcodeToString[rcode], got, want)
		}
	}
	answer := &miekg.Msg{MsgHdr: miekg.MsgHdr{Rcode: miekg.RcodeNotAuth}}
	answer.SetTsig("key.", miekg.HmacSHA256, 300, 0)
	answer.IsTsig().Error = miekg.RcodeBadKey
	if got := refusal(answer); !errors.Is(got, errSignature) || !strings.Contains(got.Error(), "BADKEY") {
		t.Errorf("an unknown key: %v", got)
	}
}

// TestUnsigned: an answer without a signature, to a request that has one, is not believed: anybody on the path could
// have sent it.
func TestUnsigned(t *testing.T) {
	z := testZone(miekg.TypeA)
	z.Server, z.key = "10.0.0.53:53", &Key{Algorithm: "hmac-sha256", Secret: "c2VjcmV0IG9mIGEgdGVzdA=="}
	z.dial = func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			conn := &miekg.Conn{Conn: far}
			asked, _ := conn.ReadMsg() // its signature cannot be verified here
			_ = conn.WriteMsg(new(miekg.Msg).SetReply(asked))
		}()
		return near, nil
	}
	if _, err := z.exchange(t.Context(), z.Server, question("example.com", miekg.TypeSOA)); !errors.Is(err, errSignature) {
		t.Errorf("got %v", err)
	}
	if _, err := z.exchange(t.Context(), "10.0.0.54:53", question("example.com", miekg.TypeSOA)); err != nil {
		t.Errorf("a server that is asked without a key: %v", err)
	}
}

// TestAllAddressesAreAwaited: a name server with two addresses may be two machines, of which one is late.
func TestAllAddressesAreAwaited(t *testing.T) {
	rr := func(text string) miekg.RR {
		parsed, err := miekg.NewRR(text)
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	for serial, spread := range map[string]bool{"7": true, "6": false} { // of the second address
		serialAt := map[string]string{"10.0.0.53:53": "7", "10.0.0.54:53": "7", "10.0.0.55:53": serial}
		z := testZone(miekg.TypeA)
		z.Server = "10.0.0.53:53"
		z.dial = func(_ context.Context, _, server string) (net.Conn, error) {
			near, far := net.Pipe()
			answers := map[uint16][]miekg.RR{
				miekg.TypeNS:  {rr("example.com. NS ns.example.com.")},
				miekg.TypeA:   {rr("ns.example.com. A 10.0.0.54"), rr("ns.example.com. A 10.0.0.55")},
				miekg.TypeSOA: {rr("example.com. SOA ns.example.com. admin.example.com. " + serialAt[server] + " 1 1 1 1")},
			}
			go func() {
				conn := &miekg.Conn{Conn: far}
				asked, err := conn.ReadMsg()
				if err != nil {
					return
				}
				reply := new(miekg.Msg).SetReply(asked)
				reply.Authoritative, reply.Answer = true, answers[asked.Question[0].Qtype]
				_ = conn.WriteMsg(reply)
			}()
			return near, nil
		}
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if err := z.waitUntilSpread(ctx); (err == nil) != spread {
			t.Errorf("the second address has serial %s, the primary server 7: %v", serial, err)
		}
	}
	mixed := addresses(t, "::ffff:10.0.0.1", "fd00::1", "10.0.0.2")
	if got := addressList(ofFirstFamily(mixed)); got != "10.0.0.1, 10.0.0.2" {
		t.Errorf("of one family are %s", got)
	}
}
