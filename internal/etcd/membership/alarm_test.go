package membership

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestParseAlarms(t *testing.T) {
	got := ParseAlarms([]string{
		"etcdserver: no leader", "memberID:7 alarm:NOSPACE ", "alarm:CORRUPT ",
		"memberID:7  alarm:CORRUPT",
	})
	want := []Alarm{{0, AlarmCorrupt}, {7, AlarmCorrupt}, {7, AlarmNoSpace}}
	if !slices.Equal(got, want) {
		t.Errorf("alarms are %v, want %v", got, want)
	}
}

// alarmed raises alarms in a view: those of members 9 and 0 are orphans.
func alarmed(v View, alarms ...Alarm) View { return v.WithAlarms(alarms) }

func TestAlarmsInWords(t *testing.T) {
	v := alarmed(clusterOf("Lhh"), Alarm{2, AlarmNoSpace}, Alarm{3, AlarmCorrupt}, Alarm{9, AlarmCorrupt},
		Alarm{0, AlarmCorrupt})
	v.Members[1].DBSize, v.Members[1].DBInUse, v.Members[1].DBQuota = 2254857830, 1<<30, 2<<30
	words := func(i int) string { return strings.Join(AlarmDrift(v.Members[i].Name, &v, &v.Members[i]), "\n") }
	for _, c := range []struct {
		text string
		want []string
	}{
		{words(0), []string{
			"cp1: alarm CORRUPT is raised for member 9, which the cluster no longer lists",
			"cp1: alarm CORRUPT is raised for no specific member",
		}},
		{
			words(1),
			[]string{"cp2: alarm NOSPACE is raised: the database size is 2.1 GiB of a quota of 2 GiB (1 GiB in use); " +
				"writes are refused"},
		},
		{words(2), []string{"cp3: alarm CORRUPT is raised: its data differs"}},
		{v.String(), []string{
			"healthy, alarm NOSPACE: the database size is 2.1 GiB", "healthy, alarm CORRUPT",
			"for member 9", "no specific member",
		}},
	} {
		for _, want := range c.want {
			if !strings.Contains(c.text, want) {
				t.Errorf("%q is not in\n%s", want, c.text)
			}
		}
	}
	if words := AlarmDrift("cp1", nil, nil); len(words) > 0 {
		t.Errorf("alarms of nobody: %v", words)
	}
}

// TestWithAlarms: alarms replace earlier ones, and the view that they were taken from stays.
func TestWithAlarms(t *testing.T) {
	before := alarmed(clusterOf("Lhh"), Alarm{2, AlarmNoSpace}, Alarm{9, AlarmCorrupt})
	for _, c := range []struct {
		name   string
		alarms []Alarm
		raised []string // for each member
		orphan []Alarm
	}{
		{"none", nil, []string{"", "", ""}, nil},
		{"of the first member", []Alarm{{1, AlarmCorrupt}}, []string{AlarmCorrupt, "", ""}, nil},
		{"of one that has left", []Alarm{{8, AlarmNoSpace}}, []string{"", "", ""}, []Alarm{{8, AlarmNoSpace}}},
		{"two of one", []Alarm{{3, AlarmCorrupt}, {3, AlarmNoSpace}}, []string{"", "", "CORRUPT NOSPACE"}, nil},
	} {
		got := before.WithAlarms(c.alarms)
		for i, m := range got.Members {
			if raised := strings.Join(m.Alarms, " "); raised != c.raised[i] {
				t.Errorf("%s: %s has %q, want %q", c.name, m.Name, raised, c.raised[i])
			}
		}
		if !slices.Equal(got.Orphans, c.orphan) {
			t.Errorf("%s: orphans %v, want %v", c.name, got.Orphans, c.orphan)
		}
	}
	if !before.Members[1].HasAlarm(AlarmNoSpace) || len(before.Members[0].Alarms) > 0 || len(before.Orphans) != 1 {
		t.Errorf("the original view was changed: %s", before)
	}
}

func TestNeedsDecision(t *testing.T) {
	for err, want := range map[error]bool{
		nil: false, errQuorum: false, ErrUnhealthy: false, ErrAlarm: false,
		ErrCorrupt: true, ErrAmbiguous: true, fmt.Errorf("%w for cp2", ErrCorrupt): true,
	} {
		if got := NeedsDecision(err); got != want {
			t.Errorf("%v: waiting cannot clear it: %v, want %v", err, got, want)
		}
	}
}

