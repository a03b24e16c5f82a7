package drill

import (
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/componenttest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/unit"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
)

// TestFlags: the API server of a drill reads data and tokens with the files of the live one, and has none of
// its connections, logs and names.
func TestFlags(t *testing.T) {
	s := componenttest.Stacked(t)
	s.ExtraArgs = map[string]map[string]string{release.APIServer: {
		"service-account-issuer": component.Repeated("https://a", "https://b"), "audit-webhook-config-file": "/etc/hook",
		"feature-gates": "A=true", "authorization-webhook-cache-authorized-ttl": "1m",
	}}
	a, err := apiServerIn(string(unit.File(component.APIServer(s)).Content))
	if err != nil {
		t.Fatal(err)
	}
	got := a.drillFlags(layout.DrillRunDir)
	for _, want := range []string{
		"--service-account-key-file=" + component.SAPub, "--service-account-signing-key-file=" + component.SAKey,
		"--feature-gates=A=true", "--etcd-servers=unix://client:1", "--bind-address=127.0.0.1", "--anonymous-auth=false",
		"--client-ca-file=" + layout.DrillRunDir + "/ca.crt", "--advertise-address=192.0.2.1",
		"--endpoint-reconciler-type=none",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("without %s: %q", want, got)
		}
	}
	for _, flag := range got {
		for _, stranger := range []string{
			"audit", "etcd-certfile", "kubelet", "proxy-client", "webhook-", "egress", s.Address,
		} {
			if strings.Contains(flag, stranger) {
				t.Errorf("with %s", flag)
			}
		}
	}
	live, err := a.live(s.Address)
	if err != nil || live.APIPort() != s.APIPort() || live.Address != s.Address {
		t.Errorf("the live one is at %s, %v", live.ServingAddress(), err)
	}
}

func TestForeignAPIServer(t *testing.T) {
	for _, program := range []string{"/usr/bin/kube-apiserver", "/opt/kube/kubernetes/1.36.3/../../x/kube-apiserver", ""} {
		if a, err := apiServerIn("[Service]\nExecStart=" + program + " --secure-port=6443\n"); err == nil {
			t.Errorf("%s is accepted: %+v", program, a)
		}
	}
	if _, err := apiServerIn("[Service]\nUser=root\n"); err == nil {
		t.Error("a unit without a command is accepted")
	}
	for _, port := range []string{"", "none", "0", "99999"} {
		if _, err := (apiServer{flags: map[string]string{"secure-port": port}}).live("10.0.0.1"); err == nil {
			t.Errorf("port %q is accepted", port)
		}
	}
}

func TestDocumentationAddress(t *testing.T) {
	for cidrs, want := range map[string]string{
		"10.96.0.0/12": "192.0.2.1", "10.96.0.0/12,fd00::/108": "192.0.2.1", "fd00::/108,10.96.0.0/12": "2001:db8::1",
		"": "192.0.2.1",
	} {
		if got := documentationAddress(cidrs); got != want {
			t.Errorf("%s: %s, want %s", cidrs, got, want)
		}
	}
}
