package docs

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/bench"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/etcdtest"
	"github.com/kubequorum/terraform-provider-kube/internal/firewall"
	"github.com/kubequorum/terraform-provider-kube/internal/jsonfile"
	"github.com/kubequorum/terraform-provider-kube/internal/soak"
)

var update = flag.Bool("update", false, "write the tables of measured figures again")

// soaked are the rows of the soak's results that the guide shows, and what it calls them.
var soaked = []struct{ row, change string }{
	{"under load: nothing", "nothing changes"},
	{"under load: a flag of the API servers", "a flag of all three API servers changes"},
	{"under load: a flag of etcd", "a flag of all three etcd members changes"},
	{"under load: the endpoint", "the endpoint's configuration changes"},
	{"under load: a lost certificate", "a deleted certificate is repaired"},
	{"under load: rotation of everything: the next is trusted", "all CAs and keys rotate: the next ones are trusted, " +
		"encryption at rest is introduced"},
	{"under load: rotation of everything: the next issues", "the next ones issue, Secrets are rewritten"},
	{"under load: rotation of everything: the previous is dropped", "the previous ones are dropped"},
	{"upgrade: etcd and Kubernetes by a minor version", "etcd 3.5 to 3.6 and Kubernetes 1.34 to 1.35, in one apply"},
	{"upgrade: Kubernetes by the next minor version", "Kubernetes 1.35 to 1.36"},
	{"upgrade by a patch: etcd and Kubernetes", "a patch release of both, in one apply"},
	{"under load: replace of a replica", "a live replica is replaced"},
	{"under load: replace of a member", "a live member is replaced"},
	{"under load: scale up to five", "from three machines to five"},
	{"under load: scale down to three", "from five machines to three"},
	{"under load: scale down to one", "from three machines to one; the holder of the virtual IP leaves"},
	{"under load: scale up to three", "from one machine to three"},
	{"adopted: a flag of the API servers", "a control plane of kubeadm: the first change of a flag after its import"},
	{"adopted: renewal of all certificates", "a control plane of kubeadm: all certificates are renewed"},
	{"runtime: units to pods", "all three machines move from units to static pods"},
	{"runtime: pods to units", "all three machines move from static pods to units"},
}

// TestSoakTable checks that the tables of the guide are made of the results in images/soak.json.
// With -update it writes the tables.
func TestSoakTable(t *testing.T) {
	run, err := jsonfile.ReadRun[soak.Result](filepath.Join(root(t), "images", "soak.json"))
	if err != nil {
		t.Fatal(err)
	}
	changes, err := changeTable(run)
	if err != nil {
		t.Fatal(err)
	}
	outages, err := outageTable(run)
	if err != nil {
		t.Fatal(err)
	}
	replaceTable(t, "templates/guides/soak.md", "soak", changes)
	replaceTable(t, "templates/guides/soak.md", "dead machine", outages)
}

// TestEndpointTables checks that the tables of kinds of endpoint and of pulled plugs are made of the one run in
// images/endpoints.json. With -update it writes the tables.
func TestEndpointTables(t *testing.T) {
	run, err := endpointsRun(filepath.Join(root(t), "images"))
	if err != nil {
		t.Fatal(err)
	}
	endpoints, err := endpointTable(run)
	if err != nil {
		t.Fatal(err)
	}
	replaceTable(t, "templates/guides/soak.md", "endpoints", endpoints)
	replaceTable(t, "templates/guides/soak.md", "pulled plugs", plugTable(run))
	summary, err := endpointSummary(run)
	if err != nil {
		t.Fatal(err)
	}
	replaceTable(t, "README.md", "endpoints", summary)
}

