package acceptance

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// healthConfig is added to the example: a check block for the health of the whole control
// plane, which reports detected problems.
const healthConfig = `
variable "fail_on" {
  type    = list(string)
  default = []
}

data "kube_control_plane" "this" {
  pki              = kube_pki_bundle.this.bundle
  etcd             = [for member in kube_etcd_member.this : member.client_url]
  endpoint         = kube_control_plane_endpoint.this.registration
  fail_on          = var.fail_on
  certificate_days = var.certificate_days
  depends_on       = [kube_control_plane_replica.this]
  timeouts         = { read = "%[1]s" }
}

data "kube_production_readiness" "this" {
  pki        = kube_pki_bundle.this.bundle
  etcd       = [for member in kube_etcd_member.this : member.client_url]
  endpoint   = kube_control_plane_endpoint.this.registration
  depends_on = [kube_control_plane_replica.this]
  timeouts   = { read = "%[1]s" }
}

variable "certificate_days" {
  type    = number
  default = 30
}

check "control_plane" {
  assert {
    condition     = data.kube_control_plane.this.healthy
    error_message = join("\n", concat([data.kube_control_plane.this.summary], data.kube_control_plane.this.issues))
  }
}
`

// healthTimeout is the timeout of the data source in these tests.
const healthTimeout = 20 * time.Second

// health has the attributes of the data source that these tests use.
type health struct {
	Healthy   bool     `json:"healthy"`
	Issues    []string `json:"issues"`
	Summary   string   `json:"summary"`
	VirtualIP struct {
		Holder string `json:"holder"`
	} `json:"virtual_ip"`
	Balancers map[string]struct {
		Reachable bool `json:"reachable"`
		Backends  map[string]struct {
			Status string `json:"status"`
		} `json:"backends"`
	} `json:"balancers"`
	Replicas map[string]struct {
		Healthy    bool   `json:"healthy"`
		Registered bool   `json:"registered"`
		Version    string `json:"version"`
		Components map[string]struct {
			Healthy bool   `json:"healthy"`
			Health  string `json:"health"`
			Version string `json:"version"`
		} `json:"components"`
		CertificateDays *int `json:"certificate_days"`
	} `json:"replicas"`
	Etcd struct {
		Leader    string `json:"leader"`
		Voters    int    `json:"voters"`
		Tolerates *int   `json:"tolerates"`
		Members   map[string]struct {
			ID        string   `json:"id"`
			Healthy   bool     `json:"healthy"`
			Leader    bool     `json:"leader"`
			Version   string   `json:"version"`
			Unit      string   `json:"unit_state"`
			Volume    string   `json:"volume"`
			Alarms    []string `json:"alarms"`
			Quota     int64    `json:"quota_bytes"`
			QuotaUsed float64  `json:"quota_used"`
		} `json:"members"`
	} `json:"etcd_cluster"`
}

// TestHealth reads kube_control_plane for a control plane of three machines: healthy, with a
// stopped component, with a dead machine, and with certificates that expire soon. The data
// source reports each problem within its timeout, and does not prevent a plan or an apply. Its
// issues are read by refreshes, because it is deferred while a replica has a pending change.
func TestHealth(t *testing.T) {
	names := []string{"cp1", "cp2", "cp3"}
	w := newStory(t, names...)
	bare := fingerprints(t, names...)
	expectHealthBlock(t, w, fmt.Sprintf(healthConfig, healthTimeout))
	apply(t, w)
	awaitRotation(t, names...)
	t.Run("all well", func(t *testing.T) { healthWhole(t, w, names) })
	t.Run("a review", func(t *testing.T) { healthReview(t, w) })
	t.Run("a stopped scheduler", func(t *testing.T) { healthStopped(t, w) })
	t.Run("a dead machine", func(t *testing.T) { healthDead(t, w) })
	t.Run("a certificate that ends soon", func(t *testing.T) { healthExpiring(t, w) })
	apply(t, w, "-destroy")
	expectBare(t, bare, names...)
}

