package testrun

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/jsonfile"
)

// TestRecord: results of several types are in one file, which is that of one run.
func TestRecord(t *testing.T) {
	defer func(before bool) { figuresBegun = before }(figuresBegun)
	figuresBegun = false
	t.Setenv(FiguresVariable, "")
	Record(t, jsonfile.Milliseconds("nowhere", 0, time.Second))
	file := filepath.Join(t.TempDir(), "figures.json")
	t.Setenv(FiguresVariable, file)
	type other struct {
		Name  string `json:"name"`
		Other int    `json:"other"`
	}
	want := jsonfile.Milliseconds("a route", 2*time.Second, 1200*time.Millisecond)
	Record(t, want)
	Record(t, other{"something", 7})
	run, err := jsonfile.ReadRun[jsonfile.Figure](file)
	if err != nil || len(run.Results) != 2 || !reflect.DeepEqual(run.Results[0], want) ||
		run.Results[1].Name != "something" {
		t.Errorf("%+v, %v", run, err)
	}
	if run.Commit == "" || run.Date.IsZero() {
		t.Errorf("commit %q, date %s", run.Commit, run.Date)
	}
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), `"other": 7`) {
		t.Errorf("%s, %v", text, err)
	}
	figuresBegun = false
	got := endOf(func(t testing.TB) { Record(t, want) })
	if !strings.HasPrefix(got, "failed: "+file+" has the figures of") {
		t.Errorf("a file of another run: %s", got)
	}
}
