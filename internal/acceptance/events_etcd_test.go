package acceptance

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// TestEventsEtcd runs a control plane whose events are in an etcd cluster of their own.
func TestEventsEtcd(t *testing.T) {
	all := []string{"cp1", "cp2", "cp3"}
	w := storyIn(t, all, checkout(t), "examples/events-etcd")
	bare := fingerprints(t, all...)
	bundle, err := pki.Generate(pki.Options{ClusterName: "events", Now: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	w.Env = []string{"TF_VAR_etcd_ca_key=" + bundle.EtcdCA.PrivateKey}
	if err := w.WriteJSON("z.auto.tfvars.json", map[string]any{
		"machines": addresses(all[:2]), "events_machines": addresses(all[2:]),
		"etcd_ca_certificate": bundle.EtcdCA.Certificate,
	}); err != nil {
		t.Fatal(err)
	}
	apply(t, w)
	count := func(machine, prefix string) int {
		t.Helper()
		text := onMachine(t, shared.lab.Machine(machine),
			ctl+"etcdctl get --prefix --keys-only "+prefix+" | grep -c . || true")
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	// The namespace controller reports events about itself only when something fails; kubelets do
	// not run here. So the test writes an event, like any component.
	event := writeFile(t, w, "event.yaml", `apiVersion: v1
kind: Event
metadata: { name: test, namespace: default }
involvedObject: { kind: Namespace, name: default }
reason: Test
message: from the test
type: Normal
`)
	admin := writeFile(t, w, "admin.kubeconfig", outputOf(t, w, "kubeconfig"))
	kubectl(t, w, "--kubeconfig="+admin, "create", "-f", event)
	if n := count("cp3", "/registry/events/default/test"); n != 1 {
		t.Errorf("the events' etcd has %d of 1 event", n)
	}
	if n := count("cp1", "/registry/events/"); n != 0 {
		t.Errorf("the other etcd has %d events", n)
	}
	if n := count("cp1", "/registry/namespaces/"); n == 0 {
		t.Error("the other etcd has no namespaces")
	}
	apply(t, w, "-destroy")
	passes(t, w)
	expectBare(t, bare, all...)
}
