package pki

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/crypto/nacl/secretbox"
)

const plainText = "k8s\x00\n\x0c\n\x02v1\x12\x06Secret and what it contains"

// boxed encrypts as Kubernetes' secretbox provider does.
func boxed(key [32]byte, name string) []byte {
	nonce := [24]byte{1, 2, 3}
	return secretbox.Seal(append([]byte("k8s:enc:secretbox:v1:"+name+":"), nonce[:]...), []byte(plainText), &nonce, &key)
}

// chained encrypts as Kubernetes' aescbc provider does.
func chained(t *testing.T, key [32]byte, name string) []byte {
	t.Helper()
	block, err := aes.NewCipher(key[:])
	if err != nil {
		t.Fatal(err)
	}
	padding := aes.BlockSize - len(plainText)%aes.BlockSize
	data := append([]byte(plainText), bytes.Repeat([]byte{byte(padding)}, padding)...)
	iv := bytes.Repeat([]byte{7}, aes.BlockSize)
	cipher.NewCBCEncrypter(block, iv).CryptBlocks(data, data)
	return append(append([]byte("k8s:enc:aescbc:v1:"+name+":"), iv...), data...)
}

// TestDecrypts checks which values of etcd the API servers of a bundle can read.
func TestDecrypts(t *testing.T) {
	mine, other := [32]byte{1}, [32]byte{2}
	text := func(key [32]byte) string { return base64.StdEncoding.EncodeToString(key[:]) }
	box := Encryption{Kind: Secretbox, Resources: []string{"secrets"}, Name: "key1", Key: text(mine)}
	cbc := Encryption{Kind: AESCBC, Resources: []string{"secrets"}, Name: "key1", Key: text(mine)}
	kms := Encryption{Kind: KMS, Resources: []string{"secrets"}, Name: "vault"}
	for _, c := range []struct {
		name       string
		encryption Encryption
		value      []byte
		wantErr    string
	}{
		{name: "not encrypted", encryption: box, value: []byte(plainText)},
		{name: "not encrypted, and no keys", value: []byte(plainText)},
		{name: "secretbox", encryption: box, value: boxed(mine, "key1")},
		{name: "aescbc", encryption: cbc, value: chained(t, mine, "key1")},
		{name: "kms", encryption: kms, value: []byte("k8s:enc:kms:v2:vault:whatever the plugin has made of it, opaque")},
		{name: "only the beginning", encryption: box, value: boxed(other, "key1")[:headBytes]},
		{
			name: "another key of the same name", encryption: box, value: boxed(other, "key1"),
			wantErr: `encrypted with another secretbox key named "key1"`,
		},
		{
			name: "another aescbc key of the same name", encryption: cbc, value: chained(t, other, "key1"),
			wantErr: `encrypted with another aescbc key named "key1"`,
		},
		{name: "another name", encryption: box, value: boxed(mine, "key2"), wantErr: `secretbox key "key2"`},
		{name: "another kind", encryption: cbc, value: boxed(mine, "key1"), wantErr: `secretbox key "key1"`},
		{name: "no keys", value: boxed(mine, "key1"), wantErr: `secretbox key "key1"`},
		{
			name: "cut off in the ciphertext", encryption: cbc, value: chained(t, mine, "key1")[:60],
			wantErr: "another aescbc key",
		},
		{name: "cut off in the name", encryption: box, value: []byte("k8s:enc:secretbox:v1:ke")},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := &Bundle{Encryption: c.encryption}
			err := b.Decrypts(c.value)
			if c.wantErr == "" {
				if err != nil {
					t.Error(err)
				}
				closed := bytes.HasPrefix(c.value, []byte(encryptedPrefix)) &&
					(len(c.value) <= headBytes || c.encryption.Kind == KMS)
				if object, _ := b.Open(c.value); closed != (object == nil) || !closed && string(object) != plainText {
					t.Errorf("it opens as %q", object)
				}
				return
			}
			wantError(t, err, c.wantErr)
		})
	}
}

// TestReads: API servers read unencrypted objects only where one of their encryptions leaves them so.
func TestReads(t *testing.T) {
	box := Encryption{Kind: Secretbox, Resources: []string{"secrets"}, Name: "key1"}
	both := Encryption{Kind: Secretbox, Resources: []string{"configmaps", "secrets"}, Name: "key2"}
	encrypting := func(e Encryption, generation int, other Encryption) Bundle {
		return Bundle{Encryption: e, EncryptionRotation: Rotation[Encryption]{Generation: generation, Other: &other}}
	}
	for name, c := range map[string]struct {
		bundle   Bundle
		resource string
		next     string // "": it is readable
	}{
		"no encryption":               {Bundle{}, "secrets", ""},
		"from creation":               {Bundle{Encryption: box}, "secrets", "set rotation.encryption to 1"},
		"another resource":            {Bundle{Encryption: box}, "configmaps", ""},
		"turned on, introduced":       {encrypting(Encryption{}, 1, box), "secrets", ""},
		"turned on, adopted":          {encrypting(box, 2, Encryption{}), "secrets", ""},
		"turned on":                   {encrypting(box, 3, Encryption{}), "secrets", "back to 2"},
		"another key":                 {encrypting(box, 6, both), "secrets", "encryption to 7"},
		"another key, introduced":     {encrypting(box, 4, both), "secrets", "take the rot"},
		"more resources, introduced":  {encrypting(box, 4, both), "configmaps", ""},
		"more resources":              {encrypting(both, 6, box), "configmaps", "to 7"},
		"turned off":                  {encrypting(Encryption{}, 6, box), "secrets", ""},
		"turned off, only introduced": {encrypting(box, 4, Encryption{}), "secrets", ""},
	} {
		err := c.bundle.Reads(c.resource, []byte(plainText))
		if errors.Is(err, ErrUnencrypted) != (c.next != "") {
			t.Errorf("%s: %v", name, err)
		}
		if step := c.bundle.StepToRead(fmt.Errorf("x: %w", ErrUnencrypted)); !strings.Contains(step, c.next) {
			t.Errorf("%s: %q, want %q", name, step, c.next)
		}
		if err := c.bundle.Reads(c.resource, []byte("k8s:enc:aescbc:v1:key9:x")); err == nil {
			t.Errorf("%s: reads an object with an unknown key", name)
		}
	}
}
