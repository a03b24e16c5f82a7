package etcd

import (
	"cmp"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/nacl/secretbox"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/etcdtest"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

func generated(t *testing.T) *pki.Bundle {
	t.Helper()
	b, err := pki.Generate(pki.Options{ClusterName: "prod", Algorithm: pki.ECDSAP256, Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestEmptiness: a snapshot to which nothing was ever written is not restored, and a survivor is.
func TestEmptiness(t *testing.T) {
	for _, c := range []struct {
		restore  machine.Restore
		revision int64
		refused  bool
	}{
		{machine.Restore{Bucket: "newest"}, 0, true},
		{machine.Restore{Snapshot: "/root/a.db"}, 0, true},
		{machine.Restore{Bucket: "newest"}, 2, false},
		{machine.Restore{Member: "cp1"}, 0, false},
	} {
		if got := emptiness(&c.restore, machine.Staged{Revision: c.revision}); len(got) > 0 != c.refused {
			t.Errorf("%+v at revision %d: %q", c.restore, c.revision, got)
		}
	}
}

// TestIdentityOf: an identity is read from its file. What is no path is in no error.
func TestIdentityOf(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key.txt")
	if err := os.WriteFile(file, []byte("AGE-SECRET-KEY-1X\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for at, want := range map[string]string{
		"": "", file: "", "/absent/key.txt": "no such file", "AGE-SECRET-KEY-1X": "not the content",
		"# SECRET\nAGE-SECRET-KEY-1X": "not the content",
	} {
		text, err := identityOf(&machine.Restore{IdentityFile: at})
		etcdtest.WantError(t, "identity "+at, err, want)
		if err != nil && strings.Contains(err.Error(), "SECRET") || (string(text) != "") != (at == file) {
			t.Errorf("identity %q: %q, %v", at, text, err)
		}
	}
}

// TestMisfits checks what of restored data proves that it is of another cluster.
func TestMisfits(t *testing.T) {
	b, other := generated(t), generated(t)
	configMap := func(b *pki.Bundle) []byte {
		return []byte("k8s\x00\n\x12ca.crt\x12" + b.Known(pki.Kubernetes) + "\x1a")
	}
	sealed := []byte("k8s:enc:secretbox:v1:key1:abcdefgh")
	key := [32]byte{1}
	b.Encryption = pki.Encryption{
		Kind: pki.Secretbox, Resources: []string{"configmaps"}, Name: "key2", Key: base64.StdEncoding.EncodeToString(key[:]),
	}
	boxed := func(value []byte, name string, key [32]byte) []byte {
		nonce := [24]byte{1}
		return secretbox.Seal(append([]byte("k8s:enc:secretbox:v1:"+name+":"), nonce[:]...), value, &nonce, &key)
	}
	clear := *b
	clear.Encryption = pki.Encryption{}
	withdrawn := *b
	withdrawn.WithdrawnKeys = []pki.Encryption{{Kind: pki.Secretbox, Resources: []string{"secrets"}, Name: "key1"}}
	adopted := *b
	adopted.EncryptionRotation = pki.Rotation[pki.Encryption]{Generation: int(pki.Adopted), Other: &pki.Encryption{}}
	for _, c := range []struct {
		name    string
		bundle  *pki.Bundle // nil is b
		data    machine.Staged
		otherCA bool
		want    []string
	}{
		{name: "nothing of Kubernetes"},
		{name: "this cluster", data: machine.Staged{CA: configMap(b)}},
		{name: "another cluster", data: machine.Staged{CA: configMap(other)}, want: []string{"accept_other_ca"}},
		{name: "another cluster, accepted", data: machine.Staged{CA: configMap(other)}, otherCA: true},
		{
			name: "another cluster, and a damaged certificate after it",
			data: machine.Staged{CA: append(configMap(other), "-----BEGIN CERTIFICATE-----\nAAAA\n"...)},
			want: []string{"accept_other_ca"},
		},
		{name: "a damaged certificate", data: machine.Staged{CA: []byte("-----BEGIN CERTIFICATE-----\nAAAA\n")}},
		{
			name: "an encryption key that is not in the bundle", otherCA: true,
			data: machine.Staged{Heads: [][]byte{sealed, sealed}}, want: []string{`secretbox key "key1"`},
		},
		{
			name: "an encryption key that was withdrawn", bundle: &withdrawn, otherCA: true,
			data: machine.Staged{Heads: [][]byte{sealed}}, want: []string{"first set rotation.encryption to 1"},
		},
		{
			name: "both", data: machine.Staged{CA: configMap(other), Samples: [][]byte{sealed}},
			want: []string{`secretbox key "key1"`, "accept_other_ca"},
		},
		{
			name: "unencrypted ConfigMaps", data: machine.Staged{Unencrypted: []string{"configmaps"}},
			want: []string{"configmaps are stored unencrypted"},
		},
		{
			name: "unencrypted ConfigMaps of another cluster, accepted", otherCA: true,
			data: machine.Staged{CA: configMap(other), Unencrypted: []string{"configmaps"}},
			want: []string{"set rotation.encryption to 1"},
		},
		{name: "unencrypted objects that the keys are not for", data: machine.Staged{Unencrypted: []string{"secrets"}}},
		{name: "without keys", bundle: &clear, data: machine.Staged{Unencrypted: []string{"configmaps"}}},
		{name: "at a stage that reads both", bundle: &adopted, data: machine.Staged{Unencrypted: []string{"configmaps"}}},
		{name: "this cluster, with encrypted ConfigMaps", data: machine.Staged{CA: boxed(configMap(b), "key2", key)}},
		{
			name: "another cluster, with encrypted ConfigMaps",
			data: machine.Staged{CA: boxed(configMap(other), "key2", key)}, want: []string{"accept_other_ca"},
		},
		{
			name: "ConfigMaps with a key that was dropped", otherCA: true,
			data: machine.Staged{CA: boxed(configMap(b), "key1", key)}, want: []string{`secretbox key "key1"`},
		},
		{
			name: "ConfigMaps with another key of the same name",
			data: machine.Staged{CA: boxed(configMap(b), "key2", [32]byte{2})},
			want: []string{`another secretbox key named "key2"`},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := misfits(cmp.Or(c.bundle, b), c.data, c.otherCA)
			if len(got) != len(c.want) {
				t.Fatalf("found %q, want %q", got, c.want)
			}
			for i, want := range c.want {
				if !strings.Contains(got[i], want) {
					t.Errorf("found %q, want %q", got[i], want)
				}
			}
		})
	}
}
