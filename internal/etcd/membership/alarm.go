package membership

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The alarms that etcd knows. Each is raised for one member and holds for the
// whole cluster: while it stands, every member refuses writes.
const (
	AlarmNoSpace = "NOSPACE" // a database has reached its quota
	AlarmCorrupt = "CORRUPT" // a member's data differs from that of the others
)

// Alarm is an alarm with the member it was raised for.
type Alarm struct {
	Member uint64 // 0: etcd found members to differ and could not tell which one is wrong
	Name   string
}

// ParseAlarms picks the alarms out of the errors of a status, where each
// stands as "memberID:123 alarm:NOSPACE", and without the first word for 0.
func ParseAlarms(errors []string) []Alarm {
	var alarms []Alarm
	for _, text := range errors {
		var a Alarm
		for _, word := range strings.Fields(text) {
			switch key, value, _ := strings.Cut(word, ":"); key {
			case "memberID":
				a.Member, _ = strconv.ParseUint(value, 10, 64) // what is no number is no known member
			case "alarm":
				a.Name = VersionReported(value) // NOSPACE, CORRUPT, or what is not known here
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

// WithAlarms sorts alarms to the members that are listed; the rest are orphans.
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

// Raised lists the members for which an alarm is raised.
func (v View) Raised(name string) []Member {
	return slices.DeleteFunc(slices.Clone(v.Members), func(m Member) bool { return !m.HasAlarm(name) })
}

// orphaned lists the alarms of that name whose member is not listed.
func (v View) orphaned(name string) []Alarm {
	return slices.DeleteFunc(slices.Clone(v.Orphans), func(a Alarm) bool { return a.Name != name })
}

// HasAlarm reports whether this alarm is raised for the member.
func (m Member) HasAlarm(alarm string) bool { return slices.Contains(m.Alarms, alarm) }

// CorruptUnnamed reports whether some member's data is known to be wrong, but not whose.
func (v View) CorruptUnnamed() bool { return slices.Contains(v.Orphans, Alarm{Name: AlarmCorrupt}) }

// String says in words what the alarm of a member that is not listed means.
func (a Alarm) String() string {
	whose := fmt.Sprintf("for member %x, which the cluster no longer lists", a.Member)
	switch {
	case a.Member == 0 && a.Name == AlarmCorrupt:
		whose = "for no member in particular: members hold different data, and etcd cannot tell whose is right"
	case a.Member == 0:
		whose = "for no member in particular"
	}
	return fmt.Sprintf("alarm %s is raised %s; writes are refused", a.Name, whose)
}

// AlarmDrift says in words which alarms stand in the way of writes: the
// member's own, and those that belong to none of the members, so that
// whichever is planned next mends them.
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
			return "the database has reached its quota, writes are refused"
		}
		return fmt.Sprintf("%s, writes are refused", m.Sizes())
	case AlarmCorrupt:
		return "its data differs from that of the other members, writes are refused"
	}
	return "writes may be refused"
}
