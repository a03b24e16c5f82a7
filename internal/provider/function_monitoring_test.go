package provider

import (
	"context"
	"math/big"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"sigs.k8s.io/yaml"
)

func monitoringTexts(f function.Function, facts map[string]attr.Value) (types.Object, *function.FuncError) {
	kinds := map[string]attr.Type{}
	for name, value := range facts {
		kinds[name] = value.Type(context.Background())
	}
	resp := function.RunResponse{
		Result: function.NewResultData(types.ObjectUnknown(f.(*monitoringFunction).results)),
	}
	f.Run(context.Background(), function.RunRequest{
		Arguments: function.NewArgumentsData([]attr.Value{types.DynamicValue(types.ObjectValueMust(kinds, facts))}),
	}, &resp)
	if resp.Error != nil {
		return types.Object{}, resp.Error
	}
	return resp.Result.Value().(types.Object), nil
}

// monitored is a control plane as a configuration describes it.
func monitored() map[string]attr.Value {
	machines := types.MapValueMust(types.StringType, map[string]attr.Value{
		"cp1": types.StringValue("10.0.0.11"), "cp2": types.StringValue("10.0.0.12"), "cp3": types.StringValue("fd00::13"),
	})
	return map[string]attr.Value{"cluster": types.StringValue("prod"), "members": machines, "replicas": machines}
}

// TestPlanMetricsArgument: alerts about plans are there if a pipeline hands on what they see.
func TestPlanMetricsArgument(t *testing.T) {
	for _, wanted := range []bool{true, false} {
		facts := monitored()
		facts["plan_metrics"] = types.BoolValue(wanted)
		got, err := monitoringTexts(newAlertRulesFunction(), facts)
		if err != nil {
			t.Fatal(err)
		}
		text := got.Attributes()["rules"].(types.String).ValueString()
		if strings.Contains(text, "KubeDriftStays") != wanted || strings.Contains(text, "prod.plans") != wanted {
			t.Errorf("plan_metrics = %v: %.2000s", wanted, text)
		}
	}
}

func TestAlertRulesFunction(t *testing.T) {
	facts := monitored()
	facts["labels"] = types.ObjectValueMust(map[string]attr.Type{"team": types.StringType},
		map[string]attr.Value{"team": types.StringValue("platform")})
	got, err := monitoringTexts(newAlertRulesFunction(), facts)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"rules":           {"machine=\"cp3\"", "team: platform", "EtcdInsufficientMembers", "< 2"},
		"prometheus_rule": {"kind: PrometheusRule", "name: control-plane-prod"},
	} {
		text := got.Attributes()[name].(types.String).ValueString()
		var parsed map[string]any
		if err := yaml.UnmarshalStrict([]byte(text), &parsed); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, fragment := range want {
			if !strings.Contains(text, fragment) {
				t.Errorf("%s does not contain %q:\n%.2000s", name, fragment, text)
			}
		}
	}
	if strings.Contains(got.Attributes()["rules"].(types.String).ValueString(), "EtcdGRPCRequestsSlow") {
		t.Error("an alert without its metric, which members have with metrics=extensive only")
	}
}

