package membership

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The alarms of etcd. Each is raised for one member and affects the whole cluster: while
// it is raised, every member refuses writes.
const (
	AlarmNoSpace = "NOSPACE" // a database has reached its quota
	AlarmCorrupt = "CORRUPT" // a member's data differs from that of the others
)

// Alarm is an alarm and the member it was raised for.
type Alarm struct {
	Member uint64 // 0: etcd found that members differ but not which one is wrong
	Name   string
}

// ParseAlarms extracts the alarms from the errors of a status, where each has the form
// "memberID:123 alarm:NOSPACE". For member 0 the first word is missing.
func ParseAlarms(errors []string) []Alarm {
	var alarms []Alarm
	for _, text := range errors {
		var a Alarm
		for _, word := range strings.Fields(text) {
			switch key, value, _ := strings.Cut(word, ":"); key {
			case "memberID":
				a.Member, _ = strconv.ParseUint(value, 10, 64) // an invalid number is no known member
			case "alarm":
				a.Name = VersionReported(value) // NOSPACE, CORRUPT, or an unknown alarm
			}
		}
		if a.Name != "" {
			alarms = append(alarms, a)
		}
	}
	slices.SortFunc(alarms, func(a, b Alarm) int {
		return cmp.Or(cmp.Compare(a.Member, b.Member), strings.Compare(a.Name, b.Name))
	})
	return alarms
}

// WithAlarms assigns alarms to the members that are listed; the rest are orphans.
func (v View) WithAlarms(alarms []Alarm) View {
	v.Members, v.Orphans = slices.Clone(v.Members), nil
	for i := range v.Members {
		v.Members[i].Alarms = nil
	}
	for _, a := range alarms {
		i := slices.IndexFunc(v.Members, func(m Member) bool { return m.ID == a.Member })
		if i < 0 {
			v.Orphans = append(v.Orphans, a)
			continue
		}
		v.Members[i].Alarms = append(v.Members[i].Alarms, a.Name)
	}
	return v
}

// Raised returns the members for which an alarm is raised.
func (v View) Raised(name string) []Member {
	return slices.DeleteFunc(slices.Clone(v.Members), func(m Member) bool { return !m.HasAlarm(name) })
}

// orphaned returns the alarms of that name whose member is not listed.
func (v View) orphaned(name string) []Alarm {
	return slices.DeleteFunc(slices.Clone(v.Orphans), func(a Alarm) bool { return a.Name != name })
}

// HasAlarm reports whether this alarm is raised for the member.
func (m Member) HasAlarm(alarm string) bool { return slices.Contains(m.Alarms, alarm) }

// CorruptUnnamed reports whether the data of an unknown member is corrupt.
func (v View) CorruptUnnamed() bool { return slices.Contains(v.Orphans, Alarm{Name: AlarmCorrupt}) }

// String describes the alarm of a member that is not listed.
func (a Alarm) String() string {
	whose := fmt.Sprintf("for member %x, which the cluster no longer lists", a.Member)
	switch {
	case a.Member == 0 && a.Name == AlarmCorrupt:
		whose = "for no specific member: the data of the members differs, and etcd cannot determine which copy is correct"
	case a.Member == 0:
		whose = "for no specific member"
	}
	return fmt.Sprintf("alarm %s is raised %s; writes are refused", a.Name, whose)
}

// AlarmDrift describes the alarms that block writes: the member's own, and those that
// belong to no member, so that the member that is planned next repairs them.
func AlarmDrift(name string, v *View, entry *Member) []string {
	if v == nil {
		return nil
	}
	var words []string
	if entry != nil {
		for _, alarm := range entry.Alarms {
			words = append(words, fmt.Sprintf("%s: alarm %s is raised: %s", name, alarm, alarmText(*entry, alarm)))
		}
	}
	for _, a := range v.Orphans {
		words = append(words, name+": "+a.String())
	}
	return words
}

func alarmText(m Member, alarm string) string {
	switch alarm {
	case AlarmNoSpace:
		if m.DBSize == 0 {
			return "the database has reached its quota; writes are refused"
		}
		return fmt.Sprintf("%s; writes are refused", m.Sizes())
	case AlarmCorrupt:
		return "its data differs from that of the other members; writes are refused"
	}
	return "writes may be refused"
}
