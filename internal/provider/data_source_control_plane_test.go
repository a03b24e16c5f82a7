package provider

import (
	"maps"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd"
	"github.com/kubequorum/terraform-provider-kube/internal/health"
	"github.com/kubequorum/terraform-provider-kube/internal/health/healthtest"
)

// answered returns the state that a model produces, by attribute.
func answered(t *testing.T, seen health.ControlPlane) map[string]tftypes.Value {
	t.Helper()
	d := &controlPlaneDataSource{}
	var schema datasource.SchemaResponse
	d.Schema(t.Context(), datasource.SchemaRequest{}, &schema)
	state := tfsdk.State{Schema: schema.Schema, Raw: tftypes.NewValue(schema.Schema.Type().TerraformType(t.Context()),
		nil)}
	config := tfsdk.Config{Schema: schema.Schema, Raw: state.Raw}
	config.Raw = nullObject(t, schema.Schema.Type().TerraformType(t.Context()))
	var model controlPlaneModel
	diags := config.Get(t.Context(), &model)
	model.fill(seen, health.Issues(seen, 30, healthtest.Now), healthtest.Now)
	diags.Append(state.Set(t.Context(), model)...)
	if diags.HasError() {
		t.Fatal(text(diags))
	}
	return attributesIn(t, state.Raw)
}

// nullObject returns an object without attributes set.
func nullObject(t *testing.T, kind tftypes.Type) tftypes.Value {
	t.Helper()
	object, ok := kind.(tftypes.Object)
	if !ok {
		t.Fatal("a schema is no object")
	}
	all := map[string]tftypes.Value{}
	for name, of := range object.AttributeTypes {
		all[name] = tftypes.NewValue(of, nil)
	}
	return tftypes.NewValue(object, all)
}

func attributesIn(t *testing.T, value tftypes.Value) map[string]tftypes.Value {
	t.Helper()
	var all map[string]tftypes.Value
	if err := value.As(&all); err != nil {
		t.Fatal(err)
	}
	return all
}

// in follows a path of names into a value.
func in(t *testing.T, value tftypes.Value, path ...string) tftypes.Value {
	t.Helper()
	for _, name := range path {
		value = attributesIn(t, value)[name]
	}
	return value
}

// plainly formats a value as Go prints it, or "null".
func plainly(t *testing.T, value tftypes.Value) string {
	t.Helper()
	if value.IsNull() {
		return "null"
	}
	var text string
	var number big.Float
	var flag bool
	switch {
	case value.As(&text) == nil:
		return text
	case value.As(&number) == nil:
		return number.String()
	case value.As(&flag) == nil && flag:
		return "true"
	case value.As(&flag) == nil:
		return "false"
	}
	t.Fatalf("%s is no plain value", value)
	return ""
}