func TestScrapeConfigsFunction(t *testing.T) {
	facts := monitored()
	for _, name := range []string{"ca_file", "cert_file", "key_file"} {
		facts[name] = types.StringValue("/etc/prometheus/" + name)
	}
	got, err := monitoringTexts(newScrapeConfigsFunction(), facts)
	if err != nil {
		t.Fatal(err)
	}
	text := got.Attributes()["prometheus"].(types.String).ValueString()
	for _, want := range []string{"10.0.0.11:2381", "'[fd00::13]:10257'", "insecure_skip_verify: true", "machine: cp2"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

func TestDashboardsFunction(t *testing.T) {
	facts := monitored()
	facts["max_requests_inflight"] = types.NumberValue(big.NewFloat(800))
	got, err := monitoringTexts(newDashboardsFunction(), facts)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"etcd": "prod / etcd", "kubernetes": `readOnly\"} / 800`} {
		if text := got.Attributes()[name].(types.String).ValueString(); !strings.Contains(text, want) {
			t.Errorf("%q is not in %s", want, text)
		}
	}
	delete(facts, "replicas")
	got, err = monitoringTexts(newDashboardsFunction(), facts)
	if err != nil || !got.Attributes()["kubernetes"].IsNull() || got.Attributes()["etcd"].IsNull() {
		t.Errorf("without replicas: %v, %v", got, err)
	}
}

// TestMonitoringOfOperations: balancers and facts have jobs, alerts and a dashboard, and waits have a factor.
func TestMonitoringOfOperations(t *testing.T) {
	facts := monitored()
	facts["balancers"], facts["node_exporter_port"] = facts["replicas"], types.NumberValue(big.NewFloat(9100))
	facts["wait_factor"], facts["secret"] = types.NumberValue(big.NewFloat(0.1)), types.StringValue("prometheus")
	for name, c := range map[string]struct {
		f    function.Function
		want []string
	}{
		"rules": {newAlertRulesFunction(), []string{"HAProxyDown", "EtcdSnapshotTooOld", "for: 30s", "for: 60s"}},
		"scrape_config_objects": {
			newScrapeConfigsFunction(), []string{"10.0.0.12:8405", "'[fd00::13]:9100'", "jobName: haproxy", "jobName: node"},
		},
		"operations": {newDashboardsFunction(), []string{"prod / Operations", "Virtual IP"}},
	} {
		got, err := monitoringTexts(c.f, facts)
		if err != nil {
			t.Fatal(err)
		}
		text := got.Attributes()[name].(types.String).ValueString()
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q is not in\n%.3000s", name, want, text)
			}
		}
	}
	got, err := monitoringTexts(newDashboardsFunction(), monitored())
	if err != nil || !got.Attributes()["operations"].IsNull() {
		t.Errorf("without both: %v, %v", got, err)
	}
}

