package soak

import (
	"errors"
	"io"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/load"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

func TestTally(t *testing.T) {
	c := newTally("edits")
	c.steps = 3
	c.count("taint one", applied)
	c.count("taint one", cutOff)
	c.count("replace all", refused)
	c.recordCluster("step 1", nil)
	c.recordCluster("step 2", nil)
	c.recordCluster("step 3", errOtherCluster)
	c.recordRecovery("step 1", nil)
	c.recordRecovery("step 2", errors.New("no way on"))
	direct := load.Client{Acknowledged: 40}
	direct.Writes.Gap.Length, direct.Writes.Tried, direct.Writes.Failed = 300*time.Millisecond, 42, 2
	agree := clientsReport().Hashes
	watches := []load.Watch{{Missed: []string{"a"}, Repeated: 1, Disordered: 2}}
	c.recordWrites(load.Report{Etcd: &direct, Hashes: agree, Watches: watches}, nil)
	r := c.results()
	if r[0].Tried != 3 || r[0].Passed != 2 || r[1].Tried != 2 || r[1].Passed != 1 {
		t.Errorf("the results are %+v", r)
	}
	for i, rows := range [][]string{
		{
			"3 steps: 1 applied, 1 refused, 1 cut off; 40 writes acknowledged, 0 lost; 4 events missed, repeated or out of " +
				"order; longest gap 300ms; " +
				"writes into etcd: 2 of 42 failed (0 excused, 0 refused), 0 repeated",
			"step 3: another etcd cluster is served",
		},
		{"2 kinds of edits", "taint one: 1 applied, 1 cut off", "step 2: no way on"},
	} {
		for _, want := range rows {
			if !strings.Contains(r[i].Detail, want) {
				t.Errorf("the detail lacks %q:\n%s", want, r[i].Detail)
			}
		}
	}
	differ := &load.Hashes{Members: []load.MemberHash{{Name: "cp1", Hash: 1}, {Name: "cp2", Hash: 2}}}
	c.recordWrites(load.Report{Etcd: &direct, Hashes: differ}, nil)
	c.recordWrites(load.Report{Etcd: &direct}, errors.New("no member answers"))
	r = c.results()
	if r[0].Tried != 5 || r[0].Passed != 2 || !strings.Contains(r[0].Detail, "at the end: ETCD'S MEMBERS DIFFER") ||
		!strings.Contains(r[0].Detail, "at the end: no member answers") {
		t.Errorf("members differ, and writes are not read back: %+v", r[0])
	}
	direct.Lost = []string{"/kube-load/a"}
	c.recordWrites(load.Report{Etcd: &direct, Hashes: agree}, nil)
	if r := c.results(); r[0].Passed != 0 {
		t.Errorf("a write is lost: %+v", r[0])
	}
}

// TestEditNotMade: an edit that cannot be made is a step that nothing was recovered from, unless the run is cancelled.
func TestEditNotMade(t *testing.T) {
	absent := filepath.Join(t.TempDir(), "absent")
	random := rand.New(rand.NewPCG(1, 0))
	c := &careless{
		env: &Env{Dir: absent, Log: io.Discard, Random: random}, tally: newTally("edits"), longest: 20,
		unit:          &unit{work: &workspace.Workspace{Dir: absent}, variables: map[string]any{}},
		editGenerator: &editGenerator{random: random, pool: []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"}},
		now:           layout{"a": {"a", "10.0.0.1"}, "b": {"b", "10.0.0.2"}, "c": {"c", "10.0.0.3"}}, saved: 1,
	}
	for _, cancelled := range []bool{true, false} {
		if err := c.step(t.Context(), func() bool { return cancelled }); err == nil {
			t.Fatal("the edit was made without a directory")
		}
	}
	r := c.tally.results()
	if c.tally.steps != 1 || c.tally.notMade != 1 || r[0].Tried != 0 || r[1].Tried != 1 || r[1].Passed != 0 ||
		!strings.Contains(r[1].Detail, "step 1, ") || !strings.Contains(r[1].Detail, "it could not be made: ") {
		t.Errorf("the results are %+v", r)
	}
}