// TestControlPlaneAnswer checks that the result follows from the observed state alone and fits
// the schema.
func TestControlPlaneAnswer(t *testing.T) {
	whole := healthtest.ControlPlane()
	dead := healthtest.ControlPlane()
	healthtest.LoseMachine(&dead, 0, "cp1")
	silent := healthtest.ControlPlane()
	silent.Etcd = etcd.Health{Silence: etcdSilence, Machines: silent.Etcd.Machines}
	for name, c := range map[string]struct {
		seen health.ControlPlane
		want map[string]string // path → value
	}{
		"all well": {whole, map[string]string{
			"healthy": "true",
			"summary": "healthy: 3 of 3 etcd members healthy (leader cp2); " +
				"3 of 3 replicas in rotation and ready (1.36.3); 10.0.0.100 on cp1; first certificate expires in 365 days",
			"virtual_ip holder":                               "cp1",
			"balancers cp2 haproxy":                           "active",
			"balancers cp2 holds_virtual_ip":                  "false",
			"balancers cp2 backends cp3 status":               "UP",
			"balancers cp2 backends cp3 sessions":             "3",
			"replicas cp3 version":                            "1.36.3",
			"replicas cp3 healthy":                            "true",
			"replicas cp3 registered":                         "true",
			"replicas cp3 certificate_days":                   "365",
			"replicas cp3 components kube-scheduler health":   "ok",
			"etcd_cluster leader":                             "cp2",
			"etcd_cluster voters":                             "3",
			"etcd_cluster quorum":                             "2",
			"etcd_cluster tolerates":                          "1",
			"etcd_cluster members cp1 quota_used":             "0.009765625",
			"etcd_cluster members cp1 trouble":                "null",
			"etcd_cluster members cp1 volume":                 "/var/lib/etcd-volume",
			"etcd_cluster members cp1 certificate_expires_at": "2027-11-22T12:00:00Z",
			"authorities kubernetes days":                     "3653",
		}},
		"a dead machine": {dead, map[string]string{
			"healthy": "false",
			"summary": "4 issues: 2 of 3 etcd members healthy (leader cp2); 2 of 3 replicas in " +
				"rotation and ready (1.36.3); 10.0.0.100 on no observed balancer; first certificate expires in 365 days",
			"virtual_ip holder":                      "null",
			"balancers cp1 reachable":                "false",
			"balancers cp1 haproxy":                  "null",
			"replicas cp1 reachable":                 "false",
			"replicas cp1 healthy":                   "false",
			"replicas cp1 version":                   "null",
			"replicas cp1 certificate_days":          "null",
			"replicas cp2 healthy":                   "true",
			"etcd_cluster tolerates":                 "0",
			"etcd_cluster members cp1 healthy":       "false",
			"etcd_cluster members cp1 trouble":       "does not answer",
			"etcd_cluster members cp1 db_size_bytes": "null",
			"etcd_cluster members cp1 reachable":     "false",
		}},
		"no quorum": {silent, map[string]string{
			"healthy": "false", "etcd_cluster leader": "null", "etcd_cluster voters": "null", "etcd_cluster tolerates": "null",
			"etcd_cluster members cp3 trouble": "no quorum answers", "etcd_cluster members cp3 certificate_days": "365",
			"etcd_cluster members cp3 version": "null",
		}},
		"not asked": {health.ControlPlane{NotQueried: "no settings"}, map[string]string{
			"healthy": "false", "summary": "not queried: no settings", "virtual_ip address": "null",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			state := answered(t, c.seen)
			for path, want := range c.want {
				names := strings.Fields(path)
				if got := plainly(t, in(t, state[names[0]], names[1:]...)); got != want {
					t.Errorf("%s is %q, want %q", path, got, want)
				}
			}
		})
	}
}

var etcdSilence = errSilent("no member answers")

type errSilent string

func (e errSilent) Error() string { return string(e) }

// TestFailOn checks that fail_on decides which issues are errors.
func TestFailOn(t *testing.T) {
	issues := []health.Issue{
		{Kind: health.Unreachable, Text: "machine cp1"},
		{Kind: health.Unhealthy, Text: "member cp2"},
		{Kind: health.Unhealthy, Text: "replica cp2"},
		{Kind: health.Expiring, Text: "CA etcd"},
	}
	for name, c := range map[string]struct {
		on   []string
		want []string
		not  []string
	}{
		"nothing": {nil, nil, []string{"Error"}},
		"unreachable": {[]string{"unreachable"}, []string{
			"cannot be reached", "machine cp1",
			"Unchanged: nothing was changed.", "Next step: ",
		}, []string{"member cp2", "authority"}},
		"unhealthy": {[]string{"unhealthy"}, []string{"unhealthy", "member cp2", "replica cp2"}, []string{"machine cp1"}},
		"all":       {health.Kinds, []string{"machine cp1", "replica cp2", "expire soon", "CA etcd"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var diags diag.Diagnostics
			failOnIssues(&diags, c.on, issues)
			output := text(diags)
			if diags.HasError() != (len(c.want) > 0) {
				t.Errorf("errors: %s", output)
			}
			for _, word := range c.want {
				if !strings.Contains(output, word) {
					t.Errorf("%q lacks %q", output, word)
				}
			}
			for _, word := range c.not {
				if strings.Contains(output, word) {
					t.Errorf("%q says %q", output, word)
				}
			}
		})
	}
}

// readNowhere reads a data source for a control plane on addresses without a machine:
// TEST-NET-1, where nothing answers. The timeout is two seconds.
func readNowhere(t *testing.T, name string, set map[string]tftypes.Value) (state map[string]tftypes.Value,
	output string,
	took time.Duration,
) {
	t.Helper()
	return readQuery(t, newPlanner(t), name, set)
}