// replaceTable compares what is between the comments of a table with what is wanted, as far as it was measured.
func replaceTable(t *testing.T, file, name, want string) {
	t.Helper()
	path := filepath.Join(root(t), file)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want = onlyMeasured(want)
	begin, end := "<!-- figures of "+name+" -->\n", "<!-- end of figures -->\n"
	before, rest, ok := strings.Cut(string(text), begin)
	table, after, ended := strings.Cut(rest, end)
	switch {
	case !ok || !ended:
		t.Fatalf("%s has no table of %s", file, name)
	case table == "\n"+want+"\n":
	case !*update:
		t.Errorf("the table of %s in %s is not made of the results: go test ./internal/docs -run %s -update", name, file,
			t.Name())
	default:
		if err := os.WriteFile(path, []byte(before+begin+"\n"+want+"\n"+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBenchmarkTable checks that the tables of the guide are made of the results in images/bench.json, fleet.json,
// recovery.json and writes.json. With -update it writes the tables.
func TestBenchmarkTable(t *testing.T) {
	for _, table := range []string{"bench", "fleet", "recovery", "writes"} {
		run, err := jsonfile.ReadRun[bench.Result](filepath.Join(root(t), "images", table+".json"))
		if err != nil {
			t.Fatal(err)
		}
		if len(run.Results) == 0 {
			t.Fatalf("images/%s.json has no results", table)
		}
		replaceTable(t, "templates/guides/benchmarks.md", table, benchmarkTable(run))
	}
}

// benchmarkTable returns the table of a run.
func benchmarkTable(run jsonfile.Run[bench.Result]) string {
	var b strings.Builder
	b.WriteString(origin(run.Commit, run.Date) +
		"| what | measured | of rounds | reference | of rounds | ratio or difference | goal | met |\n" +
		"|---|---|---|---|---|---|---|---|\n")
	for _, r := range run.Results {
		reference, among, compared, goal, met := "–", "–", "–", "–", "–"
		if r.Reference > 0 {
			reference, compared = fmt.Sprintf("%.2f %s", r.Reference, r.Unit), fmt.Sprintf("%.2f", r.Ratio)
			among = spread(r, r.ReferenceMin, r.ReferenceMax)
		}
		if r.Goal != "" {
			goal, met = r.Goal, map[bool]string{true: "yes", false: "**no**"}[r.Met]
		}
		if r.Goal != "" && r.Rounds > 0 && r.Rounds < fewestRounds && r.Unit != "" { // the run was cut off
			met = "too few rounds"
		}
		fmt.Fprintf(&b, "| %s | %.2f %s | %s | %s | %s | %s | %s | %s |\n", r.Name, r.Value, r.Unit,
			spread(r, r.Min, r.Max), reference, among, compared, goal, met)
	}
	return b.String()
}

// TestRestoreTable checks that the table of restores is made of the results in images/restores.json. With -update it
// writes the table.
func TestRestoreTable(t *testing.T) {
	run, err := jsonfile.ReadRun[etcdtest.MeasuredRestore](filepath.Join(root(t), "images", "restores.json"))
	if err != nil {
		t.Fatal(err)
	}
	replaceTable(t, "templates/guides/benchmarks.md", "restores", restoreTable(run))
}

// restoreTable returns the table of a run, with all cells of the matrix.
func restoreTable(run jsonfile.Run[etcdtest.MeasuredRestore]) string {
	var b strings.Builder
	b.WriteString(origin(run.Commit, run.Date) + "| etcd | of three members | restored from | three members serve after " +
		"| revisions lost | informer up to date after |\n" + strings.Repeat("|---", 6) + "|\n")
	for _, cell := range etcdtest.RestoreCells() {
		took, lost, informer := notMeasured, notMeasured, notMeasured
		for _, r := range run.Results {
			switch {
			case r.RestoreCell != cell:
			case r.Refused:
				took, lost, informer = "refused before anything changes", "–", "–"
			default:
				took, lost, informer = fmt.Sprintf("%.1f s", r.Seconds), fmt.Sprint(r.LostRevisions),
					fmt.Sprintf("%.1f s", r.Informer)
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", cell.Etcd, cell.Loss, cell.Source, took, lost, informer)
	}
	return b.String()
}

// fewestRounds is how many rounds a figure needs to meet a goal: those of the largest databases. Numbers without a unit
// are counts of all rounds.
const fewestRounds = 3

// spread returns the number of rounds, with the least and the most of them. Files of before do not have them.
func spread(r bench.Result, least, most float64) string {
	switch {
	case r.Rounds == 1:
		return "1"
	case r.Rounds > 1:
		return fmt.Sprintf("%d: %.2f–%.2f", r.Rounds, least, most)
	case r.Min == 0 && r.Max == 0 && r.Value != 0:
		return "not measured"
	}
	return "–"
}

// TestNetworkTable checks that the table of connections is made of package firewall. With -update
// it writes the table.
func TestNetworkTable(t *testing.T) {
	replaceTable(t, "templates/guides/topologies.md", "network", firewall.Table())
}
