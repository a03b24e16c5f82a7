package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestInspect(t *testing.T) {
	b := bundle(t)
	pair := issue(t, b, EtcdPeer("cp1", "10.0.0.11"), now, 0)
	c := parse(t, pair.Certificate)
	sum := sha256.Sum256(c.Raw)
	want := Info{
		Subject:     "CN=cp1",
		CommonName:  "cp1",
		Issuer:      "CN=etcd-ca",
		DNSNames:    []string{"cp1", "localhost"},
		IPAddresses: []string{"10.0.0.11", "127.0.0.1", "::1"},
		Algorithm:   ECDSAP256,
		Usage:       Server | Client,
		Usages:      []string{"server auth", "client auth"},
		NotBefore:   c.NotBefore,
		NotAfter:    c.NotAfter,
		Serial:      c.SerialNumber.Text(16),
		SHA256:      hex.EncodeToString(sum[:]),
	}
	texts := map[string]string{
		"alone":       pair.Certificate,
		"with text":   "subject: cp1\n" + pair.Certificate + "trailer",
		"after a key": pair.PrivateKey + pair.Certificate,
		"in a chain":  pair.Certificate + b.EtcdCA.Certificate,
	}
	for name, text := range texts {
		t.Run(name, func(t *testing.T) {
			if got := mustInspect(t, text); !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
			if got, err := Fingerprint(text); err != nil || got != want.SHA256 {
				t.Errorf("fingerprint is %s, %v", got, err)
			}
		})
	}
}

// TestInspectForeign covers what no certificate of a bundle has.
func TestInspectForeign(t *testing.T) {
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	for name, test := range map[string]struct {
		key       crypto.Signer
		algorithm Algorithm
	}{
		"Ed25519": {must(ed, err), "Ed25519"},
		"P-521":   {must(ecdsa.GenerateKey(elliptic.P521(), rand.Reader)), "ECDSA-P521"},
		"RSA":     {must(rsa.GenerateKey(rand.Reader, 2048)), RSA2048},
	} {
		t.Run(name, func(t *testing.T) {
			info := mustInspect(t, selfSigned(t, test.key, x509.Certificate{
				Subject:            pkix.Name{CommonName: "a, b", Organization: []string{"x", "y"}, Country: []string{"CH"}},
				SerialNumber:       big.NewInt(0xbeef),
				ExtKeyUsage:        []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning, x509.ExtKeyUsageMicrosoftKernelCodeSigning},
				UnknownExtKeyUsage: []asn1.ObjectIdentifier{{1, 2, 3, 4}},
			}))
			if info.Algorithm != test.algorithm {
				t.Errorf("algorithm is %s, want %s", info.Algorithm, test.algorithm)
			}
			if want := `CN=a\, b,O=x+O=y,C=CH`; info.Subject != want || info.Issuer != want {
				t.Errorf("subject %s, issuer %s, want both %s", info.Subject, info.Issuer, want)
			}
			if want := []string{"code signing", "1.3.6.1.4.1.311.61.1.1", "1.2.3.4"}; !slices.Equal(info.Usages, want) {
				t.Errorf("usages %q, want %q", info.Usages, want)
			}
			if info.Serial != "beef" || info.Usage != 0 || info.IsCA {
				t.Errorf("serial %s, usage %d, authority %t", info.Serial, info.Usage, info.IsCA)
			}
		})
	}
}

// must unwraps the result of key generation, which fails only without a source of randomness.
func must(key crypto.Signer, err error) crypto.Signer {
	if err != nil {
		panic(err)
	}
	return key
}

func selfSigned(t *testing.T, key crypto.Signer, c x509.Certificate) string {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, &c, &c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return encodePEM("CERTIFICATE", der)
}

func TestInspectRefuses(t *testing.T) {
	ca := bundle(t).CA
	key, b := ca.PrivateKey, bundle(t)
	for name, test := range map[string]struct{ text, wantErr string }{
		"empty":                    {" \n", "it is empty"},
		"garbage":                  {"garbage", "it is no PEM text"},
		"a path":                   {"/etc/kubernetes/pki/ca.crt", "it is no PEM text"},
		"a key":                    {key, "it holds a private key"},
		"a PKCS #8 key":            {pkcs8(t, key), "it holds a private key"},
		"an encrypted key":         {relabel(key, "ENCRYPTED PRIVATE KEY"), "it holds a private key"},
		"both keys":                {publicKey(t, ca) + key + key, "it holds a public key and a private key"},
		"a key after its group":    {relabel(key, "EC PARAMETERS") + key, "it holds key parameters and a private key"},
		"a request":                {relabel(key, "CERTIFICATE REQUEST"), "it holds a certificate request"},
		"a revocation list":        {relabel(key, "X509 CRL"), "it holds a revocation list"},
		"another label":            {relabel(key, "SOMETHING"), "it holds a PEM block of another kind"},
		"half a certificate":       {ca.Certificate[:len(ca.Certificate)/2], "it holds a PEM block that is cut off"},
		"half a key":               {key[:len(key)/2], "it holds a PEM block that is cut off"},
		"line breaks as backslash": {strings.ReplaceAll(key, "\n", `\n`), "it holds a PEM block that is cut off or damaged"},
		"base64 of a certificate":  {encode64(ca.Certificate), "it is base64"},
		"base64 of a key":          {encode64(key), "it is base64"},
		"a bundle":                 {encode(t, &b), "it is JSON"},
		"a key called certificate": {relabel(key, "CERTIFICATE"), "the PEM certificate cannot be decoded"},
		"a certificate with a tail": {
			encodePEM("CERTIFICATE", append(parse(t, ca.Certificate).Raw, 0)),
			"the PEM certificate cannot be decoded",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Inspect(test.text)
			wantError(t, err, "inspect certificate: ", key, pkcs8(t, key), encode64(key))
			wantError(t, err, test.wantErr)
			_, err = Fingerprint(test.text)
			wantError(t, err, "fingerprint of certificate: ", key)
		})
	}
}

// FuzzInspect searches for a panic in the parsing of certificates from machines or users, for a
// part of a key in an error, and for text that Terraform could not pass on.
func FuzzInspect(f *testing.F) {
	b := bundle(f)
	f.Add(b.CA.Certificate)
	f.Add(issue(f, b, apiServer(), now, 0).Certificate)
	f.Add(encode64(b.CA.Certificate))
	f.Add("-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n")
	f.Fuzz(func(t *testing.T, text string) {
		info, err := Inspect(text)
		if (err == nil) != (len(info.SHA256) == 64) {
			t.Errorf("fingerprint %q with error %v", info.SHA256, err)
		}
		if err != nil {
			wantNoSecret(t, err.Error())
		}
		wantErr := slices.Concat([]string{info.Subject, info.CommonName, info.Issuer, info.Serial, string(info.Algorithm)},
			info.Organizations, info.DNSNames, info.IPAddresses, info.Usages)
		for _, word := range wantErr {
			if !utf8.ValidString(word) {
				t.Errorf("%q is not UTF-8", word)
			}
		}
		b.Check(apiServer(), text, now)
	})
}
