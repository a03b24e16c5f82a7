package provider

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd"
)

// States of schema version 0 contain telemetry (leader, sizes, health), which only
// kube_control_plane reports now. Attributes that are missing in the state of an early build
// get their defaults.

// UpgradeState converts the state of an earlier schema.
func (r *etcdMemberResource) UpgradeState(context.Context) map[int64]resource.StateUpgrader {
	return map[int64]resource.StateUpgrader{0: upgrader(
		map[string]any{"snapshots_kept": etcd.DefaultSnapshotsKept, "archives_kept": etcd.DefaultArchivesKept},
		"running_version", "healthy", "leader", "db_size_bytes", "alarms", "unit_state",
	)}
}

// UpgradeState converts the state of an earlier schema.
func (r *replicaResource) UpgradeState(context.Context) map[int64]resource.StateUpgrader {
	return map[int64]resource.StateUpgrader{0: upgrader(map[string]any{"admin_conf": true}, "components")}
}

// UpgradeState converts the state of an earlier schema.
func (r *endpointResource) UpgradeState(context.Context) map[int64]resource.StateUpgrader {
	return map[int64]resource.StateUpgrader{0: upgrader(nil, "holder", "host_health", "backends")}
}

// upgrader removes attributes that no longer exist and sets defaults for null ones.
func upgrader(defaults map[string]any, removed ...string) resource.StateUpgrader {
	return resource.StateUpgrader{StateUpgrader: func(_ context.Context, req resource.UpgradeStateRequest, resp *resource.UpgradeStateResponse) {
		text, err := upgraded(req.RawState.JSON, defaults, removed)
		if err != nil {
			resp.Diagnostics.AddError("State not upgraded", "Cause: it is not the JSON of a resource: "+err.Error()+
				"\nUnchanged: nothing was changed.\nNext step: restore the state from a backup.")
			return
		}
		resp.DynamicValue = &tfprotov6.DynamicValue{JSON: text}
	}}
}

func upgraded(state []byte, defaults map[string]any, removed []string) ([]byte, error) {
	values := map[string]any{}
	decoder := json.NewDecoder(bytes.NewReader(state))
	decoder.UseNumber()
	if err := decoder.Decode(&values); err != nil {
		return nil, err
	}
	for _, name := range removed {
		delete(values, name)
	}
	for name, value := range defaults {
		if values[name] == nil {
			values[name] = value
		}
	}
	return json.Marshal(values)
}
