package review

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// Policy says which plans a pipeline may apply without a person. A class without limits is not
// allowed.
type Policy struct {
	Renewal *Limits      `json:"renewal"`
	Repair  *Limits      `json:"repair"`
	Drill   *DrillLimits `json:"drill"`
}

// DrillLimits bound when restore drills run without a person. They change no machine.
type DrillLimits struct {
	Hours *Hours `json:"hours"` // nil: at any time
}

// drill returns the limits of drills, nil if there are none.
func (p Policy) drill() *Limits {
	if p.Drill == nil {
		return nil
	}
	return &Limits{Hours: p.Drill.Hours}
}

// Limits bound what is applied without a person.
type Limits struct {
	MaxMachines int    `json:"max_machines"` // how many machines one plan may change
	Restarts    *bool  `json:"restarts"`     // of repairs: whether they may restart what serves; nil: no
	Hours       *Hours `json:"hours"`        // nil: at any time
}

// Hours are a window on some days of a week. A window that ends before it begins ends on the
// next day.
type Hours struct {
	TimeZone string   `json:"time_zone"` // of the IANA database, such as Europe/Berlin
	Days     []string `json:"days"`      // such as Mon; empty: all
	From     string   `json:"from"`      // such as 22:00
	To       string   `json:"to"`

	location *time.Location
	from, to time.Duration // since midnight
}

// ParsePolicy reads a policy in YAML or JSON. A field that it does not know is an error, because
// it may be a limit with a typing error in its name.
func ParsePolicy(text []byte) (Policy, error) {
	var p Policy
	if err := yaml.UnmarshalStrict(text, &p); err != nil {
		return Policy{}, fmt.Errorf("read the policy: %w", err)
	}
	if p.Renewal != nil && p.Renewal.Restarts != nil {
		return Policy{}, errors.New("read the policy: renewal.restarts: only repair has this limit, " +
			"because what would restart something counts as a repair")
	}
	for name, limits := range map[string]*Limits{"renewal": p.Renewal, "repair": p.Repair} {
		if err := limits.parse(); err != nil {
			return Policy{}, fmt.Errorf("read the policy: %s.%w", name, err)
		}
	}
	if p.Drill != nil && p.Drill.Hours != nil {
		if err := p.Drill.Hours.parse(); err != nil {
			return Policy{}, fmt.Errorf("read the policy: drill.%w", err)
		}
	}
	return p, nil
}

func (l *Limits) parse() error {
	switch {
	case l == nil:
		return nil
	case l.MaxMachines < 1:
		return fmt.Errorf("max_machines: %d is not a number of machines from 1 on", l.MaxMachines)
	case l.Hours == nil:
		return nil
	}
	return l.Hours.parse()
}

func (h *Hours) parse() error {
	var err error
	// Without a name, a location is UTC; Local is whatever the runner has.
	if h.location, err = time.LoadLocation(h.TimeZone); err != nil || h.TimeZone == "" || h.TimeZone == "Local" {
		return fmt.Errorf("hours.time_zone: %q is not a time zone such as Europe/Berlin or UTC", h.TimeZone)
	}
	for _, day := range h.Days {
		if !slices.Contains(weekdays, day) {
			return fmt.Errorf("hours.days: %q is not one of %s", day, strings.Join(weekdays, ", "))
		}
	}
	if h.from, err = clock(h.From); err != nil {
		return fmt.Errorf("hours.from: %w", err)
	}
	if h.to, err = clock(h.To); err != nil {
		return fmt.Errorf("hours.to: %w", err)
	}
	if h.from == h.to {
		return fmt.Errorf("hours.to: the window from %s to %s is empty", h.From, h.To)
	}
	return nil
}

// weekdays are in the order of time.Weekday.
var weekdays = []string{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"}

// clock returns a time of day as the time since midnight.
func clock(text string) (time.Duration, error) {
	at, err := time.Parse("15:04", text)
	if err != nil || len(text) != len("15:04") {
		return 0, fmt.Errorf("%q is not a time such as 22:00", text)
	}
	return time.Duration(at.Hour())*time.Hour + time.Duration(at.Minute())*time.Minute, nil
}

// contain reports whether now is within the window. The beginning is, the end is not. The clock
// on the wall counts, also on days that have 23 or 25 hours.
func (h *Hours) contain(now time.Time) bool {
	if h == nil {
		return true
	}
	now = now.In(h.location)
	at := time.Duration(now.Hour())*time.Hour + time.Duration(now.Minute())*time.Minute
	today, yesterday := now.Weekday(), (now.Weekday()+6)%7
	if h.from < h.to {
		return h.on(today) && h.from <= at && at < h.to
	}
	return h.on(today) && at >= h.from || h.on(yesterday) && at < h.to
}

func (h *Hours) on(day time.Weekday) bool {
	return len(h.Days) == 0 || slices.Contains(h.Days, weekdays[day])
}

func (h *Hours) String() string {
	days := "every day"
	if len(h.Days) > 0 {
		days = strings.Join(h.Days, ", ")
	}
	return fmt.Sprintf("%s from %s to %s, %s", days, h.From, h.To, h.TimeZone)
}
