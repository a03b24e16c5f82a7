package acceptance

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// machineConfig is a machine that another resource makes: its host key is known only when that
// resource is applied.
const machineConfig = `
resource "terraform_data" "machine" {
  input = %q
}
`

// machineProvider configures the provider with the host key of that machine.
const machineProvider = `
provider "kube" {
  ssh = {
    user        = var.ssh_user
    private_key = var.ssh_private_key
    known_hosts = var.ssh_known_hosts
    hosts       = { %q = { host_key = terraform_data.machine.output } }
  }
}
`

// TestNewMachine adds a machine to a running control plane in the apply that makes the machine.
// Its host key is unknown in the plan. The plan reads the other machines as usual, the apply
// restarts nothing on them, and the next plan is empty. Then the cluster gets another name in
// place, which restarts neither etcd nor an API server, and its service account tokens get
// another issuer, while tokens of the former one stay valid.
func TestNewMachine(t *testing.T) {
	names := []string{"cp1", "cp2"}
	w := newStory(t, names...)
	bare := fingerprints(t, names...)
	choose(t, w, "cp1")
	trustOnly(t, w, "cp1")
	apply(t, w)

	key, err := shared.lab.Machine("cp2").HostKey()
	if err != nil {
		t.Fatal(err)
	}
	before := processes(t, "cp1")
	choose(t, w, names...)
	config := fmt.Appendf(nil, machineConfig, strings.TrimSpace(key))
	if err := os.WriteFile(filepath.Join(w.Dir, "machine.tf"), config, 0o600); err != nil {
		t.Fatal(err)
	}
	provider := fmt.Sprintf(machineProvider, address("cp2"))
	override(t, w, provider)
	onMachine(t, shared.lab.Machine("cp1"), "systemctl stop kube-scheduler")
	output := plan(t, w)
	expectContains(t, output, `terraform_data.machine will be created`, `kube_etcd_member.this["cp2"] will be created`,
		`kube_control_plane_replica.this["cp2"] will be created`, "kube-scheduler.service is inactive")
	if strings.Contains(output, "not read") || strings.Contains(output, "not known yet") {
		t.Errorf("a machine with known settings was not read:\n%s", output)
	}
	apply(t, w)
	expectHealthy(t, w, names)
	expectRestarted(t, before, []string{"cp1 kube-scheduler"})
	if t.Failed() {
		t.FailNow()
	}
	renames(t, w, names)
	rotatesIssuer(t, w, names, provider)
	apply(t, w, "-destroy")
	expectBare(t, bare, names...)
}

// trustOnly removes the host keys of all other machines from the workspace.
func trustOnly(t *testing.T, w *workspace.Workspace, names ...string) {
	t.Helper()
	known, err := shared.lab.KnownHosts()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(known) {
		at, _, _ := strings.Cut(line, " ")
		if slices.ContainsFunc(names, func(name string) bool { return address(name) == at }) {
			lines = append(lines, line)
		}
	}
	variables := map[string]any{"ssh_known_hosts": strings.Join(lines, "")}
	if err := w.WriteJSON("trusted.auto.tfvars.json", variables); err != nil {
		t.Fatal(err)
	}
}

// renames gives the cluster another name.
func renames(t *testing.T, w *workspace.Workspace, names []string) {
	t.Helper()
	before := processes(t, names...)
	id := textOf(valuesOf(t, w, "kube_pki_bundle.this"), "id")
	output := plan(t, w, "-var=cluster_name=renamed")
	expectContains(t, output, "kube_pki_bundle.this will be updated in-place", "0 to add,")
	apply(t, w, "-var=cluster_name=renamed")
	expectHealthy(t, w, names)
	var restarted []string
	for _, name := range names {
		restarted = append(restarted, name+" kube-controller-manager", name+" kube-scheduler")
		m := shared.lab.Machine(name)
		for _, record := range []string{
			"/etc/kubernetes/replica.json", "/etc/etcd/member.json", "/etc/haproxy/kube/endpoint.json",
		} {
			onMachine(t, m, `grep -q '"cluster_name": "renamed"' `+record)
		}
		onMachine(t, m, "grep -q 'name: renamed' /etc/kubernetes/admin.conf")
	}
	expectRestarted(t, before, restarted)
	if now := textOf(valuesOf(t, w, "kube_pki_bundle.this"), "id"); now != id {
		t.Errorf("the cluster's id was %s and is %s", id, now)
	}
}

// issuerConfig sets the issuers of service account tokens.
const issuerConfig = `
resource "kube_control_plane_replica" "this" {
  repeated_args = { apiserver = { service-account-issuer = [%q, %q] } }
}
`

const (
	formerIssuer = "https://kubernetes.default.svc.cluster.local"
	newIssuer    = "https://issuer.example"
)

// rotatesIssuer adds an issuer of service account tokens, and then moves it to the front. A
// token from before is accepted by every API server, and new ones have the new issuer.
func rotatesIssuer(t *testing.T, w *workspace.Workspace, names []string, config string) {
	t.Helper()
	admin := credentialsOf(t, outputOf(t, w, "kubeconfig"))
	old := admin.tokenOf(t, "default")
	renamed := "-var=cluster_name=renamed"
	for _, issuers := range [][]any{{formerIssuer, newIssuer}, {newIssuer, formerIssuer}} {
		override(t, w, config+fmt.Sprintf(issuerConfig, issuers...))
		apply(t, w, renamed)
		admin.with(old).expectKnown(t, "a token from before", "system:serviceaccount:default:default", servers(names...)...)
	}
	fresh := admin.tokenOf(t, "default")
	for what, token := range map[string]string{"a token of the former issuer": old, "a token of the new issuer": fresh} {
		admin.with(token).expectKnown(t, what, "system:serviceaccount:default:default", servers(names...)...)
	}
	if issuer := issuerOf(t, fresh); issuer != newIssuer {
		t.Errorf("the new token is issued by %q", issuer)
	}
	if issuer := issuerOf(t, old); issuer != formerIssuer {
		t.Errorf("the token from before is issued by %q", issuer)
	}
}

func issuerOf(t *testing.T, token string) string {
	t.Helper()
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		t.Fatalf("the token has %d parts", len(parts))
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	var claims struct {
		Issuer string `json:"iss"`
	}
	if err := json.Unmarshal(text, &claims); err != nil {
		t.Fatal(err)
	}
	return claims.Issuer
}
