package acceptance

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"golang.org/x/sync/errgroup"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/lab/services"
	"github.com/kubequorum/terraform-provider-kube/internal/markdown"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// Secrets of TestWhenEverythingIsLost, and where they may be.
const (
	lostS3Secret    = "secret-key-of-the-bucket-7d1b"
	lostCredentials = "/etc/etcd-s3-credentials" // as in the guide
	lostSecretValue = "value-of-a-secret-93c0f5"
)

// TestWhenEverythingIsLost follows the guide literally, from three empty machines and a bucket to a
// control plane that serves. The snapshots of the control plane go to an S3 server; then all machines
// are lost, and what is left is the state, the configuration, the age identity and credentials. A client
// that was connected before sees what was restored, and no secret gets where none was before.
func TestWhenEverythingIsLost(t *testing.T) {
	names := []string{"cp1", "cp2", "cp3"}
	s := newLostStory(t, names)
	apply(t, s.w)
	kubeconfig := outputOf(t, s.w, "kubeconfig")
	s.client = credentialsOf(t, kubeconfig)
	s.watch(t, kubeconfig)
	s.put(t, "kept", "removed-later")
	s.putSecret(t)
	s.save(t)
	s.put(t, "written-later")
	s.remove(t, "removed-later")
	s.converges(t, "kept", "written-later")
	before := s.secretsOnMachines(t)

	s.loseMachines(t)
	bare := fingerprints(t, names...)
	began := time.Now()
	s.followGuide(t)
	t.Logf("from empty machines to an empty plan in %.0f s", time.Since(began).Seconds())

	s.converges(t, "kept", "removed-later")
	s.expectSecret(t)
	s.serves(t)
	if after := s.secretsOnMachines(t); !maps.EqualFunc(before, after, slices.Equal) {
		t.Errorf("on the machines are secrets in %q, and before the loss in %q", after, before)
	}
	s.scan.collectBundle(t, names...)
	apply(t, s.w, "-destroy")
	for _, name := range names {
		s.scan.collectJournal(t, name)
		onMachine(t, shared.lab.Machine(name), "rm "+lostCredentials)
	}
	s.scan.expectNothing(t, ".tfstate", "→ tfstate", "→ tfplan") // plans contain the state, and changes of it
	expectBare(t, bare, names...)
}

// lostStory is a control plane whose snapshots are in a bucket, and a user who keeps what the guide wants.
type lostStory struct {
	restoreStory
	user     user
	scan     *secretScan
	server   services.S3
	identity *age.X25519Identity
}

func newLostStory(t *testing.T, names []string) *lostStory {
	t.Helper()
	const version = "0.1.0" // of the provider, and of the program that is released with it
	w := storyFrom(t, append(slices.Clone(names), "cp4"), t.TempDir(), func(w *workspace.Workspace) error {
		w.Variables = []string{"main.version=" + version}
		return w.Make(t.Context(), "control-plane", t.Output())
	})
	choose(t, w, names...)
	s := &lostStory{restoreStory: restoreStory{w: w, names: names}, user: newUser(t, w)}
	var err error
	if s.identity, err = age.GenerateX25519Identity(); err != nil {
		t.Fatal(err)
	}
	s.startServer(t)
	s.scan = newSecretScan(t, w)
	program := s.artifacts(t, version)
	if err := os.Symlink(program, filepath.Join(s.user.home, "bin", "kube-snapshot-store")); err != nil {
		t.Fatal(err)
	}
	s.bucket(t)
	s.scan.search.AddText("the age identity", "text", s.identity.String())
	s.scan.search.AddText("the key of the bucket", "text", lostS3Secret)
	s.scan.search.AddText("a Secret", "text", lostSecretValue)
	return s
}