// expectHealthBlock adds a configuration file to the example.
func expectHealthBlock(t *testing.T, w *workspace.Workspace, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.Dir, "beside.tf"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// healthNow refreshes and returns the data source's result. The refresh has warnings and no
// error, and the plan is the same as without the data source.
func healthNow(t *testing.T, w *workspace.Workspace, args ...string) health {
	t.Helper()
	began := time.Now()
	text, err := w.Run(t.Context(),
		append([]string{"apply", "-refresh-only", "-auto-approve", "-input=false", "-no-color"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("refreshed in %.1f s", time.Since(began).Seconds())
	var h health
	answerOf(t, w, "kube_control_plane", &h)
	t.Log(h.Summary, "\n  "+strings.Join(h.Issues, "\n  "))
	if !h.Healthy {
		expectContains(t, unfolded(text), "Check block assertion failed", unfolded(h.Issues[0]))
	}
	return h
}

// expectReportedHealthy expects that the data source of an example reports a healthy control plane.
func expectReportedHealthy(t *testing.T, w *workspace.Workspace) {
	t.Helper()
	if h := healthNow(t, w); !h.Healthy || len(h.Issues) > 0 {
		t.Errorf("%s: %q", h.Summary, h.Issues)
	}
}

// answerOf reads the result of a data source from the state.
func answerOf(t *testing.T, w *workspace.Workspace, kind string, answer any) {
	t.Helper()
	resources, err := w.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range resources {
		if r.Type == kind {
			if err := json.Unmarshal(r.Values, answer); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("the state has no %s", kind)
}

// observedConfig is the data source on its own, for tests with another subject. If the example
// has requestsFile, the certificates are the signed ones.
const observedConfig = `
data "kube_control_plane" "observed" {
  signed   = %s
  pki      = kube_pki_bundle.this.bundle
  etcd     = [for member in kube_etcd_member.this : member.client_url]
  endpoint = kube_control_plane_endpoint.this.registration
}
`

// observed returns the data source's result for the running control plane. It uses a plan that
// is discarded, so neither the configuration nor the state contains it afterwards.
func observed(t *testing.T, w *workspace.Workspace) health {
	t.Helper()
	file := filepath.Join(w.Dir, "observed.tf")
	signed := "null"
	if _, err := os.Stat(filepath.Join(w.Dir, "requests.tf")); err == nil {
		signed = "local.signed"
	}
	write(t, file, fmt.Sprintf(observedConfig, signed))
	defer func() {
		if err := os.Remove(file); err != nil {
			t.Error(err)
		}
	}()
	if _, err := w.Run(t.Context(), "plan", "-refresh-only", "-input=false", "-no-color",
		"-out=observed.plan"); err != nil {
		t.Fatal(err)
	}
	text, err := w.Run(t.Context(), "show", "-json", "observed.plan")
	if err != nil {
		t.Fatal(err)
	}
	var plan struct {
		Prior struct {
			Values struct {
				Root struct {
					Resources []struct {
						Address string          `json:"address"`
						Values  json.RawMessage `json:"values"`
					} `json:"resources"`
				} `json:"root_module"`
			} `json:"values"`
		} `json:"prior_state"`
	}
	if err := json.Unmarshal([]byte(text), &plan); err != nil {
		t.Fatal(err)
	}
	for _, r := range plan.Prior.Values.Root.Resources {
		if r.Address == "data.kube_control_plane.observed" {
			var h health
			if err := json.Unmarshal(r.Values, &h); err != nil {
				t.Fatal(err)
			}
			return h
		}
	}
	t.Fatal("the plan has no answer of the data source")
	return health{}
}

// expectIssues expects each of the words in one of the issues, and no issues if there are no
// words.
func expectIssues(t *testing.T, h health, fragments ...string) {
	t.Helper()
	all := strings.Join(h.Issues, "\n")
	for _, fragment := range fragments {
		if !strings.Contains(all, fragment) {
			t.Errorf("no issue says %q:\n%s", fragment, all)
		}
	}
	if h.Healthy != (len(fragments) == 0) || h.Healthy != (len(h.Issues) == 0) {
		t.Errorf("healthy: %v with issues %q", h.Healthy, h.Issues)
	}
}

func healthWhole(t *testing.T, w *workspace.Workspace, names []string) {
	before, version := processes(t, names...), release(t, "kubernetes")
	h := healthNow(t, w)
	expectIssues(t, h)
	if h.Etcd.Leader == "" || h.Etcd.Voters != 3 || h.Etcd.Tolerates == nil || *h.Etcd.Tolerates != 1 ||
		h.VirtualIP.Holder == "" {
		t.Errorf("etcd %+v, virtual IP %+v", h.Etcd, h.VirtualIP)
	}
	for _, name := range names {
		r, m, b := h.Replicas[name], h.Etcd.Members[name], h.Balancers[name]
		if !r.Healthy || !r.Registered || r.Version != version || len(r.Components) != 3 || r.CertificateDays == nil ||
			*r.CertificateDays != 364 {
			t.Errorf("replica %s: %+v", name, r)
		}
		if !m.Healthy || m.Quota <= 0 || m.QuotaUsed <= 0 {
			t.Errorf("member %s: %+v", name, m)
		}
		if !b.Reachable || len(b.Backends) != 3 || !strings.HasPrefix(b.Backends[name].Status, "UP") {
			t.Errorf("balancer %s: %+v", name, b)
		}
	}
	expectRestarted(t, before, nil)
	expectEmptyPlan(t, w)
}

func healthStopped(t *testing.T, w *workspace.Workspace) {
	onMachine(t, shared.lab.Machine("cp2"), "systemctl stop kube-scheduler")
	expectIssues(t, healthNow(t, w), "replica cp2 ("+address("cp2")+
		"): kube-scheduler: kube-scheduler.service is inactive")
	_, _, err := w.Plan(t.Context(), "-refresh-only", `-var=fail_on=["unhealthy"]`)
	if err == nil {
		t.Fatal("fail_on lets it pass")
	}
	expectContains(t, unfolded(err.Error()), "Control plane is unhealthy", "kube-scheduler.service is inactive",
		"Unchanged: nothing was changed.", "from fail_on")
	apply(t, w) // the repair is not blocked by it
	expectIssues(t, healthNow(t, w))
}

func healthDead(t *testing.T, w *workspace.Workspace) {
	dead := shared.lab.Machine("cp3")
	if err := dead.PowerOff(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dead.Boot(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	h := healthNow(t, w)
	expectIssues(t, h, "machine "+address("cp3")+" with balancer cp3, etcd member cp3 and replica cp3: ",
		"etcd member cp3 ("+address("cp3")+") does not answer")
	if h.Balancers["cp3"].Reachable || h.Etcd.Tolerates == nil || *h.Etcd.Tolerates != 0 || !h.Replicas["cp1"].Healthy ||
		!h.Etcd.Members["cp2"].Healthy {
		t.Errorf("what answers is not told: %+v", h)
	}
	began := time.Now()
	_, _, err := w.Plan(t.Context(), `-var=fail_on=["unreachable"]`)
	if err == nil {
		t.Fatal("fail_on lets it pass")
	}
	t.Logf("failed after %.1f s", time.Since(began).Seconds())
	expectContains(t, unfolded(err.Error()), "Parts of the control plane cannot be reached", "machine "+address("cp3"))
	expectContains(t, plan(t, w, `-var=apiserver_extra_args={v="3"}`), "3 to change") // without it, nothing is rejected
	if err := dead.Boot(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitRotation(t, "cp1", "cp2", "cp3")
	expectIssues(t, healthNow(t, w))
}

func healthExpiring(t *testing.T, w *workspace.Workspace) {
	h := healthNow(t, w, "-var=certificate_days=365")
	expectIssues(t, h, "etcd member cp1 ("+address("cp1")+"): a certificate expires on ", "replica cp2 ("+address("cp2")+
		"): kube-apiserver: a certificate expires on ", "in 364 days")
}

// readinessReview is the result of kube_production_readiness.
type readinessReview struct {
	Items []struct {
		ID       string `json:"id"`
		Status   string `json:"status"`
		Evidence string `json:"evidence"`
		Remedy   string `json:"remedy"`
		Accepted bool   `json:"accepted"`
	} `json:"items"`
	Score   int    `json:"score"`
	Total   int    `json:"total"`
	Ready   bool   `json:"ready"`
	Summary string `json:"summary"`
}

// healthReview checks that nothing is unknown but what machines do not show, if all of them answer,
// and that the items that do not depend on the lab's computer have the expected status.
func healthReview(t *testing.T, w *workspace.Workspace) {
	var r readinessReview
	answerOf(t, w, "kube_production_readiness", &r)
	t.Log(r.Summary)
	want := map[string]string{
		"etcd-voters": "pass", "api-servers": "pass", "encryption": "fail", "snapshots": "fail",
		"certificates":   "unknown", // there is no alert
		"request-limits": "pass", "audit": "pass", "anonymous": "pass", "resources": "fail",
		"authorization": "pass", "admission": "pass", "insecure-port": "pass", "profiling": "pass", "etcd-tls": "pass",
		"taints": "pass", "oidc": "fail",
		"metrics": "warn", // nobody reads them
	}
	passed := 0
	for _, item := range r.Items {
		t.Logf("%-8s %s: %s", item.Status, item.ID, item.Evidence)
		status, fixed := want[item.ID]
		young := item.ID == "compaction" && strings.Contains(item.Evidence, "no compaction since its start")
		if item.Status == "unknown" && !fixed && !young || fixed && item.Status != status {
			t.Errorf("%s is %s, want %s: %s", item.ID, item.Status, status, item.Evidence)
		}
		if item.Status == "pass" {
			passed++
		}
		if (item.Remedy == "") != (item.Status == "pass") {
			t.Errorf("%s: remedy %q", item.ID, item.Remedy)
		}
	}
	if r.Total != 20 || len(r.Items) != 20 || r.Score != passed || r.Ready {
		t.Errorf("%d of %d, ready: %v, with %d items of which %d pass", r.Score, r.Total, r.Ready, len(r.Items), passed)
	}
}
