package review

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// newFleet returns a report on several clusters: every kind of plan, one whose planning failed,
// and one whose plan cannot be read.
func newFleet(t *testing.T) Report {
	t.Helper()
	errored := document(t, "grow")
	errored["errored"] = true
	return Report{
		Title: "Fleet: plan", Marker: "fleet", Log: "https://ci.example/1",
		Plans: []NamedPlan{
			readPlan(t, "production/berlin", document(t, "nothing")),
			readPlan(t, "production/oslo", document(t, "asked")),
			readPlan(t, "production/paris", document(t, "replace")),
			readPlan(t, "staging/berlin", document(t, "create")),
			readPlan(t, "staging/lima", errored),
			Read("staging/oslo", nil),
			Read("staging/paris", []byte("Error: a | b `c`")),
		},
	}
}

func TestFleet(t *testing.T) {
	fleet := newFleet(t)
	golden(t, "fleet.md", Markdown(fleet, MaxComment))
	if fleet.Complete() {
		t.Error("a fleet without two plans is complete")
	}
	text, err := JSON(fleet)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "fleet.json", string(text))
	single, err := JSON(Report{Title: "Plan", Plans: []NamedPlan{readPlan(t, "", document(t, "drift"))}})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "drift.json", string(single))
}

// TestOrderOfClusters checks that the summary begins with what needs attention.
func TestOrderOfClusters(t *testing.T) {
	last := -1
	got := Markdown(newFleet(t), MaxComment)
	for _, name := range []string{
		"staging/lima", "staging/oslo", "staging/paris", // no complete plan
		"production/paris",  // destructive
		"production/oslo",   // drift
		"staging/berlin",    // changes
		"production/berlin", // nothing
	} {
		at := strings.Index(got, "\n| "+name+" |")
		if at <= last {
			t.Errorf("%s is at %d, after %d", name, at, last)
		}
		last = at
	}
}

func TestSinglePlanFails(t *testing.T) {
	for _, test := range []struct {
		plan NamedPlan
		want string
	}{
		{Read("", []byte(" \n")), "**Planning failed.** The log shows the error.\n"},
		{Read("", []byte("{}")), "**The plan cannot be read:** `read the plan: "},
		{NamedPlan{Err: errors.New("open a.json: <img>")}, "**The plan cannot be read:** `open a.json: <img>`\n"},
	} {
		got := Markdown(Report{Title: "Plan", Plans: []NamedPlan{test.plan}}, MaxComment)
		if !strings.HasPrefix(got, "### Plan\n\n"+test.want) {
			t.Errorf("the comment is:\n%s\nwant %q", got, test.want)
		}
	}
}

// large returns a fleet whose comment is too long. Each cluster destroys one resource of this
// provider and some of another one.
func large(t *testing.T, clusters, others int) Report {
	t.Helper()
	var kinds []NamedPlan
	for _, name := range []string{"drift", "asked", "upgrade"} {
		d := document(t, name)
		changeOf(t, d, memberAddress(d))["actions"] = []any{"delete"}
		for j := range others {
			d["resource_changes"] = append(d["resource_changes"].([]any), map[string]any{
				"address": fmt.Sprintf("aws_instance.this[%d]", j), "mode": "managed", "type": "aws_instance", "name": "this",
				"provider_name": "registry.terraform.io/hashicorp/aws",
				"change":        map[string]any{"actions": []any{"delete", "create"}},
			})
		}
		kinds = append(kinds, readPlan(t, "", d))
	}
	r := Report{Title: "Fleet", Marker: "fleet"}
	for i := range clusters {
		plan := kinds[i%len(kinds)]
		plan.Name = fmt.Sprintf("cluster-%03d", i)
		r.Plans = append(r.Plans, plan)
	}
	return r
}

// memberAddress returns the address of a member in a plan.
func memberAddress(d map[string]any) string {
	for _, r := range d["resource_changes"].([]any) {
		if r := r.(map[string]any); r["type"] == "kube_etcd_member" {
			return r["address"].(string)
		}
	}
	return ""
}

