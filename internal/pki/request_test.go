package pki

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"slices"
	"testing"
	"time"
)

// signExternally is a signer with the authority's key: it takes the request's names and key, and
// applies change.
func signExternally(
	t testing.TB, authority KeyPair, request string, usage Usage, change func(*x509.Certificate),
) string {
	t.Helper()
	csr := requestOf(t, request)
	parent, key, err := authority.authority()
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(int64(len(request)) + time.Now().UnixNano()), Subject: csr.Subject,
		DNSNames: csr.DNSNames, IPAddresses: csr.IPAddresses, NotBefore: now.Add(-time.Minute), NotAfter: now.Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: usage.extended(),
	}
	if change != nil {
		change(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, csr.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return encodePEM("CERTIFICATE", der)
}

func requestOf(t testing.TB, text string) *x509.CertificateRequest {
	t.Helper()
	block, rest := pem.Decode([]byte(text))
	if block == nil || block.Type != "CERTIFICATE REQUEST" || len(rest) > 0 {
		t.Fatal("it is not one PEM request")
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if err := csr.CheckSignature(); err != nil {
		t.Fatal(err)
	}
	return csr
}

// external returns a bundle whose kubernetes authority's key is external, and the authority
// with its key.
func external(t testing.TB) (*Bundle, KeyPair) {
	t.Helper()
	b := bundle(t)
	held := b.CA
	b.CA.PrivateKey = ""
	return &b, held
}

func TestRequestMatchesLeaf(t *testing.T) {
	b := bundle(t)
	keys := map[string]bool{}
	for _, l := range append(catalogue(), User("ann", "ops", "dev")) {
		t.Run(l.Name, func(t *testing.T) {
			text, key, err := b.Request(l)
			if err != nil {
				t.Fatal(err)
			}
			wantNoSecret(t, text, secretLine(key))
			csr := requestOf(t, text)
			names, err := parseHosts(l.Hosts)
			if err != nil {
				t.Fatal(err)
			}
			if csr.Subject.CommonName != l.CommonName || !slices.Equal(slices.Sorted(slices.Values(csr.Subject.Organization)),
				slices.Sorted(slices.Values(l.Organizations))) {
				t.Errorf("it is for %s", csr.Subject)
			}
			if dnsNames, addresses, err := l.Names(); err != nil || !slices.Equal(dnsNames, names.dns) ||
				!slices.Equal(addresses, names.addresses) {
				t.Errorf("it says that its names are %q and %q: %v", dnsNames, addresses, err)
			}
			if !slices.Equal(slices.Sorted(slices.Values(csr.DNSNames)), names.dns) ||
				!slices.Equal(addressTexts(csr.IPAddresses),
					addressTexts(parse(t, issue(t, b, l, now, 0).Certificate).IPAddresses)) {
				t.Errorf("names are %q and %q", csr.DNSNames, csr.IPAddresses)
			}
			private, err := parseKey(key)
			if err != nil || !samePublicKey(private.Public(), csr.PublicKey) || keys[key] {
				t.Errorf("the key is not the request's, or an old one: %v", err)
			}
			keys[key] = true
		})
	}
	for wantErr, l := range map[string]Leaf{
		"request x certificate: common name is empty": {Name: "x", Authority: Etcd, Usage: Client},
		"request apiserver certificate: host name is ": {
			Name: "apiserver", Authority: Kubernetes, CommonName: "x",
			Usage: Server, Hosts: []string{""},
		},
	} {
		text, key, err := b.Request(l)
		wantError(t, err, wantErr)
		if text != "" || key != "" {
			t.Error("a refused request")
		}
	}
}

// TestExternallySigned: a certificate that an external signer issued for a request equals that
// of Issue, if it can be used.
func TestExternallySigned(t *testing.T) {
	b, held := external(t)
	if err := b.Validate(); err != nil || !b.External(Kubernetes) || b.External(Etcd) {
		t.Fatalf("a bundle without the key of its authority: %v", err)
	}
	_, err := b.Issue(apiServer(), now, 0)
	if wantError(t, err, "authority kubernetes: its key is held elsewhere, and no signed certificate is given for "+
		"apiserver"); !errors.Is(err, ErrExternal) {
		t.Error("it is not ErrExternal")
	}
	request, key, err := b.Request(apiServer())
	if err != nil {
		t.Fatal(err)
	}
	_, otherKey, err := b.Request(apiServer())
	if err != nil {
		t.Fatal(err)
	}
	signed := func(change func(*x509.Certificate)) string {
		return signExternally(t, held, request, Server, change)
	}
	etcdCA := bundle(t).EtcdCA
	for name, test := range map[string]struct {
		pair    KeyPair
		wantErr string // "" if Issue returns the pair
	}{
		"good":           {KeyPair{Certificate: signed(nil), PrivateKey: key}, ""},
		"with a chain":   {KeyPair{Certificate: signed(nil) + held.Certificate, PrivateKey: key}, ""},
		"another key":    {KeyPair{Certificate: signed(nil), PrivateKey: otherKey}, "is not for the key of its request"},
		"no key":         {KeyPair{Certificate: signed(nil)}, "private key is missing"},
		"no certificate": {KeyPair{PrivateKey: key}, "apiserver certificate is empty"},
		"garbage":        {KeyPair{Certificate: "x", PrivateKey: key}, "apiserver certificate cannot be read"},
		"expired": {KeyPair{
			Certificate: signed(func(c *x509.Certificate) { c.NotAfter = now.Add(-time.Second) }),
			PrivateKey:  key,
		}, "apiserver certificate expired 0 minutes ago"},
		"a name less": {KeyPair{
			Certificate: signed(func(c *x509.Certificate) { c.IPAddresses = c.IPAddresses[1:] }),
			PrivateKey:  key,
		}, "apiserver certificate lacks"},
		"a name more": {KeyPair{Certificate: signed(func(c *x509.Certificate) {
			c.DNSNames = append(c.DNSNames, "evil.example")
		}), PrivateKey: key}, "also names evil.example"},
		"another subject": {KeyPair{
			Certificate: signed(func(c *x509.Certificate) { c.Subject.CommonName = "x" }),
			PrivateKey:  key,
		}, `is for "x" instead of`},
		"for clients": {
			KeyPair{Certificate: signExternally(t, held, request, Client, nil), PrivateKey: key},
			"may not be used by a server",
		},
		"another authority": {
			KeyPair{Certificate: signExternally(t, etcdCA, request, Server, nil), PrivateKey: key},
			"is signed by another authority",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := *b
			b.Signed = map[string]KeyPair{"apiserver": test.pair}
			got, err := b.Issue(apiServer(), now, 0)
			if test.wantErr != "" {
				wantError(t, err, test.wantErr, key, otherKey)
				if got != (KeyPair{}) {
					t.Error("a refused certificate comes with a key pair")
				}
				return
			}
			if err != nil || got != test.pair {
				t.Errorf("not the one that was signed: %v", err)
			}
		})
	}
}

// TestCheckOfSigned: a machine that still has the previous certificate is distinguished from
// one that has the certificate signed for it.
func TestCheckOfSigned(t *testing.T) {
	b, held := external(t)
	request, key, err := b.Request(apiServer())
	if err != nil {
		t.Fatal(err)
	}
	before, after := signExternally(t, held, request, Server, nil), signExternally(t, held, request, Server, nil)
	if wrong := b.Check(apiServer(), before, now); wrong != nil {
		t.Errorf("where none is given: %q", wrong)
	}
	b.Signed = map[string]KeyPair{"apiserver": {Certificate: after, PrivateKey: key}}
	if wrong := b.Check(apiServer(), after+"\n", now); wrong != nil {
		t.Errorf("the one that was signed: %q", wrong)
	}
	want := []string{"apiserver certificate is not the one that was signed for it"}
	if wrong := b.Check(apiServer(), after+held.Certificate, now); !slices.Equal(wrong, want) {
		t.Errorf("with another chain: %q", wrong)
	}
	if wrong := b.Check(apiServer(), before, now); !slices.Equal(wrong, want) {
		t.Errorf("the one of before: %q", wrong)
	}
	if wrong := b.Renewal(apiServer(), after, 0, now.Add(59*time.Minute)); wrong != nil {
		t.Errorf("what is signed elsewhere is renewed here: %q", wrong)
	}
	if encode(t, b) != encodeWithout(t, b) {
		t.Error("what belongs to one machine is in the bundle's text")
	}
}

func encodeWithout(t testing.TB, b *Bundle) string {
	t.Helper()
	without := *b
	without.Signed = nil
	return encode(t, &without)
}

func TestSignedPair(t *testing.T) {
	b := bundle(t)
	pair, other := issue(t, b, APIServerEtcdClient(), now, 0), issue(t, b, FrontProxyClient(), now, 0)
	intermediate := b.EtcdCA.Certificate
	got, err := SignedPair("issued by the signer\n"+pair.Certificate+"\n\n"+intermediate, pair.PrivateKey)
	if err != nil || got.Certificate != pair.Certificate+intermediate || got.PrivateKey != pair.PrivateKey {
		t.Errorf("got %v: %v", got, err)
	}
	for name, test := range map[string]struct{ certificates, key, wantErr string }{
		"another key":    {pair.Certificate, other.PrivateKey, "is not for the key of its request"},
		"no certificate": {"", pair.PrivateKey, "it is empty"},
		"a key beside": {
			pair.Certificate + pair.PrivateKey, pair.PrivateKey,
			"it holds a private key beside certificates",
		},
		"a request":        {encodePEM("CERTIFICATE REQUEST", []byte{1}), pair.PrivateKey, "it holds a certificate request"},
		"a damaged issuer": {pair.Certificate + encodePEM("CERTIFICATE", []byte{1}), pair.PrivateKey, "cannot be decoded"},
		"no key":           {pair.Certificate, "", "private key is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := SignedPair(test.certificates, test.key)
			wantError(t, err, test.wantErr, pair.PrivateKey, other.PrivateKey)
		})
	}
}
