package acceptance

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/jsonfile"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/supplied"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// heldBy is one way to give a virtual IP to a machine, for the comparison of both.
type heldBy struct {
	name    string
	example string
	kill    string // kills what gives the address to the machine, with SIGKILL
	stop    string // stops it
	start   string
	units   []string // whose memory counts
}

var waysToHold = []heldBy{
	{
		name: "kube-vip", example: "examples/kube-vip-endpoint",
		kill: "kill -KILL $(cat /run/kube-endpoint-kube-vip/pid)",
		stop: "systemctl stop kube-endpoint-kube-vip", start: "systemctl start kube-endpoint-kube-vip",
		units: []string{"kube-endpoint-kube-vip"},
	},
	{
		name: "keepalived and HAProxy", example: "examples/stacked",
		kill: "systemctl kill --signal=KILL kube-endpoint-keepalived",
		stop: "systemctl stop kube-endpoint-keepalived", start: "systemctl start kube-endpoint-keepalived",
		units: []string{"kube-endpoint-haproxy", "kube-endpoint-keepalived"},
	},
}

// TestKubeVIPFailover measures what clients with a connection for each request notice when the machine with the
// virtual IP fails, with kube-vip and with keepalived and HAProxy, on the same machines.
func TestKubeVIPFailover(t *testing.T) {
	all := []string{"cp1", "cp2", "cp3"}
	testrun.Supplied(t, supplied.KubeVIP)
	tree := checkout(t)
	for _, way := range waysToHold {
		ok := t.Run(way.name, func(t *testing.T) {
			w := storyIn(t, all, tree, way.example)
			if way.name == "kube-vip" {
				installKubeVIP(t, all...)
			}
			writeKubeVIP(t, w, all...)
			apply(t, w)
			t.Cleanup(func() {
				if t.Failed() {
					logHolders(t)
				}
			})
			measureFailover(t, w, way, all)
			apply(t, w, "-destroy")
		})
		if !ok {
			t.FailNow()
		}
	}
}

func logHolders(t *testing.T) {
	t.Helper()
	for _, m := range shared.lab.Machines() {
		t.Logf("%s:\n%s", m.Name, onMachine(t, m, "ip -br address; journalctl --no-pager -o short-precise -n 60 "+
			"-u 'kube-endpoint-*'"))
	}
}

func measureFailover(t *testing.T, w *workspace.Workspace, way heldBy, all []string) {
	t.Helper()
	memory := jsonfile.Figure{Name: way.name + ": resident memory on each machine", Unit: "MiB"}
	for _, name := range all {
		n, err := strconv.Atoi(strings.TrimSpace(onMachine(t, shared.lab.Machine(name), memoryScript(way.units))))
		if err != nil {
			t.Fatal(err)
		}
		memory.Values = append(memory.Values, n)
	}
	t.Log(memory)
	testrun.Record(t, memory)
	f := startFresh(t, "https://"+vip+":6443")
	note := func(event string, limit time.Duration, do func(m *lab.Machine), undo func(m *lab.Machine)) {
		t.Helper()
		m := holder(t, all...)
		report := f.during(t, 60*time.Second, func() { do(m) })
		t.Logf("%s: %s", event, report)
		name := way.name + ": " + event
		testrun.Record(t, jsonfile.Milliseconds(name, limit, report.longest))
		testrun.Record(t, jsonfile.Figure{Name: name + ": failed requests", Values: []int{report.failed}})
		if report.longest > limit {
			t.Errorf("%s: no request succeeded for %s", event, report.longest)
		}
		if undo != nil {
			undo(m)
		}
		onMachine(t, m, "until curl -sk --fail --max-time 2 -o /dev/null https://"+m.Address.String()+":6443/readyz; do "+
			"sleep 0.5; done; sleep 4")
		holder(t, all...)
	}
	run := func(script string) func(*lab.Machine) {
		return func(m *lab.Machine) { t.Helper(); onMachine(t, m, script) }
	}
	note("SIGKILL of the process that holds the address", 8*time.Second, run(way.kill), nil)
	note("its unit stops", 8*time.Second, run(way.stop), run(way.start))
	note("the API server of that machine is killed, and starts again", 12*time.Second,
		run("systemctl kill --signal=KILL kube-apiserver"), nil)
	note("the API server of that machine stops", 15*time.Second,
		run("systemctl stop kube-apiserver"), run("systemctl start kube-apiserver"))
	note("the cable of that machine is pulled", 15*time.Second, func(m *lab.Machine) {
		if err := m.Cut(t.Context()); err != nil {
			t.Fatal(err)
		}
	}, func(m *lab.Machine) {
		if err := m.Heal(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	note("the replica of that machine is replaced", 8*time.Second, func(m *lab.Machine) {
		apply(t, w, "-replace="+inModule(replicaAddress(m.Name)))
	}, nil)
	f.end()
}

// memoryScript prints the resident memory of all processes of units.
func memoryScript(units []string) string {
	return fmt.Sprintf(`for unit in %s; do
  for group in $(grep -l "/$unit.service$" /proc/[0-9]*/cgroup 2>/dev/null); do
    grep VmRSS: "${group%%/cgroup}/status" 2>/dev/null || :
  done
done | awk '{ total += $2 } END { print int(total / 1024) }'`, strings.Join(units, " "))
}
