package controlplane

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

const clusterInfo = "/api/v1/namespaces/kube-public/configmaps/cluster-info"

// settingDigests returns the command that prints the digests of the setting files that exist.
func settingDigests() string {
	return "for file in " + strings.Join(component.SettingPaths(), " ") + "; do [ ! -e $file ] || sha256sum $file; done"
}

// TestHardening verifies what a replica denies and what its audit log contains, before and
// after an upgrade by a minor.
func TestHardening(t *testing.T) {
	testrun.Long(t)
	if machines.lab == nil {
		testrun.Missing(t, "no lab: "+machines.missing)
	}
	st := newStage(t)
	older := pinned(build.MinorBefore("kubernetes", 1))
	if _, err := os.Stat(filepath.Join(machines.source.Directory, "kubernetes-v"+older, release.APIServer)); err != nil {
		testrun.NotBuilt(t, "kubernetes "+older)
	}
	st.spec.Version, st.spec.Store = older, ctlStore{st}
	st.steady(st.replicas.Create(st.ctx, st.spec))
	t.Cleanup(func() {
		if err := st.replicas.Delete(context.WithoutCancel(st.ctx), st.spec, DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	st.opensHealthAlone()
	st.audits("first")
	st.deniesExternalIPs()
	st.expectPrivileged(http.StatusCreated, "")
	st.changesSettings()
	st.expectPrivileged(http.StatusUnprocessableEntity, "disallowed by cluster policy")
	st.takesSettingsBack()

	st.spec.Version = labVersion
	files := st.run(settingDigests())
	status, err := st.replicas.Update(st.ctx, st.spec)
	st.steady(status, err)
	st.expect("files after the upgrade", st.run(settingDigests()), files)
	st.opensHealthAlone()
	st.spec.Audit = component.Audit{}
	status, err = st.replicas.Update(st.ctx, st.spec)
	st.steady(status, err)
	st.audits("second")
}

// opensHealthAlone: requests without credentials are answered only on the paths that health
// checks need.
func (st *stage) opensHealthAlone() {
	st.Helper()
	nobody := st.httpsClient(st.spec.Bundle)
	want := map[string]int{
		"/readyz": 200, "/livez": 200, "/healthz": 200, "/readyz?verbose": 200,
		"/api": 401, "/version": 401, "/metrics": 401, "/readyz/etcd": 401, clusterInfo: 401, "/openid/v1/jwks": 401,
	}
	for _, path := range st.spec.Authentication.AnonymousPaths {
		want[path] = 403 // RBAC decides: there is no binding for system:anonymous
	}
	for path, code := range want {
		if status, body := fetch(st, nobody, path); status != code {
			st.Errorf("%s without credentials: %d %s, want %d", path, status, body, code)
		}
	}
}

// event is an entry of the audit log.
type event struct {
	Level, Stage, Verb string
	User               struct{ Username string }
	ObjectRef          struct{ Resource, Name, Subresource string }
	RequestObject      json.RawMessage
	ResponseObject     json.RawMessage
}

// audits: a Secret is logged without its content, a role change with the rights it grants.
func (st *stage) audits(name string) {
	st.Helper()
	written := strings.TrimSpace(st.run("wc -l <" + component.AuditLogDir + "/audit.log")) // by earlier tests
	web := st.as(st.spec.Bundle)
	value := base64.StdEncoding.EncodeToString([]byte("swordfish-" + name))
	secret := `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"` + name + `"},"data":{"key":"` + value + `"}}`
	binding := `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"` + name +
		`"},` +
		`"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"view"},` +
		`"subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"auditor"}]}`
	for path, text := range map[string]string{
		"/api/v1/namespaces/default/secrets":                     secret,
		"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings": binding,
	} {
		if status, body := send(st, web, http.MethodPost, path, text); status != http.StatusCreated {
			st.Fatalf("%d %s", status, body)
		}
	}
	if status, body := fetch(st, web, "/api/v1/namespaces/default/secrets/"+name); status != http.StatusOK ||
		!strings.Contains(body, value) {
		st.Fatalf("%d %s", status, body)
	}
	seen := map[string]event{}
	log := st.run("tail -n +$((" + written + " + 1)) " + component.AuditLogDir + "/audit.log")
	for line := range strings.Lines(log) {
		var e event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			st.Fatalf("the audit log has the line %q: %v", line, err)
		}
		if e.ObjectRef.Name == name {
			seen[e.Verb+" "+e.ObjectRef.Resource] = e
		}
	}
	for _, verb := range []string{"get", "create"} {
		e := seen[verb+" secrets"]
		if e.Level != "Metadata" || e.User.Username != component.Admin().CommonName || e.RequestObject != nil ||
			e.ResponseObject != nil {
			st.Errorf("%s of a Secret is noted as %+v", verb, e)
		}
	}
	if e := seen["create clusterrolebindings"]; e.Level != "RequestResponse" ||
		!strings.Contains(string(e.RequestObject), "auditor") {
		st.Errorf("a new right is noted as %+v", e)
	}
	if strings.Contains(log, value) || strings.Contains(log, "swordfish") {
		st.Error("the audit log holds a Secret")
	}
	for _, noise := range []string{`"resource":"leases"`, `"requestURI":"/readyz`, `"resource":"events"`} {
		if strings.Contains(log, noise) {
			st.Errorf("the audit log has %s", noise)
		}
	}
	st.expect("mode and owner of the audit log",
		st.run("stat -c '%a %U' "+component.AuditLogDir+" "+component.AuditLogDir+"/audit.log"),
		"700 kube-apiserver\n600 kube-apiserver\n")
}

func (st *stage) deniesExternalIPs() {
	st.Helper()
	const service = `{"apiVersion":"v1","kind":"Service","metadata":{"name":"taker"},` +
		`"spec":{"ports":[{"port":80}],"externalIPs":["192.0.2.1"]}}`
	if status, body := send(st, st.as(st.spec.Bundle), http.MethodPost, "/api/v1/namespaces/default/services",
		service); status != http.StatusForbidden {
		st.Errorf("a Service takes an address: %d %s", status, body)
	}
}

// expectPrivileged: what the API server answers to a privileged Pod, which it would create.
func (st *stage) expectPrivileged(code int, text string) {
	st.Helper()
	const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"privileged"},"spec":{"containers":[` +
		`{"name":"a","image":"a","securityContext":{"privileged":true}}]}}`
	// kube-controller-manager creates it too, some time after its start.
	const account = `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"default"}}`
	admin := st.as(st.spec.Bundle)
	send(st, admin, http.MethodPost, "/api/v1/namespaces/default/serviceaccounts", account)
	status, body := send(st, admin, http.MethodPost, "/api/v1/namespaces/default/pods?dryRun=All", pod)
	if status != code || !strings.Contains(body, text) {
		st.Errorf("a privileged Pod: %d %s, want %d %q", status, body, code, text)
	}
}

// changesSettings: each setting restarts only the API server, except for a limit of another
// component.
func (st *stage) changesSettings() {
	st.Helper()
	for _, c := range []struct {
		name      string
		alter     func(*Spec)
		restarted []string
	}{
		{
			"policy", func(s *Spec) { s.Audit = component.Audit{Policy: cptest.AuditPolicy, MaxBackups: 3} },
			[]string{release.APIServer},
		},
		{"issuer and path", func(s *Spec) {
			s.Authentication = component.Authentication{JWT: cptest.Issuer, AnonymousPaths: []string{clusterInfo}}
		}, []string{release.APIServer}},
		{"no privileged Pods", func(s *Spec) {
			s.ExtraArgs = map[string]map[string]string{release.APIServer: {"allow-privileged": "false"}}
		}, []string{release.APIServer}},
		{"limit", func(s *Spec) {
			s.Limits = map[string]component.Limits{release.Scheduler: {
				MemoryHigh: "1G", MemoryMax: "2G", CPUQuota: "200%", MemoryMin: "10%", CPUWeight: 500, IOWeight: 200,
			}}
		}, []string{release.Scheduler}},
	} {
		before := st.pids()
		c.alter(&st.spec)
		start := time.Now()
		status, err := st.replicas.Update(st.ctx, st.spec)
		st.Logf("%s changed in %s", c.name, time.Since(start).Round(100*time.Millisecond))
		st.steady(status, err)
		st.expect("restarted for "+c.name, st.restarted(before), c.restarted)
	}
	st.opensHealthAlone()
	st.expect("limits", st.run("systemctl show --property=MemoryHigh,MemoryMax,CPUQuotaPerSecUSec kube-scheduler | sort"),
		"CPUQuotaPerSecUSec=2s\nMemoryHigh=1073741824\nMemoryMax=2147483648\n")
	st.expect("slice", st.run("systemctl show --property=Slice --value kube-scheduler"), "kubescheduler.slice\n")
	st.expect("reservations", st.run("systemctl show --property=CPUWeight,IOWeight kubescheduler.slice | sort"),
		"CPUWeight=500\nIOWeight=200\n")
	st.expect("reserved memory",
		st.run("[ $(systemctl show --property=MemoryMin --value kubescheduler.slice) -gt 0 ] && echo some"), "some\n")
	st.run(`tr '\0' '\n' </proc/$(systemctl show --property=MainPID --value kube-scheduler)/environ |
		grep -x GOMEMLIMIT=966367641`)
}

// takesSettingsBack: only the API server can detect what it cannot compile. After the rollback
// all files are as before, including those without an error.
func (st *stage) takesSettingsBack() {
	st.Helper()
	good := st.spec
	files := st.run(settingDigests())
	st.spec.Audit.Policy = strings.ReplaceAll(cptest.AuditPolicy, "Metadata", "Request")
	st.spec.Authentication.JWT = strings.TrimRight(cptest.Issuer, "\n") +
		"\n  userValidationRules: [{expression: 'user.nonsense('}]\n"
	_, err := st.replicas.Update(st.ctx, st.spec)
	var p *problem.Problem
	if !errors.As(err, &p) || !strings.Contains(p.Summary, "rolled back to "+good.Version) ||
		!strings.Contains(p.Detail, "nonsense") {
		st.Errorf("the failure does not say what it is: %v", err)
	}
	st.expect("files after the way back", st.run(settingDigests()), files)
	st.spec = good
	status, err := st.replicas.Read(st.ctx, st.spec)
	st.steady(status, err)
}
