package prometheus

import (
	"fmt"
	"maps"
)

func init() { maps.Copy(cases, planCases()) }

// planCases are input for the alerts about what scheduled plans see.
func planCases() map[string]struct{ bad, good string } {
	plan := func(metric, more, values string) string {
		return series(metric, "pushgateway", "runner", more, values)
	}
	const member = `resource="kube_etcd_member",address="kube_etcd_member.this[\"cp1\"]"`
	// made is when plans were made: the first, some days before the first sample, is the last one for
	// a quarter of an hour, and so on.
	made := func(days ...int) string {
		var values string
		for i, before := range days {
			times := 29
			if i == len(days)-1 {
				times = samples
			}
			values += fmt.Sprintf(" %dx%d", -before*day, times)
		}
		return "  kube_plan_timestamp_seconds{cluster=\"prod\"}" + values + "\n"
	}
	// seen is what these plans saw: the values of a metric, or "stale" for nothing.
	seen := func(metric, labels string, values ...string) string {
		all := fmt.Sprintf("  %s{cluster=\"prod\"%s}", metric, labels)
		for i, value := range values {
			switch last := i == len(values)-1; {
			case value == "stale":
				all += " stale _x29"
			case last:
				all += fmt.Sprintf(" %sx%d", value, samples)
			default:
				all += fmt.Sprintf(" %sx29", value)
			}
		}
		return all + "\n"
	}
	drift := func(values ...string) string { return seen("kube_plan_drift_findings", ","+member, values...) }
	success := func(values ...string) string { return seen("kube_plan_success", "", values...) }
	return map[string]struct{ bad, good string }{
		"KubeDriftStays": {
			made(1, 0) + drift("2", "1"),
			made(0) + drift("2"), // one plan has seen it
		},
		"KubeDriftStays, it is repaired in between": {
			made(3, 2, 1, 0) + drift("2", "stale", "1", "1"), made(2, 1, 0) + drift("2", "stale", "2"),
		},
		"KubeDriftStays, another resource drifts": {
			made(7, 0) + drift("2", "2"),
			made(1, 0) + drift("2", "stale") + "  kube_plan_drift_findings{cluster=\"prod\",resource=\"kube_node_bootstrap\"," +
				"address=\"b\"} _x30 1x3100\n",
		},
		"KubeDriftStays, plans are missing": { // that is KubePlanMissing
			made(8, 7) + drift("2", "2"), made(10, 9) + drift("2", "2"),
		},
		"KubePlanMissing": {
			plan("kube_plan_timestamp_seconds", "", fmt.Sprint(-9*day)),
			plan("kube_plan_timestamp_seconds", "", fmt.Sprint(-7*day)),
		},
		"KubePlanFails": {made(1, 0) + success("0", "0"), made(0) + success("0")},
		"KubePlanFails, one succeeds in between": {
			made(1, 0) + success("0", "0"), made(2, 1, 0) + success("0", "1", "0"),
		},
	}
}
