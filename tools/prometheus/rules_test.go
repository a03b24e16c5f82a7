package prometheus

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"

	"github.com/kubequorum/terraform-provider-kube/internal/monitoring"
)

var machines = map[string]netip.Addr{
	"cp1": netip.MustParseAddr("10.0.0.11"), "cp2": netip.MustParseAddr("10.0.0.12"),
	"cp3": netip.MustParseAddr("10.0.0.13"),
}

var facts = monitoring.Facts{
	Cluster: "prod", Members: machines, Replicas: machines, Balancers: machines, NodePort: 9100, Extensive: true,
	PlanMetrics: true, Labels: map[string]string{"team": "platform"},
}

// samples is how many a series has: more than the longest wait of an alert, a day.
const samples = 3100

// series returns a series that has values over the whole time, in promtool's notation.
func series(metric, job, machine, more, values string) string {
	if more != "" {
		more = "," + more
	}
	return fmt.Sprintf("  %s{job=%q,machine=%q,cluster=\"prod\"%s} %sx%d\n", metric, job, machine, more, values, samples)
}

// of returns the shorthand for series of one job on cp1.
func of(job string) func(metric, more, values string) string {
	return func(metric, more, values string) string { return series(metric, job, "cp1", more, values) }
}

var (
	etcd      = of("etcd")
	apiserver = of("kube-apiserver")
	manager   = of("kube-controller-manager")
	scheduler = of("kube-scheduler")
	haproxy   = of("haproxy")
	node      = of("node")
)

// histogram returns the series of a histogram of which all observations are below a bound, but above
// that before it.
func histogram(job func(string, string, string) string, metric, more, below, above string) string {
	bucket := func(le, values string) string {
		return job(metric+"_bucket", strings.Trim(more+`,le="`+le+`"`, ","), values)
	}
	return bucket(below, "0+0") + bucket(above, "0+10") + bucket("+Inf", "0+10") + job(metric+"_count", more, "0+10")
}

// clientCertificates returns how many of ten requests a minute come with certificates that expire within an hour, a
// day and a week.
func clientCertificates(hour, day, week string) string {
	const metric = "apiserver_client_certificate_expiration_seconds"
	all := apiserver(metric+"_count", "", "0+10")
	for le, values := range map[string]string{"3600": hour, "86400": day, "604800": week, "+Inf": "0+10"} {
		all += apiserver(metric+"_bucket", `le="`+le+`"`, values)
	}
	return all
}

// up returns whether the targets of a job can be scraped.
func up(job string, values ...string) string {
	var all string
	for i, value := range values {
		if value != "" {
			all += series("up", job, fmt.Sprintf("cp%d", i+1), "", value)
		}
	}
	return all
}

// burnRates returns what is recorded of the error budget, for windows.
func burnRates(byWindow map[string]float64) string {
	var all string
	for window, value := range byWindow {
		for _, verb := range []string{"read", "write"} {
			all += fmt.Sprintf("  cluster_verb:apiserver_request:burnrate%s{cluster=\"prod\",verb=%q} %gx900\n", window, verb, value)
		}
	}
	return all
}

// requests returns how many requests of 100 fail.
func requests(job func(string, string, string) string, metric, good, bad string, percent float64) string {
	return job(metric, good, fmt.Sprintf("0+%g", 100-percent)) + job(metric, bad, fmt.Sprintf("0+%g", percent))
}

