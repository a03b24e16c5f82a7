package acceptance

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// A year is compressed into the life of a certificate, and its weeks accordingly.
const (
	yearLength = 15 * time.Minute
	weekLength = yearLength / 52
)

// yearPolicy allows the renewal of all machines at once, and the repair of one.
const yearPolicy = `
renewal: {max_machines: 3}
repair: {max_machines: 1, restarts: true}
`

// year is a control plane whose pipeline runs once a week.
type year struct {
	user     user
	policy   string // the documented commands
	due      string // those for what is due although a person decides
	verdicts map[string]int
	shortest time.Duration // that any certificate had left after a run
	damaged  bool          // a scheduler was stopped on a day of renewals, beside a change that waits
}

// pendingFrom is the run from which on a change of the configuration waits, until the year is over.
const pendingFrom = 10

// pendingChange waits for a person: another kubeconfig.
const pendingChange = `
resource "kube_kubeconfig" "auditor" {
  pki    = kube_pki_bundle.this.bundle
  server = kube_control_plane_endpoint.this.url
  user   = "auditor"
}
`

// The verdicts of a run, by the text of the comment.
var yearVerdicts = map[string]string{
	"nothing": "\nNothing to apply.\n",
	"renewal": "**May be applied without a person**: only certificates are renewed",
	"repair":  "**May be applied without a person**: only drift is repaired",
	"asked":   "**A person decides**",
}

// TestPipelineRenews runs the documented pipeline every week of a year on a control plane whose
// certificates live for a year. All of them are renewed in time, and no person is asked, except
// about what somebody changes. Drift on one machine is repaired meanwhile. The second change is never
// applied: while it waits for the rest of the year, certificates are renewed, and drift is repaired that
// appears on a day of renewals. Time is compressed: the provider is built with certificates that live for minutes,
// and nothing else about it differs.
func TestPipelineRenews(t *testing.T) {
	names := []string{"cp1", "cp2", "cp3"}
	w := storyFrom(t, names, t.TempDir(), func(w *workspace.Workspace) error {
		w.Variables = []string{"github.com/kubequorum/terraform-provider-kube/internal/pki.leafLife=" + yearLength.String()}
		return w.Make(t.Context(), "control-plane", t.Output())
	})
	choose(t, w, names...)
	bare := fingerprints(t, names...)
	override(t, w, fmt.Sprintf("resource \"kube_kubeconfig\" \"admin\" {\n  validity = %q\n}\n", yearLength))
	apply(t, w)
	first := certificatesOn(t, names...)
	y := newYear(t, w)
	y.pass(t, names)
	for _, certificate := range certificatesOn(t, names...) {
		if !certificate.IsCA && first[string(certificate.Raw)] != nil {
			t.Errorf("the certificate of %s was never renewed", certificate.Subject)
		}
	}
	t.Logf("in more than a year of %d runs: %v; no certificate had less than %s of %s left",
		y.runs(), y.verdicts, y.shortest.Round(time.Second), yearLength)
	if y.verdicts["renewal"] == 0 || y.verdicts["repair"] != 1 || y.verdicts["asked"] < 4 || y.runs() < 20 ||
		y.verdicts["due renewal"] == 0 || y.verdicts["due repair"] != 1 {
		t.Errorf("in %d runs, the verdicts are %v", y.runs(), y.verdicts)
	}
	useAPI(t, w) // with the kubeconfig of the state
	expectHealthy(t, w, names)
	apply(t, w, "-destroy")
	expectBare(t, bare, names...)
}

func newYear(t *testing.T, w *workspace.Workspace) *year {
	t.Helper()
	y := &year{
		user: newUser(t, w), policy: documentedScript(t, "drift-review", 0), due: documentedScript(t, "drift-review", 1),
		verdicts: map[string]int{}, shortest: yearLength,
	}
	program := filepath.Join(y.user.home, "bin", "kube-review")
	if err := build.Provider(t.Context(), "cmd/kube-review", program); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.Dir, "policy.yaml"), []byte(yearPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	return y
}

func (y *year) runs() int {
	sum := 0
	for verdict := range yearVerdicts {
		sum += y.verdicts[verdict]
	}
	return sum
}

// pass lets a year and a week pass, after which no certificate of the beginning is valid. Then the change that waits
// is withdrawn, and certificates are renewed once more.
func (y *year) pass(t *testing.T, names []string) {
	t.Helper()
	start := time.Now()
	pending := filepath.Join(y.user.w.Dir, "pending.tf")
	for n := 0; time.Since(start) < yearLength+weekLength; n++ {
		y.change(t, n, pending)
		y.week(t, start, names, n == 6 || n == 7 || n >= pendingFrom)
		if n == 7 { // the person whom the pipeline asks applies what was changed
			apply(t, y.user.w)
		}
	}
	resources, err := y.user.w.Run(t.Context(), "state", "list")
	if err != nil || strings.Contains(resources, "auditor") {
		t.Fatalf("what waits for a person was applied: %s, %v", resources, err)
	}
	if err := os.Remove(pending); err != nil {
		t.Fatal(err)
	}
	for y.verdicts["renewal"] == 0 && time.Since(start) < 2*yearLength {
		y.week(t, start, names, false)
	}
}

