package testrun

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/jsonfile"
)

// FiguresVariable names the file to which tests add what they measure, from which tables of the documents are made.
const FiguresVariable = "KUBE_TEST_FIGURES"

// figuresBegun is whether this run has begun the file.
var figuresBegun bool

// Record adds a result, which has a name, to the file of FiguresVariable, if it is set. The file is that of one run of
// one package: it must not exist before.
func Record(t testing.TB, result any) {
	t.Helper()
	file := os.Getenv(FiguresVariable)
	if file == "" {
		return
	}
	run, err := jsonfile.ReadRun[json.RawMessage](file) // results of several types
	switch {
	case errors.Is(err, fs.ErrNotExist):
		figuresBegun = true
		run.Date = time.Now().UTC().Truncate(time.Second)
		run.Commit, err = build.Commit(t.Context())
	case err == nil && !figuresBegun:
		t.Fatalf("%s has the figures of another run: remove it, or set %s to another file", file, FiguresVariable)
	}
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(result)
	if err != nil {
		t.Fatal(err)
	}
	run.Results = append(run.Results, text)
	if err := jsonfile.Write(file, run, 0o644); err != nil {
		t.Fatal(err)
	}
}
