package provider

import (
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// TestUpgradeState checks that a state of schema version 0 loses its telemetry, keeps
// everything else, and gets the defaults of attributes that it lacks.
func TestUpgradeState(t *testing.T) {
	p := serve(t)
	for name, test := range map[string]struct {
		kind, state string
		want        map[string]tftypes.Value
	}{
		"a member": {
			"kube_etcd_member",
			`{"id":"a6c7","name":"cp1","running_version":"3.6.16","healthy":true,"leader":true,"learner":false,` +
				`"db_size_bytes":9007199254740993,` +
				`"alarms":[],"unit_state":"active","machine_id":"m1","drift":[],"peers":{"cp1":"10.0.0.11"},` +
				`"snapshots_kept":9,"archives_kept":null}`,
			map[string]tftypes.Value{
				"id": tftypes.NewValue(tftypes.String, "a6c7"), "machine_id": tftypes.NewValue(tftypes.String, "m1"),
				"learner":                tftypes.NewValue(tftypes.Bool, false),
				"upgrade_snapshots_kept": tftypes.NewValue(tftypes.Number, 9), "archives_kept": tftypes.NewValue(tftypes.Number, 5),
			},
		},
		"a replica": {
			"kube_control_plane_replica",
			`{"id":"cp1","name":"cp1","registered":true,` +
				`"components":[{"name":"kube-apiserver","healthy":true,"health":"ok","version":"1.34.4",` +
				`"certificate_expires_at":null}],"port":6443}`,
			map[string]tftypes.Value{
				"registered": tftypes.NewValue(tftypes.Bool, true), "admin_conf": tftypes.NewValue(tftypes.Bool, true),
				"port": tftypes.NewValue(tftypes.Number, 6443),
			},
		},
		"a replica without admin.conf": {
			"kube_control_plane_replica", `{"name":"cp1","admin_conf":false}`,
			map[string]tftypes.Value{"admin_conf": tftypes.NewValue(tftypes.Bool, false)},
		},
		"an endpoint": {
			"kube_control_plane_endpoint",
			`{"id":"10.0.0.100","address":"10.0.0.100","holder":"cp1","host_health":{"cp1":"ok"},"backends":{},` +
				`"config_digest":"ab"}`,
			map[string]tftypes.Value{
				"address":       tftypes.NewValue(tftypes.String, "10.0.0.100"),
				"config_digest": tftypes.NewValue(tftypes.String, "ab"),
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := p.upgrade(t, test.kind, 0, []byte(test.state))
			for attribute, want := range test.want {
				if !got[attribute].Equal(want) {
					t.Errorf("%s is %s, want %s", attribute, got[attribute], want)
				}
			}
		})
	}
}

// upgrade returns the attributes of a state after the upgrade to the present schema.
func (p planner) upgrade(t *testing.T, kind string, version int64, state []byte) map[string]tftypes.Value {
	t.Helper()
	resp, err := p.server.UpgradeResourceState(t.Context(), &tfprotov6.UpgradeResourceStateRequest{
		TypeName: kind, Version: version, RawState: &tfprotov6.RawState{JSON: state},
	})
	if err != nil || len(resp.Diagnostics) > 0 {
		t.Fatalf("%v, %+v", err, resp)
	}
	value, err := resp.UpgradedState.Unmarshal(p.schemas.ResourceSchemas[kind].ValueType())
	if err != nil {
		t.Fatal(err)
	}
	return attributesIn(t, value)
}

// renamedSince are the attributes that were renamed since a release, by type.
var renamedSince = map[string]map[string]string{
	"kube_etcd_member": memberNames,
}

// TestReleasedStates checks that the states of every released version are read: they keep each
// value, and a renamed attribute has its value under the new name. testdata/states has one
// state for each release and type, with every attribute set.
func TestReleasedStates(t *testing.T) {
	p := serve(t)
	files, err := filepath.Glob("testdata/states/*/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no states: %v", err)
	}
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			kind := strings.TrimSuffix(filepath.Base(file), ".json")
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var kept struct {
				Version    int64          `json:"schema_version"`
				Attributes map[string]any `json:"attributes"`
			}
			if err := json.Unmarshal(text, &kept); err != nil {
				t.Fatal(err)
			}
			state, err := json.Marshal(kept.Attributes)
			if err != nil {
				t.Fatal(err)
			}
			got := p.upgrade(t, kind, kept.Version, state)
			for name, was := range kept.Attributes {
				if now, ok := renamedSince[kind][name]; ok {
					name = now
				}
				if is, ok := got[name]; !ok || !sameAsJSON(is, was) {
					t.Errorf("%s is %s, want %v", name, is, was)
				}
			}
		})
	}
	for kind := range p.schemas.ResourceSchemas {
		if !slices.Contains(files, filepath.Join("testdata", "states", "0.1.0", kind+".json")) {
			t.Errorf("there is no state of %s", kind)
		}
	}
}

// sameAsJSON reports whether a value is what JSON says. The elements of a set have no order.
func sameAsJSON(v tftypes.Value, want any) bool {
	var text string
	var flag bool
	var number big.Float
	switch want := want.(type) {
	case nil:
		return v.IsNull()
	case string:
		return v.As(&text) == nil && text == want
	case bool:
		return v.As(&flag) == nil && flag == want
	case float64:
		return v.As(&number) == nil && number.Cmp(big.NewFloat(want)) == 0
	case []any:
		var elements []tftypes.Value
		if v.As(&elements) != nil || len(elements) != len(want) {
			return false
		}
		if v.Type().Is(tftypes.Set{}) {
			slices.SortFunc(elements, func(a, b tftypes.Value) int { return strings.Compare(a.String(), b.String()) })
			slices.SortFunc(want, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		}
		return slices.EqualFunc(elements, want, sameAsJSON)
	case map[string]any:
		var parts map[string]tftypes.Value
		if v.As(&parts) != nil {
			return false
		}
		for name, part := range want {
			if have, ok := parts[name]; !ok || !sameAsJSON(have, part) {
				return false
			}
		}
		return true
	}
	return false
}
