package acceptance

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// TestLogs applies, plans and destroys a control plane on one machine with
// everything logged that Terraform and the provider can log, and looks for the
// private keys in it.
func TestLogs(t *testing.T) {
	l := machines(t)
	w := newWorkspace(t, 1)
	w.Log = filepath.Join(t.TempDir(), "trace.log")
	apply(t, w)
	expectEmptyPlan(t, w)
	secrets := append(keysOf(t, w), privateKey(t, l))
	journal := onMachine(t, l.Machine("cp1"), "journalctl --no-pager --output=cat")
	apply(t, w, "-destroy")
	trace, err := os.ReadFile(w.Log)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(trace), "kube_etcd_member") {
		t.Fatal("nothing was logged")
	}
	for _, secret := range secrets {
		for _, line := range bodyOf(secret) {
			if strings.Contains(string(trace), line) {
				t.Errorf("Terraform's log holds a line of a private key")
			}
			if strings.Contains(journal, line) {
				t.Errorf("the machine's journal holds a line of a private key")
			}
		}
	}
}

// keysOf are the private keys in the state: authorities, service accounts, the
// administrator's.
func keysOf(t *testing.T, w *workspace.Workspace) []string {
	t.Helper()
	resources, err := w.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, r := range resources {
		var values struct {
			Bundle    string `json:"bundle"`
			ClientKey string `json:"client_key"`
		}
		if err := json.Unmarshal(r.Values, &values); err != nil {
			t.Fatal(err)
		}
		if values.ClientKey != "" {
			keys = append(keys, values.ClientKey)
		}
		if values.Bundle == "" {
			continue
		}
		bundle, err := pki.Parse(values.Bundle, nil)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, bundle.CA.PrivateKey, bundle.EtcdCA.PrivateKey, bundle.FrontProxyCA.PrivateKey, bundle.ServiceAccount.PrivateKey)
	}
	if len(keys) != 5 {
		t.Fatalf("the state holds %d private keys, want 5", len(keys))
	}
	return keys
}

// bodyOf are the lines of a PEM text without its frame.
func bodyOf(key string) []string {
	var body []string
	for line := range strings.Lines(key) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "-----") {
			body = append(body, line)
		}
	}
	return body
}
