package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/jsonfile"
)

// failovers are the events of TestKubeVIPFailover.
var failovers = []string{
	"SIGKILL of the process that holds the address",
	"its unit stops",
	"the API server of that machine is killed, and starts again",
	"the API server of that machine stops",
	"the cable of that machine is pulled",
	"the replica of that machine is replaced",
}

// failoverWays are the two ways to hold an address that it compares.
var failoverWays = []string{"kube-vip", "keepalived and HAProxy"}

const residentMemory = ": resident memory on each machine"

// failoverTable returns the table of what clients notice when the machine with the address fails.
func failoverTable(run jsonfile.Run[jsonfile.Figure]) string {
	var b strings.Builder
	b.WriteString(origin(run.Commit, run.Date) + "| event on the machine with the address |")
	for _, way := range failoverWays {
		fmt.Fprintf(&b, " %s: longest time without a successful request | failed requests |", way)
	}
	b.WriteString("\n|" + strings.Repeat("---|", 1+2*len(failoverWays)) + "\n")
	for _, event := range failovers {
		b.WriteString("| " + event + " |")
		for _, way := range failoverWays {
			longest, failed := figureOf(run.Results, way+": "+event), notMeasured
			if f := figureOf(run.Results, way+": "+event+": failed requests"); len(f.Values) > 0 {
				failed = fmt.Sprint(f.Worst())
			}
			fmt.Fprintf(&b, " %s | %s |", worstCell(longest), failed)
		}
		b.WriteString("\n")
	}
	b.WriteString("| no event: resident memory of its processes, at most |")
	for _, way := range failoverWays {
		memory := notMeasured
		if f := figureOf(run.Results, way+residentMemory); len(f.Values) > 0 {
			memory = fmt.Sprintf("%d %s", f.Worst(), f.Unit)
		}
		b.WriteString(" " + memory + " | – |")
	}
	return b.String() + "\n"
}

// TestFailoverFigures checks that the table of failovers is made of the results in images/kube-vip-failover.json. With
// -update it writes the table.
func TestFailoverFigures(t *testing.T) {
	replaceTable(t, "templates/guides/topologies.md", "failover",
		failoverTable(recordedRun[jsonfile.Figure](t, "kube-vip-failover.json")))
}

// TestFailoverTable checks the table, with a part of a run.
func TestFailoverTable(t *testing.T) {
	stops := "kube-vip: " + failovers[1]
	got := failoverTable(jsonfile.Run[jsonfile.Figure]{Commit: "0123abc", Results: []jsonfile.Figure{
		jsonfile.Milliseconds(stops, 8*time.Second, 120*time.Millisecond),
		{Name: stops + ": failed requests", Values: []int{1}},
		{Name: "keepalived and HAProxy" + residentMemory, Unit: "MiB", Values: []int{20, 31, 25}},
	}})
	expectRows(t, got,
		"records: 0123abc. Date: not measured.\n",
		"| its unit stops | 0.1 s | 1 | not measured | not measured |\n",
		"| no event: resident memory of its processes, at most | not measured | – | 31 MiB | – |\n",
	)
}

// TestFailoverEvents: the test measures the events and the ways of the table.
func TestFailoverEvents(t *testing.T) {
	text := sourceOf(t, "internal/acceptance/endpoint_kube_vip_failover_test.go")
	for _, event := range failovers {
		if want := fmt.Sprintf("note(%q, ", event); !strings.Contains(text, want) {
			t.Errorf("the test lacks %s", want)
		}
	}
	for _, way := range failoverWays {
		if want := fmt.Sprintf("name: %q, example", way); !strings.Contains(text, want) {
			t.Errorf("the test lacks %s", want)
		}
	}
	if !strings.Contains(text, fmt.Sprintf("%q", residentMemory)) {
		t.Errorf("the test lacks %q", residentMemory)
	}
}

// sourceOf returns the text of a file of the checkout.
func sourceOf(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
