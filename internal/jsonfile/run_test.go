package jsonfile

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"
)

type result struct{ Name string }

func TestRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.json")
	want := Run[result]{
		Commit: "0123abc-dirty", Date: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Results: []result{{"a"}, {"b"}},
	}
	if err := Write(path, want, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadRun[result](path); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v: %+v, want %+v", err, got, want)
	}
}

// TestOlderRun: a file without commit and date is read, and nothing is made up for them.
func TestOlderRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.json")
	for text, want := range map[string]Run[result]{
		"\n [{\"name\": \"a\"}]": {Results: []result{{"a"}}},
		"[]":                     {Results: []result{}},
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadRun[result](path); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%v: %+v, want %+v", err, got, want)
		}
	}
	if err := os.WriteFile(path, []byte("no JSON"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadRun[result](path); err == nil {
		t.Error("no JSON is read")
	}
}
