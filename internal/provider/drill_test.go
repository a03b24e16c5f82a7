package provider

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
)

// TestDrillPlans: a drill runs for another trigger or source, and when the last one is too old; for nothing
// else.
func TestDrillPlans(t *testing.T) {
	here, _ := bundles(t)
	text, next := bundleText(t, here).ValueString(), bundleText(t, rotatedOnce(t, here)).ValueString()
	ago := func(d time.Duration) string { return time.Now().Add(-d).UTC().Format(time.RFC3339) }
	config := map[string]any{
		"pki": text, "peers": map[string]any{"cp1": "10.0.0.11"}, "every": "24h", "triggers": map[string]any{"n": "1"},
	}
	state := func(age time.Duration) map[string]any {
		at := ago(age)
		return with(config, map[string]any{
			"id": "cp1/" + at, "ran_on": "cp1", "completed_at": at, "rto_seconds": 12.5, "rpo_seconds": 60, "source": "newest",
			"snapshot_name": "x.db", "saved_at": at, "size_bytes": 5, "revision": 6, "sha256": "7d", "compared": true,
			"tokens_verified": true, "encrypted": true, "steps": map[string]any{"etcd": 1.5},
			"objects": map[string]any{"pods": 1},
		})
	}
	computed := []string{
		"id", "ran_on", "completed_at", "rto_seconds", "rpo_seconds", "source", "snapshot_name", "saved_at", "size_bytes",
		"revision", "sha256", "compared", "tokens_verified", "encrypted", "steps", "objects",
	}
	p := newPlanner(t)
	for name, c := range map[string]struct {
		age  time.Duration // at the refresh
		more map[string]any
		runs bool
	}{
		"nothing":                  {23 * time.Hour, nil, false},
		"due":                      {25 * time.Hour, nil, true},
		"not due any more":         {25 * time.Hour, map[string]any{"every": "48h"}, false},
		"due by another limit":     {23 * time.Hour, map[string]any{"every": "1h"}, false}, // by the plan after that
		"never due":                {9000 * time.Hour, map[string]any{"every": nil}, false},
		"another trigger":          {time.Hour, map[string]any{"triggers": map[string]any{"n": "2"}}, true},
		"another source":           {time.Hour, map[string]any{"fetch": "true"}, true},
		"another file":             {time.Hour, map[string]any{"snapshot": "/root/x.db"}, true},
		"another member":           {time.Hour, map[string]any{"member": "cp1"}, true},
		"another identity":         {time.Hour, map[string]any{"identity_file": "key.txt"}, true},
		"a rotation of the bundle": {time.Hour, map[string]any{"pki": next}, false},
		"more peers": {
			time.Hour, map[string]any{"peers": map[string]any{"cp1": "10.0.0.11", "cp2": "10.0.0.12"}}, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			refreshed := p.refresh(t, state(c.age))
			got := p.update(t, drillKind, computed, state(c.age), with(config, c.more), refreshed)
			// Terraform plans again before it applies, with the private state of the plan, which may be much older.
			later := p.update(t, drillKind, computed, state(c.age+9000*time.Hour), with(config, c.more), refreshed)
			if unknownIn(later) != unknownIn(got) {
				t.Errorf("the apply plans %d unknown values, and the plan has %d", unknownIn(later), unknownIn(got))
			}
			var unknown []string
			for attribute, change := range got {
				if strings.Contains(change, "known after apply") {
					unknown = append(unknown, attribute)
				}
			}
			slices.Sort(unknown)
			want := []string{}
			if c.runs {
				want = slices.Sorted(slices.Values(computed))
			}
			if !slices.Equal(unknown, want) {
				t.Errorf("the plan shows %v, unknown are %v, want %v", slices.Sorted(maps.Keys(got)), unknown, want)
			}
		})
	}
}

// refresh reads a drill and returns its private state.
func (p planner) refresh(t *testing.T, state map[string]any) string {
	t.Helper()
	of := p.schemas.ResourceSchemas[drillKind].ValueType()
	resp, err := p.server.ReadResource(t.Context(), &tfprotov6.ReadResourceRequest{
		TypeName: drillKind, CurrentState: dynamic(t, of, valueOf(t, of, state)),
	})
	if err != nil || len(resp.Diagnostics) > 0 {
		t.Fatal(err, resp)
	}
	return string(resp.Private)
}

// unknownIn returns how many attributes are to become known.
func unknownIn(changes map[string]string) int {
	unknown := 0
	for _, change := range changes {
		if strings.Contains(change, "known after apply") {
			unknown++
		}
	}
	return unknown
}

func TestDrillDue(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		last, every string
		want        bool
	}{
		{"2026-01-01T03:04:05Z", "24h", true},
		{"2026-01-01T03:04:06Z", "24h", false},
		{"2026-01-01T03:04:05Z", "", false},
		{"", "24h", false},
		{"2026-01-01T03:04:05Z", "x", false},
	} {
		state := drillResourceModel{Every: orNull(c.every)}
		state.CompletedAt = orNull(c.last)
		if got := drillDue(state, now); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}

