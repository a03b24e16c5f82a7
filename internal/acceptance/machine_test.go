package acceptance

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
)

// fingerprintScript lists what an operator would call the state of a machine:
// files, users, packages, enabled units, addresses, listening ports. Left out
// is what a package manager or systemd keeps for itself, and the archived data
// that a destroyed member leaves on purpose.
const fingerprintScript = `
{
  find /etc /opt /usr/local /var/lib /var/log /root -xdev \
    -not -path '/etc/ssl/*' -not -path '/var/lib/apt/*' -not -path '/var/lib/dpkg/*' -not -path '/var/lib/systemd/*' -not -path '/var/lib/ucf/*' \
    -not -path '/var/log/*' -not -path '/var/lib/etcd-archive*' -not -name '.pwd.lock' -not -name '*-' \
    -printf 'file %p %y %m %u %g\n'
  cut -d: -f1 /etc/passwd | sed 's/^/user /'
  cut -d: -f1 /etc/group | sed 's/^/group /'
  dpkg-query -W -f='package ${Package} ${Status}\n' | grep ' installed$'
  systemctl list-unit-files --no-legend --state=enabled,masked | awk '{print "unit", $1, $2}'
  systemctl list-units --no-legend --plain --state=failed | awk '{print "failed", $1}'
  ip -o addr | awk '{print "address", $2, $4}'
  ss -Hlnt | awk '{print "listens", $4}'
} | sort -u`

// onMachine runs script on a machine, past the provider.
func onMachine(t *testing.T, m *lab.Machine, script string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := m.Run(ctx, script)
	if err != nil {
		t.Fatalf("on %s: %v", m.Name, err)
	}
	return out
}

func fingerprint(t *testing.T, m *lab.Machine) []string {
	t.Helper()
	return strings.Split(strings.TrimSpace(onMachine(t, m, fingerprintScript)), "\n")
}

// sameMachine fails for everything that was added to or lost from a machine
// since before.
func sameMachine(t *testing.T, m *lab.Machine, before []string) {
	t.Helper()
	after := fingerprint(t, m)
	for _, line := range after {
		if !slices.Contains(before, line) {
			t.Errorf("%s is not clean, left: %s", m.Name, line)
		}
	}
	for _, line := range before {
		if !slices.Contains(after, line) {
			t.Errorf("%s is not as before, lost: %s", m.Name, line)
		}
	}
}

// starts is when the control plane's processes on a machine were started: the
// same text means that none was restarted.
func starts(t *testing.T, m *lab.Machine) string {
	t.Helper()
	return onMachine(t, m, "systemctl show -p Id -p MainPID -p ActiveEnterTimestampMonotonic etcd kube-apiserver kube-controller-manager kube-scheduler")
}