// week lets the pipeline run once. A run that takes longer than a week delays the next one.
func (y *year) week(t *testing.T, start time.Time, names []string, asked bool) {
	t.Helper()
	if verdict := y.run(t); asked != (verdict == "asked") {
		t.Fatalf("after %d runs, the verdict is %q", y.runs(), verdict)
	}
	y.expectValid(t, names)
	if state := onMachine(t, shared.lab.Machine("cp2"), "systemctl is-active kube-scheduler || true"); strings.TrimSpace(
		state) != "active" {
		t.Fatalf("after %d runs, the scheduler is %s", y.runs(), state)
	}
	next := start.Add((time.Since(start)/weekLength + 1) * weekLength)
	awaitFor(t, 2*weekLength, "the next week does not begin", func() bool { return time.Now().After(next) })
}

// change makes what happens before a run: damage to a machine, and a change of the configuration.
func (y *year) change(t *testing.T, run int, pending string) {
	t.Helper()
	switch run {
	case 3:
		onMachine(t, shared.lab.Machine("cp2"), "systemctl stop kube-scheduler")
	case 6:
		if err := y.user.w.WriteJSON("later.auto.tfvars.json", map[string]any{"drain_timeout": "4s"}); err != nil {
			t.Fatal(err)
		}
	case pendingFrom:
		write(t, pending, pendingChange)
	}
	if run > pendingFrom && !y.damaged && y.renews(t, "cp2") {
		y.damaged = true
		onMachine(t, shared.lab.Machine("cp2"), "systemctl stop kube-scheduler")
	}
}

// renews reports whether certificates of a machine are in the last third of their life, which begins five minutes
// before they are issued.
func (y *year) renews(t *testing.T, name string) bool {
	t.Helper()
	const third = (yearLength + 5*time.Minute) / 3
	for _, certificate := range certificatesOn(t, name) {
		if !certificate.IsCA && time.Until(certificate.NotAfter) < third {
			return true
		}
	}
	return false
}

// run runs the pipeline once, and returns its verdict. If a person decides, what is due is applied alone.
func (y *year) run(t *testing.T) string {
	t.Helper()
	output := y.user.typeCommands(t, y.policy)
	verdict := verdictIn(output)
	if verdict == "" {
		t.Fatal("the comment has no verdict")
	}
	y.verdicts[verdict]++
	if verdict != "asked" {
		return verdict
	}
	for _, plan := range strings.Split(y.user.typeCommands(t, y.due), "### Control plane: plan")[1:] {
		y.verdicts["due "+verdictIn(plan)]++
	}
	return verdict
}

// verdictIn returns the first verdict in the output of a run.
func verdictIn(output string) string {
	for verdict, text := range yearVerdicts {
		if strings.Contains(output, text) {
			return verdict
		}
	}
	return ""
}

// expectValid checks that every certificate that is shown or stored is valid.
func (y *year) expectValid(t *testing.T, names []string) {
	t.Helper()
	all := certificatesOn(t, names...)
	for _, name := range names {
		for _, port := range []string{":2379", ":2380", ":6443"} {
			certificate := shown(t, address(name)+port)[0]
			all[string(certificate.Raw)] = certificate
		}
	}
	for _, certificate := range all {
		left := time.Until(certificate.NotAfter)
		if left <= 0 {
			t.Fatalf("the certificate of %s expired %s ago", certificate.Subject, -left)
		}
		y.shortest = min(y.shortest, left)
	}
}

// certificatesOn returns all certificates in the files and kubeconfigs of machines.
func certificatesOn(t *testing.T, names ...string) map[string]*x509.Certificate {
	t.Helper()
	all := map[string]*x509.Certificate{}
	for _, name := range names {
		rest := []byte(onMachine(t, shared.lab.Machine(name), `find /etc/kubernetes/pki -name '*.crt' -exec cat {} +
grep -h client-certificate-data: /etc/kubernetes/*.conf | while read -r _ data; do echo "$data" | base64 -d; done`))
		for {
			var block *pem.Block
			if block, rest = pem.Decode(rest); block == nil {
				break
			}
			certificate, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				t.Fatalf("on %s: %v", name, err)
			}
			all[string(certificate.Raw)] = certificate
		}
	}
	if len(all) < 10*len(names) {
		t.Fatalf("%v have %d certificates", names, len(all))
	}
	return all
}