func TestRulesWithCorruptMembers(t *testing.T) {
	third, both := Alarm{3, AlarmCorrupt}, []Alarm{{2, AlarmCorrupt}, {3, AlarmCorrupt}}
	for _, c := range []struct {
		name    string
		view    View
		id      uint64
		remove  error
		replace error
	}{
		{"the only one", alarmed(clusterOf("Lhh"), third), 3, nil, nil},
		{"the only one, dead", alarmed(clusterOf("Lhd"), third), 3, nil, nil},
		{"the leader", alarmed(clusterOf("hhL"), third), 3, nil, nil},
		{"a learner", alarmed(clusterOf("Lhl"), third), 3, nil, nil},
		{"a learner beside one voter", alarmed(clusterOf("Ll"), Alarm{2, AlarmCorrupt}), 2, nil, nil},
		{"beside it", alarmed(clusterOf("Lhh"), third), 2, ErrCorrupt, ErrCorrupt},
		{"a dead one beside it", alarmed(clusterOf("Ldh"), third), 2, ErrCorrupt, ErrCorrupt},
		{"beside a dead one", alarmed(clusterOf("Ldh"), third), 3, errQuorum, errQuorum},
		{"of five, beside a dead one", alarmed(clusterOf("Lhhhd"), third), 3, ErrUnhealthy, ErrUnhealthy},
		{"of five, itself dead", alarmed(clusterOf("Lhdhd"), third), 3, ErrUnhealthy, ErrUnhealthy},
		{"two of three", alarmed(clusterOf("Lhh"), both...), 3, ErrCorrupt, ErrCorrupt},
		{"an unknown one", alarmed(clusterOf("Lhh"), Alarm{0, AlarmCorrupt}), 3, ErrCorrupt, ErrCorrupt},
		{"this and an unknown one", alarmed(clusterOf("Lhh"), third, Alarm{0, AlarmCorrupt}), 3, ErrCorrupt, ErrCorrupt},
		{"one that has left", alarmed(clusterOf("Lhh"), Alarm{9, AlarmCorrupt}), 3, ErrCorrupt, ErrCorrupt},
		{"of two: a person may, nobody vouches", alarmed(clusterOf("Lh"), Alarm{2, AlarmCorrupt}), 2, nil, ErrAmbiguous},
		{"the last", alarmed(clusterOf("L"), Alarm{1, AlarmCorrupt}), 1, ErrLastMember, ErrAmbiguous},
		{"nobody leads", alarmed(clusterOf("hhh"), third), 3, errNoLeader, errNoLeader},
		{"not listed", alarmed(clusterOf("Lhh"), Alarm{9, AlarmCorrupt}), 9, errNotListed, errNotListed},
		{"out of space is no matter", alarmed(clusterOf("Lhh"), Alarm{2, AlarmNoSpace}), 3, nil, nil},
	} {
		if err := MayRemove(c.view, c.id); !errors.Is(err, c.remove) {
			t.Errorf("%s: MayRemove = %v, want %v", c.name, err, c.remove)
		}
		if err := MayReplaceCorrupt(c.view, c.id); !errors.Is(err, c.replace) {
			t.Errorf("%s: MayReplaceCorrupt = %v, want %v", c.name, err, c.replace)
		}
	}
	v := alarmed(clusterOf("Lhh"), third)
	v.Members[2].Index = 99
	if m, _ := BestTransferee(v, 1); m.ID != 2 {
		t.Errorf("leadership would go to %d, which is CORRUPT", m.ID)
	}
	for name, err := range map[string]error{"add": MayAdd(v), "restart": MayRestart(v, 2)} {
		if !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s beside a CORRUPT member: %v", name, err)
		}
	}
}

func TestDisarmable(t *testing.T) {
	gone, unknown, full := Alarm{9, AlarmCorrupt}, Alarm{0, AlarmCorrupt}, Alarm{9, AlarmNoSpace}
	cramped := filled(clusterOf("Lhh"), 2, 95, 95)
	for _, c := range []struct {
		name string
		view View
		want []Alarm
	}{
		{"none", filled(clusterOf("Lhh"), 1, 10, 10), nil},
		{"of one that has left", alarmed(filled(clusterOf("Lhh"), 1, 10, 10), gone, full), []Alarm{gone, full}},
		{"beside a dead one", alarmed(filled(clusterOf("Lhd"), 1, 10, 10), gone), []Alarm{gone}},
		{"without quorum", alarmed(filled(clusterOf("Ldd"), 1, 10, 10), gone), nil},
		{"of an unknown one", alarmed(filled(clusterOf("Lhh"), 1, 10, 10), unknown), nil},
		{"a listed one is CORRUPT too", alarmed(filled(clusterOf("Lhh"), 1, 10, 10), gone, Alarm{2, AlarmCorrupt}), nil},
		{"a database is full", alarmed(cramped, gone, full), []Alarm{gone}},
	} {
		if got := Disarmable(c.view); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
