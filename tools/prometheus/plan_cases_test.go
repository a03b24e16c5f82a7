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
	return map[string]struct{ bad, good string }{
		"KubeDriftStays": {
			plan("kube_plan_drift_findings", member, "2"),
			// It is repaired after ten hours, and something else drifts.
			"  kube_plan_drift_findings{cluster=\"prod\"," + member + "} 2x1200 stale\n" +
				"  kube_plan_drift_findings{cluster=\"prod\",resource=\"kube_node_bootstrap\",address=\"b\"} _x1200 1x1700\n",
		},
		"KubePlanMissing": {
			plan("kube_plan_timestamp_seconds", "", fmt.Sprint(-9*day)),
			plan("kube_plan_timestamp_seconds", "", fmt.Sprint(-7*day)),
		},
		"KubePlanFails": {plan("kube_plan_success", "", "0"), plan("kube_plan_success", "", "1")},
	}
}
