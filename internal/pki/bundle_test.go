package pki

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
)

func TestEncodeParse(t *testing.T) {
	b := bundle(t)
	text := encode(t, &b)
	if !strings.HasPrefix(text, `{"format":1,"cluster_id":"`) {
		t.Errorf("text begins %.40q", text)
	}
	read, err := Parse(text, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(*read, b) {
		t.Error("Parse(Encode) is another bundle")
	}
	if encode(t, read) != text {
		t.Error("equal bundles have different texts")
	}
}

func TestParseAcceptsOtherForms(t *testing.T) {
	tests := map[string]func(b *Bundle){
		"text after the certificate": func(b *Bundle) { b.CA.Certificate += "\n\n" },
		"PKCS #8 and OpenSSL's parameters": func(b *Bundle) {
			b.CA.PrivateKey = "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n" + b.CA.PrivateKey
			b.EtcdCA.PrivateKey = pkcs8(t, b.EtcdCA.PrivateKey)
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			b := bundle(t)
			change(&b)
			if _, err := Parse(encode(t, &b), nil); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestParseRefusesBundles(t *testing.T) {
	leaf := issue(t, bundle(t), FrontProxyClient(), now, 0)
	tests := map[string]struct {
		change  func(b *Bundle)
		wantErr string
	}{
		"no cluster id":          {func(b *Bundle) { b.ClusterID = "" }, "cluster id must be 32"},
		"cluster id in capitals": {func(b *Bundle) { b.ClusterID = strings.Repeat("AB", 16) }, "cluster id must be 32"},
		"short cluster id":       {func(b *Bundle) { b.ClusterID = "abcd" }, "cluster id must be 32"},
		"no name":                {func(b *Bundle) { b.ClusterName = "" }, "cluster name is empty"},
		"unknown algorithm":      {func(b *Bundle) { b.Algorithm = "DSA" }, `unknown key algorithm "DSA"`},
		"no certificate": {
			func(b *Bundle) { b.CA.Certificate = "" },
			"authority kubernetes: certificate is missing",
		},
		"garbage certificate": {
			func(b *Bundle) { b.EtcdCA.Certificate = "x" },
			"authority etcd: certificate holds something else",
		},
		"certificate of no CA": {
			func(b *Bundle) { b.FrontProxyCA = leaf },
			"authority front-proxy: certificate is not one of an authority",
		},
		"key as certificate": {
			func(b *Bundle) { b.CA.Certificate = b.CA.PrivateKey },
			"something else than PEM certificates",
		},
		"key after certificate": {
			func(b *Bundle) { b.CA.Certificate += b.CA.PrivateKey },
			"something else than PEM certificates",
		},
		"damaged key before certificate": {
			func(b *Bundle) {
				b.CA.Certificate = strings.Replace(b.CA.PrivateKey, "\n", "\n!", 1) + b.CA.Certificate
			},
			"something else than PEM certificates",
		},
		"key without end before certificate": {
			func(b *Bundle) {
				key, _, _ := strings.Cut(b.CA.PrivateKey, "-----END")
				b.CA.Certificate = key + b.CA.Certificate
			},
			"something else than PEM certificates",
		},
		"key called certificate": {
			func(b *Bundle) { b.CA.Certificate = relabel(b.CA.PrivateKey, "CERTIFICATE") },
			"cannot be decoded",
		},
		"two unrelated CAs": {
			func(b *Bundle) { b.CA.Certificate += b.EtcdCA.Certificate },
			"is not followed by its issuer",
		},
		"garbage key": {
			func(b *Bundle) { b.CA.PrivateKey = b.CA.PrivateKey[:60] },
			"authority kubernetes: private key is not",
		},
		"certificate as key": {
			func(b *Bundle) { b.CA.PrivateKey = b.CA.Certificate },
			"authority kubernetes: private key is not",
		},
		"another authority's key": {
			func(b *Bundle) { b.CA.PrivateKey = b.EtcdCA.PrivateKey },
			"authority kubernetes: private key does not match",
		},
		"public key with CA": {
			func(b *Bundle) { b.CA.PublicKey = b.ServiceAccount.PublicKey },
			"belongs to the service account only",
		},
		"service account with CRT": {
			func(b *Bundle) { b.ServiceAccount.Certificate = b.CA.Certificate },
			"service account: has a certificate",
		},
		"no public key": {
			func(b *Bundle) { b.ServiceAccount.PublicKey = "" },
			"service account: public key is missing",
		},
		"garbage public key": {
			func(b *Bundle) { b.ServiceAccount.PublicKey = "x" },
			"service account: public key is not",
		},
		"undecodable public key": {
			func(b *Bundle) { b.ServiceAccount.PublicKey = relabel(b.CA.PrivateKey, "PUBLIC KEY") },
			"service account: public key cannot",
		},
		"another service account": {
			func(b *Bundle) { b.ServiceAccount.PrivateKey = b.CA.PrivateKey },
			"service account: private key does not match",
		},
		"one CA for two": {func(b *Bundle) { b.EtcdCA = b.CA }, "authority kubernetes and authority etcd have the same key"},
		"service account signs": {func(b *Bundle) {
			b.ServiceAccount = KeyPair{PublicKey: publicKey(t, b.CA), PrivateKey: b.CA.PrivateKey}
		}, "authority kubernetes and service account have the same key"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := bundle(t)
			keys := []string{b.CA.PrivateKey, b.EtcdCA.PrivateKey, b.FrontProxyCA.PrivateKey, b.ServiceAccount.PrivateKey}
			test.change(&b)
			_, err := Parse(encode(t, &b), nil)
			wantError(t, err, test.wantErr, keys...)
		})
	}
}

func TestParseRefusesTexts(t *testing.T) {
	b := bundle(t)
	text := encode(t, &b)
	tests := map[string]struct{ text, wantErr string }{
		"empty":         {" \n", "it is empty"},
		"no JSON":       {"hello", "not the JSON of a bundle"},
		"a bare key":    {b.CA.PrivateKey, "not the JSON of a bundle"},
		"a JSON string": {`"` + b.ClusterID + `"`, "not the JSON of a bundle"},
		"truncated":     {text[:len(text)/2], "not the JSON of a bundle"},
		"two bundles":   {text + text, "not the JSON of a bundle"},
		"no format":     {"{}", "no format version"},
		"newer format": {
			strings.Replace(text, `"format":1`, `"format":2`, 1),
			"format version 2, but this provider reads only version 1",
		},
		"unknown field": {
			strings.Replace(text, `"format":1`, `"format":1,"x":1`, 1),
			"a field that format version 1 does not have",
		},
		"field is number": {`{"format":1,"cluster_id":7}`, "wrong type"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(test.text, nil)
			wantError(t, err, test.wantErr, b.CA.PrivateKey)
		})
	}
}

func TestPrintingHidesKeys(t *testing.T) {
	b := bundle(t)
	leaf := issue(t, b, APIServerKubeletClient(), now, 0)
	secrets := []string{
		b.CA.PrivateKey, b.EtcdCA.PrivateKey, b.FrontProxyCA.PrivateKey, b.ServiceAccount.PrivateKey,
		leaf.PrivateKey,
	}
	values := []any{
		b, &b, leaf, &leaf, b.ServiceAccount,
		KeyPair{PrivateKey: leaf.PrivateKey},
		[]KeyPair{leaf},
		map[string]*Bundle{"b": &b},
		struct{ B *Bundle }{&b},
	}
	for _, value := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			wantNoSecret(t, fmt.Sprintf(verb, value), secrets...)
		}
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		wantNoSecret(t, string(text), secrets...)
		var log strings.Builder
		slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "value", value)
		slog.New(slog.NewTextHandler(&log, nil)).Info("x", "value", value)
		wantNoSecret(t, log.String(), secrets...)
	}
	if got := leaf.GoString(); !strings.HasPrefix(got, "KeyPair(kube-apiserver-kubelet-client, sha256 ") {
		t.Errorf("leaf prints as %s", got)
	}
	if got := b.GoString(); got != "Bundle(prod, id "+b.ClusterID+", ECDSA-P256)" {
		t.Errorf("bundle prints as %s", got)
	}
}

// FuzzParse searches for a panic, and for a text that Parse accepts but Encode does not
// reproduce, sealed or not.
func FuzzParse(f *testing.F) {
	own := seal(f, []string{fuzzIdentity})
	b := bundle(f)
	text := encode(f, &b)
	f.Add(text)
	f.Add(text[:len(text)/2])
	f.Add(`{"format":1}`)
	for _, p := range Parts() {
		for _, rotated := range stagesOf(f, encrypting(f), p, 3) {
			f.Add(encode(f, rotated))
			f.Add(sealed(f, rotated, own))
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		b, err := Parse(text, own)
		if err != nil {
			wantNoSecret(t, err.Error())
			return
		}
		for _, s := range []*Seal{nil, own} {
			if again, err := Parse(sealed(t, b, s), s); err != nil || !reflect.DeepEqual(again, b) {
				t.Errorf("does not survive a round trip: %v", err)
			}
		}
	})
}
