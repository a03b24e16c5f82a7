package review

import (
	"os"
	"path/filepath"
	"testing"
	"time"
	"unicode/utf8"
)

// FuzzParse: no text crashes the reader or what is made of it, and a plan is applied without a person only if nothing
// is in it that a person has to see.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"create", "nothing", "drift"} {
		text, err := os.ReadFile(filepath.Join("testdata", name+".plan.json"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add(`{"format_version":"1.2","errored":true,"timestamp":"2026-11-20T10:00:00Z"}`)
	f.Add(`{"format_version":"1.2","complete":false,"resource_changes":[{"address":"a.b","mode":"managed","type":"a",` +
		`"name":"b","change":{"actions":["create"],"before":null,"after":{}}}]}`)
	restarts := true
	limits := &Limits{MaxMachines: 100, Restarts: &restarts}
	policy := Policy{Renewal: &Limits{MaxMachines: 100}, Repair: limits, Drill: &DrillLimits{}}
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		p := Read("", []byte(text))
		v := Judge(p, policy, now)
		if v.Automatic && (p.Err != nil || p.Plan.Errored || p.Plan.Partial || len(p.Plan.Others) > 0 ||
			len(p.Plan.Invoked) > 0 || len(v.Reasons) > 0) {
			t.Errorf("%+v is applied without a person: %+v", p, v)
		}
		if !v.Automatic && v.Class != ClassNone && len(v.Reasons) == 0 {
			t.Errorf("nothing says why a person decides: %+v", v)
		}
		if comment := Markdown(Report{Title: "Plan", Plans: []NamedPlan{p}}, MaxComment); len(comment) > MaxComment ||
			!utf8.ValidString(comment) {
			t.Errorf("a comment of %d bytes, or not of text: %q", len(comment), comment)
		}
	})
}

// FuzzParsePolicy: a policy that is accepted has limits that can be applied, at any time.
func FuzzParsePolicy(f *testing.F) {
	f.Add("renewal: {max_machines: 3}\n")
	f.Add("repair: {max_machines: 1, restarts: true, hours: {time_zone: Europe/Berlin, days: [Sat], from: '22:00', " +
		"to: '04:00'}}")
	f.Add("drill: {hours: {time_zone: UTC, from: '01:00', to: '02:00'}}")
	f.Add(`{"renewal": {"restarts": true}}`)
	f.Add("drill:\n")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePolicy([]byte(text))
		if err != nil {
			return
		}
		for _, l := range []*Limits{p.Renewal, p.Repair} {
			if l != nil && l.MaxMachines < 1 {
				t.Errorf("%q allows changes of %d machines", text, l.MaxMachines)
			}
		}
		for _, l := range []*Limits{p.Renewal, p.Repair, p.drill()} {
			if l == nil || l.Hours == nil {
				continue
			}
			open := 0
			for minute := range 7 * 24 * 60 {
				if l.Hours.contain(time.Date(2026, 1, 5, 0, minute, 0, 0, time.UTC)) {
					open++
				}
			}
			if open == 0 || open == 7*24*60 {
				t.Errorf("the window of %q contains %d minutes of a week", text, open)
			}
		}
	})
}
