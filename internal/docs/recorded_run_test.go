package docs

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/jsonfile"
)

// recordedRun returns the run of tests that wrote a file of images by testrun.Record; without the file, one without
// results.
func recordedRun[T any](t *testing.T, file string) jsonfile.Run[T] {
	t.Helper()
	run, err := jsonfile.ReadRun[T](filepath.Join(root(t), "images", file))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if err == nil && !cleanCommit.MatchString(run.Commit) {
		t.Errorf("%s is of commit %q: want the hash of one without other changes", file, run.Commit)
	}
	return run
}

// figureOf returns the values of a figure in all results. It may have none.
func figureOf(results []jsonfile.Figure, name string) jsonfile.Figure {
	all := jsonfile.Figure{Name: name}
	for _, f := range results {
		if f.Name == name {
			all.Unit, all.Limit, all.Values = f.Unit, f.Limit, append(all.Values, f.Values...)
		}
	}
	return all
}

// worstCell returns the largest value of a figure of times in seconds.
func worstCell(f jsonfile.Figure) string {
	if len(f.Values) == 0 {
		return notMeasured
	}
	return secondsCell(f.Worst())
}

func secondsCell(ms int) string {
	return fmt.Sprintf("%.1f s", (time.Duration(ms) * time.Millisecond).Seconds())
}
