package docs

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/jsonfile"
)

// routeEvent is an event on a machine after which a router has no route to it, and what its test calls it.
type routeEvent struct{ figure, event string }

// routesOfBGP are those of TestBGPOnMachines.
var routesOfBGP = []routeEvent{
	{"withdrawal of a drain", "its replica is drained"},
	{"drain, with the observation of all replicas", "the same, with the observation of all replicas"},
	{"kill -9 of bird", "bird is killed (SIGKILL)"},
	{"API server killed", "its API server is killed (SIGKILL)"},
	{"API server stops (it serves 5 s longer)", "its API server stops; it serves 5 s longer"},
	{"API server not ready", "its API server is not ready any more"},
	{"cable pulled (BFD 300 ms x 3)", "its cable is pulled, BFD every 300 ms, three times"},
	{"cable pulled, without BFD (hold time 3 s)", "its cable is pulled, without BFD, with a hold time of 3 s"},
	{"power off (BFD 300 ms x 3)", "it is killed with its cable pulled, BFD every 300 ms, three times"},
}

// routesOfKubeVIP are those of TestAnnouncedByKubeVIP.
var routesOfKubeVIP = []routeEvent{
	{"drain, with the observation of all replicas", "its replica is drained, with the observation of all replicas"},
	{"kube-vip killed", "kube-vip is killed (SIGKILL)"},
	{"agent killed", "the agent is killed (SIGKILL)"},
	{"unit stopped", "the unit stops"},
	{"API server killed", "its API server is killed (SIGKILL)"},
	{"API server stops (it serves 5 s longer)", "its API server stops; it serves 5 s longer"},
	{"API server is not ready", "its API server is not ready any more"},
	{"kube-vip hangs (hold time 9 s)", "kube-vip hangs (SIGSTOP), with a hold time of 9 s"},
	{"cable pulled (hold time 9 s)", "its cable is pulled, with a hold time of 9 s"},
	{"power off (hold time 9 s)", "it is killed with its cable pulled, with a hold time of 9 s"},
}

// routeTable returns the table of how long a router has the route to a machine after an event there.
func routeTable(run jsonfile.Run[jsonfile.Figure], test string, events []routeEvent) string {
	var b strings.Builder
	b.WriteString(origin(run.Commit, run.Date) +
		"| event on a machine | the route is gone after, at most | limit of the test | of how many |\n|---|---|---|---|\n")
	for _, e := range events {
		f, limit, count := figureOf(run.Results, test+": "+e.figure), notMeasured, notMeasured
		if len(f.Values) > 0 {
			limit, count = secondsCell(f.Limit), fmt.Sprint(len(f.Values))
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", e.event, worstCell(f), limit, count)
	}
	return b.String()
}

// TestRouteFigures checks that the tables of routes are made of the results in images/bgp-routes.json and
// images/kube-vip-routes.json. With -update it writes them.
func TestRouteFigures(t *testing.T) {
	const guide = "templates/guides/topologies.md"
	replaceTable(t, guide, "bgp routes",
		routeTable(recordedRun[jsonfile.Figure](t, "bgp-routes.json"), "TestBGPOnMachines", routesOfBGP))
	replaceTable(t, guide, "kube-vip routes",
		routeTable(recordedRun[jsonfile.Figure](t, "kube-vip-routes.json"), "TestAnnouncedByKubeVIP", routesOfKubeVIP))
}

// TestRouteTable checks the table, with a part of a run.
func TestRouteTable(t *testing.T) {
	of := func(name string, ms time.Duration) jsonfile.Figure {
		return jsonfile.Milliseconds(name, time.Second, ms*time.Millisecond)
	}
	got := routeTable(jsonfile.Run[jsonfile.Figure]{Commit: "0123abc", Results: []jsonfile.Figure{
		of("TestBGPOnMachines: kill -9 of bird", 410), of("TestBGPOnMachines: kill -9 of bird", 730),
		of("TestBGPOnMachinesWithIPv6: API server killed", 100),
	}}, "TestBGPOnMachines", routesOfBGP)
	expectRows(t, got,
		"records: 0123abc. Date: not measured.\n",
		"| bird is killed (SIGKILL) | 0.7 s | 1.0 s | 2 |\n",
		"| its API server is killed (SIGKILL) | not measured | not measured | not measured |\n",
	)
}

// TestRouteEvents: the tests of the endpoints measure the events of the tables.
func TestRouteEvents(t *testing.T) {
	for dir, events := range map[string][]routeEvent{"bgp": routesOfBGP, "kubevip": routesOfKubeVIP} {
		text := sourceOf(t, "internal/endpoint/"+dir+"/lab_steps_test.go")
		for _, e := range events {
			if want := fmt.Sprintf(".After(%q, ", e.figure); !strings.Contains(text, want) {
				t.Errorf("the steps of %s lack %s", dir, want)
			}
		}
	}
}
