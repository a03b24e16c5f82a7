package docs

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/jsonfile"
	"github.com/kubequorum/terraform-provider-kube/internal/load"
)

// adopted are the steps of TestAdoptCluster in the table, by their tests. its is the same change by kubeadm.
var adopted = []struct{ step, its, change string }{
	{"imported", "", "import"},
	{"a_flag_of_the_API_servers", "by_kubeadm/a_flag_of_the_API_servers", "a flag of the API servers changes"},
	{"certificates_renewed", "by_kubeadm/certificates_renewed", "all certificates are renewed"},
	{"authorities_rotated", "", "all CAs and keys rotate, three applies"},
	{"the_first_machine_replaced", "by_kubeadm/a_machine_replaced", "the first machine is replaced"},
	{"a_machine_less_and_more", "", "from three machines to two, and to three"},
	{"upgraded_by_a_minor", "by_kubeadm/upgraded_by_a_minor", "upgrade by a minor version"},
	{"kubelets_upgraded", "", "the kubelets follow"},
	{"moved_to_units", "", "from static pods to units"},
}

// adoptionTable returns the table of what clients of an adopted control plane observed. Applies of one step are added
// up.
func adoptionTable(run jsonfile.Run[load.Observation]) string {
	var b strings.Builder
	b.WriteString(origin(run.Commit, run.Date) + "| change | requests that failed | longest gap " +
		"| by hand or with kubeadm: requests that failed | longest gap |\n|---|---|---|---|---|\n")
	for _, a := range adopted {
		failed, gap := adoptionCells(run.Results, a.step)
		byHand := []string{"–", "–"}
		if a.its != "" {
			byHand[0], byHand[1] = adoptionCells(run.Results, a.its)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", a.change, failed, gap, strings.Join(byHand, " | "))
	}
	return b.String()
}

// adoptionCells returns the requests of a step that failed, and the longest time of a client without an answer.
func adoptionCells(results []load.Observation, step string) (failed, gap string) {
	var sum load.Requests
	var longest time.Duration
	for _, o := range results {
		if o.Name != "TestAdoptCluster/"+step {
			continue
		}
		sum = sum.Plus(o.Observed.Requests())
		for _, client := range o.Observed.Clients {
			longest = max(longest, client.All.Gap.Length)
		}
	}
	if sum.Tried == 0 {
		return notMeasured, notMeasured
	}
	return failedCell(sum), gapCell(longest)
}

// TestAdoptionFigures checks that the table of the guide is made of the results in images/adoption.json. With -update
// it writes the table.
func TestAdoptionFigures(t *testing.T) {
	run := recordedRun[load.Observation](t, "adoption.json")
	replaceTable(t, "templates/guides/adopt-kubeadm.md", "adoption", adoptionTable(run))
}

// TestAdoptionTable checks the table, with a part of a run.
func TestAdoptionTable(t *testing.T) {
	seen := func(name string, failed, excused int, gap time.Duration) load.Observation {
		return load.Observation{Name: "TestAdoptCluster/" + name, Observed: load.Summary{Clients: []load.ClientSummary{
			{All: load.Requests{Tried: 100, Failed: failed, Excused: excused, Gap: load.Gap{Length: gap}}},
			{All: load.Requests{Tried: 50, Gap: load.Gap{Length: gap / 2}}},
		}}}
	}
	got := adoptionTable(jsonfile.Run[load.Observation]{Commit: "0123abc", Results: []load.Observation{
		seen("by_kubeadm/a_flag_of_the_API_servers", 30, 0, 3400*time.Millisecond),
		seen("a_flag_of_the_API_servers", 2, 2, 210*time.Millisecond),
		seen("authorities_rotated", 0, 0, 100*time.Millisecond),
		seen("authorities_rotated", 1, 0, 500*time.Millisecond),
	}})
	expectRows(t, got,
		"records: 0123abc. Date: not measured.\n",
		"| a flag of the API servers changes | 2 of 150 (2 excused) | 0.21 s | 30 of 150 | 3.40 s |\n",
		"| all CAs and keys rotate, three applies | 1 of 300 | 0.50 s | – | – |\n",
		"| all certificates are renewed | not measured | not measured | not measured | not measured |\n",
	)
}
