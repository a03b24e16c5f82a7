package pki

import (
	"crypto/rsa"
	"crypto/x509"
	"slices"
	"testing"
)

// TestPublicKeysIn: a key is the same in either form, with a text before it or not.
func TestPublicKeysIn(t *testing.T) {
	b, err := Generate(Options{ClusterName: "prod", Algorithm: RSA2048, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	text := b.ServiceAccount.PublicKey
	want, err := PublicKeysIn(text)
	if err != nil || len(want) != 1 {
		t.Fatalf("%d keys, %v", len(want), err)
	}
	key, err := parsePublicKey(text)
	if err != nil {
		t.Fatal(err)
	}
	of, ok := key.(*rsa.PublicKey)
	if !ok {
		t.Fatalf("the key is a %T", key)
	}
	older := "a text\n" + encodePEM("RSA PUBLIC KEY", x509.MarshalPKCS1PublicKey(of))
	if got, err := PublicKeysIn(older); err != nil || !slices.Equal(got, want) {
		t.Errorf("the older form has other keys: %v", err)
	}
	if got, err := PublicKeysIn(older + text); err != nil || len(got) != 2 {
		t.Errorf("%d keys of two, %v", len(got), err)
	}
	if got, err := PublicKeysIn("x"); err != nil || len(got) > 0 {
		t.Errorf("a text without keys has %d, %v", len(got), err)
	}
	for _, kind := range []string{"RSA PUBLIC KEY", "PUBLIC KEY"} {
		if _, err := PublicKeysIn(encodePEM(kind, []byte("x"))); err == nil {
			t.Errorf("a damaged %s is read", kind)
		}
	}
}
