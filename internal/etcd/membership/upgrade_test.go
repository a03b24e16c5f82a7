package membership

import (
	"errors"
	"strings"
	"testing"
)

// running returns a survey of members with these versions.
func running(cluster string, versions ...string) Survey {
	s := Survey{ClusterVersion: cluster}
	for i, version := range versions {
		name := string(rune('a' + i))
		s.Members = append(s.Members, MemberStatus{
			Member:  Member{Name: name, Version: version, Healthy: version != ""},
			Address: "10.0.0." + name,
		})
	}
	return s
}

func TestMayUpgrade(t *testing.T) {
	for _, c := range []struct {
		name   string
		survey Survey
		target string
		want   []string // nil: allowed
	}{
		{"nobody", running(""), "3.6.16", nil},
		{"patch", running("3.6", "3.6.15", "3.6.15", "3.6.15"), "3.6.16", nil},
		{"patch back", running("3.6", "3.6.16", "3.6.16"), "3.6.15", nil},
		{"minor", running("3.5", "3.5.35", "3.5.35", "3.5.35"), "3.6.16", nil},
		{"minor under way", running("3.5", "3.6.16", "3.5.35", "3.5.35"), "3.6.16", nil},
		{"minor, nobody tells the agreed one", running("", "3.6.16", "3.5.35"), "3.6.16", nil},
		{"just bootstrapped", running("3.0", "3.5.34", "3.5.34"), "3.5.35", nil},
		{"one does not answer", running("3.5", "3.5.35", ""), "3.6.16", nil},
		{"given up half-way", running("3.5", "3.6.16", "3.6.16", "3.5.35"), "3.5.35", nil},
		{"given up when all have it", running("3.6", "3.6.16", "3.6.16"), "3.5.35", []string{
			"cluster version is 3.6",
			"stay on 3.6",
		}},
		{
			"given up when all have it and the leader has not noticed", running("3.5", "3.6.16", "3.6.16"),
			"3.5.35",
			[]string{"member a", "member b", "older"},
		},
		{"given up, nobody tells the agreed one", running("", "3.6.16", "3.5.35"), "3.5.35", []string{"member a", "older"}},
		{
			"one is too old for 3.6", running("3.5", "3.5.35", "3.5.25", "3.5.35"),
			"3.6.16",
			[]string{"member b (10.0.0.b) runs 3.5.25", "3.5.26 or later"},
		},
		{
			"all broken rules are named", running("3.5", "3.5.20", "3.5.25", "3.5.35"),
			"3.6.16",
			[]string{"member a", "member b"},
		},
		{"one is too old for 3.7", running("3.6", "3.6.16", "3.6.4"), "3.7.0", []string{"member b", "3.6.11 or later"}},
		{"a skipped minor", running("3.5", "3.5.35"), "3.7.0", []string{"3.6 first"}},
		{"a skipped minor, nobody tells", running("", "3.5.35"), "3.7.0", []string{"3.6 first"}},
		{"not agreed on the one before", running("3.5", "3.6.16", "3.6.16"), "3.7.0", []string{"cluster version is 3.5"}},
		{"malformed", running("3.5", "3.5.35"), "v3.6", []string{"malformed"}},
	} {
		err := MayUpgrade(c.survey, c.target)
		if (err == nil) != (len(c.want) == 0) {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q lacks %q", c.name, err, want)
			}
		}
	}
}

func TestMayBeginUpgrade(t *testing.T) {
	raise := func(v View, i int, alarm string) View {
		v.Members[i].Alarms = []string{alarm}
		return v
	}
	orphan := clusterOf("Lhh")
	orphan.Orphans = []Alarm{{Member: 9, Name: AlarmNoSpace}}
	for _, c := range []struct {
		name string
		view View
		want error
	}{
		{"all healthy", clusterOf("Lhh"), nil},
		{"alone", clusterOf("L"), nil},
		{"the one that is mended", clusterOf("dLh"), nil},
		{"another one", clusterOf("Lhd"), ErrUnhealthy},
		{"another one of five", clusterOf("Lhhhd"), ErrUnhealthy},
		{"nobody leads", clusterOf("hhh"), errNoLeader},
		{"a learner", clusterOf("Lhhl"), ErrLearner},
		{"CORRUPT", raise(clusterOf("Lhh"), 1, AlarmCorrupt), ErrCorrupt},
		{"NOSPACE", raise(clusterOf("Lhh"), 1, AlarmNoSpace), ErrAlarm},
		{"its own NOSPACE", raise(clusterOf("Lhh"), 0, AlarmNoSpace), ErrAlarm},
		{"NOSPACE of one that has left", orphan, ErrAlarm},
	} {
		if err := MayBeginUpgrade(c.view, 1); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

func TestRolesDiffer(t *testing.T) {
	v := clusterOf("Lhl")
	other := clusterOf("Lhh")
	if Roles(v) == Roles(other) || Roles(v) != Roles(clusterOf("Lhl")) {
		t.Errorf("%s, %s", Roles(v), Roles(other))
	}
}
