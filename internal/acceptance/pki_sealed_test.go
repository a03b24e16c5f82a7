package acceptance

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// sealVariables provide identities that no plan stores.
const sealVariables = `
variable "identities" {
  type      = list(string)
  sensitive = true
  ephemeral = true
}
variable "recipients" {
  type    = list(string)
  default = null
}
`

// sealed is the example with its private keys sealed. The SSH key for the machines is not
// stored in plans either.
const sealed = `
provider "kube" {
  seal = {
    identities = var.identities
    recipients = var.recipients
  }
}
variable "ssh_private_key" {
  ephemeral = true
}
resource "kube_pki_bundle" "this" {
  deletion_protection = false
  encryption = { provider = "secretbox" }
}
`

// identify passes identities to the CLI in its environment.
func identify(t *testing.T, w *workspace.Workspace, identities ...*age.X25519Identity) {
	t.Helper()
	texts := []string{}
	for _, identity := range identities {
		texts = append(texts, identity.String())
	}
	list, err := json.Marshal(texts)
	if err != nil {
		t.Fatal(err)
	}
	const variable = "TF_VAR_identities="
	w.Env = append(slices.DeleteFunc(w.Env, func(entry string) bool { return strings.HasPrefix(entry, variable) }),
		variable+string(list))
}

// addressTo sets the recipients.
func addressTo(t *testing.T, w *workspace.Workspace, identities ...*age.X25519Identity) {
	t.Helper()
	if err := w.WriteJSON("recipients.auto.tfvars.json",
		map[string]any{"recipients": namesOf(identities...)}); err != nil {
		t.Fatal(err)
	}
}

func namesOf(identities ...*age.X25519Identity) []string {
	var names []string
	for _, identity := range identities {
		names = append(names, identity.Recipient().String())
	}
	slices.Sort(names)
	return names
}

