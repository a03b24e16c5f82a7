package acceptance

import (
	"errors"
	"io/fs"
	"os"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/jsonfile"
	"github.com/kubequorum/terraform-provider-kube/internal/load"
)

// figuresVariable names the file to which tests add what clients observed.
const figuresVariable = "KUBE_TEST_FIGURES"

// figuresBegun is whether this run has begun the file.
var figuresBegun bool

// recordFigures adds what clients observed to the file of figuresVariable, if it is set, under the name of the test.
func recordFigures(t *testing.T, r load.Report, c load.Criteria) {
	t.Helper()
	file := os.Getenv(figuresVariable)
	if file == "" {
		return
	}
	run, err := jsonfile.ReadRun[load.Observation](file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		figuresBegun = true
		run.Date = time.Now().UTC().Truncate(time.Second)
		run.Commit, err = build.Commit(t.Context())
	case err == nil && !figuresBegun:
		t.Fatalf("%s has the figures of another run: remove it, or set %s to another file", file, figuresVariable)
	}
	if err != nil {
		t.Fatal(err)
	}
	run.Results = append(run.Results, r.Observation(t.Name(), c))
	if err := jsonfile.Write(file, run, 0o644); err != nil {
		t.Fatal(err)
	}
}
