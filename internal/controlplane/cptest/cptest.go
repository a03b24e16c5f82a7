// Package cptest provides bundles, settings and a bare machine for tests of the control plane.
package cptest

import (
	"encoding/base64"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// At returns the bundle, taken to a generation of one part, stage by stage.
func At(t *testing.T, b *pki.Bundle, part pki.Part, generation int) *pki.Bundle {
	t.Helper()
	for b.Generation(part) != generation {
		step := 1
		if b.Generation(part) > generation {
			step = -1
		}
		next := pki.Next{Encryption: pki.Encryption{Kind: pki.Secretbox, Resources: []string{"secrets"}}}
		var err error
		if b, err = b.Rotate(map[pki.Part]int{part: b.Generation(part) + step}, next,
			pki.Options{Now: Now, Algorithm: b.Algorithm, Validity: 2 * 365 * 24 * time.Hour}); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// Secretbox returns an encryption with a key of that name.
func Secretbox(name string, resources ...string) pki.Encryption {
	key := base64.StdEncoding.EncodeToString([]byte(strings.Repeat(name[len(name)-1:], 32)))
	return pki.Encryption{Kind: pki.Secretbox, Resources: resources, Name: name, Key: key}
}

// Encrypting returns the bundle with another encryption in use.
func Encrypting(b *pki.Bundle, e pki.Encryption) *pki.Bundle {
	bundle := *b
	bundle.Encryption = e
	return &bundle
}

// External returns the bundle without the key of its kubernetes CA.
func External(b *pki.Bundle) *pki.Bundle {
	bundle := *b
	bundle.CA.PrivateKey = ""
	return &bundle
}

// Now is the current time in tests.
var Now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

var generated = sync.OnceValues(func() (*pki.Bundle, error) {
	return pki.Generate(pki.Options{ClusterName: "prod", Now: Now})
})

// Bundle returns the bundle of a cluster in which nothing was rotated yet. Callers must not
// modify it.
func Bundle(t *testing.T) *pki.Bundle {
	t.Helper()
	bundle, err := generated()
	if err != nil {
		t.Fatal(err)
	}
	return bundle
}

// Text returns the error's text, or "" if there is none.
func Text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Args returns extra arguments of one flag.
func Args(component, flag, value string) map[string]map[string]string {
	return map[string]map[string]string{component: {flag: value}}
}

var update = flag.Bool("update", false, "write the golden files anew")

// Golden compares have with a file in testdata.
func Golden(t *testing.T, name, have string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(have), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if have != string(want) {
		t.Errorf("it is not as in %s; it is\n%s", path, have)
	}
}

// AuditPolicy is a user-defined audit policy.
const AuditPolicy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"

// Issuer is a list of JWT authenticators.
const Issuer = `
- issuer: {url: https://login.example/realm, audiences: [kubernetes]}
  claimMappings:
    username: {claim: sub, prefix: "login:"}
    groups: {claim: groups, prefix: ""}
`

// BareMachine returns the facts of a machine that was never changed.
func BareMachine() host.Facts {
	return host.Facts{
		MachineID:    "4f1c",
		Architecture: "amd64",
		Systemd:      "252",
		DiskFree:     map[string]int64{"/opt/kube": 20 << 30, "/etc/kubernetes": 20 << 30},
		Files:        map[string]host.FileState{},
		Dirs:         map[string][]string{},
		Units:        map[string]host.UnitState{},
		Listeners:    map[int]host.Listener{},
	}
}
