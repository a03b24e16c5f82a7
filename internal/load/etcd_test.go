package load

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
)

// startEtcd runs a real etcd of one member within the test, which also advertises more addresses.
func startEtcd(t *testing.T, more ...string) (server *embed.Etcd, reach Etcd) {
	t.Helper()
	config := embed.NewConfig()
	config.Name, config.Dir = "cp1", t.TempDir()
	client, peer := url.URL{Scheme: "https", Host: freeAddress(t)}, url.URL{Scheme: "http", Host: freeAddress(t)}
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	for _, address := range more {
		config.AdvertiseClientUrls = append(config.AdvertiseClientUrls, url.URL{Scheme: "https", Host: address})
	}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	config.ClientAutoTLS, config.SelfSignedCertValidity = true, 1
	config.LogLevel, config.LogOutputs = "fatal", []string{"/dev/null"}
	config.UnsafeNoFsync = true
	server, err := embed.StartEtcd(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	<-server.Server.ReadyNotify()
	return server, Etcd{
		Endpoints: func() []string { return []string{client.String()} },
		TLS:       &tls.Config{InsecureSkipVerify: true}, // self-signed for this test
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// ask calls the etcd of this test.
func ask(t *testing.T, reach Etcd, question func(context.Context, *clientv3.Client) error) {
	t.Helper()
	m := &etcdMembers{dial: new(net.Dialer).DialContext, tls: reach.TLS, endpoints: reach.Endpoints}
	defer m.close()
	if err := m.callAny(t.Context(), question); err != nil {
		t.Fatal(err)
	}
}

func TestDirectWriter(t *testing.T) {
	_, reach := startEtcd(t)
	s := newStandIn(t, nil)
	cfg := s.config()
	cfg.Etcd = &reach
	report := s.during(cfg, 100)
	if broken := Verdict(report, generous()); len(broken) > 0 {
		t.Errorf("nothing happened, and the report says:\n%s", strings.Join(broken, "\n"))
	}
	if !report.HashesAgree() || report.Hashes.Members[0].Name != "cp1" || report.Hashes.Members[0].Hash == 0 {
		t.Errorf("hashes: %s", report.Hashes)
	}
	if c := report.Etcd; c.Acknowledged == 0 || c.Acknowledged != c.Writes.Tried {
		t.Errorf("direct writer: %+v", c)
	}
	ask(t, reach, func(ctx context.Context, member *clientv3.Client) error {
		left, err := member.Get(ctx, "\x00", clientv3.WithFromKey(), clientv3.WithCountOnly())
		if err == nil && left.Count != 0 {
			err = fmt.Errorf("the run left %d keys", left.Count)
		}
		return err
	})
}

// TestDirectWriterAlone covers a cluster that has no API server: lost writes are reported while
// the writer continues.
func TestDirectWriterAlone(t *testing.T) {
	_, reach := startEtcd(t)
	l, err := Start(t.Context(), Config{Etcd: &reach})
	if err != nil {
		t.Fatal(err)
	}
	if lost, err := l.Lost(t.Context()); err != nil || len(lost) > 0 {
		t.Errorf("lost are %q, %v", lost, err)
	}
	key := l.etcd.ledger.acknowledged()[0]
	ask(t, reach, func(ctx context.Context, member *clientv3.Client) error {
		_, err := member.Delete(ctx, key)
		return err
	})
	if lost, err := l.Lost(t.Context()); err != nil || !slices.Equal(lost, []string{key}) {
		t.Errorf("lost are %q, %v; want %q", lost, err, key)
	}
	report, err := l.Stop(t.Context())
	if err != nil || len(report.Lost()) != 1 || report.Acknowledged() == 0 || report.Etcd.Writes.Gap.Length == 0 {
		t.Errorf("%v\n%s", err, report)
	}
	if _, err := Start(t.Context(), Config{}); err == nil {
		t.Error("a load of nothing was started")
	}
}

// TestDirectWriterLoses: one endpoint is not that of a member, so it is not written to, and an
// acknowledged key is deleted while the writer runs.
func TestDirectWriterLoses(t *testing.T) {
	_, real := startEtcd(t)
	s := newStandIn(t, nil)
	nobody := "https://" + freeAddress(t) // after all servers, because one of them could get the port
	reach := Etcd{TLS: real.TLS, Endpoints: func() []string { return append(real.Endpoints(), nobody) }}
	cfg := s.config()
	cfg.Etcd = &reach
	l, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	for len(l.etcd.ledger.acknowledged()) < 5 && Sleep(t.Context(), time.Millisecond) == nil {
		continue
	}
	taken := l.etcd.ledger.acknowledged()[1]
	ask(t, real, func(ctx context.Context, member *clientv3.Client) error {
		_, err := member.Delete(ctx, taken)
		return err
	})
	report, err := l.Stop(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", report)
	if lost := report.Lost(); len(lost) != 1 || lost[0] != taken {
		t.Errorf("%s is lost, the report says %v", taken, lost)
	}
	if report.Etcd.Writes.Failed != 0 || report.Etcd.DialsRefused != 0 || report.Failed() != 0 {
		t.Errorf("an address without a member was written to: %s, %v", report.Etcd.Writes, report.Etcd.Errors)
	}
}

// TestHashOfAbsentMember: an unreachable member that etcd lists does not agree.
func TestHashOfAbsentMember(t *testing.T) {
	_, reach := startEtcd(t)
	ask(t, reach, func(ctx context.Context, member *clientv3.Client) error {
		_, err := member.MemberAddAsLearner(ctx, []string{"http://127.0.0.1:1"})
		return err
	})
	m := &etcdMembers{dial: new(net.Dialer).DialContext, tls: reach.TLS, endpoints: reach.Endpoints}
	defer m.close()
	got, err := m.hashes(t.Context())
	if err != nil || len(got.Members) != 2 || got.Agree() || got.Differ() {
		t.Errorf("%s, %v", got, err)
	}
}

func TestHashes(t *testing.T) {
	silent := errors.New("no answer")
	for name, c := range map[string]struct {
		members                []MemberHash
		agree, differ, crossed bool
	}{
		"none":        {nil, false, false, false},
		"the same":    {[]MemberHash{{Hash: 7, Compacted: 3}, {Hash: 7, Compacted: 3}}, true, false, false},
		"another":     {[]MemberHash{{Hash: 7, Compacted: 3}, {Hash: 8, Compacted: 3}}, false, true, false},
		"one silent":  {[]MemberHash{{Hash: 7}, {Err: silent}}, false, false, false},
		"all silent":  {[]MemberHash{{Err: silent}, {Err: silent}}, false, false, false},
		"compaction":  {[]MemberHash{{Hash: 7, Compacted: 3}, {Hash: 8, Compacted: 5}}, false, true, true},
		"compacted":   {[]MemberHash{{Hash: 7, Compacted: 3}, {Err: rpctypes.ErrCompacted}}, false, false, true},
		"zero hashes": {[]MemberHash{{}, {}}, true, false, false},
	} {
		h := Hashes{Members: c.members}
		if h.Agree() != c.agree || h.Differ() != c.differ || h.crossed() != c.crossed {
			t.Errorf("%s: agree %v, differ %v, crossed %v", name, h.Agree(), h.Differ(), h.crossed())
		}
	}
}

// TestAddressWithoutListener: a member advertises another address, where nobody listens. As with
// every client of etcd, no write fails. The refused connections are counted.
func TestAddressWithoutListener(t *testing.T) {
	_, reach := startEtcd(t, freeAddress(t))
	l, err := Start(t.Context(), Config{Etcd: &reach})
	if err != nil {
		t.Fatal(err)
	}
	for l.etcd.client.dials.refused.Load() == 0 || len(l.etcd.ledger.acknowledged()) < 10 {
		if Sleep(t.Context(), time.Millisecond) != nil {
			t.Fatal("nothing was refused")
		}
	}
	report, err := l.Stop(t.Context())
	if err != nil || report.Etcd.DialsRefused == 0 || report.Etcd.Writes.Failed != 0 {
		t.Errorf("%v\n%s", err, report)
	}
}

// TestMemberStops: the only member stops, and answers that it does so. The writes fail for the
// caller: they are counted as failed, and as excused until the excuse has reached its limit.
func TestMemberStops(t *testing.T) {
	server, reach := startEtcd(t)
	l, err := Start(t.Context(), Config{Etcd: &reach})
	if err != nil {
		t.Fatal(err)
	}
	server.Server.Stop()
	const more = 5
	for l.etcd.failed() < mostUnavailable+more {
		if Sleep(t.Context(), time.Millisecond) != nil {
			t.Fatal("no write failed")
		}
	}
	stopped := time.Since(l.begun)
	l.end()
	defer l.close()
	report := l.report(stopped)
	report.Hashes = &Hashes{Members: []MemberHash{{Name: "cp1", Hash: 1}}}
	t.Logf("%s", report)
	// One that meets the server while it stops is refused, and may be excused beyond the limit.
	w := report.EtcdWrites()
	if w.Excused < mostUnavailable || w.Excused > mostUnavailable+w.Refused || w.Unexcused() < more-w.Refused {
		t.Errorf("%s", w)
	}
	if violated := Verdict(report, Unnoticed()); len(violated) != 1 || !strings.HasPrefix(violated[0], "etcd: ") {
		t.Errorf("%q", violated)
	}
}

func (p *etcdWriter) failed() int {
	p.ledger.mu.Lock()
	defer p.ledger.mu.Unlock()
	return p.ledger.writes.Failed
}
