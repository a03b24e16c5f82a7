package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"gonum.org/v1/plot/plotter"
)

const recoveryRows = `[
{"name": "terraform apply, restore of a snapshot, database of 1 GB, against a script", "value": 40, "unit": "s", "reference": 32},
{"name": "three members serve again: terraform apply, restore of a snapshot, database of 1 GB", "value": 40, "unit": "s"},
{"name": "terraform apply, restore of a snapshot, database of 10 MB, against a script", "value": 9, "unit": "s", "reference": 7},
{"name": "terraform apply, move of a member with its volume, database of 1 GB, against -replace of the member", "value": 8,
 "unit": "s", "reference": 30},
{"name": "terraform apply, scale 3 → 5, against a script", "value": 30, "unit": "s", "reference": 12}]`

// TestRecoveries: only rows with a database are drawn, in the order of the sizes.
func TestRecoveries(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bench.json")
	write(t, file, recoveryRows)
	results, err := read[result](file)
	if err != nil {
		t.Fatal(err)
	}
	want := []recovery{
		{"restore of a snapshot", "a script", plotter.XYs{{X: 0.01, Y: 9}, {X: 1, Y: 40}}, plotter.XYs{{X: 0.01, Y: 7}, {X: 1, Y: 32}}},
		{"move of a member with its volume", "-replace of the member", plotter.XYs{{X: 1, Y: 8}}, plotter.XYs{{X: 1, Y: 30}}},
	}
	if got := recoveries(results); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestDrawRecovery draws lines and single points, and nothing if there is no database.
func TestDrawRecovery(t *testing.T) {
	out := t.TempDir()
	file, drawn := filepath.Join(out, "bench.json"), filepath.Join(out, "recovery.svg")
	write(t, file, `[{"name": "terraform apply, scale 3 → 5, against a script", "value": 30, "unit": "s", "reference": 12}]`)
	if err := drawRecovery(file, out); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(drawn); !os.IsNotExist(err) {
		t.Errorf("without a database, %s was drawn: %v", drawn, err)
	}
	write(t, file, recoveryRows)
	if err := drawRecovery(file, out); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(drawn)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"restore of a snapshot: a script", "move of a member with its volume", ">GB<", "seconds"} {
		if !strings.Contains(string(text), part) {
			t.Errorf("the figure lacks %q", part)
		}
	}
}
