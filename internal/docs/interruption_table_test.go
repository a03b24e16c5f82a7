package docs

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/soak"
)

// TestInterruptionTable checks that the table of interruptions is made of the record in images/interruptions.json,
// which the exhaustive sweep goes on with. With -update it writes the table.
func TestInterruptionTable(t *testing.T) {
	operations, err := soak.ReadCoverage(filepath.Join(root(t), "images", "interruptions.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range operations {
		if o.Points == 0 {
			t.Errorf("the record has no points of %q", o.Operation)
		}
		for _, commit := range o.Commits {
			if !cleanCommit.MatchString(commit) {
				t.Errorf("points of %q were cut at %q: want the hash of a commit without other changes", o.Operation, commit)
			}
		}
	}
	replaceTable(t, "templates/guides/soak.md", "interruptions", interruptionTable(operations))
}

// interruptionTable returns the table, with a sum of all operations.
func interruptionTable(operations []soak.Coverage) string {
	var b strings.Builder
	b.WriteString("| operation | points | interrupted, and the next apply converged | the next apply did not converge | " +
		"not interrupted yet | at the commits |\n" + strings.Repeat("|---", 6) + "|\n")
	sum := soak.Coverage{Operation: "all of these"}
	row := func(c soak.Coverage) {
		failed := fmt.Sprint(c.Failed)
		if c.Failed > 0 {
			failed = "**" + failed + "**"
		}
		commits := "–"
		if len(c.Commits) > 0 {
			commits = "`" + strings.Join(c.Commits, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %s | %d | %s |\n", c.Operation, c.Points, c.Cut, failed, c.Points-c.Cut-c.Failed,
			commits)
	}
	for _, c := range operations {
		row(c)
		sum.Points, sum.Cut, sum.Failed = sum.Points+c.Points, sum.Cut+c.Cut, sum.Failed+c.Failed
	}
	row(sum)
	return b.String()
}

func TestInterruptionTableOfARecord(t *testing.T) {
	got := interruptionTable([]soak.Coverage{
		{Operation: "etcd change", Points: 9, Cut: 5, Failed: 1, Commits: []string{"1111", "2222"}},
		{Operation: "etcd create", Points: 4},
	})
	expectRows(t, got,
		"| etcd change | 9 | 5 | **1** | 3 | `1111`, `2222` |\n",
		"| etcd create | 4 | 0 | 0 | 4 | – |\n",
		"| all of these | 13 | 5 | **1** | 7 | – |\n",
	)
}