func TestValidateDrill(t *testing.T) {
	text := types.StringValue
	for name, c := range map[string]struct {
		m    drillModel
		want string
	}{
		"nothing":       {drillModel{}, ""},
		"fetch":         {drillModel{Fetch: text("x"), EnvironmentFile: text("/e")}, ""},
		"snapshot":      {drillModel{Snapshot: text("/x")}, ""},
		"identity":      {drillModel{IdentityFile: text("key.txt")}, ""},
		"two sources":   {drillModel{Fetch: text("x"), Snapshot: text("/x")}, "exclude each other"},
		"variables":     {drillModel{EnvironmentFile: text("/e")}, "for fetch, which is not set"},
		"may be set":    {drillModel{Fetch: types.StringUnknown(), EnvironmentFile: text("/e")}, ""},
		"identity, too": {drillModel{IdentityFile: text("key.txt"), Fetch: text("x")}, "for the bucket of the member"},
		"of a file":     {drillModel{IdentityFile: text("key.txt"), Snapshot: text("/x")}, "for the bucket of the member"},
	} {
		var diags diag.Diagnostics
		c.m.validateDrill(&diags)
		if diags.HasError() != (c.want != "") || c.want != "" && !strings.Contains(fmt.Sprint(diags), c.want) {
			t.Errorf("%s: %v", name, diags)
		}
	}
}

// TestDrillStatus: the data source has the newest record of all machines.
func TestDrillStatus(t *testing.T) {
	if got := drillStatusOf(etcd.Health{}.LastDrill()); got != nil {
		t.Errorf("without a record: %+v", got)
	}
	older := snapshot.Drill{Member: "cp1", Finished: 100, Succeeded: true, LastSuccess: 100, RTO: 1.5, RPO: 3, Saved: 90}
	newer := snapshot.Drill{Member: "cp2", Finished: 200, Problem: "it is corrupt"}
	h := etcd.Health{Machines: []etcd.Machine{{Drill: &older}, {Drill: &newer}, {}}}
	got := drillStatusOf(h.LastDrill())
	if got.Member.ValueString() != "cp2" || got.Succeeded.ValueBool() || got.Problem.ValueString() != "it is corrupt" ||
		!got.SucceededAt.IsNull() || !got.RTO.IsNull() || !got.RPO.IsNull() {
		t.Errorf("%+v", got)
	}
	h.Machines = h.Machines[:1]
	got = drillStatusOf(h.LastDrill())
	if got.CompletedAt.ValueString() != "1970-01-01T00:01:40Z" || !got.Succeeded.ValueBool() || !got.Problem.IsNull() ||
		got.RTO.ValueFloat64() != 1.5 || got.RPO.ValueInt64() != 3 || got.SucceededAt != got.CompletedAt {
		t.Errorf("%+v", got)
	}
}

// TestDrillRefuses: what is wrong is an error with its cause, also of the action.
func TestDrillRefuses(t *testing.T) {
	here, _ := bundles(t)
	p := configuredWith(t, map[string]any{"known_hosts": "", "hosts": map[string]any{
		"127.0.0.1": map[string]any{"port": closedPort(t)},
	}})
	config := map[string]any{"pki": bundleText(t, here).ValueString(), "peers": map[string]any{"cp1": "127.0.0.1"}}
	for name, c := range map[string]struct {
		more map[string]any
		want string
	}{
		"unreachable":      {nil, "no machine can run a drill"},
		"no such member":   {map[string]any{"member": "cp9"}, "peers has no such member"},
		"no peers":         {map[string]any{"peers": map[string]any{}}, "peers has no such member"},
		"two sources":      {map[string]any{"fetch": "x", "snapshot": "/x"}, "exclude each other"},
		"no identity file": {map[string]any{"identity_file": "/nowhere/key.txt"}, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			output := p.invoked(t, drillKind, with(config, c.more))
			if !strings.Contains(output, "ERROR") || !strings.Contains(output, c.want) {
				t.Errorf("%s", output)
			}
		})
	}
}

// TestIdentityFileFromContent: an age identity in place of the path of its file is refused before the plan shows it,
// and is in no error.
func TestIdentityFileFromContent(t *testing.T) {
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	p := newPlanner(t)
	here, _ := bundles(t)
	drill := map[string]any{"pki": bundleText(t, here).ValueString(), "peers": map[string]any{"cp1": "127.0.0.1"}}
	for name, content := range map[string]string{
		"the key": identity.String(), "the file": "# created: today\n" + identity.String() + "\n",
	} {
		argument := map[string]any{"identity_file": content}
		for where, output := range map[string]string{
			"the resource": validated(t, drillKind, with(drill, argument)),
			"the action":   p.actionRefused(t, drillKind, with(drill, argument)),
			"its run":      p.invoked(t, drillKind, with(drill, argument)),
			"a restore": validated(t, "kube_etcd_member", map[string]any{
				"restore": with(argument, map[string]any{"id": "lost", "bucket": "newest"}),
			}),
		} {
			if !strings.Contains(output, "not the content") || strings.Contains(output, "AGE-SECRET-KEY-") {
				t.Errorf("%s as identity_file of %s: refused %t, without the key %t", name, where,
					strings.Contains(output, "not the content"), !strings.Contains(output, "AGE-SECRET-KEY-"))
			}
		}
	}
}

// actionRefused returns what is wrong with the configuration of an action.
func (p planner) actionRefused(t *testing.T, name string, config map[string]any) string {
	t.Helper()
	server, ok := p.server.(tfprotov6.ProviderServerWithActions) //nolint:staticcheck // ProviderServer lacks it
	if !ok {
		t.Fatal("the provider has no actions")
	}
	kind := p.schemas.ActionSchemas[name].Schema.ValueType()
	resp, err := server.ValidateActionConfig(t.Context(), &tfprotov6.ValidateActionConfigRequest{
		ActionType: name, Config: dynamic(t, kind, valueOf(t, kind, config)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return textOfDiagnostics(resp.Diagnostics)
}
