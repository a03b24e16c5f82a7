package acceptance

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// fewerReplicas allows machines without a replica.
const fewerReplicas = `
variable "replicas" {
  type = map(string)
}
`

// encryption is the bundle's argument, at a generation.
const encryption = `
resource "kube_control_plane_replica" "this" {
  for_each = var.replicas
}
resource "kube_pki_bundle" "this" {
  deletion_protection = false
  encryption = %s
  rotation   = { encryption = %d }
}
`

const secretboxed = `{ provider = "secretbox" }`

// encrypted is a control plane on which encryption at rest is introduced.
type encrypted struct {
	w        *workspace.Workspace
	replicas []string
	admin    credentials
}

// TestEncryption introduces encryption at rest on a control plane with Secrets in the clear, then rotates the key,
// takes back another rotation of it, and adds a replica. Each replica can always read what any other has written. At
// the end, no value is stored in the previous form.
func TestEncryption(t *testing.T) {
	names := []string{"cp1", "cp2", "cp3"}
	w := newStory(t, names...)
	bare := fingerprints(t, names...)
	e := &encrypted{w: w}
	extend(t, w, fewerReplicas)
	e.scale(t, "cp1", "cp2")
	e.set(t, "null", 0)
	apply(t, w)
	e.admin = credentialsOf(t, outputOf(t, w, "kubeconfig"))
	e.admin.expectControllers(t, secretsNamespace, textOf(valuesOf(t, w, "kube_pki_bundle.this"), "ca_certificate"))
	for i := range 20 {
		e.create(t, fmt.Sprintf("before-%d", i))
	}
	e.expectEncoding(t, plainPrefix)
	t.Run("refused", e.refuse)
	readers := e.read(t)
	for generation := 1; generation <= 6 && !t.Failed(); generation++ {
		t.Run(fmt.Sprintf("generation %d", generation), func(t *testing.T) { e.stage(t, generation) })
	}
	if !t.Failed() {
		t.Run("withdrawn", e.withdraw)
	}
	readers.stop(t)
	if t.Failed() {
		t.FailNow()
	}
	t.Run("another replica", e.another)
	apply(t, w, "-destroy")
	expectBare(t, bare, names...)
}

const (
	secretsNamespace = "secrets"
	plainPrefix      = "k8s\x00"
)

func (e *encrypted) scale(t *testing.T, names ...string) {
	t.Helper()
	e.replicas = names
	if err := e.w.WriteJSON("replicas.auto.tfvars.json", map[string]any{"replicas": addresses(names)}); err != nil {
		t.Fatal(err)
	}
}

func (e *encrypted) set(t *testing.T, value string, generation int) {
	t.Helper()
	override(t, e.w, fmt.Sprintf(encryption, value, generation))
}

