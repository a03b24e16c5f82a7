package pki

import (
	"crypto/x509"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

func TestGenerate(t *testing.T) {
	b := bundle(t)
	if len(b.ClusterID) != 32 {
		t.Errorf("cluster id %q has not 128 bits in hex", b.ClusterID)
	}
	if b.Algorithm != ECDSAP256 {
		t.Errorf("default algorithm is %s", b.Algorithm)
	}
	for _, a := range []struct {
		name string
		pair KeyPair
	}{{"kubernetes", b.CA}, {"etcd-ca", b.EtcdCA}, {"front-proxy-ca", b.FrontProxyCA}} {
		info := mustInspect(t, a.pair.Certificate)
		if info.CommonName != a.name || info.Issuer != "CN="+a.name || !slices.Equal(info.DNSNames, []string{a.name}) ||
			!info.IsCA {
			t.Errorf("%s: got %+v", a.name, info)
		}
		if !info.NotBefore.Equal(now.Add(-5*time.Minute)) || !info.NotAfter.Equal(now.Add(3650*24*time.Hour)) {
			t.Errorf("%s: valid from %s to %s", a.name, info.NotBefore, info.NotAfter)
		}
		if !strings.HasPrefix(a.pair.PrivateKey, "-----BEGIN EC PRIVATE KEY-----\n") {
			t.Errorf("%s: key is not in kubeadm's form", a.name)
		}
	}
	if !strings.HasPrefix(b.ServiceAccount.PublicKey, "-----BEGIN PUBLIC KEY-----\n") ||
		b.ServiceAccount.Certificate != "" {
		t.Error("service account is not a bare public key")
	}
	if err := b.Validate(); err != nil {
		t.Error(err)
	}
}

func TestGenerateAlgorithms(t *testing.T) {
	tests := map[Algorithm]struct {
		kind      x509.PublicKeyAlgorithm
		signature x509.SignatureAlgorithm
		header    string
	}{
		ECDSAP256: {x509.ECDSA, x509.ECDSAWithSHA256, "EC PRIVATE KEY"},
		ECDSAP384: {x509.ECDSA, x509.ECDSAWithSHA384, "EC PRIVATE KEY"},
		RSA2048:   {x509.RSA, x509.SHA256WithRSA, "RSA PRIVATE KEY"},
		RSA3072:   {x509.RSA, x509.SHA256WithRSA, "RSA PRIVATE KEY"},
		RSA4096:   {x509.RSA, x509.SHA256WithRSA, "RSA PRIVATE KEY"},
	}
	for algorithm, want := range tests {
		t.Run(string(algorithm), func(t *testing.T) {
			if testing.Short() && (algorithm == RSA3072 || algorithm == RSA4096) {
				testrun.Elsewhere(t, "it runs without -short")
			}
			pair, err := newAuthority("kubernetes", Options{Algorithm: algorithm, Validity: time.Hour, Now: now})
			if err != nil {
				t.Fatal(err)
			}
			c, _, err := pair.authority()
			if err != nil {
				t.Fatal(err)
			}
			if c.PublicKeyAlgorithm != want.kind || c.SignatureAlgorithm != want.signature {
				t.Errorf("got %s signed with %s", c.PublicKeyAlgorithm, c.SignatureAlgorithm)
			}
			if !strings.HasPrefix(pair.PrivateKey, "-----BEGIN "+want.header+"-----\n") {
				t.Errorf("key is not a PEM %s", want.header)
			}
		})
	}
}

func TestGenerateRefuses(t *testing.T) {
	tests := map[string]struct {
		options Options
		wantErr string
	}{
		"no name":           {Options{}, "cluster name is empty"},
		"bad name":          {Options{ClusterName: "my cluster"}, `cluster name "my cluster" must be`},
		"long name":         {Options{ClusterName: strings.Repeat("a", 64)}, "1 to 63"},
		"unknown algorithm": {Options{ClusterName: "prod", Algorithm: "ED25519"}, `unknown key algorithm "ED25519"`},
		"negative validity": {Options{ClusterName: "prod", Validity: -time.Hour}, "negative"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.options.Now = now
			_, err := Generate(test.options)
			wantError(t, err, test.wantErr)
		})
	}
}

func TestNewClusterIDDiffers(t *testing.T) {
	first, second := NewClusterID(), NewClusterID()
	if first == second {
		t.Error("two cluster ids are the same")
	}
}