// cases are input on which an alert fires, and on which it does not, by its name. Further ones of the same alert have a
// comma and what they are about after it.
var cases = map[string]struct{ bad, good string }{
	"EtcdMemberDown":            {up("etcd", "1", "1", ""), up("etcd", "1", "1", "1")},
	"KubeAPIServerDown":         {up("kube-apiserver", "1", "0", "1"), up("kube-apiserver", "1", "1", "1")},
	"KubeControllerManagerDown": {up("kube-controller-manager", "1", "1"), up("kube-controller-manager", "1", "1", "1")},
	"KubeSchedulerDown":         {"", up("kube-scheduler", "1", "1", "1")},
	"EtcdInsufficientMembers":   {up("etcd", "0", "1", "0"), up("etcd", "1", "1", "0")},
	"EtcdNoLeader":              {etcd("etcd_server_has_leader", "", "0"), etcd("etcd_server_has_leader", "", "1")},
	"EtcdHighNumberOfLeaderChanges": {
		etcd("etcd_server_leader_changes_seen_total", "", "0+0.25"),
		// Three members restart one after the other, again and again, and each sees a leader then.
		etcd("etcd_server_leader_changes_seen_total", "", "9x10 1") +
			series("etcd_server_leader_changes_seen_total", "etcd", "cp2", "", "8x20 1") +
			series("etcd_server_leader_changes_seen_total", "etcd", "cp3", "", "7x10 1x10 1"),
	},
	"EtcdLearnerStays": {etcd("etcd_server_is_learner", "", "1"), etcd("etcd_server_is_learner", "", "0")},
	"EtcdMixedVersions": {
		etcd("etcd_server_version", `server_version="3.5.34"`, "1") + series("etcd_server_version", "etcd", "cp2",
			`server_version="3.6.16"`, "1"),
		etcd("etcd_server_version", `server_version="3.6.16"`, "1") + series("etcd_server_version", "etcd", "cp2",
			`server_version="3.6.16"`, "1"),
	},
	"EtcdHighNumberOfFailedGRPCRequests": {
		requests(etcd, "grpc_server_handled_total", `grpc_code="OK"`, `grpc_code="Unavailable"`, 2),
		requests(etcd, "grpc_server_handled_total", `grpc_code="OK"`, `grpc_code="NotFound"`, 50),
	},
	"EtcdVeryHighNumberOfFailedGRPCRequests": {
		requests(etcd, "grpc_server_handled_total", `grpc_code="OK"`, `grpc_code="Unavailable"`, 6),
		requests(etcd, "grpc_server_handled_total", `grpc_code="OK"`, `grpc_code="Unavailable"`, 2),
	},
	"EtcdMemberCommunicationSlow": {
		histogram(etcd, "etcd_network_peer_round_trip_time_seconds", `To="2"`, "0.1", "0.2"),
		histogram(etcd, "etcd_network_peer_round_trip_time_seconds", `To="2"`, "0.05", "0.1"),
	},
	"EtcdHighNumberOfFailedProposals": {
		etcd("etcd_server_proposals_failed_total", "", "0+300"), etcd("etcd_server_proposals_failed_total", "", "0+30"),
	},
	"EtcdGRPCRequestsSlow": {
		histogram(etcd, "grpc_server_handling_seconds", `grpc_type="unary",grpc_method="Range"`, "0.1", "0.25"),
		histogram(etcd, "grpc_server_handling_seconds", `grpc_type="unary",grpc_method="Defragment"`, "0.1", "0.25"),
	},
	"EtcdHighFsyncDurations": {
		histogram(etcd, "etcd_disk_wal_fsync_duration_seconds", "", "0.512", "1.024"),
		histogram(etcd, "etcd_disk_wal_fsync_duration_seconds", "", "0.256", "0.5"),
	},
	"EtcdVeryHighFsyncDurations": {
		histogram(etcd, "etcd_disk_wal_fsync_duration_seconds", "", "1.024", "2.048"),
		histogram(etcd, "etcd_disk_wal_fsync_duration_seconds", "", "0.512", "1"),
	},
	"EtcdHighCommitDurations": {
		histogram(etcd, "etcd_disk_backend_commit_duration_seconds", "", "0.256", "0.512"),
		histogram(etcd, "etcd_disk_backend_commit_duration_seconds", "", "0.128", "0.25"),
	},
	"EtcdDatabaseQuotaLowSpace": {
		etcd("etcd_mvcc_db_total_size_in_bytes", "", "96") + etcd("etcd_server_quota_backend_bytes", "", "100"),
		etcd("etcd_mvcc_db_total_size_in_bytes", "", "90") + etcd("etcd_server_quota_backend_bytes", "", "100"),
	},
	"EtcdExcessiveDatabaseGrowth": {
		etcd("etcd_mvcc_db_total_size_in_bytes", "", "0+1") + etcd("etcd_server_quota_backend_bytes", "", "500"),
		etcd("etcd_mvcc_db_total_size_in_bytes", "", "400") + etcd("etcd_server_quota_backend_bytes", "", "500"),
	},
	"EtcdDatabaseHighFragmentationRatio": {
		etcd("etcd_mvcc_db_total_size_in_bytes", "", "1000000000") +
			etcd("etcd_mvcc_db_total_size_in_use_in_bytes", "", "400000000"),
		etcd("etcd_mvcc_db_total_size_in_bytes", "", "100000000") +
			etcd("etcd_mvcc_db_total_size_in_use_in_bytes", "", "40000000"),
	},
	"KubeAPILatencyHigh": {
		histogram(apiserver, "apiserver_request_sli_duration_seconds", `verb="GET",resource="pods"`, "1", "2"),
		histogram(apiserver, "apiserver_request_sli_duration_seconds", `verb="WATCH",resource="pods"`, "1", "2"),
	},
	"KubeAPIErrorsHigh": {
		requests(apiserver, "apiserver_request_total", `resource="pods",code="200"`, `resource="pods",code="503"`, 2),
		requests(apiserver, "apiserver_request_total", `resource="pods",code="200"`, `resource="pods",code="404"`, 50) +
			apiserver("apiserver_request_total", `code="500"`, "0+100"), // /readyz of a replica out of rotation
	},
	"KubeAPIErrorsVeryHigh": {
		requests(apiserver, "apiserver_request_total", `resource="pods",code="200"`, `resource="pods",code="500"`, 6),
		requests(apiserver, "apiserver_request_total", `resource="pods",code="200"`, `resource="pods",code="500"`, 2),
	},
	"KubeAPIEtcdSlow": {
		histogram(apiserver, "etcd_request_duration_seconds", `operation="get"`, "0.1", "0.2"),
		histogram(apiserver, "etcd_request_duration_seconds", `operation="get"`, "0.05", "0.1"),
	},
	"KubeAPIRequestsInFlight": {
		apiserver("apiserver_current_inflight_requests", `request_kind="mutating"`, "170"),
		apiserver("apiserver_current_inflight_requests", `request_kind="readOnly"`, "170"),
	},
	"KubeAPITerminatedRequests": {
		apiserver("apiserver_request_terminations_total", `code="503"`, "0+30") +
			apiserver("apiserver_request_total", `code="200"`, "0+70"),
		apiserver("apiserver_request_terminations_total", `code="503"`, "0+10") +
			apiserver("apiserver_request_total", `code="200"`, "0+90"),
	},
	"KubeAPIErrorBudgetBurn": {
		burnRates(map[string]float64{"1h": 0.2, "5m": 0.2}),
		burnRates(map[string]float64{"1h": 0.2, "5m": 0.1, "6h": 0.05, "30m": 0.1, "1d": 0.04, "2h": 0.02}),
	},
	"KubeClientCertificateExpiration": {
		clientCertificates("0+0", "0+0", "0+10"),
		clientCertificates("0+5", "0+5", "0+5"), // of an hour, as an apply has
	},
	"KubeClientCertificateExpiresSoon": {
		clientCertificates("0+2", "0+10", "0+10"),
		clientCertificates("0+5", "0+5", "0+10"),
	},
	"KubeAggregatedAPIErrors": {
		apiserver("aggregator_unavailable_apiservice_total", `name="v1beta1.metrics.k8s.io",reason="FailedDiscoveryCheck"`,
			"0+1"),
		apiserver("aggregator_unavailable_apiservice_total", `name="v1beta1.metrics.k8s.io",reason="FailedDiscoveryCheck"`,
			"7"),
	},
	"KubeAggregatedAPIDown": {
		apiserver("aggregator_unavailable_apiservice", `name="v1beta1.metrics.k8s.io"`, "1"),
		apiserver("aggregator_unavailable_apiservice", `name="v1beta1.metrics.k8s.io"`, "0"),
	},
	"KubeMixedVersions": {
		apiserver("kubernetes_build_info", `git_version="v1.35.1"`, "1") +
			series("kubernetes_build_info", "kube-apiserver", "cp2", `git_version="v1.36.3"`, "1"),
		apiserver("kubernetes_build_info", `git_version="v1.36.3"`, "1") +
			series("kubernetes_build_info", "kube-apiserver", "cp2", `git_version="v1.36.3"`, "1"),
	},
	"KubeAPIWebhookSlow": {
		histogram(apiserver, "apiserver_admission_webhook_admission_duration_seconds", `name="a.example.com"`, "1", "2.5"),
		histogram(apiserver, "apiserver_admission_webhook_admission_duration_seconds", `name="a.example.com"`, "0.1", "0.5"),
	},
	"KubeAPIWebhookFails": {
		apiserver("apiserver_admission_webhook_fail_open_count", `name="a.example.com"`, "0+1"),
		apiserver("apiserver_admission_webhook_fail_open_count", `name="a.example.com"`, "7") +
			apiserver("apiserver_admission_webhook_rejection_count", `name="a.example.com",error_type="no_error"`, "0+1"),
	},
	"KubeNodesNotReady": {
		manager("node_collector_unhealthy_nodes_in_zone", `zone="a"`, "0") +
			manager("node_collector_unhealthy_nodes_in_zone", `zone="b"`, "1"),
		manager("node_collector_unhealthy_nodes_in_zone", `zone="a"`, "0"),
	},
	"KubeAllNodesNotReady": {
		manager("node_collector_unhealthy_nodes_in_zone", `zone="a"`, "3") +
			manager("node_collector_zone_size", `zone="a"`, "3"),
		manager("node_collector_unhealthy_nodes_in_zone", `zone="a"`, "0") +
			manager("node_collector_zone_size", `zone="a"`, "0"), // no node has joined
	},
	"KubePodsUnschedulable": {
		scheduler("scheduler_pending_pods", `queue="unschedulable"`, "3"),
		scheduler("scheduler_pending_pods", `queue="active"`, "40"),
	},
	"KubePodsPending": {
		scheduler("scheduler_pending_pods", `queue="active"`, "60"),
		scheduler("scheduler_pending_pods", `queue="active"`, "40") +
			scheduler("scheduler_pending_pods", `queue="gated"`, "40"),
	},
	"KubeWorkQueueDeep": {
		manager("workqueue_depth", `name="deployment"`, "120"), manager("workqueue_depth", `name="deployment"`, "80"),
	},
	"KubeWorkQueueSlow": {
		histogram(manager, "workqueue_queue_duration_seconds", `name="deployment"`, "5", "10"),
		histogram(manager, "workqueue_queue_duration_seconds", `name="deployment"`, "1", "5"),
	},
}

