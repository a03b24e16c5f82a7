package acceptance

import (
	"fmt"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/load"
)

// clients are running clients of a control plane, and the criteria for what they observe.
type clients struct {
	*load.Load
	criteria load.Criteria
}

// unnoticed returns the criteria of the soak for a computer that also runs the tests, and whose
// processes therefore wait for the processor: a gap may be longer, a few requests may meet an API
// server between its shutdown and the client's reading of GOAWAY, and a few writes the leader of
// etcd while it transfers its leadership. make soak judges an idle
// computer by the unchanged criteria, and reports both.
func unnoticed() load.Criteria {
	c := load.Unnoticed().Excusing(droppedWrites...).Excusing(load.Excuse{
		Operation: load.APIRequest, Kinds: []string{"HTTP 503"}, Texts: []string{"apiserver is shutting down"}, Most: 6,
		Reason: "a client that has not read the GOAWAY of an API server that stops is told to retry",
	}, load.Excuse{
		Operation: load.APIRequest, Kinds: []string{"no answer in time"}, Most: 4, Reason: droppedProposal,
	}, load.Excuse{
		Operation: load.APIRequest, Kinds: []string{"HTTP 500"}, Texts: []string{"raft proposal dropped"}, Most: 4,
		Reason: droppedProposal,
	})
	c.Longest.Any, c.Longest.Events = 3*time.Second, 3*time.Second
	return c
}

// droppedProposal is a property of etcd (etcd-io/etcd#8975).
const droppedProposal = "raft drops a write that reaches the leader while it transfers its leadership"

// droppedWrites excuses writes of the direct writer that etcd drops.
var droppedWrites = []load.Excuse{
	{Operation: load.EtcdWrite, Kinds: []string{"no answer in time"}, Most: 4, Reason: droppedProposal},
	{
		Operation: load.EtcdWrite, Kinds: []string{"gRPC Unknown"}, Texts: []string{"raft proposal dropped"}, Most: 4,
		Reason: droppedProposal,
	},
}

// directWriter is a writer on the members of machines, whose names may change. Its credentials are from a machine that
// has a member now.
func directWriter(t *testing.T, from string, names func() []string) *load.Etcd {
	t.Helper()
	return &load.Etcd{Endpoints: func() []string { return members(names()...) }, TLS: etcdCredentials(t, from)}
}

// startLoad starts clients on the virtual IP, and a writer on the members of the named
// machines, if any. They have the rate of the soak, and the criteria of unnoticed.
func startLoad(t *testing.T, kubeconfig string, names ...string) *clients {
	t.Helper()
	if len(names) == 0 {
		return startClients(t, load.Config{Kubeconfig: kubeconfig, Criteria: unnoticed()})
	}
	return startLoadOn(t, kubeconfig, func() []string { return names })
}

// startLoadOn starts clients on the virtual IP, and a writer on the members of machines whose names
// may change.
func startLoadOn(t *testing.T, kubeconfig string, names func() []string) *clients {
	t.Helper()
	return startClients(t, load.Config{
		Kubeconfig: kubeconfig, Criteria: unnoticed(), Etcd: directWriter(t, names()[0], names),
	})
}

func startClients(t *testing.T, config load.Config) *clients {
	t.Helper()
	if config.Dial == nil {
		config.Dial = shared.dial
	}
	l, err := load.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	return &clients{l, config.Criteria}
}

// undisturbed stops clients, and reports every criterion that is violated. What failed and is
// excused is in the output.
func undisturbed(t *testing.T, l *clients) {
	t.Helper()
	violated := load.Verdict(reportOf(t, l), l.criteria)
	for _, criterion := range violated {
		t.Error(criterion)
	}
	if len(violated) > 0 {
		for _, m := range shared.lab.Machines() {
			t.Logf("%s:\n%s", m.Name, onMachine(t, m, journalScript))
		}
	}
}

// reportOf stops clients, and returns what they observed.
func reportOf(t *testing.T, l *clients) load.Report {
	t.Helper()
	report, err := l.Stop(t.Context())
	if err != nil {
		t.Error(err)
	}
	fmt.Fprintln(t.Output(), report)
	recordFigures(t, report, l.criteria)
	return report
}

// journalScript prints the leader changes, and the stops and starts.
const journalScript = `journalctl --no-pager --output=short-precise --since=-5min \
  -u etcd -u kube-apiserver -u kube-endpoint-haproxy -u kube-endpoint-keepalived |
grep -E 'elected leader|lost leader|leadership|transfer|Stopp|Start|DOWN|UP|STATE' | cut -c1-260 | tail -60`
