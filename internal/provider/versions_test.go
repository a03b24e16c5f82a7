package provider

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// planner plans resources as Terraform does, in one run, without any machine.
type planner struct {
	server  tfprotov6.ProviderServer
	schemas *tfprotov6.GetProviderSchemaResponse
}

func newPlanner(t *testing.T) planner {
	t.Helper()
	p := serve(t)
	configured, err := p.server.ConfigureProvider(t.Context(), &tfprotov6.ConfigureProviderRequest{
		TerraformVersion: "1.11.4", Config: p.value(t, p.schemas.Provider, nil),
	})
	if err != nil || len(configured.Diagnostics) > 0 {
		t.Fatal(err, configured)
	}
	return p
}

// value returns an object of the schema with only the given attributes set.
func (p planner) value(t *testing.T, schema *tfprotov6.Schema, set map[string]tftypes.Value) *tfprotov6.DynamicValue {
	t.Helper()
	object, ok := schema.ValueType().(tftypes.Object)
	if !ok {
		t.Fatal("a schema is no object")
	}
	all := map[string]tftypes.Value{}
	for name, kind := range object.AttributeTypes {
		all[name] = tftypes.NewValue(kind, nil)
		if value, ok := set[name]; ok {
			all[name] = value
		}
	}
	value, err := tfprotov6.NewDynamicValue(object, tftypes.NewValue(object, all))
	if err != nil {
		t.Fatal(err)
	}
	return &value
}

