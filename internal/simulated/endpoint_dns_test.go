package simulated

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	miekg "github.com/miekg/dns"
	"golang.org/x/crypto/ssh"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/dns"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
)

// nameServer is a stand-in for the primary name server of a zone. It knows the addresses of one name, and updates of
// them.
type nameServer struct {
	mu        sync.Mutex
	addresses []string
	updated   func() // after each update; nil for nothing
}

func (s *nameServer) set(addresses ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addresses = addresses
}

func (s *nameServer) has(address string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.addresses, address)
}

// start returns where the server listens.
func (s *nameServer) start(t *testing.T, key string, secret dns.Key) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &miekg.Server{
		Listener: listener, Handler: miekg.HandlerFunc(s.answer), TsigSecret: map[string]string{key + ".": secret.Secret},
		MsgAcceptFunc: func(miekg.Header) miekg.MsgAcceptAction { return miekg.MsgAccept }, // also updates
	}
	go func() { _ = server.ActivateAndServe() }()
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String()
}

func (s *nameServer) answer(w miekg.ResponseWriter, asked *miekg.Msg) {
	s.mu.Lock()
	defer s.mu.Unlock()
	reply := new(miekg.Msg).SetReply(asked)
	reply.Authoritative = true
	switch kind := asked.Question[0].Qtype; {
	case asked.Opcode == miekg.OpcodeUpdate:
		for _, rr := range asked.Ns {
			record, ok := rr.(*miekg.A)
			if !ok {
				continue
			}
			address := record.A.String()
			s.addresses = slices.DeleteFunc(s.addresses, func(a string) bool { return a == address })
			if record.Hdr.Class == miekg.ClassINET { // NONE is to be deleted (RFC 2136, section 2.5.4)
				s.addresses = append(s.addresses, address)
			}
		}
		if s.updated != nil {
			s.updated()
		}
	case kind == miekg.TypeSOA:
		soa, _ := miekg.NewRR("example.com. 5 IN SOA ns.example.com. admin.example.com. 1 1 1 1 1")
		reply.Answer = []miekg.RR{soa}
	case kind == miekg.TypeA:
		for _, address := range s.addresses {
			reply.Answer = append(reply.Answer, &miekg.A{
				Hdr: miekg.RR_Header{Name: asked.Question[0].Name, Rrtype: miekg.TypeA, Class: miekg.ClassINET, Ttl: 1},
				A:   netip.MustParseAddr(address).AsSlice(),
			})
		}
	}
	if signature := asked.IsTsig(); signature != nil && w.TsigStatus() == nil {
		reply.SetTsig(signature.Hdr.Name, signature.Algorithm, 300, int64(signature.TimeSigned))
	}
	_ = w.WriteMsg(reply)
}

// dnsOn returns the registrar of a dns endpoint for these machines of a control plane, whose zone has a record of each.
// further are name servers besides the primary one.
func dnsOn(t *testing.T, p plane, on []*machine, further ...string) (*dns.Registrar, *nameServer) {
	t.Helper()
	const key = "api-key"
	secret := dns.Key{Algorithm: "hmac-sha256", Secret: base64.StdEncoding.EncodeToString([]byte("a secret of this test"))}
	primary := &nameServer{}
	at := primary.start(t, key, secret)
	spec := dns.Spec{
		ClusterID: p.endpoint.ClusterID, Address: "api.example.com", Targets: map[string]string{},
		Zone: endpoint.Zone{
			Name: "example.com", Server: at, NameServers: append(further, at), TSIGKey: key, TTL: time.Second,
		},
	}
	names := map[string]string{}
	for _, m := range on {
		names[m.address], spec.Targets[m.name] = m.name, m.address
		primary.addresses = append(primary.addresses, m.address)
	}
	ids := []string{spec.Registration().ID()}
	observer := targets.NewObserver(p.machine, func(_ context.Context, address string) (targets.Replica, error) {
		return targets.Replica{Name: names[address], Port: 6443, ClusterID: spec.ClusterID, Endpoints: ids}, nil
	})
	return dns.New(observer, map[string]dns.Key{key: secret}).For(spec.Registration()), primary
}

// agentOn is a stand-in for the agent of a machine. It returns whether the agent may add the record. onHold is called
// when it may not any more.
func agentOn(m *machine, onHold func()) *atomic.Bool {
	registered := &atomic.Bool{}
	registered.Store(true)
	f := front(func(line string, channel ssh.Channel, honest func(io.Reader, io.Writer) error) error {
		switch {
		case strings.Contains(line, `rm -f "$config/registered"`):
			registered.Store(false)
			onHold()
			return nil
		case strings.Contains(line, `: >"$config/registered"`):
			registered.Store(true)
			_, err := io.WriteString(channel, "there\n")
			return err
		}
		return honest(channel, channel)
	})
	m.front.Store(&f)
	return registered
}

// TestDrainWithLastRecord: a replica that serves does not leave for a restart with the last record, unless it is the
// only one: an agent may remove the record of the other one after it was observed.
func TestDrainWithLastRecord(t *testing.T) {
	fleet, p := planeOn(t, 1)
	machines := fleet.clusters[0].machines
	leaver := machines[0]
	for _, count := range []int{1, 2} {
		r, primary := dnsOn(t, p, machines[:count])
		registered := agentOn(leaver, func() { primary.set(leaver.address) })
		err := r.Drain(t.Context(), leaver.name)
		var refusal *endpoint.Refusal
		if refused := errors.As(err, &refusal) && refusal.LastServing(); refused != (count > 1) || !refused && err != nil {
			t.Errorf("one of %d: %v", count, err)
		}
		if registered.Load() != (count > 1) || !primary.has(leaver.address) {
			t.Errorf("one of %d: its agent may add the record: %t; it is there: %t", count, registered.Load(),
				primary.has(leaver.address))
		}
	}
}

// TestUndoneDrain: a replica returns to rotation although a name server does not get the zone, which is why the drain
// has failed.
func TestUndoneDrain(t *testing.T) {
	fleet, p := planeOn(t, 1)
	machines := fleet.clusters[0].machines
	leaver := machines[0]
	r, primary := dnsOn(t, p, machines, "127.0.0.1:1")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	primary.updated = cancel // instead of a wait for the name server
	registered := agentOn(leaver, func() {})
	err := r.Drain(ctx, leaver.name)
	if err == nil || strings.Contains(err.Error(), "failed too") {
		t.Errorf("the drain ends with %v", err)
	}
	if !registered.Load() || !primary.has(leaver.address) {
		t.Errorf("its agent may add the record: %t; it is there: %t", registered.Load(), primary.has(leaver.address))
	}
}
