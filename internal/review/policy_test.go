package review

import (
	"strings"
	"testing"
	"time"
)

func TestParsePolicy(t *testing.T) {
	const hours = "renewal: {max_machines: 3, hours: {time_zone: Europe/Berlin, days: [Mon], from: 02:00, to: 05:00}}"
	drills := strings.Replace(strings.Replace(hours, "renewal", "drill", 1), "max_machines: 3, ", "", 1)
	for text, want := range map[string]string{
		"":                          "",
		"{}":                        "",
		"repair: {max_machines: 1}": "",
		`{"repair":{"max_machines":1,"restarts":true}}`: "",
		hours:                          "",
		"repair: {}":                   "repair.max_machines: 0 is not a number of machines",
		"repair: {max_machines: -1}":   "repair.max_machines: -1",
		"repair: {max_machines: many}": "cannot unmarshal",
		"repairs: {max_machines: 1}":   `unknown field "repairs"`,
		"repair: {max_machine: 1}":     `unknown field "max_machine"`,
		"repair: {max_machines: 1}\nrepair: {max_machines: 9}":  "already set in map",
		"renewal: {max_machines: 1, restarts: true}":            "only repair has this limit",
		strings.Replace(hours, "Europe/Berlin", "Berlin", 1):    "hours.time_zone",
		strings.Replace(hours, "Europe/Berlin", `""`, 1):        "hours.time_zone",
		strings.Replace(hours, "Europe/Berlin", "Local", 1):     "hours.time_zone",
		strings.Replace(hours, "Europe/Berlin", "../../etc", 1): "hours.time_zone",
		strings.Replace(hours, "Mon", "Monday", 1):              `"Monday" is not one of Sun, Mon`,
		strings.Replace(hours, "02:00", "2am", 1):               "hours.from",
		strings.Replace(hours, "02:00", "2:00", 1):              "hours.from",
		strings.Replace(hours, "05:00", "24:00", 1):             "hours.to",
		strings.Replace(hours, "05:00", "02:00", 1):             "the window from 02:00 to 02:00 is empty",
		strings.Replace(hours, "days", "day", 1):                `unknown field "day"`,
		"drill: {}":                                             "",
		"drill: {max_machines: 1}":                              `unknown field "max_machines"`,
		drills:                                                  "",
		strings.Replace(drills, "05:00", "02:00", 1):            "drill.hours.to: the window",
		"[]": "cannot unmarshal array",
	} {
		_, err := ParsePolicy([]byte(text))
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", text, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: the error is %v, want %q", text, err, want)
		}
	}
}

func TestHours(t *testing.T) {
	for name, test := range map[string]struct {
		hours string
		now   string
		want  bool
	}{
		"the beginning":      {"{time_zone: UTC, from: 02:00, to: 05:00}", "2026-03-04T02:00:00Z", true},
		"before":             {"{time_zone: UTC, from: 02:00, to: 05:00}", "2026-03-04T01:59:59Z", false},
		"the last second":    {"{time_zone: UTC, from: 02:00, to: 05:00}", "2026-03-04T04:59:59Z", true},
		"the end":            {"{time_zone: UTC, from: 02:00, to: 05:00}", "2026-03-04T05:00:00Z", false},
		"a zone in winter":   {"{time_zone: Europe/Berlin, from: 02:00, to: 05:00}", "2026-01-04T01:30:00Z", true},
		"the same in summer": {"{time_zone: Europe/Berlin, from: 02:00, to: 05:00}", "2026-07-04T00:30:00Z", true},
		"not in summer":      {"{time_zone: Europe/Berlin, from: 02:00, to: 05:00}", "2026-07-04T03:30:00Z", false},
		"a day":              {"{time_zone: UTC, days: [Wed], from: 02:00, to: 05:00}", "2026-03-04T03:00:00Z", true},
		"another day":        {"{time_zone: UTC, days: [Thu], from: 02:00, to: 05:00}", "2026-03-04T03:00:00Z", false},
		"the day of the zone": {
			"{time_zone: Asia/Tokyo, days: [Thu], from: 02:00, to: 05:00}", "2026-03-04T18:00:00Z", true,
		},
		"before midnight":        {"{time_zone: UTC, days: [Wed], from: 22:00, to: 02:00}", "2026-03-04T23:00:00Z", true},
		"after midnight":         {"{time_zone: UTC, days: [Wed], from: 22:00, to: 02:00}", "2026-03-05T01:59:00Z", true},
		"the night before":       {"{time_zone: UTC, days: [Wed], from: 22:00, to: 02:00}", "2026-03-04T01:00:00Z", false},
		"the first minute":       {"{time_zone: UTC, days: [Wed], from: 22:00, to: 02:00}", "2026-03-04T22:00:00Z", true},
		"the last minute":        {"{time_zone: UTC, days: [Wed], from: 22:00, to: 02:00}", "2026-03-05T02:00:00Z", false},
		"a Saturday's night":     {"{time_zone: UTC, days: [Sat], from: 22:00, to: 02:00}", "2026-03-08T01:00:00Z", true},
		"between two nights":     {"{time_zone: UTC, from: 22:00, to: 02:00}", "2026-03-04T12:00:00Z", false},
		"no hours":               {"null", "2026-03-04T12:00:00Z", true},
		"a missing hour, spring": {"{time_zone: Europe/Berlin, from: 02:00, to: 03:30}", "2026-03-29T01:15:00Z", true},
	} {
		policy, err := ParsePolicy([]byte("renewal: {max_machines: 1, hours: " + test.hours + "}"))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		now, err := time.Parse(time.RFC3339, test.now)
		if err != nil {
			t.Fatal(err)
		}
		if got := policy.Renewal.Hours.contain(now); got != test.want {
			t.Errorf("%s: %s within %s is %v", name, test.now, policy.Renewal.Hours, got)
		}
	}
}
