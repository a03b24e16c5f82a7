package docs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/jsonfile"
	"github.com/kubequorum/terraform-provider-kube/internal/soak"
)

// endpointsFile has one run of the kinds of endpoint and of pulled plugs.
const endpointsFile = "endpoints.json"

// cleanCommit is a commit without changes that are not in it.
var cleanCommit = regexp.MustCompile(`^[0-9a-f]{12,40}$`)

// endpointsRun returns the run in a directory of images; without the file, one without results. What the table
// compares must be of one commit, which the file names, and what it links must be drawn.
func endpointsRun(dir string) (jsonfile.Run[soak.Result], error) {
	run, err := jsonfile.ReadRun[soak.Result](filepath.Join(dir, endpointsFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return run, nil
	case err != nil:
		return run, err
	case !cleanCommit.MatchString(run.Commit):
		return run, fmt.Errorf("%s is of commit %q: want the hash of one without other changes", endpointsFile, run.Commit)
	}
	for _, r := range run.Results {
		if r.Name == r.Scenario && r.Verdict == soak.NotMet && strings.HasPrefix(r.Detail, soak.Incomplete) {
			return run, fmt.Errorf("%s has a scenario that was not completed: %s: %s", endpointsFile, r.Name, r.Detail)
		}
		kind, ok := strings.CutSuffix(strings.TrimPrefix(r.Name, "endpoint "), ": "+lostPower)
		if !ok || len(r.Series) == 0 {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, plotOf(kind))); err != nil {
			return run, fmt.Errorf("the plot of %q is not drawn (make plots SOAK_OUT=images/%s): %w", r.Name, endpointsFile, err)
		}
	}
	return run, nil
}

// plugTable returns the table of pulled plugs.
func plugTable(run jsonfile.Run[soak.Result]) string {
	measured := map[string]jsonfile.Figure{}
	for _, r := range run.Results {
		if strings.HasPrefix(r.Name, "pulled plug: ") {
			for _, f := range r.Figures {
				measured[f.Name] = f
			}
		}
	}
	var b strings.Builder
	b.WriteString(origin(run.Commit, run.Date) + "| after a pulled plug | median | worst | limit | of how many |\n" +
		"|---|---|---|---|---|\n")
	for _, f := range soak.PlugFigures() {
		median, worst, limit, count := notMeasured, notMeasured, "–", notMeasured
		if f.Limit > 0 {
			limit = strings.TrimSpace(fmt.Sprintf("%d %s", f.Limit, f.Unit))
		}
		if m := measured[f.Name]; len(m.Values) > 0 {
			median = strings.TrimSpace(fmt.Sprintf("%d %s", m.Median(), f.Unit))
			worst = strings.TrimSpace(fmt.Sprintf("%d %s", m.Worst(), f.Unit))
			count = fmt.Sprint(len(m.Values))
			if f.Limit > 0 && m.Worst() > f.Limit {
				worst = "**" + worst + "**"
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", f.Name, median, worst, limit, count)
	}
	return b.String()
}

// TestPlugTable checks the table of pulled plugs, with and without a run.
func TestPlugTable(t *testing.T) {
	run := jsonfile.Run[soak.Result]{Commit: "0123abc", Date: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	run.Results = []soak.Result{
		{Name: "pulled plug: the virtual IP", Figures: []jsonfile.Figure{
			{Name: "connections to the virtual IP", Values: []int{700, 500, 900}},
			{Name: "of it until keepalived has elected", Values: []int{450}},
		}},
		{Name: "pulled plug: writes", Figures: []jsonfile.Figure{{Name: "the first write", Values: []int{2400, 1000}}}},
		{Name: "under load: nothing", Figures: []jsonfile.Figure{{Name: "failed requests", Values: []int{1}}}},
	}
	got := plugTable(run)
	expectRows(t, got,
		"records: 0123abc. Date: 2026-01-02.\n",
		"| connections to the virtual IP | 700 ms | 900 ms | 1000 ms | 3 |\n",
		"| of it until keepalived has elected | 450 ms | 450 ms | – | 1 |\n",
		"| the first write | 1000 ms | **2400 ms** | 2000 ms | 2 |\n",
		"| of it until etcd has elected | not measured | not measured | – | not measured |\n",
		"| failed requests | not measured | not measured | – | not measured |\n",
	)
	if empty := plugTable(jsonfile.Run[soak.Result]{}); strings.Count(empty, "| not measured | not measured |") != 7 {
		t.Errorf("without a run:\n%s", empty)
	}
}

// TestEndpointsRun: a file must be of one commit, and its plots must be drawn.
func TestEndpointsRun(t *testing.T) {
	dir := t.TempDir()
	if run, err := endpointsRun(dir); err != nil || len(run.Results) > 0 {
		t.Errorf("without a file: %+v, %v", run, err)
	}
	run := endpointRun(t)
	for _, test := range []struct{ commit, want string }{
		{"", "is of commit"},
		{"0123456789ab-dirty", "is of commit"},
		{"0123456789ab", "the plot of"},
	} {
		run.Commit = test.commit
		if err := jsonfile.Write(filepath.Join(dir, endpointsFile), run, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := endpointsRun(dir); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("commit %q: %v, want %q", test.commit, err, test.want)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "endpoint-bgp.svg"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if read, err := endpointsRun(dir); err != nil || len(read.Results) != len(run.Results) {
		t.Errorf("%d results, %v", len(read.Results), err)
	}
}