// startServer runs the S3 server on a machine that is not lost.
func (s *lostStory) startServer(t *testing.T) {
	t.Helper()
	program, err := build.Set(t.Context(), "versitygw")
	if err != nil {
		t.Fatal(err)
	}
	m := shared.lab.Machine("cp4")
	t.Cleanup(func() {
		if err := m.Rebuild(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	s.server, err = services.StartS3(t.Context(), m, program,
		services.S3{Bucket: "example-etcd", AccessKey: "AKIALOSTACCESS", SecretKey: lostS3Secret})
	if err != nil {
		t.Fatal(err)
	}
}

// artifacts adds kube-snapshot-store to the programs that machines get, and returns its path.
func (s *lostStory) artifacts(t *testing.T, version string) string {
	t.Helper()
	dir := t.TempDir()
	entries, err := os.ReadDir(shared.components)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		err := os.Symlink(filepath.Join(shared.components, entry.Name()), filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(dir, "kube-snapshot-store-v"+version, "kube-snapshot-store")
	if err := build.SnapshotStore(t.Context(), version, program); err != nil {
		t.Fatal(err)
	}
	variables := map[string]any{"artifacts": map[string]any{"directory": dir}}
	if err := s.w.WriteJSON("z.auto.tfvars.json", variables); err != nil {
		t.Fatal(err)
	}
	return program
}

// bucket configures the members as the guide about snapshots does, and gives machines and user the
// credentials. The server's certificate is known to no system.
func (s *lostStory) bucket(t *testing.T) {
	t.Helper()
	certificate := filepath.Join(s.user.home, "s3.crt")
	write(t, certificate, s.server.Certificate)
	s.w.Env = append(s.w.Env, "SSL_CERT_FILE="+certificate) // for the user's own commands
	shown := guideBlock(t, "scaling-and-repair", "hcl", "s3 = {")
	settings := strings.NewReplacer(
		`"https://s3.eu-central-1.amazonaws.com"`,
		fmt.Sprintf("%q\n    ca_certificate = file(%q)", s.server.Endpoint, certificate),
		"age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p", s.identity.Recipient().String(),
	).Replace(shown)
	write(t, filepath.Join(s.w.Dir, "bucket_override.tf"), "resource \"kube_etcd_member\" \"this\" {\n"+settings+"}\n")
	write(t, filepath.Join(s.user.home, "s3-credentials"), s.server.Credentials())
	write(t, filepath.Join(s.user.home, "age-identity"), s.identity.String()+"\n")
	s.credentials(t)
}

// credentials creates the file that the configuration names on every machine.
func (s *lostStory) credentials(t *testing.T) {
	t.Helper()
	for _, name := range s.names {
		onMachineWith(t, name, s.server.Credentials(), "umask 077; cat >"+lostCredentials)
	}
}

// onMachineWith runs a script on a machine that reads a secret, which no command line then has.
func onMachineWith(t *testing.T, name, input, script string) string {
	t.Helper()
	command := shared.lab.Machine(name).SSH(t.Context(), script)
	command.Stdin = strings.NewReader(input)
	out, err := command.Output()
	if err != nil {
		t.Fatalf("on %s: %v", name, err)
	}
	return string(out)
}

// guideBlock returns the only block of a guide in a language that has a text.
func guideBlock(t *testing.T, guide, language, text string) string {
	t.Helper()
	blocks := documentedBlocks(t, func(b markdown.Block) bool {
		return b.File == "templates/guides/"+guide+".md" && b.Language == language && strings.Contains(b.Text, text)
	})
	if len(blocks) != 1 {
		t.Fatalf("the guide %s has %d blocks of %s with %q", guide, len(blocks), language, text)
	}
	return blocks[0].Text
}

const lostSecret = "/api/v1/namespaces/default/secrets"

func (s *lostStory) putSecret(t *testing.T) {
	t.Helper()
	secret := core.Secret{
		ObjectMeta: meta.ObjectMeta{Name: "token"}, Data: map[string][]byte{"value": []byte(lostSecretValue)},
	}
	s.client.must(t, endpointURL, http.MethodPost, lostSecret, secret, nil)
}

func (s *lostStory) expectSecret(t *testing.T) {
	t.Helper()
	var secret core.Secret
	s.client.must(t, endpointURL, http.MethodGet, lostSecret+"/token", nil, &secret)
	if got := string(secret.Data["value"]); got != lostSecretValue {
		t.Errorf("the Secret has %q", got)
	}
}

// save runs what the timers start. The leader's machine uploads.
func (s *lostStory) save(t *testing.T) {
	t.Helper()
	for _, name := range s.names {
		onMachine(t, shared.lab.Machine(name), "systemctl start etcd-snapshot.service")
	}
	objects := onMachine(t, shared.lab.Machine("cp4"), "find /srv/objects -type f")
	if !strings.Contains(objects, ".db.age") || !strings.Contains(objects, ".json") {
		t.Fatalf("the bucket has\n%s", objects)
	}
}

// loseMachines destroys all machines of the control plane at once, and installs empty ones.
func (s *lostStory) loseMachines(t *testing.T) {
	t.Helper()
	for _, step := range []func(name string) error{
		func(name string) error { return shared.lab.Machine(name).PowerOff(t.Context()) },
		func(name string) error { return shared.lab.Machine(name).Rebuild(t.Context()) },
	} {
		var group errgroup.Group
		for _, name := range s.names {
			group.Go(func() error { return step(name) })
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
	}
}

// followGuide does what the guide says, step by step.
func (s *lostStory) followGuide(t *testing.T) {
	t.Helper()
	here := strings.NewReplacer("https://s3.eu-central-1.amazonaws.com", s.server.Endpoint, "kube_pki_bundle.prod",
		"kube_pki_bundle.this", `"kube_etcd_member" "prod"`, `"kube_etcd_member" "this"`)
	trustNewHostKeys(t, s.w)
	s.credentials(t)
	listed := s.user.typeCommands(t, here.Replace(documentedScript(t, "restore", 0)))
	expectContains(t, listed, "verified")
	name := regexp.MustCompile(`\d{8}T\d{6}Z-[a-z0-9.-]*\.db`).FindString(listed)
	saved, err := snapshot.StoredAt(name)
	if err != nil {
		t.Fatal(err)
	}
	wanted := here.Replace(guideBlock(t, "restore", "terraform", "identity_file"))
	override(t, s.w, strings.Replace(wanted, `"newest"`, fmt.Sprintf("%q", name), 1))
	expectContains(t, unfolded(s.user.typeCommands(t, "terraform plan -no-color")), "snapshot "+name+" in the bucket",
		"saved "+saved.Format(time.RFC3339))
	s.refusesWithoutIdentity(t, wanted)
	override(t, s.w, wanted)
	expectContains(t, unfolded(s.user.typeCommands(t, documentedScript(t, "restore", 1))),
		"etcd will be restored", "the newest verified snapshot in the bucket", "Apply complete!")
	s.user.typeCommands(t, documentedScript(t, "restore", 2))
}

// refusesWithoutIdentity: a snapshot that nobody can open changes no machine.
func (s *lostStory) refusesWithoutIdentity(t *testing.T, wanted string) {
	t.Helper()
	override(t, s.w, regexp.MustCompile(`(?m)^.*identity_file.*\n`).ReplaceAllString(wanted, ""))
	expectContains(t, refused(t, s.w), "is encrypted", "set identity_file", "Unchanged: the data of every member.")
}

// secretsOnMachines returns where secrets are on the machines: files with private keys, and with what only the
// user has. What etcd stores, and its snapshots, are data.
func (s *lostStory) secretsOnMachines(t *testing.T) map[string][]string {
	t.Helper()
	all := placesOn(t, s.names, map[string]string{"identity": s.identity.String(), "bucket": lostS3Secret})
	for _, name := range s.names {
		if len(all[name+" identity"]) > 0 || !slices.Equal(all[name+" bucket"], []string{lostCredentials}) {
			t.Errorf("%s: the identity is in %q, the key of the bucket in %q", name, all[name+" identity"],
				all[name+" bucket"])
		}
	}
	return all
}
