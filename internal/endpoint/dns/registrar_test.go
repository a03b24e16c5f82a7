package dns

import (
	"context"
	"encoding/base64"
	"net"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
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
