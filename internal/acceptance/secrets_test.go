package acceptance

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// TestLogs applies, plans and destroys a control plane on one machine with all logs of
// Terraform and the provider enabled, and searches them for the private keys. The keys are not
// sealed: the state contains them, and nothing else does.
func TestLogs(t *testing.T) {
	l := machines(t)
	w := newWorkspace(t, 1)
	h := newSecretScan(t, w)
	h.search.AddPEM("the key of the machines", privateKey(t, l))
	w.Log = filepath.Join(w.Dir, "trace.log")
	apply(t, w)
	h.collect(t, "cp1")
	text := textOf(valuesOf(t, w, "kube_pki_bundle.this"), "bundle")
	bundle, err := pki.Parse(text, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := h.addBundle(t, bundle); n != 4 {
		t.Fatalf("the bundle holds %d private keys, want 4", n)
	}
	if h.search.AddFile("the kubeconfig", outputOf(t, w, "kubeconfig")) != 1 {
		t.Fatal("the kubeconfig holds no private key")
	}
	if len(h.search.In([]byte(text))) == 0 {
		t.Fatal("the search finds no key in the bundle that holds it")
	}
	apply(t, w, "-destroy")
	h.collectJournal(t, "cp1")
	if trace := string(h.everything(t)["trace.log"]); !strings.Contains(trace, "kube_etcd_member") {
		t.Fatal("nothing was logged")
	}
	h.expectNothing(t, ".tfstate")
}
