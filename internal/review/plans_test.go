package review

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/cache"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// TestMakePlans regenerates the plans of testdata from control planes on three lab machines.
// Run it by hand when the provider's schema has changed:
//
//	KUBE_REVIEW_PLANS=write go test -run TestMakePlans -timeout 30m ./internal/review
func TestMakePlans(t *testing.T) {
	if os.Getenv("KUBE_REVIEW_PLANS") != "write" {
		testrun.Elsewhere(t, "KUBE_REVIEW_PLANS=write makes the plans of testdata again, on lab machines")
	}
	if missing := lab.Missing(); missing != "" {
		t.Fatal(missing)
	}
	t.Run("resources", makeOfResources)
	t.Run("module", makeOfModule)
}

// newLab creates machines and removes them at the end of the test.
func newLab(t *testing.T, machines ...string) *lab.Lab {
	t.Helper()
	ctx := t.Context()
	subnet := netip.MustParsePrefix("10.89.0.0/24")
	l, destroy, err := lab.New(ctx, lab.Config{Name: "review", Subnet: subnet, Machines: machines, Log: t.Output()})
	t.Cleanup(func() {
		if err := destroy(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func makeOfResources(t *testing.T) {
	ctx := t.Context()
	l := newLab(t, "cp1", "cp2", "cp3", "cp4", "cp5")
	w, err := workspace.Open(ctx, l, t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Make(ctx, "control-plane", t.Output()); err != nil {
		t.Fatal(err)
	}
	size(t, w, 3)
	keep(t, w, "create")
	health := dataSource("kube_control_plane", "kube_pki_bundle.this.bundle",
		"[for m in kube_etcd_member.this : m.client_url]", "kube_control_plane_endpoint.this.registration", "")
	put(t, w.Dir, "beside.tf", health)
	applyAll(t, w)
	keep(t, w, "nothing")
	hurt(t, l)
	keep(t, w, "drift")
	applyAll(t, w)
	keep(t, w, "upgrade", "-var=apiserver_extra_args={v=\"3\"}", "-var=etcd_extra_args={max-txn-ops=\"129\"}")
	keep(t, w, "replace", `-replace=kube_etcd_member.this["cp2"]`, `-replace=kube_control_plane_replica.this["cp2"]`)
	put(t, w.Dir, "beside.tf", "") // it would report members that do not exist yet
	size(t, w, 5)
	keep(t, w, "grow")
	applyAll(t, w)
	put(t, w.Dir, "beside.tf", health)
	size(t, w, 3)
	keep(t, w, "shrink")
	if err := l.Machine("cp2").PowerOff(ctx); err != nil {
		t.Fatal(err)
	}
	size(t, w, 5)
	keep(t, w, "dead")
}

// hurt makes manual changes to three machines.
func hurt(t *testing.T, l *lab.Lab) {
	t.Helper()
	for machine, script := range map[string]string{
		"cp1": `sed -i s/--profiling=false/--profiling=true/ /etc/systemd/system/kube-apiserver.service
			systemctl daemon-reload; systemctl restart kube-apiserver`,
		"cp2": `systemctl stop kube-scheduler`,
		"cp3": `rm /etc/kubernetes/pki/etcd/server.crt; sed -i 's/advert_int 0.25/advert_int 2/' /etc/keepalived/kube.conf`,
	} {
		if _, err := l.Machine(machine).Run(t.Context(), script); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(15 * time.Second) // components that restart on their own do so
}

func size(t *testing.T, w *workspace.Workspace, machines int) {
	t.Helper()
	variables := map[string]any{"machines": w.Machines(machines), "drain_timeout": "5s"}
	if err := w.WriteJSON("terraform.tfvars.json", variables); err != nil {
		t.Fatal(err)
	}
}

func applyAll(t *testing.T, w *workspace.Workspace) {
	t.Helper()
	if _, err := w.Apply(t.Context(), t.Output()); err != nil {
		t.Fatal(err)
	}
}

// keep makes a plan and stores it as JSON with all secrets replaced.
func keep(t *testing.T, w *workspace.Workspace, name string, args ...string) {
	t.Helper()
	args = append([]string{"-out=" + name + ".plan"}, args...)
	if text, _, err := w.Plan(t.Context(), args...); err != nil {
		t.Fatal(err)
	} else {
		fmt.Fprintf(t.Output(), "%s:\n%s\n", name, text)
	}
	text, err := w.Run(t.Context(), "show", "-json", name+".plan")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("testdata", name+".plan.json"), withoutSecrets(t, text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// withoutSecrets replaces every text that the plan marks as sensitive anywhere or that contains
// a private key, at every place where it occurs.
func withoutSecrets(t *testing.T, plan string) []byte {
	t.Helper()
	var document map[string]any
	if err := json.Unmarshal([]byte(plan), &document); err != nil {
		t.Fatal(err)
	}
	secrets := map[string]bool{}
	walk(document, func(object map[string]any) {
		for value, marks := range map[string]string{
			"before": "before_sensitive", "after": "after_sensitive", "values": "sensitive_values",
		} {
			collect(object[value], object[marks], secrets)
		}
		for _, value := range object {
			if text, ok := value.(string); ok && strings.Contains(text, "PRIVATE KEY") {
				secrets[text] = true
			}
		}
	})
	texts := make([]string, 0, len(secrets))
	for secret := range secrets {
		texts = append(texts, secret)
	}
	slices.SortFunc(texts, func(a, b string) int { return len(b) - len(a) }) // one text may contain another
	compact := &bytes.Buffer{}
	if err := json.Compact(compact, []byte(plan)); err != nil {
		t.Fatal(err)
	}
	text := compact.String()
	for i, secret := range texts {
		quoted, err := json.Marshal(secret)
		if err != nil {
			t.Fatal(err)
		}
		text = strings.ReplaceAll(text, string(bytes.Trim(quoted, `"`)), fmt.Sprintf("TOP-SECRET-%d", i))
	}
	if strings.Contains(text, "PRIVATE KEY") {
		t.Fatal("a private key is still in the plan")
	}
	directory, err := cache.Dir()
	if err != nil {
		t.Fatal(err)
	}
	text = strings.ReplaceAll(text, directory, "/var/cache/kube")
	return append([]byte(text), '\n')
}

// walk calls f for every object of a document.
func walk(node any, f func(map[string]any)) {
	switch node := node.(type) {
	case map[string]any:
		f(node)
		for _, child := range node {
			walk(child, f)
		}
	case []any:
		for _, child := range node {
			walk(child, f)
		}
	}
}

// collect collects the texts of value that marks declares sensitive.
func collect(value, marks any, secrets map[string]bool) {
	switch marks := marks.(type) {
	case bool:
		if text, ok := value.(string); ok && marks && text != "" {
			secrets[text] = true
		}
	case map[string]any:
		if object, ok := value.(map[string]any); ok {
			for name, mark := range marks {
				collect(object[name], mark, secrets)
			}
		}
	case []any:
		if list, ok := value.([]any); ok && len(list) == len(marks) {
			for i, mark := range marks {
				collect(list[i], mark, secrets)
			}
		}
	}
}
