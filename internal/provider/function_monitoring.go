package provider

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/monitoring"
)

// monitoringFunction returns texts for Prometheus that are made of facts about a control plane.
type monitoringFunction struct {
	name       string
	definition function.Definition
	results    map[string]attr.Type
	run        func(monitoring.Facts, monitoring.Credentials) (map[string]string, error)
}

var _ function.Function = (*monitoringFunction)(nil)

const monitoringFacts = "An object: `cluster` (the label `cluster` of all series; required), `members` and " +
	"`replicas` (maps of addresses by name), and `port` (of the API servers, 6443). `balancers` is such a map of the " +
	"machines whose HAProxy has `metrics.address`, at `balancer_metrics_port` (8405). `address_holders` is such a map " +
	"of the machines of `haproxy`, with or without these metrics, which can have the virtual IP; default: `balancers`, " +
	"and without those the replicas, as with `kube_vip`. `node_exporter_port` is the port of " +
	"node_exporter on all machines, where the resources write facts (`metrics.textfile_directory`). Without these, " +
	"nothing is said about them. `controllers` (`true`) says whether kube-controller-manager and kube-scheduler can be " +
	"scraped (`metrics.address` of `kube_control_plane_replica`)"

func newAlertRulesFunction() function.Function {
	results := map[string]attr.Type{"rules": types.StringType, "prometheus_rule": types.StringType}
	return &monitoringFunction{
		name: "alert_rules", results: results,
		definition: function.Definition{
			Summary: "Alerts of Prometheus for a control plane",
			MarkdownDescription: "Returns alerts that are made for one control plane: for each of its members and " +
				"replicas by name, so that a target that is not scraped any more is noticed, with its quorum and its " +
				"limits. They are those of the mixins of etcd and Kubernetes that concern a control plane, with the burn " +
				"rate of an error budget, and some for learners that stay, versions that stay mixed, pending Pods and " +
				"queues. With `balancers`, there are alerts about HAProxy; with `node_exporter_port`, about certificates that " +
				"end or are not served, snapshots that are old, fail or are not sent, rotations that stand still, the virtual " +
				"IP, and clocks; with `plan_metrics`, about what scheduled plans see. Each has a `summary` and an `action`, " +
				"which names the resource and the command that repairs it. " +
				"`rules` is a rule file; `prometheus_rule` is the same as an object of the Prometheus operator. The " +
				"labels are those of `scrape_configs`. The result follows from the argument alone.",
			Parameters: []function.Parameter{function.DynamicParameter{
				Name: "facts",
				MarkdownDescription: monitoringFacts + ". The limits `max_requests_inflight` (400) and " +
					"`max_mutating_requests_inflight` (200) are those of the flags of the API servers. With " +
					"`extensive_metrics` (the members have the flag `metrics=extensive`), slow requests to etcd are an " +
					"alert. With `plan_metrics` (a pipeline hands on what `kube-review -metrics` writes, guide Drift review), drift " +
					"that stays, plans that fail and the lack of plans are alerts. `early_renewal` is that of the members and " +
					"replicas, such as `12h`: the alerts about certificates on disk that end fire when half and a quarter of it is " +
					"left, but 7 days and a day before the end at the earliest, which are the limits without it. If another signer " +
					"issues certificates that live for less than three weeks, it is how long before their end they are renewed. " +
					"CAs always have 7 days and a day. `labels` are added to each alert. " +
					"`wait_factor`, above 0 and at most 100, multiplies how long alerts wait before they fire (1).",
			}},
			Return: function.ObjectReturn{AttributeTypes: results},
		},
		run: func(f monitoring.Facts, _ monitoring.Credentials) (map[string]string, error) {
			rules, err := monitoring.RuleFile(f)
			object, err2 := monitoring.PrometheusRule(f)
			return map[string]string{"rules": rules, "prometheus_rule": object}, errors.Join(err, err2)
		},
	}
}

