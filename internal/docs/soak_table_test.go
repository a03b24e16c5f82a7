package docs

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/jsonfile"
	"github.com/kubequorum/terraform-provider-kube/internal/load"
	"github.com/kubequorum/terraform-provider-kube/internal/soak"
)

// notMeasured stands for a figure that a file lacks, because it is older than the figure.
const notMeasured = "not measured"

// origin is the line that says what a run is the run of.
func origin(commit string, date time.Time) string {
	day := notMeasured
	if !date.IsZero() {
		day = date.Format(time.DateOnly)
	}
	return fmt.Sprintf("Commit that the file records: %s. Date: %s.\n\n", cmp.Or(commit, notMeasured), day)
}

// criteriaList lists the criteria of a table.
func criteriaList(criteria []string) string {
	if len(criteria) == 0 {
		return "Criteria that the file records: " + notMeasured + ".\n\n"
	}
	return "Criteria:\n\n- " + strings.Join(criteria, "\n- ") + "\n\n"
}

// changeTable returns the table of the changes that clients must not notice.
func changeTable(run jsonfile.Run[soak.Result]) (string, error) {
	rows := byName(run)
	var b strings.Builder
	b.WriteString(origin(run.Commit, run.Date) + criteriaList(rows[soaked[0].row].Criteria))
	b.WriteString("| change | requests | failed | excused | repeated | refused | writes into etcd | openings of watches " +
		"| longest gap | processors in the run and in that gap | no gap over 0.5 s | acknowledged writes lost | verdict |\n" +
		strings.Repeat("|---", 13) + "|\n")
	for _, s := range soaked {
		requests, measured := rows[s.row]
		if measured && !slices.Equal(requests.Criteria, rows[soaked[0].row].Criteria) {
			return "", fmt.Errorf("%q has other criteria than %q", s.row, soaked[0].row)
		}
		cells := slices.Repeat([]string{notMeasured}, 12)
		if measured {
			if err := changeCells(cells, rows, s.row); err != nil {
				return "", err
			}
		}
		fmt.Fprintf(&b, "| %s | %s |\n", s.change, strings.Join(cells, " | "))
	}
	if _, measured := rows[soaked[0].row]; !measured {
		return "", fmt.Errorf("no figures of %q", soaked[0].row)
	}
	return b.String(), nil
}

var (
	longestGap = regexp.MustCompile(`^longest (\d+) ms `)
	keptWrites = regexp.MustCompile(`^(\d+) writes acknowledged, (\d+) lost; members agree: (true|false)$`)
)

// changeCells sets the cells of one change that have been measured. What older files have only as
// text is taken from it.
func changeCells(cells []string, rows map[string]soak.Result, row string) error {
	requests, gaps, kept := rows[row], rows[row+": no gap over 500ms"], rows[row+": writes and events kept"]
	gap, writes := longestGap.FindStringSubmatch(gaps.Detail), keptWrites.FindStringSubmatch(kept.Detail)
	if gap == nil || writes == nil || requests.Tried == 0 {
		return fmt.Errorf("no figures of %q: %+v, %+v, %+v", row, requests, gaps, kept)
	}
	ms, err := time.ParseDuration(gap[1] + "ms")
	if err != nil {
		return err
	}
	cells[0], cells[1] = fmt.Sprint(requests.Tried), fmt.Sprint(requests.Tried-requests.Passed)
	if len(requests.Observed) == 1 {
		seen := requests.Observed[0]
		copy(cells, countCells(seen.Requests()))
		cells[5], cells[6] = operationCell(seen.EtcdWrites), operationCell(&seen.WatchOpenings)
		cells[8] = pressureCell(seen.Pressure)
	}
	cells[7], cells[9] = fmt.Sprintf("%.2f s", ms.Seconds()), fmt.Sprintf("%d of %d", gaps.Passed, gaps.Tried)
	cells[10], cells[11] = fmt.Sprintf("%s of %s", writes[2], writes[1]), verdictCell(requests.Verdict)
	if writes[3] == "false" {
		cells[10] += ", **members of etcd do not agree**"
	}
	return nil
}

// countCells returns tried, failed, excused, repeated and refused.
func countCells(r load.Requests) []string {
	var cells []string
	for _, n := range []int{r.Tried, r.Failed, r.Excused, r.Repeated, r.Refused} {
		cells = append(cells, fmt.Sprint(n))
	}
	return cells
}

// operationCell returns the counts of one kind of operation in one cell.
func operationCell(r *load.Requests) string {
	if r == nil {
		return notMeasured
	}
	return r.String()
}

// pressureCell returns for how much of a run, and of its longest gap, a processor was waited for.
func pressureCell(p *load.Pressure) string {
	if p == nil {
		return notMeasured
	}
	return fmt.Sprintf("%.0f%%, %.0f%%", 100*p.Run, 100*p.Gap)
}

// verdictCell emphasizes criteria that are not met.
func verdictCell(v soak.Verdict) string {
	if v == soak.NotMet {
		return "**not met**"
	}
	return cmp.Or(string(v), notMeasured)
}

var longestOfFresh = regexp.MustCompile(`^longest (\d+\.\d+s), `)

// outageTable returns the table of the loss of a machine.
func outageTable(run jsonfile.Run[soak.Result]) (string, error) {
	at := slices.IndexFunc(run.Results, func(r soak.Result) bool { return strings.HasPrefix(r.Name, "dead machine: ") })
	if at < 0 || at+1 >= len(run.Results) {
		return "", errors.New("no figures of the dead machine")
	}
	address, writes := run.Results[at], run.Results[at+1]
	var b strings.Builder
	b.WriteString(origin(run.Commit, run.Date) + criteriaList(address.Criteria))
	fmt.Fprintf(&b, "Verdict: %s.\n\n", verdictCell(address.Verdict))
	b.WriteString("| client | requests | failed | excused | repeated | refused | longest time without a read | " +
		"longest time without a write |\n|---|---|---|---|---|---|---|---|\n")
	for _, name := range []string{"fresh", "kept"} {
		cells := slices.Repeat([]string{notMeasured}, 7)
		switch {
		case len(address.Observed) > 0:
			cells = outageCells(name, address.Observed)
		case name == "fresh": // the only one that older files have
			read, write := longestOfFresh.FindStringSubmatch(address.Detail), longestOfFresh.FindStringSubmatch(writes.Detail)
			if read == nil || write == nil {
				return "", fmt.Errorf("no figures of the dead machine: %+v, %+v", address, writes)
			}
			cells[5], cells[6] = read[1], write[1]
		}
		fmt.Fprintf(&b, "| %s | %s |\n", name, strings.Join(cells, " | "))
	}
	return b.String(), nil
}

// outageCells returns the counts of a client in all losses, and its longest gaps.
func outageCells(name string, observed []load.Summary) []string {
	var all, reads, writes load.Requests
	for _, seen := range observed {
		for _, c := range seen.Clients {
			if c.Name == name {
				all, reads, writes = all.Plus(c.All), reads.Plus(c.Reads), writes.Plus(c.Writes)
			}
		}
	}
	return append(countCells(all), fmt.Sprintf("%.2f s", reads.Gap.Length.Seconds()),
		fmt.Sprintf("%.2f s", writes.Gap.Length.Seconds()))
}
