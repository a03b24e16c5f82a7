package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDraw draws each figure from files as make soak and make bench write them, and from older ones.
func TestDraw(t *testing.T) {
	t.Run("run", func(t *testing.T) { testDraw(t, false) })
	t.Run("older run", func(t *testing.T) { testDraw(t, true) })
}

func testDraw(t *testing.T, older bool) {
	dir := t.TempDir()
	soak, bench, out := filepath.Join(dir, "soak.json"), filepath.Join(dir, "bench.json"), filepath.Join(dir, "out")
	rows := `[{"name": "a row that is not drawn", "series": [{"name": "kept", "succeeded": [1], "failed": [0]}]}`
	for _, f := range figures {
		rows += `,{"name": "` + f.row + ` x", "series": [
			{"name": "kept", "succeeded": [20, 25, 0, 25], "failed": [0, 0, 3, 0], "gaps": [{"at": 1000000000, "length": 400000000}]},
			{"name": "fresh", "succeeded": [20, 25, 25, 25], "failed": [0, 0, 0, 0], "gaps": null}]},
			{"name": "` + f.row + ` y", "series": null}`
	}
	times := `[{"name": "create", "value": 30, "unit": "s", "reference": 25}, {"name": "memory", "value": 80, "unit": "MiB", "reference": 0}]`
	if older {
		write(t, soak, rows+"]")
		write(t, bench, times)
	} else {
		const run = `{"commit": "0123abc", "date": "2026-01-02T03:04:05Z", "results": `
		write(t, soak, run+rows+"]}")
		write(t, bench, run+times+"}")
	}
	if err := os.Mkdir(out, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := drawSoak(soak, out); err != nil {
		t.Fatal(err)
	}
	if err := drawBench(bench, out); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"bench.svg": "create: × 1.20"}
	for _, f := range figures {
		want[f.file] = "3 of 168 requests failed"
	}
	drawn, err := filepath.Glob(filepath.Join(out, "*"))
	if err != nil || len(drawn) != len(want) {
		t.Errorf("drawn are %q, want %d files: %v", drawn, len(want), err)
	}
	for file, part := range want {
		if text, err := os.ReadFile(filepath.Join(out, file)); err != nil || !strings.Contains(string(text), part) {
			t.Errorf("%s lacks %q: %v", file, part, err)
		}
	}
}

func TestUnreadableFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "soak.json")
	write(t, file, "no JSON")
	if err := drawSoak(file, "."); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("error %v, want one that names the file", err)
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
