package membership

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestUnanswered(t *testing.T) {
	const limit = 10 * time.Second
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	for _, c := range []struct {
		name  string
		asked [][2]int // from, until
		dead  bool
	}{
		{"never asked", nil, false},
		{"one question that took long", [][2]int{{0, 30}}, false},
		{"two", [][2]int{{0, 6}, {6, 12}}, false},
		{"three at once", [][2]int{{0, 1}, {1, 2}, {2, 3}}, false},
		{"three in time", [][2]int{{0, 1}, {5, 6}, {9, 10}}, true},
		{"many", [][2]int{{0, 0}, {2, 2}, {4, 4}, {6, 6}, {8, 8}, {10, 10}}, true},
	} {
		var s Unanswered
		for _, q := range c.asked {
			s.Add(at(q[0]), at(q[1]))
		}
		if s.Dead(limit) != c.dead {
			t.Errorf("%s: dead %v, want %v", c.name, s.Dead(limit), c.dead)
		}
	}
}

func TestDeathVerdictExpires(t *testing.T) {
	for name, c := range map[string]struct {
		view View
		d    DeathVerdict
		want bool
	}{
		"fresh":         {clusterOf("Lhs"), DeathVerdict{3, time.Now()}, true},
		"old":           {clusterOf("Lhs"), DeathVerdict{3, time.Now().Add(-time.Minute)}, false},
		"answers again": {clusterOf("Lhh"), DeathVerdict{3, time.Now()}, false},
		"of another":    {clusterOf("Lhs"), DeathVerdict{7, time.Now()}, false},
		"none":          {clusterOf("Lhs"), DeathVerdict{}, false},
	} {
		if m, _ := c.d.Mark(c.view, 10*time.Second).Member(3); m.Dead != c.want {
			t.Errorf("%s: dead %v, want %v", name, m.Dead, c.want)
		}
	}
	v := clusterOf("Lhs")
	v.WithDead(3)
	if v.Members[2].Dead {
		t.Error("the view that was marked is another one's")
	}
	synctest.Test(t, func(t *testing.T) {
		d := DeathVerdict{3, time.Now()}
		time.Sleep(10 * time.Second)
		if m, _ := d.Mark(v, 10*time.Second).Member(3); !m.Dead {
			t.Error("a verdict ends before its time")
		}
	})
}

// TestWithDead: only the named member becomes dead, only if it is unhealthy, and those that
// are dead stay so.
func TestWithDead(t *testing.T) {
	for _, c := range []struct {
		letters string
		id      uint64
		want    string // d: dead
	}{
		{"Lss", 2, "-d-"},
		{"Lds", 3, "-dd"},
		{"Lds", 1, "-d-"},
		{"Lhs", 2, "---"},
		{"Lhs", 9, "---"},
	} {
		got := ""
		for _, m := range clusterOf(c.letters).WithDead(c.id).Members {
			got += map[bool]string{true: "d", false: "-"}[m.Dead]
		}
		if got != c.want {
			t.Errorf("WithDead(%s, %d) = %s, want %s", c.letters, c.id, got, c.want)
		}
	}
}