const interval = 30 * time.Second

// TestAlerts: each alert fires on bad input for as long as it waits, and does not on good input.
func TestAlerts(t *testing.T) {
	rules := map[string][]monitoring.Rule{}
	for _, group := range monitoring.Groups(facts) {
		for _, rule := range group.Rules {
			if rule.Alert != "" {
				rules[rule.Alert] = append(rules[rule.Alert], rule)
			}
		}
	}
	for name := range rules {
		if _, ok := cases[name]; !ok {
			t.Errorf("%s has no test", name)
		}
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			alert, _, _ := strings.Cut(name, ",")
			same := rules[alert]
			if same == nil {
				t.Fatal("there is no such alert")
			}
			if !anyFires(t, same, c.bad) {
				t.Error("it does not fire")
			}
			if anyFires(t, same, c.good) {
				t.Error("it fires on good input")
			}
		})
	}
}

// TestFailedScrapes: an alert that waits for an hour or longer does not begin again with every scrape that fails.
func TestFailedScrapes(t *testing.T) {
	constant := regexp.MustCompile(fmt.Sprintf(`(?m) (-?[0-9.e+]+)x%d$`, samples))
	tried := 0
	for _, group := range monitoring.Groups(facts) {
		for _, rule := range group.Rules {
			wait, err := model.ParseDuration(rule.For)
			if rule.Alert == "" || err != nil || time.Duration(wait) < time.Hour || rule.Labels["long"] != "" {
				continue // an error budget is a rate over hours
			}
			failing := constant.ReplaceAllString(cases[rule.Alert].bad, strings.Repeat(" ${1}x18 stale", samples/19))
			if failing == cases[rule.Alert].bad {
				t.Errorf("no series of %s fails", rule.Alert)
			}
			tried++
			if !anyFires(t, []monitoring.Rule{rule}, failing) {
				t.Errorf("%s begins again with every scrape that fails", rule.Alert)
			}
		}
	}
	if tried == 0 {
		t.Error("no alert waits for an hour")
	}
}