// extend adds text to the example, as a file of its own.
func extend(t *testing.T, w *workspace.Workspace, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.Dir, "story.tf"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (e *encrypted) refuse(t *testing.T) {
	before := processes(t, "cp1", "cp2", "cp3")
	for _, c := range []struct {
		value      string
		generation int
		fragments  string
	}{
		{`{ provider = "aesgcm" }`, 1, "aesgcm is not safe here: it needs a new key every 200,000 writes"},
		{secretboxed, 0, "raise rotation.encryption from 0 to 1"},
		{secretboxed, 2, "skips a stage: apply 1 first"},
	} {
		e.set(t, c.value, c.generation)
		_, _, err := e.w.Plan(t.Context())
		if err == nil {
			t.Errorf("%s at generation %d was not refused", c.value, c.generation)
			continue
		}
		expectContains(t, unfolded(err.Error()), c.fragments)
	}
	expectRestarted(t, before, nil)
}

// stage applies the next generation. In a steady stage, nothing is stored in the previous form.
// In an introducing stage, nothing is written with the next key.
func (e *encrypted) stage(t *testing.T, generation int) {
	present := e.key(t)
	e.advance(t, generation)
	e.create(t, fmt.Sprintf("at-%d", generation))
	switch pki.StageOf(generation) {
	case pki.Introduced:
		e.expectEncoding(t, present)
	case pki.Adopted:
		if next := e.key(t); next == present || next == plainPrefix {
			t.Errorf("what is in use at generation %d is %q, as before", generation, next)
		}
	case pki.Steady:
		e.expectEncoding(t, present)
	}
}

// advance applies a generation: members of etcd do not restart.
func (e *encrypted) advance(t *testing.T, generation int) {
	t.Helper()
	before := processes(t, "cp1", "cp2", "cp3")
	e.set(t, secretboxed, generation)
	apply(t, e.w)
	var may []string
	for _, name := range e.replicas {
		may = append(may, name+" kube-apiserver", name+" kube-controller-manager", name+" kube-scheduler")
	}
	expectRestarted(t, before, nil, may...)
	t.Logf("%v", valuesOf(t, e.w, "kube_pki_bundle.this")["stages"])
}

// withdraw takes back a rotation whose next key has been in use. What is stored with that key is stored with the
// present one before the next key goes.
func (e *encrypted) withdraw(t *testing.T) {
	present := e.key(t)
	for i, generation := range []int{7, 8, 7, 6} {
		e.advance(t, generation)
		e.create(t, fmt.Sprintf("withdrawn-%d", i))
		if adopted := pki.StageOf(generation) == pki.Adopted; (e.key(t) != present) != adopted {
			t.Errorf("what is in use at generation %d is %q, and %q before", generation, e.key(t), present)
		}
	}
	e.expectEncoding(t, present)
}

// key returns the prefix of values that are stored with the bundle's current key.
func (e *encrypted) key(t *testing.T) string {
	t.Helper()
	bundle, err := pki.Parse(textOf(valuesOf(t, e.w, "kube_pki_bundle.this"), "bundle"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if bundle.Encryption.Kind == pki.Plain {
		return plainPrefix
	}
	return fmt.Sprintf("k8s:enc:%s:v1:%s:", bundle.Encryption.Kind, bundle.Encryption.Name)
}

// expectEncoding checks every Secret in etcd itself.
func (e *encrypted) expectEncoding(t *testing.T, prefix string) {
	t.Helper()
	stored := storedSecrets(t)
	if len(stored) < 20 {
		t.Errorf("etcd holds %d Secrets, fewer than were made", len(stored))
	}
	for _, key := range slices.Sorted(maps.Keys(stored)) {
		if value := stored[key]; !bytes.HasPrefix(value, []byte(prefix)) {
			t.Errorf("%s is stored as %q…, want %q…", key, value[:min(len(value), len(prefix)+8)], prefix)
		} else if prefix != plainPrefix && bytes.Contains(value, []byte(secretText)) {
			t.Errorf("%s is stored with its text in the clear", key)
		}
	}
	e.expectShown(t, slices.Sorted(maps.Keys(stored))[0], prefix)
}

// expectShown checks that the guide's command shows how a Secret is stored.
func (e *encrypted) expectShown(t *testing.T, key, prefix string) {
	t.Helper()
	script := strings.ReplaceAll(documentedScript(t, "rotation", 0), "/registry/secrets/default/my-secret", key)
	if shown := onMachine(t, shared.lab.Machine("cp1"), script); !strings.HasPrefix(shown, prefix[:min(len(prefix), 40)]) {
		t.Errorf("the guide's command shows %q of %s, want %q…", shown, key, prefix)
	}
}

// storedSecrets reads from etcd, bypassing the API servers.
func storedSecrets(t *testing.T) map[string][]byte {
	t.Helper()
	text := onMachine(t, shared.lab.Machine("cp1"), ctl+"etcdctl get --prefix /registry/secrets/ --write-out=json")
	var answer struct {
		Kvs []struct{ Key, Value string }
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		t.Fatal(err)
	}
	stored := map[string][]byte{}
	for _, kv := range answer.Kvs {
		key, err := base64.StdEncoding.DecodeString(kv.Key)
		if err != nil {
			t.Fatal(err)
		}
		if stored[string(key)], err = base64.StdEncoding.DecodeString(kv.Value); err != nil {
			t.Fatal(err)
		}
	}
	return stored
}

// secretText is the content of all Secrets of the test.
const secretText = "a text that is easily recognised"

const secretsPath = "/api/v1/namespaces/" + secretsNamespace + "/secrets"

func newSecret(name string) core.Secret {
	return core.Secret{ObjectMeta: meta.ObjectMeta{Name: name}, StringData: map[string]string{"text": secretText}}
}

func (e *encrypted) create(t *testing.T, name string) {
	t.Helper()
	e.admin.must(t, endpointURL, http.MethodPost, secretsPath, newSecret(name), nil)
}

// readers read and write Secrets during other operations.
type readers struct {
	cancel   context.CancelFunc
	ended    sync.WaitGroup
	tried    int
	failures []string
}

// readPause limits the CPU time that the readers take from the processes under test.
const readPause = 300 * time.Millisecond

// read repeatedly writes a Secret through the virtual IP, and reads it and an older one from
// every replica.
func (e *encrypted) read(t *testing.T) *readers {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := &readers{cancel: cancel}
	replicas := servers(e.replicas...)
	r.ended.Go(func() {
		tick := time.NewTicker(readPause)
		defer tick.Stop()
		for n := 0; ctx.Err() == nil; n++ {
			r.round(context.WithoutCancel(ctx), e.admin, fmt.Sprintf("meanwhile-%d", n), replicas)
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	})
	t.Cleanup(cancel)
	return r
}

func (r *readers) round(ctx context.Context, admin credentials, name string, replicas []string) {
	r.tried++
	code, text, err := admin.call(ctx, endpointURL, http.MethodPost, secretsPath, newSecret(name), nil)
	if err != nil || code != http.StatusCreated {
		r.fail("write %s: HTTP %d, %v: %s", name, code, err, text)
		return
	}
	for _, secret := range []string{"before-0", name} {
		var got core.Secret
		code, text, err := admin.call(ctx, endpointURL, http.MethodGet, secretsPath+"/"+secret, nil, &got)
		if err != nil || code != http.StatusOK || string(got.Data["text"]) != secretText {
			r.fail("read %s: HTTP %d, %v: %s", secret, code, err, text)
		}
		for _, server := range replicas {
			// A replica that is restarting does not answer, or answers that it is not ready.
			if code, text, err := admin.call(ctx, server, http.MethodGet, secretsPath+"/"+secret, nil, nil); err == nil &&
				code == http.StatusInternalServerError {
				r.fail("read %s from %s: HTTP %d: %s", secret, server, code, text)
			}
		}
	}
}

func (r *readers) fail(format string, args ...any) {
	r.failures = append(r.failures, time.Now().UTC().Format(time.TimeOnly)+" "+fmt.Sprintf(format, args...))
}

func (r *readers) stop(t *testing.T) {
	t.Helper()
	r.cancel()
	r.ended.Wait()
	t.Logf("%d Secrets were written and read meanwhile", r.tried)
	if r.tried == 0 {
		t.Error("no Secret was written meanwhile")
	}
	for _, failure := range r.failures {
		t.Error(failure)
	}
}

// another adds a replica, which reads what the others have written and has the same
// configuration.
func (e *encrypted) another(t *testing.T) {
	e.scale(t, "cp1", "cp2", "cp3")
	apply(t, e.w)
	for _, name := range []string{"before-0", "at-3", "meanwhile-0"} {
		var got core.Secret
		e.admin.must(t, servers("cp3")[0], http.MethodGet, secretsPath+"/"+name, nil, &got)
		if string(got.Data["text"]) != secretText {
			t.Errorf("cp3 reads %q from %s", got.Data["text"], name)
		}
	}
	const script = `file=$(sed -nE 's/.*--encryption-provider-config=([^" ]+).*/\1/p' ` +
		`/etc/systemd/system/kube-apiserver.service | head -n1); stat -c %a "$file"; sha256sum <"$file"`
	first := onMachine(t, shared.lab.Machine("cp1"), script)
	if !strings.HasPrefix(first, "600\n") && !strings.HasPrefix(first, "400\n") {
		t.Errorf("cp1: others may read the configuration of encryption: %s", first)
	}
	for _, name := range []string{"cp2", "cp3"} {
		if text := onMachine(t, shared.lab.Machine(name), script); text != first {
			t.Errorf("%s has another configuration of encryption than cp1:\n%s%s", name, text, first)
		}
	}
}