// sealOf returns a seal that opens sealed keys.
func sealOf(t *testing.T, identities ...*age.X25519Identity) *pki.Seal {
	t.Helper()
	var texts []string
	for _, identity := range identities {
		texts = append(texts, identity.String())
	}
	seal, err := pki.NewSeal(texts, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	return seal
}

// TestSealed takes a control plane through its whole lifecycle with all logging enabled and its
// private keys sealed. No state that was ever written, no plan, log or journal and no command
// line contains one of the keys. Then the recipients change, which changes no machine, and an
// identity that is not a recipient is rejected.
func TestSealed(t *testing.T) {
	names := []string{"cp1", "cp2", "cp3"}
	w := newStory(t, names...)
	bare := fingerprints(t, names...)
	first, second := newIdentity(t), newIdentity(t)
	extend(t, w, sealVariables)
	override(t, w, sealed)
	identify(t, w, first)
	h := newSecretScan(t, w)
	h.search.AddText("the first identity", "itself", first.String())
	h.search.AddText("the second identity", "itself", second.String())
	h.search.AddPEM("the key of the machines", privateKey(t, shared.lab))
	w.Log = filepath.Join(w.Dir, "trace.log")

	choose(t, w, "cp1")
	applySaved(t, w, "create.tfplan")
	h.collectAll(t, first, "cp1")
	choose(t, w, names...)
	applySaved(t, w, "scale.tfplan")
	expectEmptyPlan(t, w)
	expectHealthy(t, w, names)
	h.collectAll(t, first, names...)
	useAPIWith(t, w, openedKubeconfig(t, w, first))
	if err := w.WriteJSON("flags.auto.tfvars.json",
		map[string]any{"apiserver_extra_args": map[string]string{"v": "3"}}); err != nil {
		t.Fatal(err)
	}
	applySaved(t, w, "change.tfplan")
	t.Run("other recipients", func(t *testing.T) { resealForNewRecipients(t, w, names, first, second) })
	t.Run("strangers", func(t *testing.T) { refuseOtherIdentities(t, w, names, second) })
	if t.Failed() {
		t.FailNow()
	}
	h.collectAll(t, second, names...)
	apply(t, w, "-destroy")
	for _, name := range names {
		h.collectJournal(t, name)
	}
	h.expectNothing(t)
	expectBare(t, bare, names...)
}

// applySaved applies a saved plan file, which is searched too.
func applySaved(t *testing.T, w *workspace.Workspace, file string, args ...string) {
	t.Helper()
	plan(t, w, append(args, "-out="+file)...)
	apply(t, w, file)
}

// collectAll collects the current secrets: on machines, in the bundle and in the kubeconfig.
func (h *secretScan) collectAll(t *testing.T, identity *age.X25519Identity, names ...string) {
	t.Helper()
	h.collect(t, names...)
	if n := h.addBundle(t, bundleOf(t, h.w, identity)); n != 5 {
		t.Errorf("the bundle holds %d secrets, want three authorities', the service accounts' and one of encryption", n)
	}
	if h.search.AddFile("the kubeconfig", openedKubeconfig(t, h.w, identity)) != 1 {
		t.Error("the kubeconfig holds no private key")
	}
}

// addBundle adds every secret of a bundle to the search.
func (h *secretScan) addBundle(t *testing.T, b *pki.Bundle) int {
	t.Helper()
	n, err := h.search.AddBundle(b)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// bundleOf opens the bundle of the state.
func bundleOf(t *testing.T, w *workspace.Workspace, identities ...*age.X25519Identity) *pki.Bundle {
	t.Helper()
	bundle, err := pki.Parse(textOf(valuesOf(t, w, "kube_pki_bundle.this"), "bundle"), sealOf(t, identities...))
	if err != nil {
		t.Fatal(err)
	}
	return bundle
}

// openedKubeconfig opens the kubeconfig of the state, which is an age file.
func openedKubeconfig(t *testing.T, w *workspace.Workspace, identities ...*age.X25519Identity) string {
	t.Helper()
	values := valuesOf(t, w, "kube_kubeconfig.admin")
	for _, attribute := range []string{"content", "client_key"} {
		if text := textOf(values, attribute); !strings.HasPrefix(text, "-----BEGIN AGE ENCRYPTED FILE-----") {
			t.Errorf("the kubeconfig's %s is not sealed", attribute)
		}
	}
	text, err := sealOf(t, identities...).Open(textOf(values, "content"))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// resealForNewRecipients adds a second recipient, and then removes the first.
func resealForNewRecipients(t *testing.T, w *workspace.Workspace, names []string, first, second *age.X25519Identity) {
	untouchedBy(t, names, func() {
		addressTo(t, w, first, second)
		resealed(t, w)
		bundleOf(t, w, first)
		bundleOf(t, w, second)
		expectSealedFor(t, w, namesOf(first, second))
	})
	untouchedBy(t, names, func() {
		identify(t, w, first, second)
		addressTo(t, w, second)
		resealed(t, w)
		identify(t, w, second)
		expectEmptyPlan(t, w)
		bundleOf(t, w, second)
		expectSealedFor(t, w, namesOf(second))
		_, err := pki.Parse(textOf(valuesOf(t, w, "kube_pki_bundle.this"), "bundle"), sealOf(t, first))
		if !errors.Is(err, pki.ErrSealed) {
			t.Errorf("the first identity still opens the bundle: %v", err)
		}
	})
}

// resealed applies the change, in place.
func resealed(t *testing.T, w *workspace.Workspace) {
	t.Helper()
	planned := plan(t, w)
	expectContains(t, planned, "# kube_pki_bundle.this will be updated in-place")
	if strings.Contains(planned, "must be replaced") || strings.Contains(planned, "will be created") ||
		!strings.Contains(planned, "0 to add,") {
		t.Errorf("new recipients replace something:\n%s", planned)
	}
	apply(t, w)
}

func expectSealedFor(t *testing.T, w *workspace.Workspace, names []string) {
	t.Helper()
	var got []string
	list, _ := valuesOf(t, w, "kube_pki_bundle.this")["sealed_for"].([]any)
	for _, name := range list {
		text, _ := name.(string)
		got = append(got, text)
	}
	slices.Sort(got)
	if !slices.Equal(got, names) {
		t.Errorf("sealed for %q, want %q", got, names)
	}
}

// refuseOtherIdentities tries all operations with the wrong identity, and with none.
func refuseOtherIdentities(t *testing.T, w *workspace.Workspace, names []string, owner *age.X25519Identity) {
	other := newIdentity(t)
	change := `-var=apiserver_extra_args={v="4"}`
	untouchedBy(t, names, func() {
		identify(t, w, other)
		addressTo(t, w, other)
		for _, args := range [][]string{nil, {change}, {"-destroy"}} {
			expectContains(t, refused(t, w, args...), "the private keys are sealed", "none of the identities at hand opens them")
		}
		override(t, w, unsealed)
		for _, args := range [][]string{nil, {change}, {"-destroy"}} {
			expectContains(t, refused(t, w, args...), "the private keys are sealed", "no identity")
		}
	})
	override(t, w, sealed)
	identify(t, w, owner)
	addressTo(t, w, owner)
	expectEmptyPlan(t, w)
}

// unsealed is sealed without the seal.
const unsealed = `
resource "kube_pki_bundle" "this" {
  deletion_protection = false
  encryption = { provider = "secretbox" }
}
`

// touchedScript lists what a change would alter: files, and the start records of the units.
const touchedScript = `find /etc /opt /usr/local /run/etcd /run/kube-apiserver /run/kube-controller-manager ` +
	`/run/kube-scheduler -xdev -type f -printf '%p %i %s %m %T@ %C@\n' 2>/dev/null | sort`

// untouchedBy expects that nothing on the machines was changed or restarted.
func untouchedBy(t *testing.T, names []string, act func()) {
	t.Helper()
	files := func() map[string][]string {
		all := map[string][]string{}
		for _, name := range names {
			all[name] = strings.Split(onMachine(t, shared.lab.Machine(name), touchedScript), "\n")
		}
		return all
	}
	before, processesBefore := files(), processes(t, names...)
	act()
	expectRestarted(t, processesBefore, nil)
	after := files()
	for _, name := range names {
		if len(before[name]) < 20 {
			t.Errorf("%s: only %d files are compared", name, len(before[name]))
		}
		for _, difference := range lab.Differences(before[name], after[name]) {
			t.Errorf("%s was touched, %s", name, difference)
		}
	}
}
