package acceptance

import (
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/secretscan"
)

// findSecret lists the files that have the secret on its standard input, and says whether the journal has it.
const findSecret = `umask 077; cat >/dev/shm/secret
grep -rlFf /dev/shm/secret /etc /root /opt /run /tmp /usr/local /var --exclude-dir=journal 2>/dev/null || true
! journalctl --no-pager | grep -qFf /dev/shm/secret || echo journal
rm /dev/shm/secret`

// placesOn returns where secrets are on machines: the files with private keys ("cp1 keys"), and those with what only
// the user has ("cp1 token"). What etcd stores, and its snapshots, are data.
func placesOn(t *testing.T, names []string, secrets map[string]string) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, name := range names {
		all[name+" keys"] = nil
		for _, file := range keysOn(t, name) {
			all[name+" keys"] = append(all[name+" keys"], file.Path)
		}
		slices.Sort(all[name+" keys"])
		for what, secret := range secrets {
			all[name+" "+what] = strings.Fields(onMachineWith(t, name, secret+"\n", findSecret))
		}
	}
	return all
}

// keysOn returns the files with private keys on a machine, and expects that only their owner can use them.
func keysOn(t *testing.T, name string) []secretscan.KeyFile {
	t.Helper()
	files, err := secretscan.ParseKeys(onMachine(t, shared.lab.Machine(name), secretscan.KeysScript))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for _, file := range files {
		if file.Exposed() {
			t.Errorf("%s: %s has a private key and the mode %o", name, file.Path, file.Mode)
		}
	}
	return files
}

// collectBundle collects what the scan has to know: the keys on machines, and those of the bundle, which is not sealed.
func (h *secretScan) collectBundle(t *testing.T, names ...string) {
	t.Helper()
	h.collect(t, names...)
	bundle, err := pki.Parse(textOf(valuesOf(t, h.w, "kube_pki_bundle.this"), "bundle"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := h.addBundle(t, bundle); n != 4 {
		t.Errorf("the bundle holds %d private keys, want 4", n)
	}
}

// expectUnseen expects that nothing has a text: no version of the state, no plan, no log and no command line.
func (h *secretScan) expectUnseen(t *testing.T, what, text string) {
	t.Helper()
	search := secretscan.New()
	search.AddText(what, "text", text)
	for where, data := range h.everything(t) {
		for _, fragments := range search.In(data) {
			t.Errorf("%s holds %s", where, fragments)
		}
	}
}
