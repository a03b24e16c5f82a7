package controlplane

import (
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/client"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// TestKeysOfAReplica verifies the rights of the keys on a replica's machine, and changes a
// replica of an earlier version, whose keys had more rights.
func TestKeysOfAReplica(t *testing.T) {
	st := newStage(t)
	st.steady(st.replicas.Create(st.ctx, st.spec))
	st.registrar.take()
	st.kubeletsKeyIsForKubelets()
	st.takesOverAWiderKey()
	st.leavesAdminConfOut()
	st.deletes()
}

const kubeletClient = `curl --silent --insecure --cert ` + component.PKIDir + `/apiserver-kubelet-client.crt --key ` +
	component.PKIDir + `/apiserver-kubelet-client.key `

// kubeletsKeyIsForKubelets: the key grants access to the kubelet API, and nothing else.
func (st *stage) kubeletsKeyIsForKubelets() {
	st.Helper()
	for path, want := range map[string]string{"/api/v1/secrets": "403", "/api/v1/nodes": "200"} {
		if code := st.run(kubeletClient + "--output /dev/null --write-out '%{http_code}' " + st.spec.LocalURL() +
			path); code != want {
			st.Errorf("%s with the key for kubelets: %s, want %s", path, code, want)
		}
	}
	for _, verb := range []string{"get", "create"} {
		review := `{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview",` +
			`"spec":{"resourceAttributes":{"verb":"` + verb + `","resource":"nodes","subresource":"proxy"}}}`
		answer := st.run(kubeletClient + "--header 'Content-Type: application/json' --data '" + review + "' " +
			st.spec.LocalURL() + "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
		if !strings.Contains(answer, `"allowed": true`) && !strings.Contains(answer, `"allowed":true`) {
			st.Errorf("%s nodes/proxy: %s", verb, answer)
		}
	}
}

// takesOverAWiderKey: if the old certificate belongs to an administrators' group and no binding
// for the new one exists, the binding is created first, and nothing restarts.
func (st *stage) takesOverAWiderKey() {
	st.Helper()
	wider := pki.APIServerKubeletClient()
	wider.Organizations = []string{component.AdminGroup}
	pair, err := st.spec.Bundle.Issue(wider, time.Now(), 0)
	if err != nil {
		st.Fatal(err)
	}
	c := component.Certificate{Leaf: wider, Path: component.KubeletClientCert, Owner: release.APIServer}
	if _, err := st.spec.Host.Apply(st.ctx, host.Change{Files: c.Files(pair)}); err != nil {
		st.Fatal(err)
	}
	bound := "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/" + client.KubeletBinding
	web := st.as(st.spec.Bundle)
	if status, body := send(st, web, "DELETE", bound, ""); status != 200 {
		st.Fatalf("%d %s", status, body)
	}
	f, err := machine.Observe(st.ctx, st.spec.Host, st.spec.Replica)
	if err != nil {
		st.Fatal(err)
	}
	d, err := decide(st.spec.Replica, f, time.Now())
	if err != nil {
		st.Fatal(err)
	}
	if err := bindBeforeCertificateChange(st.ctx, st.spec, d); err != nil {
		st.Fatal(err)
	}
	if status, body := fetch(st, web, bound); status != 200 {
		st.Errorf("before the certificate is written: %d %s", status, body)
	}
	before := st.pids()
	status, err := st.replicas.Update(st.ctx, st.spec)
	st.steady(status, err)
	st.expect("restarted", st.restarted(before), []string(nil))
	st.expect("calls", st.registrar.take(), []string{"register"})
	st.kubeletsKeyIsForKubelets()
}

// leavesAdminConfOut: the file is removed and added, and nothing restarts.
func (st *stage) leavesAdminConfOut() {
	st.Helper()
	before := st.pids()
	for _, without := range []bool{true, false} {
		st.spec.NoAdminConf = without
		status, err := st.replicas.Update(st.ctx, st.spec)
		st.steady(status, err)
		want := "there"
		if without {
			want = "gone"
		}
		st.expect("admin.conf", strings.TrimSpace(st.run("if [ -e "+component.AdminConf+
			" ]; then echo there; else echo gone; fi")), want)
	}
	st.spec.NoAdminConf = true // a Delete removes one that was left over
	st.expect("restarted", st.restarted(before), []string(nil))
	st.registrar.take()
}