// plan plans a change from one version to another and returns its diagnostics. An empty from
// means that the resource is new.
func (p planner) plan(
	t *testing.T, resource string, set map[string]tftypes.Value, from, to string,
) (refused, warned string) {
	t.Helper()
	schema := p.schemas.ResourceSchemas[resource]
	at := func(version string) *tfprotov6.DynamicValue {
		with := maps.Clone(set)
		with["version"] = tftypes.NewValue(tftypes.String, version)
		return p.value(t, schema, with)
	}
	nothing, err := tfprotov6.NewDynamicValue(schema.ValueType(), tftypes.NewValue(schema.ValueType(), nil))
	if err != nil {
		t.Fatal(err)
	}
	prior := &nothing
	if from != "" {
		prior = at(from)
	}
	planned, err := p.server.PlanResourceChange(t.Context(), &tfprotov6.PlanResourceChangeRequest{
		TypeName: resource, PriorState: prior, ProposedNewState: at(to), Config: at(to),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range planned.Diagnostics {
		text := d.Attribute.String() + ": " + d.Summary + "\n" + d.Detail + "\n"
		if d.Severity == tfprotov6.DiagnosticSeverityError {
			refused += text
		} else {
			warned += text
		}
	}
	return refused, warned
}

func textValue(value string) tftypes.Value { return tftypes.NewValue(tftypes.String, value) }

func objectValue(set map[string]tftypes.Value) tftypes.Value {
	kinds := map[string]tftypes.Type{}
	for name, value := range set {
		kinds[name] = value.Type()
	}
	return tftypes.NewValue(tftypes.Object{AttributeTypes: kinds}, set)
}

func memberAt(address string) map[string]tftypes.Value {
	return map[string]tftypes.Value{
		"name": textValue("cp1"),
		"host": objectValue(map[string]tftypes.Value{"address": textValue(address)}),
		"peers": tftypes.NewValue(tftypes.Map{ElementType: tftypes.String},
			map[string]tftypes.Value{"cp1": textValue(address)}),
		"pki": tftypes.NewValue(tftypes.String, tftypes.UnknownValue),
	}
}

func replicaWith(etcd string) map[string]tftypes.Value {
	return map[string]tftypes.Value{
		"name": textValue("cp1"),
		"host": objectValue(map[string]tftypes.Value{"address": textValue("10.0.0.11")}),
		"etcd": tftypes.NewValue(tftypes.Set{ElementType: tftypes.String}, []tftypes.Value{textValue(etcd)}),
		"pki":  tftypes.NewValue(tftypes.String, tftypes.UnknownValue),
	}
}

// TestPlannedVersions checks that a plan without machines rejects versions based on the version
// in the state and the etcd that the same plan creates.
func TestPlannedVersions(t *testing.T) {
	const member, replica = "kube_etcd_member", "kube_control_plane_replica"
	own := replicaWith("https://10.0.0.11:2379")
	for name, c := range map[string]struct {
		etcd         string // planned before, at 10.0.0.11
		etcdBefore   string // its version in the state
		resource     string
		set          map[string]tftypes.Value
		from, to     string
		refused, not string
		warned       bool
		warning      string // another one
	}{
		"a new member":        {resource: member, set: memberAt("10.0.0.12"), to: "3.6.16"},
		"a member that stays": {resource: member, set: memberAt("10.0.0.12"), from: "3.6.16", to: "3.6.16"},
		"a member's patch": {
			resource: member, set: memberAt("10.0.0.12"), from: "3.6.15", to: "3.6.16",
			warned: true,
		},
		"a member's skipped minor": {
			resource: member, set: memberAt("10.0.0.12"), from: "3.5.35", to: "3.7.0",
			refused: "one minor version at a time", warned: true,
		},
		"a member goes back": {
			resource: member, set: memberAt("10.0.0.12"), from: "3.6.16", to: "3.5.35",
			warned: true, warning: "etcd is downgraded to 3.5.35",
		},
		"a member goes back to an old release": {
			resource: member, set: memberAt("10.0.0.12"), from: "3.6.16", to: "3.5.20",
			refused: "downgrade to 3.5.32 or later", warned: true,
		},
		"a member goes back two minors": {
			resource: member, set: memberAt("10.0.0.12"), from: "3.7.3", to: "3.5.35",
			refused: "downgrade by one minor version at a time", warned: true,
		},
		"a new replica": {etcd: "3.6.16", resource: replica, set: own, to: "1.36.3"},
		"a replica's skipped minor": {
			etcd: "3.6.16", resource: replica, set: own, from: "1.35.4", to: "1.37.2",
			refused: "no minor may be skipped", warned: true,
		},
		"a replica goes back": {
			etcd: "3.6.16", resource: replica, set: own, from: "1.36.3", to: "1.35.4",
			refused: "a minor is never lowered", warned: true,
		},
		"a new replica beside old etcd": {
			etcd: "3.5.20", resource: replica, set: own, to: "1.36.3",
			refused: "upgrade etcd first",
		},
		"an upgrade beside old etcd": {
			etcd: "3.5.20", resource: replica, set: own, from: "1.35.4", to: "1.36.3",
			refused: "upgrade etcd first", not: "skipped", warned: true,
		},
		"a replica that stays beside it": {etcd: "3.5.20", resource: replica, set: own, from: "1.36.3", to: "1.36.3"},
		"a replica that stays beside etcd that goes back": {
			etcd: "3.5.20", etcdBefore: "3.5.35", resource: replica, set: own, from: "1.36.3", to: "1.36.3",
			refused: "etcd 3.5.20 is too old for Kubernetes 1.36.3",
		},
		"a replica that stays beside etcd that goes back, and is new enough": {
			etcd: "3.5.32", etcdBefore: "3.6.16", resource: replica, set: own, from: "1.36.3", to: "1.36.3",
		},
		"another cluster's old etcd": {
			etcd: "3.5.20", resource: replica, set: replicaWith("https://10.0.9.9:2379"),
			to: "1.36.3",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlanner(t)
			if c.etcd != "" {
				if refused, _ := p.plan(t, member, memberAt("10.0.0.11"), c.etcdBefore, c.etcd); refused != "" {
					t.Fatal(refused)
				}
			}
			refused, warned := p.plan(t, c.resource, c.set, c.from, c.to)
			if !strings.Contains(refused, c.refused) || (refused == "") != (c.refused == "") ||
				c.not != "" && strings.Contains(refused, c.not) {
				t.Errorf("refused with %q, want %q", refused, c.refused)
			}
			if c.refused != "" && (!strings.Contains(refused, `AttributeName("version")`) ||
				!strings.Contains(refused, "Unchanged: nothing was changed.") || !strings.Contains(refused, "Next step: ")) {
				t.Errorf("a refusal lacks its form: %s", refused)
			}
			if strings.Contains(warned, "not checked against all running versions") != c.warned {
				t.Errorf("warned %q, want it: %v", warned, c.warned)
			}
			if !strings.Contains(warned, c.warning) {
				t.Errorf("warned %q, want %q", warned, c.warning)
			}
			if _, again := p.plan(t, c.resource, c.set, c.from, c.to); strings.Contains(again, "not checked against") {
				t.Error("the warning comes twice in one run")
			}
		})
	}
}

// TestAfterwards checks that a planned version overrides the running one, in the same cluster
// only.
func TestAfterwards(t *testing.T) {
	v := newVersions()
	v.plan("https://10.0.0.11:2379", plannedMember{cluster: "a", name: "cp1", version: "3.6.16"})
	v.plan("https://10.0.0.12:2379", plannedMember{cluster: "a", name: "cp2", version: "3.6.16"})
	v.plan("https://10.0.1.11:2379", plannedMember{cluster: "b", name: "cp1", version: "3.5.35"})
	v.plan("https://10.0.2.11:2379", plannedMember{name: "cp1", version: "3.5.34"})
	seen := map[string]string{"cp1": "3.5.35", "cp2": "3.5.35", "cp3": "3.5.35"}
	for name, c := range map[string]struct {
		seen    map[string]string
		urls    []string
		cluster string
		want    map[string]string
	}{
		"the whole cluster": {
			seen,
			[]string{"https://10.0.0.11:2379"},
			"a",
			map[string]string{"cp1": "3.6.16", "cp2": "3.6.16", "cp3": "3.5.35"},
		},
		"an unknown one":   {nil, []string{"https://10.0.2.11:2379"}, "", map[string]string{"cp1": "3.5.34"}},
		"one not planned":  {seen, []string{"https://10.0.3.11:2379"}, "c", seen},
		"nothing is known": {nil, nil, "", map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := v.afterPlan(c.seen, c.urls, c.cluster); !maps.Equal(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
	urls := v.reachedAt([]string{"https://10.0.0.11:2379"}, "a")
	if slices.Sort(urls); !slices.Equal(urls, []string{"https://10.0.0.11:2379", "https://10.0.0.12:2379"}) {
		t.Errorf("cluster a is asked at %q", urls)
	}
	if seen["cp1"] != "3.5.35" {
		t.Error("what was seen was changed: others share it")
	}
}

// TestShared checks that all callers share one observation, and that its duration is limited.
func TestShared(t *testing.T) {
	v := newVersions()
	observations := map[string]*observation[int]{}
	var queries atomic.Int64
	see := func(ctx context.Context) (int, error) {
		if ends, bounded := ctx.Deadline(); !bounded || time.Until(ends) > planTimeout {
			t.Errorf("the look has time until %s", ends)
		}
		return int(queries.Add(1)), nil
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if got, err := shared(t.Context(), &v.mu, observations, "a", see); got != 1 || err != nil {
				t.Errorf("found %d, %v by one look", got, err)
			}
		})
	}
	all.Wait()
	if got, _ := shared(t.Context(), &v.mu, observations, "b", see); got != 2 {
		t.Errorf("for another cluster %d looks were made, want 2", got)
	}
}

// TestBegun checks that versions are neither checked nor warned about once a run has begun to
// change machines.
func TestBegun(t *testing.T) {
	here, _ := bundles(t)
	pool, err := host.NewPool(host.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s := &session{pool: pool, versions: newVersions()}
	if err := s.observable(here); err != nil {
		t.Errorf("before: %v", err)
	}
	s.begin()
	if err := s.observable(here); !errors.Is(err, errChanging) {
		t.Errorf("afterwards: %v", err)
	}
	var diags diag.Diagnostics
	s.warnUnknownVersions(&diags, "etcd 3.6.16", nil, errChanging)
	if len(diags) > 0 {
		t.Error(text(diags))
	}
}
