package provider

import (
	"slices"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// TestAdminConf checks that a state without the attribute counts as one with the file, and that
// no certificate is requested from an external signer for an omitted file.
func TestAdminConf(t *testing.T) {
	before, on, off := types.BoolNull(), types.BoolValue(true), types.BoolValue(false)
	for _, c := range []struct {
		name       string
		have, want types.Bool
		touched    bool
	}{
		{"older state", before, on, false},
		{"older state, turned off", before, off, true},
		{"as it is", off, off, false},
		{"turned on", off, on, true},
		{"not known yet", on, types.BoolUnknown(), true},
	} {
		plan, state := bareReplica(), bareReplica()
		plan.AdminConf, state.AdminConf = c.want, c.have
		if got := plan.affectsMachine(t.Context(), state, &session{}); got != c.touched {
			t.Errorf("%s: the machine is touched: %v, want %v", c.name, got, c.touched)
		}
	}
	requested := func(m replicaModel) bool {
		return slices.ContainsFunc(m.leaves(t.Context()), func(leaf pki.Leaf) bool { return leaf.Name == "kubernetes-admin" })
	}
	m := replicaBehind(types.ObjectValueMust(map[string]attr.Type{"address": types.StringType},
		map[string]attr.Value{"address": types.StringValue("10.0.0.100")}))
	if !requested(m) {
		t.Error("with admin.conf, its certificate is not asked for")
	}
	if m.AdminConf = off; requested(m) || len(m.leaves(t.Context())) == 0 {
		t.Error("without admin.conf, its certificate is asked for")
	}
}

// bareReplica returns a model with no argument set.
// replicaBehind is a replica whose certificates are known, at an endpoint.
func replicaBehind(endpoint types.Object) replicaModel {
	m := bareReplica()
	m.Name, m.ClusterDomain, m.AdminConf = types.StringValue("cp1"), types.StringValue("cluster.local"),
		types.BoolValue(true)
	m.Host = types.ObjectValueMust(map[string]attr.Type{"address": types.StringType},
		map[string]attr.Value{"address": types.StringValue("10.0.0.11")})
	m.Endpoint = endpoint
	return m
}

func bareReplica() replicaModel {
	object, list, set := types.ObjectNull(map[string]attr.Type{}), types.ListNull(types.StringType),
		types.SetNull(types.StringType)
	return replicaModel{
		Host: object, Endpoint: object, Signed: object, ExtraArgs: object, RepeatedArgs: object, Audit: object,
		Authentication: object, Resources: object, Environment: object,
		AdditionalEndpoints: types.ListNull(types.ObjectType{AttrTypes: registrationTypes}),

		Etcd: set, ServiceCIDRs: list, PodCIDRs: list, machineModel: machineModel{Drift: list}, ExtraSANs: set, Groups: set,
		Files: types.MapNull(types.StringType), FileDigests: types.MapNull(types.StringType),
	}
}