func TestScrapeConfigObjects(t *testing.T) {
	facts := monitored()
	facts["cluster"], facts["secret"] = types.StringValue("Prod.eu_1"), types.StringValue("prometheus")
	got, err := monitoringTexts(newScrapeConfigsFunction(), facts)
	if err != nil {
		t.Fatal(err)
	}
	if !got.Attributes()["prometheus"].IsNull() {
		t.Error("there is a configuration file without the files of its credentials")
	}
	text := got.Attributes()["scrape_config_objects"].(types.String).ValueString()
	for _, want := range []string{
		"name: control-plane-prod-eu-1-kube-scheduler\n", "cluster: Prod.eu_1", "10.0.0.11:2381", "scheme: HTTPS",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

// TestScrapeEtcdListener: with etcd_metrics_port, etcd is scraped there over TLS, and not at its client port.
func TestScrapeEtcdListener(t *testing.T) {
	facts := monitored()
	facts["etcd_metrics_port"] = types.NumberValue(big.NewFloat(2382))
	for _, name := range []string{"ca_file", "cert_file", "key_file", "etcd_ca_file", "etcd_cert_file", "etcd_key_file"} {
		facts[name] = types.StringValue("/" + name)
	}
	got, err := monitoringTexts(newScrapeConfigsFunction(), facts)
	if err != nil {
		t.Fatal(err)
	}
	text := got.Attributes()["prometheus"].(types.String).ValueString()
	if !strings.Contains(text, "10.0.0.11:2382") || !strings.Contains(text, "ca_file: /etcd_ca_file") ||
		strings.Contains(text, ":2379") || strings.Contains(text, ":2381") {
		t.Errorf("etcd is scraped by\n%s", text)
	}
}

func TestMonitoringFunctionsUnknown(t *testing.T) {
	for name, members := range map[string]attr.Value{
		"the map": types.MapUnknown(types.StringType), "its type": types.DynamicUnknown(),
		"an address": types.MapValueMust(types.StringType, map[string]attr.Value{"cp1": types.StringUnknown()}),
	} {
		facts := monitored()
		facts["members"] = members
		got, err := monitoringTexts(newAlertRulesFunction(), facts)
		if err != nil || !got.IsUnknown() {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// TestMonitoringOfHolders: machines that can have the virtual IP are known without the metrics of their HAProxy.
func TestMonitoringOfHolders(t *testing.T) {
	facts := monitored()
	facts["node_exporter_port"] = types.NumberValue(big.NewFloat(9100))
	facts["address_holders"] = oneText("lb1", "10.0.0.21")
	got, err := monitoringTexts(newAlertRulesFunction(), facts)
	if err != nil {
		t.Fatal(err)
	}
	text := got.Attributes()["rules"].(types.String).ValueString()
	if strings.Contains(text, "HAProxyDown") || !strings.Contains(text, "machine: lb1") {
		t.Errorf("the rules are:\n%s", text)
	}
}

// TestEarlyRenewalArgument: the alerts about certificates have a part of early_renewal as their limit.
func TestEarlyRenewalArgument(t *testing.T) {
	facts := monitored()
	facts["node_exporter_port"] = types.NumberValue(big.NewFloat(9100))
	for early, want := range map[string]string{"": "< 604800\n", "12h": "< 21600\n", "2160h": "< 604800\n"} {
		if facts["early_renewal"] = types.StringNull(); early != "" {
			facts["early_renewal"] = types.StringValue(early)
		}
		got, err := monitoringTexts(newAlertRulesFunction(), facts)
		if err != nil {
			t.Fatal(err)
		}
		if text := got.Attributes()["rules"].(types.String).ValueString(); !strings.Contains(text, want) {
			t.Errorf("early_renewal = %q: %q is not in the rules:\n%.3000s", early, want, text)
		}
	}
}

func TestMonitoringFunctionsRefuse(t *testing.T) {
	for want, change := range map[string]map[string]attr.Value{
		"clustre: there is no such attribute":   {"clustre": types.StringValue("prod")},
		`cluster "prod\"} or up{"`:              {"cluster": types.StringValue(`prod"} or up{`)},
		"members: it is not a map of strings":   {"members": textsOf("10.0.0.11")},
		"labels: \"severity\" is no name":       {"labels": oneText("severity", "page")},
		"the value of \"team\" is a template":   {"labels": oneText("team", "{{ .Secret }}")},
		"wait_factor: it is no number above":    {"wait_factor": types.NumberValue(big.NewFloat(0))},
		"early_renewal: duration \"-1h\"":       {"early_renewal": types.StringValue("-1h")},
		"early_renewal: time: missing unit":     {"early_renewal": types.StringValue("12")},
		"node_exporter_port: it is no whole":    {"node_exporter_port": types.NumberValue(big.NewFloat(70000))},
		"the machine cp1 has the addresses":     {"balancers": oneText("cp1", "10.0.0.99")},
		"the machine cp2 has the addresses":     {"address_holders": oneText("cp2", "10.0.0.99")},
		`members: name "cp 1"`:                  {"members": oneText("cp 1", "10.0.0.11")},
		"replicas: ParseAddr":                   {"replicas": oneText("cp1", "cp1.example.com")},
		"extensive_metrics: it is neither true": {"extensive_metrics": types.StringValue("yes")},
		`"client.crt" is no absolute path`: {
			"ca_file": types.StringValue("/ca.crt"), "cert_file": types.StringValue("client.crt"),
			"key_file": types.StringValue("/client.key"),
		},
		"ca_file, cert_file and key_file are re": {},
		"ca_file, cert_file and key_file belong": {
			"secret": types.StringValue("prometheus"), "ca_file": types.StringValue("/ca.crt"),
		},
		"etcd_ca_file, etcd_cert_file and etcd_key_file belong": {
			"secret": types.StringValue("prometheus"), "etcd_ca_file": types.StringValue("/ca.crt"),
		},
		"are used with ca_file": {
			"secret": types.StringValue("prometheus"), "etcd_ca_file": types.StringValue("/ca.crt"),
			"etcd_cert_file": types.StringValue("/etcd.crt"), "etcd_key_file": types.StringValue("/etcd.key"),
		},
		"at etcd_metrics_port, clients need a certificate": {
			"secret": types.StringValue("prometheus"), "etcd_metrics_port": types.NumberValue(big.NewFloat(2382)),
		},
		`"Prometheus" is no name of a Secret`: {"secret": types.StringValue("Prometheus")},
		"etcd_secret is used with secret only": {
			"etcd_secret": types.StringValue("etcd"), "ca_file": types.StringValue("/ca.crt"),
			"cert_file": types.StringValue("/client.crt"), "key_file": types.StringValue("/client.key"),
		},
	} {
		facts := monitored()
		for name, value := range change {
			facts[name] = value
		}
		_, err := monitoringTexts(newScrapeConfigsFunction(), facts)
		if err == nil || !strings.Contains(err.Text, want) || !strings.Contains(err.Text, "\nNext step: ") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func oneText(name, text string) attr.Value {
	return types.ObjectValueMust(map[string]attr.Type{name: types.StringType},
		map[string]attr.Value{name: types.StringValue(text)})
}
