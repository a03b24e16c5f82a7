package membership

import (
	"slices"
	"strings"
	"testing"
)

func TestUpgradePathsFrom(t *testing.T) {
	member := func(name, version string) MemberStatus {
		return MemberStatus{Member: Member{Name: name, Version: version, Healthy: version != ""}}
	}
	three := func(version string) []MemberStatus {
		return []MemberStatus{member("cp1", version), member("cp2", version), member("cp3", version)}
	}
	with := func(members []MemberStatus, change func(*MemberStatus)) []MemberStatus {
		change(&members[2])
		return members
	}
	for name, c := range map[string]struct {
		survey          Survey
		stable, healthy bool
		next            []string
		issue           string
	}{
		"nobody answers":   {},
		"settled":          {survey: Survey{three("3.5.35"), "3.5", ""}, stable: true, healthy: true, next: []string{"3.6"}},
		"too old for 3.6":  {survey: Survey{three("3.5.20"), "3.5", ""}, stable: true, healthy: true},
		"the newest known": {survey: Survey{three("3.7.0"), "3.7", ""}, stable: true, healthy: true},
		"an upgrade begun": {survey: Survey{append(three("3.5.35")[:2], member("cp3", "3.6.16")), "3.5", ""}, healthy: true},
		"not agreed yet":   {survey: Survey{three("3.6.16"), "3.5", ""}, healthy: true},
		"patches differ": {
			survey: Survey{append(three("3.6.16")[:2], member("cp3", "3.6.15")), "3.6", ""}, healthy: true,
			next: []string{"3.7"},
		},
		"one does not tell": {survey: Survey{with(three("3.5.35"), func(m *MemberStatus) {
			m.Version, m.Healthy, m.Trouble = "", false, "does not answer"
		}), "3.5", ""}, next: []string{"3.6"}, issue: "etcd member cp3: does not answer"},
		"a learner": {
			survey: Survey{with(three("3.5.35"), func(m *MemberStatus) { m.Learner = true }), "3.5", ""},
			stable: true, next: []string{"3.6"}, issue: "cp3: is a learner",
		},
		"an alarm": {survey: Survey{
			with(three("3.5.35"), func(m *MemberStatus) { m.Alarms = []string{"NOSPACE"} }),
			"3.5", "",
		}, stable: true, next: []string{"3.6"}, issue: "cp3: has alarm NOSPACE"},
		"one never started": {
			survey: Survey{with(three("3.5.35"),
				func(m *MemberStatus) { *m = MemberStatus{Member: Member{Trouble: "has never started"}} }), "3.5", ""},
			next: []string{"3.6"}, issue: "etcd member (never started, 3): has never started",
		},
		"two never started": {
			survey: Survey{append(three("3.5.35")[:1], MemberStatus{Member: Member{Healthy: true}},
				MemberStatus{Member: Member{Healthy: true}}), "3.5", ""},
			healthy: true, next: []string{"3.6"},
		},
		"one member": {survey: Survey{three("3.5.35")[:1], "3.5", ""}, stable: true, healthy: true, next: []string{"3.6"}},
		"older than those that are managed": {
			survey: Survey{three("3.0.17"), "3.0", ""}, stable: true, healthy: true, next: []string{"3.1"},
		},
		"no leader is known": {
			survey: Survey{with(three("3.5.35"), func(m *MemberStatus) { m.Healthy = false }), "3.5", ""},
			stable: true, next: []string{"3.6"}, issue: "cp3: is unhealthy",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := UpgradePathsFrom(c.survey)
			if w.Uniform != c.stable || w.Healthy != c.healthy || !slices.Equal(w.NextMinors, c.next) {
				t.Errorf("settled %v, healthy %v, next %q; want %v, %v, %q", w.Uniform, w.Healthy, w.NextMinors, c.stable,
					c.healthy, c.next)
			}
			if len(w.Versions) != len(c.survey.Members) {
				t.Errorf("versions %v of %d members", w.Versions, len(c.survey.Members))
			}
			if output := strings.Join(w.Issues, "\n"); output == "" != (c.issue == "") || !strings.Contains(output, c.issue) {
				t.Errorf("issues %q, want %q", output, c.issue)
			}
		})
	}
}

func TestVotingAndLeader(t *testing.T) {
	member := func(name string, learner, healthy, leader bool) MemberStatus {
		return MemberStatus{Member: Member{Name: name, Learner: learner, Healthy: healthy}, Leader: leader}
	}
	for _, c := range []struct {
		name                    string
		members                 []MemberStatus
		voters, healthy, needed int
		leader                  string
	}{
		{"none", nil, 0, 0, 1, ""},
		{
			"a learner has no vote",
			[]MemberStatus{member("a", false, true, true), member("b", true, true, false)},
			1, 1, 1, "a",
		},
		{
			"one of three is down", []MemberStatus{
				member("a", false, false, false), member("b", false, true, true),
				member("c", false, true, false),
			}, 3, 2, 2, "b",
		},
		{"nobody leads", []MemberStatus{member("a", false, false, false), member("b", false, true, false)}, 2, 1, 2, ""},
	} {
		s := Survey{Members: c.members}
		voters, healthy, needed := s.Voting()
		if voters != c.voters || healthy != c.healthy || needed != c.needed || s.Leader() != c.leader {
			t.Errorf("%s: %d voters, %d healthy, %d needed, leader %q; want %d, %d, %d, %q", c.name, voters, healthy, needed,
				s.Leader(), c.voters, c.healthy, c.needed, c.leader)
		}
	}
}
