package snapshot

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

// drilled is the record of a drill that succeeded.
func drilled() Drill {
	return Drill{
		ClusterID: "d1c650606b9f2a162c7f058ba519fc4d", Member: "cp1", Started: 1767323105, Finished: 1767323125,
		Succeeded: true, LastSuccess: 1767323125, Source: "bucket", Snapshot: "20260102T030405Z-cp1.db", Saved: 1767323045,
		Size:     286752,
		Revision: 320, SHA256: strings.Repeat("7d", 32), RPO: 60, RTO: 12.5,
		Steps:     map[string]float64{"fetch": 1, "apiserver": 11.5},
		Objects:   map[string]int64{"secrets": 4, "leases.coordination.k8s.io": 2},
		Uncounted: []string{"crontabs.example.com"}, Compared: true, Encrypted: 4, Tokens: true,
	}
}

func TestDrillRecord(t *testing.T) {
	good := drilled()
	text := string(good.File().Content)
	got, err := ReadDrill(text)
	if err != nil || !reflect.DeepEqual(got, good) {
		t.Fatalf("%+v, %v\n%s", got, err, text)
	}
	bad := good
	bad.Succeeded, bad.Problem, bad.LastSuccess = false, "the disk is full", good.Finished-5
	if got, err := ReadDrill(string(bad.File().Content)); err != nil || !reflect.DeepEqual(got, bad) {
		t.Errorf("%+v, %v", got, err)
	}
	for name, change := range map[string]func(d *Drill){
		"succeeds with a problem":      func(d *Drill) { d.Problem = "x" },
		"fails without a problem":      func(d *Drill) { d.Succeeded = false },
		"has another last success":     func(d *Drill) { d.LastSuccess-- },
		"finishes before it starts":    func(d *Drill) { d.Started = d.Finished + 1 },
		"never finishes":               func(d *Drill) { d.Started, d.Finished, d.LastSuccess = 0, 0, 0 },
		"has a later success":          func(d *Drill) { *d = bad; d.LastSuccess = d.Finished + 1 },
		"is of the year 2600":          func(d *Drill) { d.Finished, d.LastSuccess = 1<<35, 1<<35 },
		"starts before 1970":           func(d *Drill) { d.Started = -1 },
		"was saved before 1970":        func(d *Drill) { d.Saved = -1 },
		"has an unknown source":        func(d *Drill) { d.Source = "tape" },
		"has a path as a name":         func(d *Drill) { d.Snapshot = "../x" },
		"has half a digest":            func(d *Drill) { d.SHA256 = "7d7d" },
		"has a negative size":          func(d *Drill) { d.Size = -1 },
		"has a negative revision":      func(d *Drill) { d.Revision = -1 },
		"has a negative age":           func(d *Drill) { d.RPO = -1 },
		"has negative Secrets":         func(d *Drill) { d.Encrypted = -1 },
		"has a negative duration":      func(d *Drill) { d.RTO = -1 },
		"lasts for 32 years":           func(d *Drill) { d.RTO = longestDuration },
		"has an unknown step":          func(d *Drill) { d.Steps = map[string]float64{"sleep": 1} },
		"has a step that ends earlier": func(d *Drill) { d.Steps = map[string]float64{"etcd": -1} },
		"counts no resource":           func(d *Drill) { d.Objects = map[string]int64{"a b": 1} },
		"counts negative objects":      func(d *Drill) { d.Objects = map[string]int64{"pods": -1} },
		"leaves out no resource":       func(d *Drill) { d.Uncounted = []string{"a\x1bb"} },
		"has a long name of a member":  func(d *Drill) { d.Member = strings.Repeat("m", 65) },
		"has a long problem": func(d *Drill) {
			*d = bad
			d.Problem = strings.Repeat("p", longestProblem+1)
		},
	} {
		d := drilled()
		change(&d)
		if got, err := ReadDrill(string(d.File().Content)); err == nil {
			t.Errorf("a drill that %s is read as %+v", name, got)
		}
	}
	for _, other := range []string{
		"", "{}", "null", "[]", text + text, text + "x", strings.Replace(text, `"size"`, `"sizes"`, 1),
		strings.Repeat(" ", longestDrill) + text,
	} {
		if got, err := ReadDrill(other); err == nil {
			t.Errorf("%.80q is read as %+v", other, got)
		}
	}
}

// TestDrillProblemIsVisible: what a machine says is shown without terminal escapes.
func TestDrillProblemIsVisible(t *testing.T) {
	d := drilled()
	d.Succeeded, d.Problem = false, "a\x1b[2Jb"
	got, err := ReadDrill(string(d.File().Content))
	if err != nil || strings.Contains(got.Problem, "\x1b") {
		t.Errorf("%q, %v", got.Problem, err)
	}
}

func TestSavedAtName(t *testing.T) {
	want := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, at := range map[string]time.Time{
		"20260102T030405Z-cp1.db": want, "/var/x/20260102T030405Z-cp1.db": want, "good.db": {}, "": {},
		"20261302T030405Z-cp1.db": {},
	} {
		if got := SavedAt(name); !got.Equal(at) {
			t.Errorf("%s: %s, want %s", name, got, at)
		}
	}
}

func TestNewest(t *testing.T) {
	now := time.Date(2026, 1, 3, 3, 0, 0, 0, time.UTC) // four minutes behind the clock of a machine
	got := Newest(map[string][]string{
		"/a": {"20260102T030405Z-cp1.db", "20260103T030405Z-cp1.db", "20260104T030405Z-cp1.db.part", "z.db"},
		"/b": {"20260103T000000Z-etcd-3.5.1-to-3.6.1.db", "20260103T031001Z-cp1.db", "20360102T030405Z-cp1.db"}, "/c": nil,
	}, now)
	if got != "20260103T030405Z-cp1.db" {
		t.Errorf("%q", got)
	}
	if got := Newest(map[string][]string{"/a": {"good.db", "20360102T030405Z-cp1.db"}}, now); got != "" {
		t.Errorf("%q of none", got)
	}
}

// FuzzReadDrill verifies that what is read of a machine's record is within limits, and is written and read
// again as the same.
func FuzzReadDrill(f *testing.F) {
	f.Add(string(drilled().File().Content))
	f.Add(`{"finished":1,"problem":"\u001b","source":"fetch"}`)
	f.Fuzz(func(t *testing.T, text string) {
		d, err := ReadDrill(text)
		if err != nil {
			return
		}
		if d.validate() != nil || strings.ContainsAny(d.Snapshot+d.SHA256+d.Source, "\x1b\n/ ") ||
			strings.Contains(d.Problem, "\x1b") {
			t.Errorf("%q is read as %+v", text, d)
		}
	})
}