func newDashboardsFunction() function.Function {
	results := map[string]attr.Type{
		"etcd": types.StringType, "kubernetes": types.StringType, "operations": types.StringType,
	}
	return &monitoringFunction{
		name: "dashboards", results: results,
		definition: function.Definition{
			Summary: "Dashboards of Grafana for a control plane",
			MarkdownDescription: "Returns three dashboards of Grafana, as JSON to import or provision: `etcd` (null " +
				"without members); `kubernetes` (null without replicas) with API servers, controller managers and " +
				"schedulers; and `operations` (null without `balancers` and `node_exporter_port`) with balancers, " +
				"certificates, snapshots, rotations and the virtual IP. They query what `scrape_configs` and " +
				"`alert_rules` of the same facts scrape and record. The " +
				"lines in the panels are the thresholds of the alerts. The data source is a variable of the dashboard. An " +
				"import of the same control plane replaces the dashboards. The result follows from the argument alone.",
			Parameters: []function.Parameter{function.DynamicParameter{
				Name: "facts",
				MarkdownDescription: monitoringFacts + ", and the limits of `alert_rules`. What the other functions take " +
					"is ignored.",
			}},
			Return: function.ObjectReturn{AttributeTypes: results},
		},
		run: func(f monitoring.Facts, _ monitoring.Credentials) (map[string]string, error) {
			etcd, err := monitoring.DashboardETCD(f)
			kubernetes, err2 := monitoring.DashboardKubernetes(f)
			operations, err3 := monitoring.DashboardOperations(f)
			return map[string]string{"etcd": etcd, "kubernetes": kubernetes, "operations": operations},
				errors.Join(err, err2, err3)
		},
	}
}

func newScrapeConfigsFunction() function.Function {
	results := map[string]attr.Type{"prometheus": types.StringType, "scrape_config_objects": types.StringType}
	return &monitoringFunction{
		name: "scrape_configs", results: results,
		definition: function.Definition{
			Summary: "Scrape configuration of Prometheus for a control plane",
			MarkdownDescription: "Returns the `scrape_configs` of Prometheus for a control plane. `prometheus` is a " +
				"file that `scrape_config_files` of its configuration names; null without `cert_file`. " +
				"`scrape_config_objects` are the same as objects `ScrapeConfig` of the Prometheus operator, YAML " +
				"documents; null without `secret`. The jobs are `etcd`, `kube-apiserver`, `kube-controller-manager`, " +
				"`kube-scheduler`, `haproxy` (with `balancers`) and `node` (with `node_exporter_port`), the last two without " +
				"TLS; the labels `cluster` and `machine` are those of `alert_rules`. kube-controller-manager " +
				"and kube-scheduler need `metrics` of `kube_control_plane_replica`; they sign their certificates " +
				"themselves, so these two jobs do not verify them. The result follows from the argument alone.",
			Parameters: []function.Parameter{function.DynamicParameter{
				Name: "facts",
				MarkdownDescription: monitoringFacts + ". `ca_file`, `cert_file` and `key_file` are files on Prometheus' " +
					"machine with the certificates of a `kube_kubeconfig` of the group `system:monitoring`; `secret` names a " +
					"Secret with the same as `ca.crt`, `tls.crt` and `tls.key`. Files or a Secret are required. " +
					"`etcd_ca_file`, `etcd_cert_file` and `etcd_key_file`, or `etcd_secret`, are those of a client of etcd, " +
					"which may read and write everything in it. They are used at `etcd_metrics_port`, if it is set (2382 with " +
					"`metrics.address` of the members), or at the client port (2379). Without them, etcd is scraped at port 2381 " +
					"without TLS, for which the members need `extra_args = { listen-metrics-urls = … }` and a network that is " +
					"trusted (guide Hardening).",
			}},
			Return: function.ObjectReturn{AttributeTypes: results},
		},
		run: func(f monitoring.Facts, c monitoring.Credentials) (map[string]string, error) {
			if err := c.Validate(f); err != nil {
				return nil, err
			}
			text, err := monitoring.ScrapeConfigs(f, c)
			objects, err2 := monitoring.ScrapeConfigObjects(f, c)
			return map[string]string{"prometheus": text, "scrape_config_objects": objects}, errors.Join(err, err2)
		},
	}
}

