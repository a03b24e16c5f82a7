package monitoring

import (
	"cmp"
	"fmt"
)

// kubernetesPanels are about API servers, controller managers and schedulers: those of
// kubernetes-mixin (dashboards/apiserver.libsonnet and its neighbors), with the limits of the alerts.
func (f Facts) kubernetesPanels() []panel {
	replicas := float64(len(f.Replicas))
	up := func(job string) string { return "count(up" + f.of(job, "") + " == 1) or vector(0)" }
	panels := []panel{
		stat("API servers up", up(jobAPIServer), "", replicas),
		stat("Controller managers up", up(jobControllerManager), "", replicas),
		stat("Schedulers up", up(jobScheduler), "", replicas),
	}
	panels = append(panels, f.apiPanels()...)
	panels = append(panels, f.controllerPanels()...)
	all := fmt.Sprintf(`{job=~"%s|%s|%s",cluster="%s"}`, jobAPIServer, jobControllerManager, jobScheduler, f.Cluster)
	return append(panels,
		graph("Memory", bytesUnit, "process_resident_memory_bytes"+all, "{{job}} {{machine}}"),
		graph("CPU", "", "rate(process_cpu_seconds_total"+all+"[$__rate_interval])", "{{job}} {{machine}}"))
}

func (f Facts) apiPanels() []panel {
	s := f.of(jobAPIServer, "")
	reads, mutates := cmp.Or(f.MaxRequests, defaultMaxRequests), cmp.Or(f.MaxMutatingRequests, defaultMaxMutatingRequests)
	slow := func(verbs string) string {
		return fmt.Sprintf(`histogram_quantile(0.99, sum by (verb, le) (rate(`+
			`apiserver_request_sli_duration_seconds_bucket%s[$__rate_interval])))`,
			f.of(jobAPIServer, `verb=~"`+verbs+`",`+notLong))
	}
	inFlight := func(kind string, limit int) string {
		return fmt.Sprintf(`apiserver_current_inflight_requests%s / %d`, f.of(jobAPIServer, `request_kind="`+kind+`"`), limit)
	}
	return []panel{
		graph("Error budget burnt (1 lasts 30 days)", "",
			fmt.Sprintf(`sum by (verb) (%s1h{cluster="%s"}) / %s`, burnRateMetric, f.Cluster, errorBudget), "{{verb}}").above(1),
		graph("Requests", perSecond,
			"sum by (machine) (rate(apiserver_request_total"+s+"[$__rate_interval]))", "{{machine}}"),
		graph("Requests that fail", percent, fmt.Sprintf(`(sum(rate(apiserver_request_total%s[$__rate_interval])) or `+
			`vector(0)) / sum(rate(apiserver_request_total%s[$__rate_interval]))`,
			f.of(jobAPIServer, forResources+`,code=~"5.."`), f.of(jobAPIServer, forResources)),
			"5xx").above(0.01),
		graph("Reads, 99th percentile", seconds, slow(readVerbs), "{{verb}}").above(1),
		graph("Writes, 99th percentile", seconds, slow(writeVerbs), "{{verb}}").above(1),
		graph("Requests to etcd, 99th percentile", seconds,
			fmt.Sprintf(`histogram_quantile(0.99, sum by (machine, le) (rate(etcd_request_duration_seconds_bucket%s`+
				`[$__rate_interval])))`, s), "{{machine}}").above(0.1),
		graph("Requests in flight, part of the limit", percent, inFlight("readOnly", reads), "{{machine}} read only").
			and(inFlight("mutating", mutates), "{{machine}} mutating").above(0.8),
		graph("Requests refused", perSecond,
			"sum by (machine) (rate(apiserver_request_terminations_total"+s+"[$__rate_interval]))", "{{machine}}"),
		graph("Watches", "", "sum by (machine) (apiserver_longrunning_requests"+f.of(jobAPIServer, `verb="WATCH"`)+")",
			"{{machine}}"),
		graph("Version", "", "count by (git_version) (kubernetes_build_info"+s+")", "{{git_version}}"),
	}
}

func (f Facts) controllerPanels() []panel {
	m := f.of(jobControllerManager, "")
	return []panel{
		graph("Work queues, depth", "", "max by (name) (workqueue_depth"+m+") > 0", "{{name}}").above(100),
		graph("Work queues, wait at the 99th percentile", seconds,
			fmt.Sprintf(`histogram_quantile(0.99, sum by (name, le) (rate(workqueue_queue_duration_seconds_bucket%s`+
				`[$__rate_interval])))`, m), "{{name}}").above(5),
		graph("Pods that wait for the scheduler", "",
			"sum by (queue) (scheduler_pending_pods"+f.of(jobScheduler, "")+")", "{{queue}}").above(50),
		graph("Scheduling attempts", perSecond,
			"sum by (result) (rate(scheduler_schedule_attempts_total"+f.of(jobScheduler, "")+"[$__rate_interval]))",
			"{{result}}"),
	}
}
