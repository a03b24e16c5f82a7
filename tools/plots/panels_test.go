package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const shownPanels = `{"commit": "0123abc", "date": "2026-01-02T03:04:05Z", "results": [
{"title": "prod / etcd", "panels": [
  {"title": "Members up", "type": "stat", "limit": 3, "series": [{"name": "", "points": [[100, 2], [115, 3]]}]},
  {"title": "Log flush", "type": "timeseries", "unit": "s", "limit": 0.5, "series": [
    {"name": "cp1", "points": [[100, 0.2], [115, 0.3], [130, 0.1]]}, {"name": "cp2", "points": []}]},
  {"title": "Requests that fail", "type": "timeseries", "unit": "percentunit", "limit": 0.01, "series": []},
  {"title": "Database", "type": "timeseries", "unit": "bytes", "series": [
    {"name": "cp1", "points": [[100, 4194304], [115, 4194304]]}]}]},
{"title": "prod / Kubernetes control plane", "panels": [
  {"title": "Ready", "type": "stat", "limit": 1, "series": []}]}]}`

// TestDrawDashboards draws panels with lines, a limit, a last value, and nothing.
func TestDrawDashboards(t *testing.T) {
	out := t.TempDir()
	file := filepath.Join(out, "panels.json")
	write(t, file, shownPanels)
	if err := drawDashboards(file, out); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"dashboard-etcd.svg":                     {"Members up", "Log flush", "cp1", "500.00 ms", "4 MiB", "0.5 min"},
		"dashboard-kubernetes-control-plane.svg": {"Ready", "no data"},
	} {
		text, err := os.ReadFile(filepath.Join(out, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range want {
			if !strings.Contains(string(text), part) {
				t.Errorf("%s lacks %q", name, part)
			}
		}
	}
}
