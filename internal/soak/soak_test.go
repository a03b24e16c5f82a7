package soak

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/jsonfile"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/load"
	"github.com/kubequorum/terraform-provider-kube/internal/soak/cut"
)

func TestChoose(t *testing.T) {
	all := []Scenario{{Name: "interrupt etcd"}, {Name: "partition"}}
	if got := choose(all, nil); len(got) != 2 {
		t.Errorf("without a pattern %d are chosen, want all", len(got))
	}
	if got := choose(all, regexp.MustCompile("^part")); len(got) != 1 || got[0].Name != "partition" {
		t.Errorf("chosen are %v", got)
	}
	var names []string
	for _, s := range Scenarios() {
		names = append(names, s.Name)
	}
	if slices.Sort(names); len(slices.Compact(names)) != len(Scenarios()) {
		t.Errorf("two scenarios have one name: %q", names)
	}
}

// TestBuilds: what scenarios need in addition can be built.
func TestBuilds(t *testing.T) {
	for _, s := range Scenarios() {
		for _, name := range s.Builds {
			if !slices.Contains(build.Names(), name) {
				t.Errorf("%s: package build knows nothing called %q", s.Name, name)
			}
		}
	}
}

func TestTrack(t *testing.T) {
	track := newTrack(operation{name: "join"}, &cursor{})
	commands := []string{"observe", "observe"}
	track.note(cut.Point{}, runOf(cut.Point{}, commands...), nil, time.Second)
	for n := range 3 {
		p := track.next()
		var err error
		if n == 1 {
			err = errors.New("a learner is left")
		}
		track.note(p, runOf(p, commands...), err, time.Second)
	}
	p := track.next()
	track.note(p, runOf(cut.Point{}, commands...), errors.New("it hangs"), time.Second)
	r := track.result()
	if r.Tried != 4 || r.Passed != 2 {
		t.Errorf("tried %d, passed %d; want 4 and 2", r.Tried, r.Passed)
	}
	for _, want := range []string{
		"6 points of 2 commands and requests: 3 cut (1 before, 1 during, 1 after), 0 never cut, 3 not tried",
		"\ncut during a: observe (1): a learner is left", "\nnot reached before a: observe (2): it hangs",
	} {
		if !strings.Contains(r.Detail, want) {
			t.Errorf("the detail lacks %q:\n%s", want, r.Detail)
		}
	}
}

// TestRotationNumbers: a bundle begins with a complete rotation, and each operation is one stage.
func TestRotationNumbers(t *testing.T) {
	for n, encrypted := range []bool{false, true, true, true, true, true, true, false, false, false, true} {
		variables := encryptionAt(n)
		if numbers := variables["rotation"].(map[string]int); numbers["encryption"] != n {
			t.Errorf("operation %d: %v", n, numbers)
		}
		if (variables["encryption"] != nil) != encrypted {
			t.Errorf("operation %d: the encryption is %v", n, variables["encryption"])
		}
		for part, number := range rotationAt(n)["rotation"].(map[string]int) {
			if number != n {
				t.Errorf("operation %d: %s is at %d", n, part, number)
			}
		}
	}
	stages := stagesOf("rotation", 3, rotationAt)
	if len(stages) != 3 || stages[2].name != "control plane rotation, stage 3" {
		t.Errorf("the operations are %v", stages)
	}
}

func TestResults(t *testing.T) {
	results := []Result{
		{Name: "good", Tried: 2, Passed: 2, Detail: "fine"},
		{Name: "bad", Tried: 3, Passed: 1, Detail: "first line\nsecond line"},
		incompleteResult("worse", errors.New("no machines")),
		{Name: "nothing was tried", Detail: "all accidents came too late"},
		skippedResult("left out", errNoKubeVIP),
	}
	if n := failed(results); n != 3 {
		t.Errorf("%d have failed, want 3", n)
	}
	if got := skipped(results); got != "skipped: left out: KUBE_VIP is not set to the path of kube-vip\n" {
		t.Errorf("skipped are %q", got)
	}
	table := Table(results)
	if !strings.Contains(table, "bad") || !strings.Contains(table, "first line") ||
		strings.Contains(table, "second line") {
		t.Errorf("the table is\n%s", table)
	}
	path := filepath.Join(t.TempDir(), "out.json")
	results[1].Violated, results[1].Observed = []string{"too slow"}, []load.Summary{{Acknowledged: 7}}
	for i := range results {
		results[i].conclude("all of them")
	}
	run := jsonfile.Run[Result]{Commit: "0123abc-dirty", Date: time.Unix(1767322800, 0).UTC(), Results: results}
	if err := write(t.Context(), path, &run); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if read, err := jsonfile.ReadRun[Result](path); err != nil || !reflect.DeepEqual(read, run) {
		t.Errorf("written and read again: %v, %v", read, err)
	}
	for _, key := range []string{
		`"commit": "0123abc-dirty"`, `"date": "2026-01-02T03:00:00Z"`, `"name"`, `"tried"`, `"passed"`, `"detail"`,
		`"scenario": "all of them"`, `"criteria"`, `"violated"`, `"verdict": "met"`, `"verdict": "not met"`, `"observed"`,
	} {
		if !strings.Contains(string(text), key) {
			t.Errorf("the JSON has no %s:\n%s", key, text)
		}
	}
}

// TestCancelledAtOnce: a run that is cancelled in its first scenario leaves the results of an earlier one.
func TestCancelledAtOnce(t *testing.T) {
	t.Setenv("KUBE_LAB_CACHE", t.TempDir())
	path := filepath.Join(t.TempDir(), "soak.json")
	for _, names := range [][]string{{"cancelled"}, {"passes", "cancelled"}} {
		if err := os.WriteFile(path, []byte("[]"), 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var chosen []Scenario
		for _, name := range names {
			chosen = append(chosen, Scenario{Name: name, Run: func(context.Context, *Env) ([]Result, error) {
				if name == "cancelled" {
					cancel()
				}
				return []Result{{Name: name, Tried: 1, Passed: 1}}, nil
			}})
		}
		o := Options{Name: "none", Out: path}
		err := runAll(ctx, chosen, &lab.Lab{}, o, jsonfile.Run[Result]{}, nil, io.Discard, io.Discard)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%q: %v", names, err)
		}
		run, err := jsonfile.ReadRun[Result](path)
		if err != nil || (len(run.Results) > 0) != (len(names) > 1) {
			t.Errorf("%q: the file has %+v, %v", names, run.Results, err)
		}
	}
}

// TestScheduledParts: the jobs of the scheduled workflow run each scenario once.
func TestScheduledParts(t *testing.T) {
	root, err := build.Checkout()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, ".github", "workflows", "long.yml"))
	if err != nil {
		t.Fatal(err)
	}
	list := regexp.MustCompile(`(?m)^ +part: .*'(\["\^.*"\])'`).FindSubmatch(text)
	var patterns []string
	if list == nil || json.Unmarshal(list[1], &patterns) != nil {
		t.Fatalf("no parts in\n%s", text)
	}
	for _, s := range Scenarios() {
		var parts []string
		for _, pattern := range patterns {
			if len(choose([]Scenario{s}, regexp.MustCompile(pattern))) > 0 {
				parts = append(parts, pattern)
			}
		}
		if len(parts) != 1 {
			t.Errorf("%s is in the parts %q", s.Name, parts)
		}
	}
}