func (f *monitoringFunction) Metadata(_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse) {
	resp.Name = f.name
}

func (f *monitoringFunction) Definition(
	_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse,
) {
	resp.Definition = f.definition
}

func (f *monitoringFunction) Run(ctx context.Context, req function.RunRequest, resp *function.RunResponse) {
	var argument types.Dynamic
	if resp.Error = req.Arguments.Get(ctx, &argument); resp.Error != nil {
		return
	}
	facts, credentials, err := factsOf(argument.UnderlyingValue())
	if errors.Is(err, errUnknown) {
		resp.Error = resp.Result.Set(ctx, types.ObjectUnknown(f.results))
		return
	}
	var texts map[string]string
	if err == nil {
		texts, err = f.run(facts, credentials)
	}
	if err != nil {
		resp.Error = function.NewArgumentFuncError(0, err.Error()+"\nNext step: pass an object with the name of the cluster "+
			"and the addresses of its machines, as the documentation of "+f.name+" shows")
		return
	}
	values := map[string]attr.Value{}
	for name, text := range texts {
		values[name] = types.StringValue(text)
		if text == "" {
			values[name] = types.StringNull()
		}
	}
	resp.Error = resp.Result.Set(ctx, types.ObjectValueMust(f.results, values))
}

// factsOf decodes and validates the argument of these functions, which may be the same.
func factsOf(argument attr.Value) (facts monitoring.Facts, credentials monitoring.Credentials, err error) {
	values, err := objectOf(argument)
	if err != nil {
		return facts, credentials, err
	}
	texts := map[string]*string{
		"secret": &credentials.Secret, "etcd_secret": &credentials.EtcdSecret,
		"ca_file": &credentials.CA, "cert_file": &credentials.Cert, "key_file": &credentials.Key,
		"etcd_ca_file": &credentials.EtcdCA, "etcd_cert_file": &credentials.EtcdCert, "etcd_key_file": &credentials.EtcdKey,
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value := values[name]
		switch name {
		case "cluster":
			facts.Cluster, err = textOf(value)
		case "members":
			facts.Members, err = addressMapOf(value)
		case "replicas":
			facts.Replicas, err = addressMapOf(value)
		case "balancers":
			facts.Balancers, err = addressMapOf(value)
		case "address_holders":
			facts.AddressHolders, err = addressMapOf(value)
		case "balancer_metrics_port":
			facts.BalancerPort, err = positiveOf(value, maxPort)
		case "etcd_metrics_port":
			facts.EtcdPort, err = positiveOf(value, maxPort)
		case "node_exporter_port":
			facts.NodePort, err = positiveOf(value, maxPort)
		case "wait_factor":
			facts.WaitFactor, err = factorOf(value)
		case "port":
			facts.Port, err = positiveOf(value, maxPort)
		case "max_requests_inflight":
			facts.MaxRequests, err = positiveOf(value, maxInFlight)
		case "max_mutating_requests_inflight":
			facts.MaxMutatingRequests, err = positiveOf(value, maxInFlight)
		case "controllers":
			var scraped bool
			scraped, err = boolOf(value)
			facts.ControllersLocal = !scraped
		case "early_renewal":
			facts.EarlyRenewal, err = durationOf(value)
		case "extensive_metrics":
			facts.Extensive, err = boolOf(value)
		case "plan_metrics":
			facts.PlanMetrics, err = boolOf(value)
		case "labels":
			facts.Labels, err = textMapOf(value)
		default:
			if texts[name] == nil {
				return facts, credentials, fmt.Errorf("%s: there is no such attribute", name)
			}
			*texts[name], err = textOf(value)
		}
		if err != nil {
			return facts, credentials, fmt.Errorf("%s: %w", name, err)
		}
	}
	return facts, credentials, facts.Validate()
}

// maxInFlight is far above what an API server handles at once.
const maxInFlight = 1_000_000
