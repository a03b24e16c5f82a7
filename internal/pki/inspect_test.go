package pki

import (
	"crypto/sha256"
	"encoding/hex"
	"reflect"
	"testing"
)

func TestInspect(t *testing.T) {
	b := bundle(t)
	pair := issue(t, b, EtcdPeer("cp1", "10.0.0.11"), now, 0)
	c := parse(t, pair.Certificate)
	sum := sha256.Sum256(c.Raw)
	want := Info{
		CommonName:  "cp1",
		Issuer:      "etcd-ca",
		DNSNames:    []string{"cp1", "localhost"},
		IPAddresses: []string{"10.0.0.11", "127.0.0.1", "::1"},
		Usage:       Server | Client,
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

func TestInspectRefuses(t *testing.T) {
	key := bundle(t).CA.PrivateKey
	for name, text := range map[string]string{
		"empty":                    "",
		"garbage":                  "garbage",
		"a key":                    key,
		"a key called certificate": relabel(key, "CERTIFICATE"),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Inspect(text)
			wantError(t, err, "inspect certificate: ", key)
			_, err = Fingerprint(text)
			wantError(t, err, "fingerprint of certificate: ", key)
		})
	}
}

// FuzzInspect looks for a panic in what reads certificates found on machines.
func FuzzInspect(f *testing.F) {
	b := bundle(f)
	f.Add(b.CA.Certificate)
	f.Add(issue(f, b, apiServer(), now, 0).Certificate)
	f.Add("-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n")
	f.Fuzz(func(t *testing.T, text string) {
		info, err := Inspect(text)
		if (err == nil) != (len(info.SHA256) == 64) {
			t.Errorf("fingerprint %q with error %v", info.SHA256, err)
		}
		b.Check(apiServer(), text, now)
	})
}
