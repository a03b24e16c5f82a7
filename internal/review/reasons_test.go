package review

import "testing"

// TestInertParts: a change of what only timers depend on restarts and reloads nothing.
func TestInertParts(t *testing.T) {
	object := func(keys ...any) map[string]any {
		out := map[string]any{}
		for i := 0; i < len(keys); i += 2 {
			out[keys[i].(string)] = keys[i+1]
		}
		return out
	}
	facts := object("address", nil, "textfile_directory", "/srv")
	listener := object("address", "::", "textfile_directory", "/srv")
	for _, c := range []struct {
		kind, name    string
		before, after any
		want          Reason
	}{
		{"kube_etcd_member", "metrics", nil, facts, Reason{Text: "metrics +textfile_directory /srv", Effect: None}},
		{"kube_etcd_member", "metrics", facts, listener, Reason{Text: "metrics +address ::", Effect: Restart}},
		{
			"kube_etcd_member", "metrics", listener, nil,
			Reason{Text: "metrics −address, −textfile_directory", Effect: Restart},
		},
		{"kube_control_plane_replica", "metrics", facts, nil, Reason{Text: "metrics −textfile_directory", Effect: None}},
		{
			"kube_control_plane_endpoint", "haproxy", object("liveness_probe", true), object("liveness_probe", false),
			Reason{Text: "balancers liveness_probe", Effect: None},
		},
		{
			"kube_control_plane_endpoint", "haproxy", object("metrics", nil), object("metrics", facts),
			Reason{Text: "balancers +metrics.textfile_directory", Effect: None},
		},
		{
			"kube_control_plane_endpoint", "haproxy", object("liveness_probe", true, "address6", nil),
			object("liveness_probe", false, "address6", "fd00::100"),
			Reason{Text: "balancers +address6, liveness_probe", Effect: Reload},
		},
	} {
		change := change{
			beforeVisible: map[string]any{c.name: c.before}, afterVisible: map[string]any{c.name: c.after},
		}
		if got := change.reason(c.name, arguments(c.kind)[c.name]); got != c.want {
			t.Errorf("%s from %v to %v: %+v, want %+v", c.name, c.before, c.after, got, c.want)
		}
	}
}
