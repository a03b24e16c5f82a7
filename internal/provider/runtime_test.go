package provider

import (
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// wordsOf returns the text of all diagnostics.
func wordsOf(diags diag.Diagnostics) string {
	var words []string
	for _, d := range diags {
		words = append(words, d.Summary()+": "+d.Detail())
	}
	return strings.Join(words, "\n")
}

// TestValidateRuntime: what static pods do not support is refused, and an image without one.
func TestValidateRuntime(t *testing.T) {
	pod := types.StringValue("static_pod")
	object := types.ObjectValueMust(map[string]attr.Type{}, map[string]attr.Value{})
	none := types.ObjectNull(map[string]attr.Type{})
	for name, c := range map[string]struct {
		model etcdMemberModel
		want  string
	}{
		"a unit":               {etcdMemberModel{Volume: object, Liveness: types.BoolValue(true)}, ""},
		"a unit, in words":     {etcdMemberModel{Runtime: types.StringValue("systemd")}, ""},
		"not known yet":        {etcdMemberModel{Runtime: types.StringUnknown(), Image: types.StringValue("a:1")}, ""},
		"a unit with a patch":  {etcdMemberModel{Patch: types.StringValue("{}")}, "patch is used by runtime"},
		"a unit with an image": {etcdMemberModel{Image: types.StringValue("a:1")}, "image is used by runtime"},
		"a pod":                {etcdMemberModel{Runtime: pod, Image: types.StringValue("a:1"), Volume: none}, ""},
		"a pod, image of another version": {
			etcdMemberModel{Runtime: pod, Version: types.StringValue("3.6.16"), Image: types.StringValue("r/etcd:3.7.0-0")},
			`image "r/etcd:3.7.0-0" is of etcd 3.7.0, and version is 3.6.16`,
		},
		"a pod, image of the version": {
			etcdMemberModel{Runtime: pod, Version: types.StringValue("3.6.16"), Image: types.StringValue("r/etcd:3.6.16-0")}, "",
		},
		"a pod, version not known yet": {
			etcdMemberModel{Runtime: pod, Version: types.StringUnknown(), Image: types.StringValue("r/etcd:3.7.0-0")}, "",
		},
		"a pod, image not known yet": {
			etcdMemberModel{Runtime: pod, Version: types.StringValue("3.6.16"), Image: types.StringUnknown()}, "",
		},
		"a pod, not known yet":   {etcdMemberModel{Runtime: pod, Restore: types.ObjectUnknown(nil)}, ""},
		"a pod with a volume":    {etcdMemberModel{Runtime: pod, Volume: object}, "volume is not supported"},
		"a pod with a restore":   {etcdMemberModel{Runtime: pod, Restore: object}, ""},
		"a pod with limits":      {etcdMemberModel{Runtime: pod, Resources: object}, "resources is not supported"},
		"a pod with metrics":     {etcdMemberModel{Runtime: pod, Metrics: object}, ""},
		"a pod with a probe":     {etcdMemberModel{Runtime: pod, Liveness: types.BoolValue(true)}, ""},
		"a pod without one":      {etcdMemberModel{Runtime: pod, Liveness: types.BoolValue(false)}, ""},
		"a pod, and the default": {etcdMemberModel{Runtime: pod, Liveness: types.BoolNull()}, ""},
	} {
		var diags diag.Diagnostics
		c.model.validateRuntime(&diags)
		if text := wordsOf(diags); !strings.Contains(text, c.want) || (text == "") != (c.want == "") {
			t.Errorf("%s: %q, want %q", name, text, c.want)
		}
	}
}

// TestPlanRuntime: the plan says what changes hands when an existing member moves to another runtime.
func TestPlanRuntime(t *testing.T) {
	member := func(address, runtime string) etcdMemberModel {
		host := types.ObjectValueMust(map[string]attr.Type{"address": types.StringType},
			map[string]attr.Value{"address": types.StringValue(address)})
		object, strs := types.ObjectNull(map[string]attr.Type{}), types.MapNull(types.StringType)
		m := etcdMemberModel{
			machineModel: machineModel{Drift: types.ListNull(types.StringType)},
			Name:         types.StringValue("cp1"), Host: host, Runtime: types.StringValue(runtime),
			Version: types.StringValue("3.6.16"), Signed: object, ExtraArgs: strs, Environment: strs, Resources: object,
			Snapshots: object, Metrics: object, Volume: object, Restore: object,
		}
		if runtime == "" {
			m.Runtime = types.StringNull()
		}
		return m
	}
	older := member("10.0.0.11", "static_pod")
	older.Version = types.StringValue("3.5.35")
	for name, c := range map[string]struct {
		before, after etcdMemberModel
		want          string
		refused       bool
	}{
		"stays a unit":            {before: member("10.0.0.11", ""), after: member("10.0.0.11", "systemd")},
		"stays a pod":             {before: member("10.0.0.11", "static_pod"), after: member("10.0.0.11", "static_pod")},
		"becomes a pod elsewhere": {before: member("10.0.0.11", ""), after: member("10.0.0.14", "static_pod")},
		"becomes a pod": {
			before: member("10.0.0.11", ""), after: member("10.0.0.11", "static_pod"), want: "Root runs the pod",
		},
		"becomes a unit": {
			before: member("10.0.0.11", "static_pod"), after: member("10.0.0.11", ""), want: "given to the user etcd",
		},
		"another version at once": {
			before: older, after: member("10.0.0.11", ""), want: "from etcd 3.5.35 to 3.6.16", refused: true,
		},
	} {
		var diags diag.Diagnostics
		c.after.planRuntime(c.before, &diags)
		text := wordsOf(diags)
		if !strings.Contains(text, c.want) || (text == "") != (c.want == "") || diags.HasError() != c.refused {
			t.Errorf("%s: %q", name, text)
		}
		changes := !strings.HasPrefix(name, "stays")
		if got := c.after.affectsMachine(t.Context(), c.before, &session{}); got != changes {
			t.Errorf("%s: the machine changes: %v", name, got)
		}
	}
}

// TestKubeletProbes: liveness_probe is true by default, and the kubelet probes a static pod: no timer does, so that
// curl is not needed.
func TestKubeletProbes(t *testing.T) {
	pool, err := host.NewPool(host.Config{})
	if err != nil {
		t.Fatal(err)
	}
	r := &etcdMemberResource{}
	r.session = &session{pool: pool}
	for runtime, want := range map[string]bool{"systemd": true, "static_pod": false} {
		var diags diag.Diagnostics
		m := memberRunBy(t, runtime)
		m.Liveness = types.BoolValue(true)
		if got := r.spec(t.Context(), m, &diags).LivenessProbe; got != want || diags.HasError() {
			t.Errorf("%s: a timer probes: %t, %v", runtime, got, diags)
		}
	}
}

// memberRunBy returns a member with nothing but a name, an address, a version and a runtime.
func memberRunBy(t *testing.T, runtime string) etcdMemberModel {
	t.Helper()
	m := memberWithStore(t, snapshot.S3{})
	m.Host = types.ObjectValueMust(map[string]attr.Type{"address": types.StringType},
		map[string]attr.Value{"address": types.StringValue("10.0.0.11")})
	m.Version, m.Runtime = types.StringValue("3.6.16"), types.StringValue(runtime)
	m.bundle = &pki.Bundle{ClusterID: "abc"}
	return m
}