// anyFires reports whether one of the rules has a result for as long as it waits without a break.
func anyFires(t *testing.T, rules []monitoring.Rule, load string) bool {
	t.Helper()
	storage := promqltest.LoadedStorage(t, "load 30s\n"+load)
	t.Cleanup(func() { _ = storage.Close() })
	engine := promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery)
	for _, rule := range rules {
		wait, err := model.ParseDuration(rule.For)
		if err != nil {
			t.Fatal(err)
		}
		end := time.Unix(0, 0).Add(time.Duration(wait) + time.Hour)
		query, err := engine.NewRangeQuery(context.Background(), storage, nil, rule.Expr, time.Unix(0, 0), end, interval)
		if err != nil {
			t.Fatal(err)
		}
		result := query.Exec(context.Background())
		if result.Err != nil {
			t.Fatal(result.Err)
		}
		if matrix, err := result.Matrix(); err != nil {
			t.Fatal(err)
		} else if lastsFor(matrix, time.Duration(wait)) {
			query.Close()
			return true
		}
		query.Close()
	}
	return false
}

func lastsFor(matrix promql.Matrix, wait time.Duration) bool {
	for _, s := range matrix {
		begin, last := int64(-1), int64(0)
		for _, point := range s.Floats {
			if begin < 0 || point.T-last > interval.Milliseconds() {
				begin = point.T
			}
			last = point.T
			if last-begin >= wait.Milliseconds() {
				return true
			}
		}
	}
	return false
}

// TestRuleFile: Prometheus accepts the rules and their templates.
func TestRuleFile(t *testing.T) {
	text, err := monitoring.RuleFile(facts)
	if err != nil {
		t.Fatal(err)
	}
	groups, errs := rulefmt.Parse([]byte(text), false, model.UTF8Validation, parser.NewParser(parser.Options{}),
		slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			if rule.Record != "" {
				continue
			}
			if rule.Labels["cluster"] != "prod" || rule.Labels["team"] != "platform" || rule.Annotations["action"] == "" {
				t.Errorf("%s: labels %v, annotations %v", rule.Alert, rule.Labels, rule.Annotations)
			}
		}
	}
}
