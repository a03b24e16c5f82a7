package dns

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	miekg "github.com/miekg/dns"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// TestUnused: the record of a target without a replica is removed if another one leads to a replica that is ready. The
// drift of one that stays says why, and that of one that the next Update removes does not.
func TestUnused(t *testing.T) {
	notReady := errors.New("not ready")
	serving := targets.Target{Name: "cp1", Address: "10.0.0.11", Replica: targets.Replica{Name: "cp1"}}
	failing := serving
	failing.NotReady = notReady
	empty := targets.Target{Name: "cp2", Address: "10.0.0.12", NotReady: notReady}
	foreign, related, unseen := empty, empty, empty
	foreign.Other = `replica "a" of endpoint "haproxy 10.0.0.9"`
	related.Other, related.SameCluster = `replica "cp2" of endpoint "external api.example.com"`, true
	unseen.Unreachable = host.ErrUnreachable
	unseen.NotReady = nil // another machine has asked it
	elsewhere := unseen
	elsewhere.Name, elsewhere.Address = "cp1", "10.0.0.11"
	both := []string{"10.0.0.11", "10.0.0.12"}
	const byHand = "delete the record on the name server"
	for name, c := range map[string]struct {
		records       []string
		first, second targets.Target
		removed       string
		drift         string // a part of it; "" means none
	}{
		"nothing is there":                 {both, serving, empty, "10.0.0.12", "cp2 (10.0.0.12), which has no replica"},
		"another cluster is there":         {both, serving, foreign, "10.0.0.12", foreign.Other},
		"it serves the cluster":            {both, serving, related, "", "additional_endpoints"},
		"it cannot be observed":            {both, serving, unseen, "", ""},
		"it has no record":                 {both[:1], serving, empty, "", ""},
		"no replica is ready":              {both, failing, empty, "", byHand},
		"the replica has no record":        {both[1:], serving, empty, "", byHand},
		"the other one cannot be observed": {both, elsewhere, empty, "", byHand},
	} {
		t.Run(name, func(t *testing.T) {
			now := recordSet{Addresses: addresses(t, c.records...), TTL: testSpec().Zone.TTL}
			seen := targets.Observed{"cp1": c.first, "cp2": c.second}
			u := unused(now, seen)
			if addressList(u.remove) != c.removed || len(u.add) > 0 {
				t.Errorf("the update is %+v, wanted to remove %q", u, c.removed)
			}
			drift := strings.Join(testRegistrar(nil).drift(now, seen), "\n")
			if (drift == "") != (c.drift == "") || !strings.Contains(drift, c.drift) {
				t.Errorf("drift %q lacks %q", drift, c.drift)
			}
			if c.removed != "" && strings.Contains(drift, "stays") {
				t.Errorf("%q: an apply removes it", drift)
			}
		})
	}
}

// TestRemoveUnused: an Update leaves no record, and so no drift, of a target without a replica.
func TestRemoveUnused(t *testing.T) {
	r, primary := withPrimary(t, nil, "10.0.0.11", "10.0.0.12")
	r.zone.TTL, primary.ttl = testSpec().Zone.TTL, testSpec().Zone.TTL
	seen := targets.Observed{
		"cp1": {Name: "cp1", Address: "10.0.0.11", Replica: targets.Replica{Name: "cp1"}},
		"cp2": {Name: "cp2", Address: "10.0.0.12", NotReady: errors.New("its machine has no replica")},
	}
	for range 2 { // the second Update has nothing to do
		drift, err := r.removeUnused(t.Context(), seen)
		if err != nil || len(drift) > 0 {
			t.Fatalf("drift %q, %v", drift, err)
		}
		if got := addressList(primary.addresses); got != "10.0.0.11" || primary.changes != 1 {
			t.Errorf("the records are %s after %d changes", got, primary.changes)
		}
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.removeUnused(cancelled, seen); err == nil {
		t.Error("an observation that was cut off is no reason to say that nothing differs")
	}
}

// primary is a stand-in for the primary name server of a zone: it knows the addresses of one name, and updates
// of them.
type primary struct {
	mu        sync.Mutex
	addresses []netip.Addr
	ttl       time.Duration
	refuses   bool // updates
	changes   int
}

// start returns where the server listens.
func (p *primary) start(t *testing.T, key Key) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &miekg.Server{
		Listener: listener, Handler: miekg.HandlerFunc(p.answer),
		TsigSecret:    map[string]string{"api-key.": key.Secret},
		MsgAcceptFunc: func(miekg.Header) miekg.MsgAcceptAction { return miekg.MsgAccept }, // also updates
	}
	go func() { _ = server.ActivateAndServe() }()
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String()
}

func (p *primary) answer(w miekg.ResponseWriter, asked *miekg.Msg) {
	p.mu.Lock()
	defer p.mu.Unlock()
	reply := new(miekg.Msg).SetReply(asked)
	reply.Authoritative = true
	z := testZone(miekg.TypeA)
	z.TTL = p.ttl
	switch kind := asked.Question[0].Qtype; {
	case asked.Opcode == miekg.OpcodeUpdate && w.TsigStatus() != nil: // of another key; the answer is not signed
	case asked.Opcode == miekg.OpcodeUpdate && p.refuses:
		reply.Rcode = miekg.RcodeRefused
	case asked.Opcode == miekg.OpcodeUpdate:
		before := slices.Clone(p.addresses)
		defer func() {
			if !slices.Equal(before, p.addresses) {
				p.changes++
			}
		}()
		for _, rr := range asked.Ns { // of class NONE: to be deleted (RFC 2136, section 2.5.4)
			changed, _ := addressesIn([]miekg.RR{rr}, z.host)
			p.addresses = slices.DeleteFunc(p.addresses, func(a netip.Addr) bool {
				return slices.Contains(changed.Addresses, a)
			})
			if rr.Header().Class == miekg.ClassINET {
				p.addresses = append(p.addresses, changed.Addresses...)
			}
		}
	case kind == miekg.TypeSOA:
		soa, _ := miekg.NewRR("example.com. 5 IN SOA ns.example.com. admin.example.com. 1 1 1 1 1")
		reply.Answer = []miekg.RR{soa}
	case kind == miekg.TypeA:
		reply.Answer = z.rrs(p.addresses)
	}
	if signature := asked.IsTsig(); signature != nil && w.TsigStatus() == nil {
		reply.SetTsig(signature.Hdr.Name, signature.Algorithm, signatureFudge, int64(signature.TimeSigned))
	}
	_ = w.WriteMsg(reply)
}