// TestLimit checks that a comment is never longer than its limit, that sections are left out as
// a whole and by rank, and that what is destroyed is always shown.
func TestLimit(t *testing.T) {
	for _, test := range []struct {
		clusters, others, limit int
		want, not               []string
	}{
		{30, 0, MaxComment, []string{"cluster-029", "What an apply does", "limited to 65536 characters: diagram._"}, nil},
		{60, 0, MaxComment, []string{"cluster-059", "kube_etcd_member"}, []string{"```mermaid", "Production readiness"}},
		{20, 40, MaxComment, []string{"**replace**: `aws_instance.this[0]`", "aws_instance.this[39]"}, nil},
		{20, 400, MaxComment, []string{"**destroy**: `", "`aws_instance.this[0]`", "and 390 more"}, []string{"<details>"}},
		{200, 30, 32768, []string{"**destroy 1 resource**; **replace 30 resources**"}, nil},
		{600, 3, 32768, []string{"600 clusters", "| 450 more |", ": 2400 resources", "**1800 resources** in other"}, nil},
		{600, 3, 4096, []string{"600 clusters", "600 to destroy", "Destroyed or replaced: 2400 resources"}, nil},
	} {
		got := Markdown(large(t, test.clusters, test.others), test.limit)
		if len(got) > test.limit {
			t.Errorf("%+v: %d bytes", test, len(got))
		}
		for _, want := range test.want {
			if !strings.Contains(got, want) {
				t.Errorf("%+v: the comment lacks %q:\n%.3000s", test, want, got)
			}
		}
		for _, not := range test.not {
			if strings.Contains(got, not) {
				t.Errorf("%+v: the comment has %q", test, not)
			}
		}
		for _, tag := range []string{"details", "summary"} {
			if opened, closed := strings.Count(got, "<"+tag+">"), strings.Count(got, "</"+tag+">"); opened != closed {
				t.Errorf("%+v: %d <%s> and %d </%[3]s>", test, opened, tag, closed)
			}
		}
		if strings.Count(got, "```")%2 != 0 {
			t.Errorf("%+v: a diagram is cut", test)
		}
	}
}

// TestLimitOfOnePlan checks that a comment on one plan is bounded too.
func TestLimitOfOnePlan(t *testing.T) {
	plan := large(t, 1, 2000).Plans[0]
	plan.Name = ""
	got := Markdown(Report{Title: "Plan", Plans: []NamedPlan{plan}}, MaxComment)
	if len(got) > MaxComment || !strings.Contains(got, "2000 to replace") || !strings.Contains(got, "**destroy**: `") {
		t.Errorf("%d bytes:\n%.2000s", len(got), got)
	}
}

func TestValidMarker(t *testing.T) {
	for name, want := range map[string]bool{
		"drift-review": true, "fleet/production": true, "a b.c_d": true,
		"": false, "a--b": false, "a>": false, "-->": false, "a\n": false, "-a": false, "a-": false, "ä": false,
	} {
		if ValidMarker(name) != want {
			t.Errorf("marker %q: want %v", name, want)
		}
	}
	for url, want := range map[string]bool{
		"https://x/1?a=b#c": true, "javascript:x": false, "https://x>y": false, "https://x y": false,
	} {
		if ValidLog(url) != want {
			t.Errorf("URL %q: want %v", url, want)
		}
	}
}

// TestJSONVersion checks that a change of the format raises its version.
func TestJSONVersion(t *testing.T) {
	text, err := JSON(Report{})
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		FormatVersion string            `json:"format_version"`
		Complete      bool              `json:"complete"`
		Plans         []json.RawMessage `json:"plans"`
	}
	if err := json.Unmarshal(text, &got); err != nil || got.FormatVersion != "1.2" || got.Plans == nil || !got.Complete {
		t.Errorf("an empty report is %s: %v", text, err)
	}
}

// TestReduced checks that a reduced plan gives the same comment, and that a forged one is
// refused.
func TestReduced(t *testing.T) {
	for _, name := range plans {
		d := document(t, name)
		less, err := Reduce(readPlan(t, "", d))
		if err != nil {
			t.Fatal(err)
		}
		report := Report{Title: "Plan", Plans: []NamedPlan{Read("", less)}}
		if got := Markdown(report, MaxComment); got != comment(t, d) {
			t.Errorf("%s: the comment on the reduced plan is:\n%s", name, got)
		}
	}
	for name, text := range map[string]string{
		"version": `{"kube_review_plan":"9","plan":{}}`,
		"action":  `{"kube_review_plan":"1","plan":{"Others":[{"Address":"a","Action":"<img>"}]}}`,
		"kind":    `{"kube_review_plan":"1","plan":{"ControlPlanes":[{"Secrets":[{"Kind":"<img>","Action":"create"}]}]}}`,
		"type":    `{"kube_review_plan":"1","plan":[]}`,
	} {
		if got := Read("", []byte(text)); !errors.Is(got.Err, errReduced) {
			t.Errorf("another %s: %v", name, got.Err)
		}
	}
	if _, err := Reduce(Read("", nil)); !errors.Is(err, ErrNoPlan) {
		t.Errorf("no plan is reduced: %v", err)
	}
}

// TestJSONIsDocumented checks that the guide names every field of the JSON.
func TestJSONIsDocumented(t *testing.T) {
	var report map[string]any
	if err := json.Unmarshal([]byte(readText(t, "testdata", "fleet.json")), &report); err != nil {
		t.Fatal(err)
	}
	_, guide, _ := strings.Cut(readText(t, "..", "..", "templates", "guides", "drift-review.md"), "`-format json`")
	fields := 0
	walk(report, func(object map[string]any) {
		for field := range object {
			fields++
			if !strings.Contains(guide, "`"+field+"`") && !strings.Contains(guide, "."+field+"`") &&
				!strings.Contains(guide, "."+field+"[]`") && !strings.Contains(guide, "`"+field+"[]`") {
				t.Errorf("the guide does not describe the field %s", field)
			}
		}
	})
	if fields < 100 {
		t.Errorf("the report of the fleet has %d fields", fields)
	}
}
