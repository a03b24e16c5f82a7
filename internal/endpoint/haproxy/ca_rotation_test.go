package haproxy

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// bundles are a cluster's PKI at each stage of a rotation of its authority.
func bundles(t *testing.T) []*pki.Bundle {
	t.Helper()
	b, err := pki.Generate(pki.Options{ClusterName: "prod", Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	stages := []*pki.Bundle{b}
	for generation := range 3 {
		stages = append(stages, rotated(t, stages[generation], generation+1, pki.Next{}))
	}
	return stages
}

func rotated(t *testing.T, b *pki.Bundle, generation int, authorities pki.Next) *pki.Bundle {
	t.Helper()
	next, err := b.Rotate(map[pki.Part]int{pki.KubernetesPart: generation}, authorities,
		pki.Options{Algorithm: b.Algorithm, Validity: 48 * time.Hour, Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// servingPair is what every API server has, for whatever address.
func servingPair(t *testing.T, b *pki.Bundle) pki.KeyPair {
	t.Helper()
	pair, err := b.Issue(pki.APIServer(pki.APIServerNames{
		NodeName: "cp1", ClusterDomain: "cluster.local",
		Advertise: "10.0.0.11",
	}), time.Now(), 24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// chainOf is what a server with the pair shows.
func chainOf(t *testing.T, b *pki.Bundle) []*x509.Certificate {
	t.Helper()
	pair := servingPair(t, b)
	served, err := tls.X509KeyPair([]byte(pair.Certificate), []byte(pair.PrivateKey))
	if err != nil {
		t.Fatal(err)
	}
	var chain []*x509.Certificate
	for _, der := range served.Certificate {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		chain = append(chain, c)
	}
	return chain
}

func TestDistrusted(t *testing.T) {
	stages, foreign := bundles(t), bundles(t)[0]
	roots := func(stage int) string { return stages[stage].Roots(pki.Kubernetes) }
	chains := [][]*x509.Certificate{
		chainOf(t, stages[0]), chainOf(t, stages[1]), chainOf(t, stages[2]),
		chainOf(t, stages[3]),
	}
	at := func(chain []*x509.Certificate) presented {
		return presented{server: serverAt("cp1", "10.0.0.11:6443"), chain: chain, serves: "lb"}
	}
	silent := func(serves string) presented {
		return presented{server: serverAt("cp1", "10.0.0.11:6443"), silent: errors.New("connection refused"), serves: serves}
	}
	const old = `cp1 (10.0.0.11:6443): its certificate is signed by "kubernetes", which would no longer be trusted`
	tests := map[string]struct {
		before  string
		after   string
		replica presented
		want    []string
	}{
		"a certificate of the first stage":        {roots(2), roots(3), at(chains[0]), []string{old}},
		"a certificate of the second stage":       {roots(2), roots(3), at(chains[1]), []string{old}},
		"a certificate of the third stage":        {roots(2), roots(3), at(chains[2]), nil},
		"a certificate after the rotation":        {roots(2), roots(3), at(chains[3]), nil},
		"two stages at once":                      {roots(0), roots(3), at(chains[0]), []string{old}},
		"two stages back":                         {roots(3), roots(0), at(chains[0]), nil}, // it is not accepted as it is
		"two stages back, of the newer authority": {roots(3), roots(0), at(chains[2]), nil},
		// by way of the cross certificate
		"from no verification":                    {"", roots(3), at(chains[0]), []string{old}},
		"from no verification to what it shows":   {"", roots(0), at(chains[0]), nil},
		"a stranger, who was not accepted before": {roots(2), roots(3), at(chainOf(t, foreign)), nil},
		"no answer": {roots(2), roots(3), silent(""), nil},
		"no answer, and yet it serves": {
			roots(2), roots(3), silent("lb"),
			[]string{"cp1 (10.0.0.11:6443): lb reports it as healthy, but it presented no certificate (connection refused): " +
				"apply again when it answers"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := distrusted(map[string]string{"lb": test.before, "other": roots(3)}, test.after, []presented{test.replica},
				time.Now())
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q", got)
			}
		})
	}
	t.Run("an expired certificate loses nothing", func(t *testing.T) {
		if got := distrusted(map[string]string{"lb": roots(2)}, roots(3), []presented{at(chains[0])},
			time.Now().Add(25*time.Hour)); got != nil {
			t.Errorf("got %q", got)
		}
	})
}

func TestUnverifiable(t *testing.T) {
	stages := bundles(t)
	a, both, b := stages[0].Roots(pki.Kubernetes), stages[1].Roots(pki.Kubernetes), stages[3].Roots(pki.Kubernetes)
	for name, test := range map[string]struct {
		before map[string]string
		after  string
		want   map[string]string
	}{
		"one more":                   {map[string]string{"lb": a}, both, nil},
		"one less":                   {map[string]string{"lb": both}, b, map[string]string{"lb": both}},
		"another":                    {map[string]string{"lb": a}, b, map[string]string{"lb": a}},
		"the same in another form":   {map[string]string{"lb": "# a\n" + a}, a, nil},
		"in another order":           {map[string]string{"lb": b + a}, both, nil},
		"from no verification":       {map[string]string{"lb": ""}, a, map[string]string{"lb": ""}},
		"one of two balancers":       {map[string]string{"x": a, "y": both}, a, map[string]string{"y": both}},
		"nothing was there to begin": {nil, a, nil},
	} {
		if got := unverifiable(test.before, test.after); !maps.Equal(got, test.want) {
			t.Errorf("%s: it loses %d, want %d", name, len(got), len(test.want))
		}
	}
}

func TestHealthyOn(t *testing.T) {
	replica := serverAt("cp1", "10.0.0.11:6443")
	on := func(name, address, status string) balancer {
		return balancer{stats: []stat{{Name: name, Address: netip.MustParseAddrPort(address), Status: status}}}
	}
	for want, seen := range map[string]map[string]balancer{
		"": {
			"a": on("cp1", "10.0.0.11:6443", "DOWN"), "b": on("cp1", "10.0.0.99:6443", "UP"),
			"c": on("cp2", "10.0.0.11:6443", "UP"), "d": {},
		},
		"b": {
			"a": on("cp1", "10.0.0.11:6443", "DRAIN"), "b": on("cp1", "10.0.0.11:6443", "UP 1/3"),
			"c": on("cp1", "10.0.0.11:6443", "UP"),
		},
	} {
		if got := healthyOn(replica, seen); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestKeepTrustCostsNothing: no replica is asked where nothing is taken away.
// Of these hosts none could be asked for anything.
func TestKeepTrustCostsNothing(t *testing.T) {
	s := threeHosts()
	s.CACertificate = bundles(t)[0].Roots(pki.Kubernetes)
	seen := map[string]balancer{"cp1": asRendered(s, "cp1"), "cp2": {unreachable: errors.New("no route")}, "cp3": {}}
	if err := checkTrust(t.Context(), s, "changed", seen); err != nil {
		t.Errorf("with the same authorities: %v", err)
	}
	s.CACertificate = ""
	if err := checkTrust(t.Context(), s, "changed", seen); err != nil {
		t.Errorf("with no verification: %v", err)
	}
}

// subordinate is an authority that another one has signed, with that one after it.
func subordinate(t *testing.T, above pki.KeyPair, name string) pki.KeyPair {
	t.Helper()
	parent, err := tls.X509KeyPair([]byte(above.Certificate), []byte(above.PrivateKey))
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Minute),
		NotAfter: time.Now().Add(48 * time.Hour),
		IsCA:     true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, parent.Leaf, &key.PublicKey, parent.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pki.KeyPair{
		Certificate: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})) + above.Certificate,
		PrivateKey:  string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private})),
	}
}
