package provider

import (
	"context"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// TestUpgradeState checks that a state of schema version 0 loses its telemetry, keeps
// everything else, and gets the defaults of attributes that it lacks.
func TestUpgradeState(t *testing.T) {
	server, err := providerserver.NewProtocol6WithError(New("test")())()
	if err != nil {
		t.Fatal(err)
	}
	schemas, err := server.GetProviderSchema(context.Background(), &tfprotov6.GetProviderSchemaRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		kind, state string
		want        map[string]tftypes.Value
	}{
		"a member": {
			"kube_etcd_member", `{"id":"a6c7","name":"cp1","running_version":"3.6.16","healthy":true,"leader":true,"learner":false,"db_size_bytes":9007199254740993,` +
				`"alarms":[],"unit_state":"active","machine_id":"m1","drift":[],"peers":{"cp1":"10.0.0.11"},"snapshots_kept":9,"archives_kept":null}`,
			map[string]tftypes.Value{
				"id": tftypes.NewValue(tftypes.String, "a6c7"), "machine_id": tftypes.NewValue(tftypes.String, "m1"), "learner": tftypes.NewValue(tftypes.Bool, false),
				"snapshots_kept": tftypes.NewValue(tftypes.Number, 9), "archives_kept": tftypes.NewValue(tftypes.Number, 5),
			},
		},
		"a replica": {
			"kube_control_plane_replica", `{"id":"cp1","name":"cp1","registered":true,"components":[{"name":"kube-apiserver","healthy":true,"health":"ok","version":"1.34.4",` +
				`"certificate_expires_at":null}],"port":6443}`,
			map[string]tftypes.Value{
				"registered": tftypes.NewValue(tftypes.Bool, true), "admin_conf": tftypes.NewValue(tftypes.Bool, true), "port": tftypes.NewValue(tftypes.Number, 6443),
			},
		},
		"a replica without admin.conf": {
			"kube_control_plane_replica", `{"name":"cp1","admin_conf":false}`,
			map[string]tftypes.Value{"admin_conf": tftypes.NewValue(tftypes.Bool, false)},
		},
		"an endpoint": {
			"kube_control_plane_endpoint", `{"id":"10.0.0.100","address":"10.0.0.100","holder":"cp1","host_health":{"cp1":"ok"},"backends":{},"config_digest":"ab"}`,
			map[string]tftypes.Value{"address": tftypes.NewValue(tftypes.String, "10.0.0.100"), "config_digest": tftypes.NewValue(tftypes.String, "ab")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			schema := schemas.ResourceSchemas[test.kind]
			if schema.Version != 1 {
				t.Fatalf("the schema has version %d", schema.Version)
			}
			resp, err := server.UpgradeResourceState(t.Context(), &tfprotov6.UpgradeResourceStateRequest{
				TypeName: test.kind, Version: 0, RawState: &tfprotov6.RawState{JSON: []byte(test.state)},
			})
			if err != nil || len(resp.Diagnostics) > 0 {
				t.Fatalf("%v, %+v", err, resp)
			}
			value, err := resp.UpgradedState.Unmarshal(schema.ValueType())
			if err != nil {
				t.Fatal(err)
			}
			var got map[string]tftypes.Value
			if err := value.As(&got); err != nil {
				t.Fatal(err)
			}
			for attribute, want := range test.want {
				if !got[attribute].Equal(want) {
					t.Errorf("%s is %s, want %s", attribute, got[attribute], want)
				}
			}
		})
	}
}
