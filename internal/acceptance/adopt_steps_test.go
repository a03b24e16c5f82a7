package acceptance

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/lab/services"
)

// adoptedStep is a part of the life of a control plane that kubeadm has created.
type adoptedStep struct {
	name string
	run  func(t *testing.T)
}

// createByKubeadm creates a control plane on the first machine, and lets the others join. settings are those of
// services.Kubeadm.
func createByKubeadm(t *testing.T, names []string, version, etcd, settings string, joined func(name string)) {
	t.Helper()
	k := services.Kubeadm{Kubernetes: version, Etcd: etcd, Settings: settings}
	if joined != nil {
		k.Joined = func(_ context.Context, m *lab.Machine) error {
			joined(m.Name)
			return nil
		}
	}
	if err := k.Create(t.Context(), labMachines(names), t.Output()); err != nil {
		t.Fatal(err)
	}
}

// labMachines returns machines by their names.
func labMachines(names []string) []*lab.Machine {
	var machines []*lab.Machine
	for _, name := range names {
		machines = append(machines, shared.lab.Machine(name))
	}
	return machines
}

// rebuiltAfter makes machines on which kubeadm has run anew when the test ends.
func rebuiltAfter(t *testing.T, names ...string) {
	t.Helper()
	t.Cleanup(func() {
		for _, name := range names {
			if err := shared.lab.Machine(name).Rebuild(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		}
	})
}

// kubeletState prints what a kubelet runs, and what it and its Pods say.
const kubeletState = `ip -br address; ls -la /etc/kubernetes /etc/kubernetes/manifests /etc/kubernetes/pki
ctr -n k8s.io tasks ls
journalctl -u kubelet -u kube-endpoint-kube-vip -n 40 --no-pager | cut -c 1-300
tail -n 12 /var/log/pods/kube-system_*/*/*.log | cut -c 1-300`

// runSteps runs steps, each as a test, up to the first that fails. names are the machines of kubeadm.
func runSteps(t *testing.T, names []string, steps []adoptedStep) {
	t.Helper()
	for _, step := range steps {
		if t.Run(step.name, step.run) {
			continue
		}
		for _, name := range names {
			t.Logf("%s: %s", name, onMachine(t, shared.lab.Machine(name), kubeletState))
		}
		t.FailNow()
	}
}

// expectNoManifests expects that the kubelets have nothing to run.
func expectNoManifests(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if left := onMachine(t, shared.lab.Machine(name), "ls -A /etc/kubernetes/manifests"); left != "" {
			t.Errorf("manifests on %s: %s", name, left)
		}
	}
}

// stackedCertificates are what kubeadm certs check-expiration lists on a machine with stacked etcd.
var stackedCertificates = []string{"apiserver-etcd-client", "scheduler.conf", "etcd-server"}

// kubeadmWorks: the commands of kubeadm that operators know work on a machine. version is that of the control plane.
func kubeadmWorks(t *testing.T, m *lab.Machine, version string, certificates ...string) {
	t.Helper()
	output := onMachine(t, m, "kubeadm certs check-expiration 2>&1")
	t.Log(output)
	expectContains(t, output, certificates...)
	for _, line := range strings.Split(output, "\n") {
		if strings.Contains(line, "MISSING") && !strings.Contains(line, "super-admin") {
			t.Errorf("kubeadm misses a certificate: %s", line)
		}
	}
	expectContains(t, onMachine(t, m, "kubeadm token create --ttl 5m && kubeadm token list"), "authentication")
	expectContains(t, onMachine(t, m, "kubeadm upgrade plan --ignore-preflight-errors=all v"+version+" 2>&1"),
		"Cluster version: "+version, "Target version: v"+version)
}

// expectImportPlan expects the plan of an import from kubeadm's machines: of the bundle, which is protected on the
// machines and not in the configuration, and of members and replicas. The endpoint and the administrator's kubeconfig
// are added. It says what their records miss, and what their next restart adds.
func expectImportPlan(t *testing.T, output string, members, replicas []string) {
	t.Helper()
	t.Log(output)
	text, imported := unfolded(output), 1+len(members)+len(replicas)
	expectContains(t, text, fmt.Sprintf("%[1]d to import, 2 to add, %[1]d to change, 0 to destroy.", imported),
		"is missing: kubeadm has created the member", "/etc/kubernetes/replica.json is missing",
		"kube-scheduler --profiling=false", "Next step: set a flag in extra_args to keep another value.")
	for _, name := range members {
		expectContains(t, text, "etcd member "+name+" runs as kubeadm has configured it")
	}
	for _, name := range replicas {
		expectContains(t, text, "Replica "+name+" runs as kubeadm has configured it")
	}
}
