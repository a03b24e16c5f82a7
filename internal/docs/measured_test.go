package docs

import (
	"slices"
	"strings"
	"testing"
)

// notRecorded are sentences about a run that say nothing, because its file does not record it.
var notRecorded = []string{
	"Commit that the file records: " + notMeasured + ". Date: " + notMeasured + ".\n\n",
	"Criteria that the file records: " + notMeasured + ".\n\n",
	"Verdict: " + notMeasured + ".\n\n",
}

// onlyMeasured returns a text with tables as documents show it: without columns and rows of which nothing was measured.
// It names them below the table. A table without any figure is one sentence.
func onlyMeasured(text string) string {
	for _, sentence := range notRecorded {
		text = strings.ReplaceAll(text, sentence, "")
	}
	var out strings.Builder
	var table []string
	for _, line := range strings.SplitAfter(text, "\n") {
		if strings.HasPrefix(line, "|") {
			table = append(table, line)
			continue
		}
		out.WriteString(measuredTable(table) + line)
		table = nil
	}
	return out.String() + measuredTable(table)
}

// measuredTable returns the lines of a table: a header, a separator, and rows.
func measuredTable(lines []string) string {
	if !strings.Contains(strings.Join(lines, ""), notMeasured) {
		return strings.Join(lines, "")
	}
	rows := make([][]string, len(lines))
	for i, line := range lines {
		rows[i] = strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "|"), "|\n"), "|")
	}
	header, body := rows[0], rows[2:]
	var columns, names []string
	for at := len(header) - 1; at > 0; at-- {
		if column := columnOf(body, at); notMeasuredAtAll(column) {
			columns = append(columns, strings.TrimSpace(header[at]))
			for i := range rows {
				rows[i] = slices.Delete(rows[i], at, at+1)
			}
		}
	}
	if len(rows[0]) == 1 {
		return "Not measured yet.\n"
	}
	var out strings.Builder
	for i, row := range rows {
		if i > 1 && notMeasuredAtAll(row[1:]) {
			names = append(names, strings.TrimSpace(row[0]))
			continue
		}
		out.WriteString("|" + strings.Join(row, "|") + "|\n")
	}
	if slices.Reverse(columns); len(columns) > 0 {
		names := strings.Join(slices.Compact(columns), "\", \"")
		out.WriteString("\nNot measured in this run, for any row: \"" + names + "\".\n")
	}
	if len(names) > 0 {
		out.WriteString("\nNot measured in this run: \"" + strings.Join(names, "\", \"") + "\".\n")
	}
	return out.String()
}

func columnOf(rows [][]string, at int) []string {
	var cells []string
	for _, row := range rows {
		cells = append(cells, row[at])
	}
	return cells
}

// notMeasuredAtAll reports whether cells have no figure, and should have.
func notMeasuredAtAll(cells []string) bool {
	lacks := false
	for _, cell := range cells {
		switch strings.TrimSpace(cell) {
		case notMeasured:
			lacks = true
		case "–":
		default:
			return false
		}
	}
	return lacks
}

func TestOnlyMeasured(t *testing.T) {
	const head = "| change | a | b | c | b |\n|---|---|---|---|---|\n"
	for _, c := range []struct{ name, text, want string }{
		{
			"everything", "Commit.\n\n" + head + "| x | 1 | – | 3 | 4 |\n\nAfter.\n",
			"Commit.\n\n" + head + "| x | 1 | – | 3 | 4 |\n\nAfter.\n",
		},
		{
			"a column and a row",
			notRecorded[0] + head + "| x | 1 | not measured | 3 | 4 |\n| y | not measured | – | not measured | not measured |\n",
			"| change | a | c | b |\n|---|---|---|---|\n| x | 1 | 3 | 4 |\n\nNot measured in this run, for any row: \"b\".\n\n" +
				"Not measured in this run: \"y\".\n",
		},
		{
			"a cell", head + "| x | 1 | 2 | not measured | 4 |\n| y | 1 | 2 | 3 | 4 |\n",
			head + "| x | 1 | 2 | not measured | 4 |\n| y | 1 | 2 | 3 | 4 |\n",
		},
		{
			"nothing", notRecorded[0] + notRecorded[1] + notRecorded[2] + head +
				"| x | not measured | – | not measured | not measured |\n| y | not measured | not measured | – | – |\n",
			"Not measured yet.\n",
		},
	} {
		if got := onlyMeasured(c.text); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}