// readQuery is readNowhere with a provider that may reach the machines of other arguments.
func readQuery(t *testing.T, p planner, name string, set map[string]tftypes.Value) (state map[string]tftypes.Value,
	output string,
	took time.Duration,
) {
	t.Helper()
	here, _ := bundles(t)
	encoded, err := here.Encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	schema := p.schemas.DataSourceSchemas[name]
	hosts := map[string]tftypes.Value{"cp1": textValue("192.0.2.11"), "cp2": textValue("192.0.2.12")}
	config := map[string]tftypes.Value{
		"pki": textValue(encoded),
		"etcd": tftypes.NewValue(tftypes.Set{ElementType: tftypes.String},
			[]tftypes.Value{textValue("https://192.0.2.11:2379")}),
		"endpoint": objectValue(map[string]tftypes.Value{
			"address": textValue("192.0.2.100"), "address6": textValue("fd00::100"),
			"additional_addresses": tftypes.NewValue(tftypes.List{ElementType: tftypes.String}, nil),
			"port":                 tftypes.NewValue(tftypes.Number, 6443),
			"hosts":                tftypes.NewValue(tftypes.Map{ElementType: tftypes.String}, hosts),
			"cluster_id":           tftypes.NewValue(tftypes.String, nil),
			"kind":                 tftypes.NewValue(tftypes.String, nil), "probe_from": tftypes.NewValue(tftypes.String, nil),
			"target_port": tftypes.NewValue(tftypes.Number, nil),
			"bgp":         tftypes.NewValue(types.ObjectType{AttrTypes: announcementTypes}.TerraformType(t.Context()), nil),
			"kube_vip":    tftypes.NewValue(types.ObjectType{AttrTypes: electionTypes}.TerraformType(t.Context()), nil),
			"zone":        tftypes.NewValue(types.ObjectType{AttrTypes: zoneTypes}.TerraformType(t.Context()), nil),
		}),
		"timeouts": objectValue(map[string]tftypes.Value{"read": textValue("2s")}),
	}
	maps.Copy(config, set)
	begun := time.Now()
	answer, err := p.server.ReadDataSource(t.Context(), &tfprotov6.ReadDataSourceRequest{
		TypeName: name,
		Config:   p.value(t, schema, config),
	})
	if err != nil {
		t.Fatal(err)
	}
	took = time.Since(begun)
	for _, d := range answer.Diagnostics {
		output += d.Severity.String() + ": " + d.Summary + "\n" + d.Detail + "\n"
	}
	raw, err := answer.State.Unmarshal(schema.ValueType())
	if err != nil {
		t.Fatal(err)
	}
	if raw.IsNull() {
		return nil, output, took
	}
	return attributesIn(t, raw), output, took
}

// TestControlPlaneUnreachable checks that the data source returns within its timeout if nothing
// answers, and reports what it could not query.
func TestControlPlaneUnreachable(t *testing.T) {
	state, output, took := readNowhere(t, "kube_control_plane", nil)
	if output != "" || took > 3*time.Second {
		t.Fatalf("%s after %s", output, took)
	}
	var issues []tftypes.Value
	if err := state["issues"].As(&issues); err != nil || len(issues) < 3 {
		t.Errorf("issues %v, %v; want those of two machines and of etcd", issues, err)
	}
	if plainly(t, state["healthy"]) != "false" || plainly(t, in(t, state["balancers"], "cp2", "reachable")) != "false" {
		t.Errorf("answered %v", state)
	}
	t.Log(plainly(t, state["summary"]), issues)
}

// TestControlPlaneFails checks that the same is an error if fail_on requests it.
func TestControlPlaneFails(t *testing.T) {
	kinds := tftypes.NewValue(tftypes.Set{ElementType: tftypes.String}, []tftypes.Value{textValue("unreachable")})
	_, output, _ := readNowhere(t, "kube_control_plane", map[string]tftypes.Value{"fail_on": kinds})
	for _, word := range []string{
		"ERROR", "cannot be reached", "192.0.2.11", "192.0.2.12",
		"remove \"unreachable\" from fail_on",
	} {
		if !strings.Contains(output, word) {
			t.Errorf("%q lacks %q", output, word)
		}
	}
}
