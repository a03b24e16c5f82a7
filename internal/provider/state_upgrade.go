package provider

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
)

// States of schema version 0 contain telemetry (leader, sizes, health), which only
// kube_control_plane reports now. Attributes that are missing in the state of an early build
// get their defaults. A list that has become a set needs no upgrade: both are an array in the
// state.

// conversion is the difference between the state of an earlier schema and the present one.
type conversion struct {
	renamed  map[string]string // old name → new name
	removed  []string
	defaults map[string]any // of attributes that are null or missing
}

// memberNames are the attributes of a member that have been renamed since schema version 1.
var memberNames = map[string]string{"snapshots_kept": "upgrade_snapshots_kept"}

// UpgradeState converts the state of an earlier schema.
func (r *etcdMemberResource) UpgradeState(context.Context) map[int64]resource.StateUpgrader {
	return map[int64]resource.StateUpgrader{
		0: upgrader(conversion{
			renamed: memberNames,
			removed: []string{"running_version", "healthy", "leader", "db_size_bytes", "alarms", "unit_state"},
			defaults: map[string]any{
				"upgrade_snapshots_kept": snapshot.DefaultKept,
				"archives_kept":          machine.DefaultArchivesKept,
			},
		}),
		1: upgrader(conversion{renamed: memberNames}),
	}
}

// UpgradeState converts the state of an earlier schema.
func (r *replicaResource) UpgradeState(context.Context) map[int64]resource.StateUpgrader {
	return map[int64]resource.StateUpgrader{0: upgrader(conversion{
		removed:  []string{"components"},
		defaults: map[string]any{"admin_conf": true},
	})}
}

// UpgradeState converts the state of an earlier schema.
func (r *endpointResource) UpgradeState(context.Context) map[int64]resource.StateUpgrader {
	return map[int64]resource.StateUpgrader{0: upgrader(conversion{removed: []string{
		"holder", "host_health",
		"backends",
	}})}
}

func upgrader(c conversion) resource.StateUpgrader {
	return resource.StateUpgrader{StateUpgrader: func(_ context.Context, req resource.UpgradeStateRequest,
		resp *resource.UpgradeStateResponse,
	) {
		text, err := c.apply(req.RawState.JSON)
		if err != nil {
			resp.Diagnostics.AddError("State not upgraded", "Cause: it is not the JSON of a resource: "+err.Error()+
				"\nUnchanged: nothing was changed.\nNext step: restore the state from a backup.")
			return
		}
		resp.DynamicValue = &tfprotov6.DynamicValue{JSON: text}
	}}
}

// apply converts the JSON of a state.
func (c conversion) apply(state []byte) ([]byte, error) {
	values := map[string]any{}
	decoder := json.NewDecoder(bytes.NewReader(state))
	decoder.UseNumber()
	if err := decoder.Decode(&values); err != nil {
		return nil, err
	}
	for _, name := range c.removed {
		delete(values, name)
	}
	for before, now := range c.renamed {
		values[now] = values[before]
		delete(values, before)
	}
	for name, value := range c.defaults {
		if values[name] == nil {
			values[name] = value
		}
	}
	return json.Marshal(values)
}
