package drill

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

func TestChoose(t *testing.T) {
	pool, err := host.NewPool(host.Config{})
	if err != nil {
		t.Fatal(err)
	}
	machine := func(name, newest string, bucket bool, err error) candidate {
		return candidate{
			Spec:   Spec{Member: name, Host: pool.Host(host.Target{Address: "10.0.0.1"})},
			newest: newest, bucket: bucket, err: err,
		}
	}
	gone := errors.New("it has no API server")
	const old, young = "20260102T030405Z-cp1.db", "20260103T030405Z-cp2.db"
	for name, c := range map[string]struct {
		all    []candidate
		source Source
		want   string
		reason string
	}{
		"the newest snapshot": {
			[]candidate{machine("a", old, false, nil), machine("b", young, false, nil)}, Source{}, "b", "",
		},
		"the same snapshot": {[]candidate{machine("b", old, false, nil), machine("a", old, false, nil)}, Source{}, "a", ""},
		"a bucket": {
			[]candidate{machine("a", young, false, nil), machine("c", "", true, nil), machine("b", "", true, nil)},
			Source{},
			"b", "",
		},
		"a bucket rather than a newer file": {
			[]candidate{machine("b", young, false, nil), machine("a", old, true, nil)}, Source{}, "a", "",
		},
		"a source of its own": {
			[]candidate{machine("b", young, true, nil), machine("a", "", false, nil)}, Source{Fetch: "x"}, "a", "",
		},
		"one that is not usable": {
			[]candidate{machine("a", young, true, gone), machine("b", old, false, nil)}, Source{}, "b", "",
		},
		"a file that one machine has": {
			[]candidate{
				machine("a", young, true, Source{Snapshot: "/s.db"}.absent("absent\n")),
				machine("b", "", false, Source{Snapshot: "/s.db"}.absent("")),
			},
			Source{Snapshot: "/s.db"},
			"b", "",
		},
		"a file that no machine has": {
			[]candidate{machine("a", young, true, Source{Snapshot: "/s.db"}.absent("absent\n"))},
			Source{Snapshot: "/s.db"},
			"", "a (10.0.0.1): /s.db is not a file on the machine",
		},
		"none of two is usable": {
			[]candidate{machine("b", "", false, gone), machine("a", "", false, gone)}, Source{}, "", "a drill: a (10.0.0.1): it",
		},
		"none is usable": {[]candidate{machine("a", young, true, gone)}, Source{}, "", "no API server"},
		"no snapshot":    {[]candidate{machine("a", "", false, nil)}, Source{}, "", "no machine has a snapshot"},
		"nothing":        {nil, Source{}, "", "no machine can run"},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range c.all {
				c.all[i].Source = c.source
			}
			got, err := choose(c.all)
			if got.Member != c.want || (err == nil) != (c.reason == "") ||
				err != nil && !strings.Contains(err.Error(), c.reason) {
				t.Errorf("%s, %v", got.Member, err)
			}
		})
	}
}

// TestChooseWithAHangingMachine: a machine that hangs does not take the time of the drill, which runs on another one.
func TestChooseWithAHangingMachine(t *testing.T) {
	pool, err := host.NewPool(host.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var specs []Spec
	for i, name := range []string{"cp1", "cp2", "cp3"} {
		specs = append(specs, Spec{Member: name, Host: pool.Host(host.Target{Address: fmt.Sprintf("10.0.0.%d", i+1)})})
	}
	for hanging, want := range map[string]string{"cp3": "cp2", "cp1 cp2": "cp3", "cp1 cp2 cp3": ""} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 75*time.Minute)
			defer cancel()
			got, err := choose(candidates(ctx, specs, func(ctx context.Context, s Spec) (place, error) {
				if strings.Contains(hanging, s.Member) {
					<-ctx.Done()
					return place{}, ctx.Err()
				}
				return place{newest: "20260102T030405Z-" + s.Member + ".db"}, nil
			}))
			if got.Member != want || want == "" && !strings.Contains(fmt.Sprint(err), host.ErrNoAnswer.Error()) {
				t.Errorf("while %s hangs: %s, %v", hanging, got.Member, err)
			}
			if ctx.Err() != nil {
				t.Errorf("while %s hangs: it took the time of the drill", hanging)
			}
		})
	}
}

// TestSourceQuestion asks this computer for the file of a source.
func TestSourceQuestion(t *testing.T) {
	file := filepath.Join(t.TempDir(), "it's $one.db")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{"": false, file: false, file + "x": true, filepath.Dir(file): true} {
		script := host.Assignments(map[string]string{"snapshot": path}) + sourceQuestion
		out, err := exec.CommandContext(t.Context(), "sh", "-euc", string(script)).Output()
		if absent := (Source{Snapshot: path}).absent(string(out)) != nil; err != nil || absent != want {
			t.Errorf("%q: absent is %t, %v", path, absent, err)
		}
	}
}
