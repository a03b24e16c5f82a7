package jsonfile

import (
	"io"
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

// TestWriteIsWhole: a file that cannot be written stays, and nothing else is left next to it.
func TestWriteIsWhole(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "run.json")
	for _, v := range []any{result{"a"}, make(chan int)} {
		if err := Write(path, v, 0o640); (err == nil) != (v == any(result{"a"})) {
			t.Errorf("%T: %v", v, err)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o640 {
		t.Errorf("the file is %v, %v", info, err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	reader, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if err := Write(path, result{"longer than before"}, 0o640); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(reader); err != nil || string(text) != "{\n  \"Name\": \"a\"\n}\n" {
		t.Errorf("whoever reads meanwhile reads %q, %v", text, err)
	}
	if err := Write(link, result{"by the link"}, 0o640); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "{\n  \"Name\": \"by the link\"\n}\n" {
		t.Errorf("the link was replaced: %q, %v", text, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("there are %v, %v", entries, err)
	}
}
