package acceptance

import (
	"context"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
)

// onMachine runs script on a machine, bypassing the provider.
func onMachine(t *testing.T, m *lab.Machine, script string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	out, err := m.Run(ctx, script)
	if err != nil {
		t.Fatalf("on %s: %v", m.Name, err)
	}
	recordBlocks(t, script)
	return out
}

func fingerprint(t *testing.T, m *lab.Machine) []string {
	t.Helper()
	lines, err := m.Fingerprint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// sameMachine fails for every line that was added to or removed from a machine's fingerprint.
func sameMachine(t *testing.T, m *lab.Machine, before []string) {
	t.Helper()
	for _, difference := range lab.Differences(before, fingerprint(t, m)) {
		t.Errorf("%s is not as before, %s", m.Name, difference)
	}
}

// starts returns when the control plane's processes on a machine were started. The same text
// means that no process was restarted.
func starts(t *testing.T, m *lab.Machine) string {
	t.Helper()
	return onMachine(t, m, "systemctl show -p Id -p MainPID -p ActiveEnterTimestampMonotonic etcd kube-apiserver "+
		"kube-controller-manager kube-scheduler")
}
