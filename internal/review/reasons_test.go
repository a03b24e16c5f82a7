package review

import (
	"strings"
	"testing"
)

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
			"kube_control_plane_replica", "extra_args", object("scheduler", object("v", "1")),
			object("scheduler", object("v", "2"), "controller_manager", object("v", "2")),
			Reason{Text: "flags +controller_manager.v, scheduler.v", Effect: Behind},
		},
		{
			"kube_control_plane_replica", "extra_args", nil,
			object("scheduler", object("v", "2"), "apiserver", object("v", "2")),
			Reason{Text: "flags +apiserver.v, +scheduler.v", Effect: Restart},
		},
		{
			"kube_control_plane_replica", "resources", object("scheduler", object("memory", "1Gi")), nil,
			Reason{Text: "resource limits −scheduler.memory", Effect: Behind},
		},
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
			before: map[string]any{c.name: c.before}, after: map[string]any{c.name: c.after},
			beforeVisible: map[string]any{c.name: c.before}, afterVisible: map[string]any{c.name: c.after},
		}
		if got := change.reason(c.name, arguments(c.kind)[c.name]); got != c.want {
			t.Errorf("%s from %v to %v: %+v, want %+v", c.name, c.before, c.after, got, c.want)
		}
	}
}

// TestBehindTheAPIServer: only a restart of the API server leaves rotation.
func TestBehindTheAPIServer(t *testing.T) {
	of := func(effects ...Effect) ControlPlane {
		p := ControlPlane{Replicas: make([]Replica, 2)}
		for i := range p.Replicas {
			p.Replicas[i].Action = Keep
		}
		for i, effect := range effects {
			p.Replicas[i].Action, p.Replicas[i].Reasons = Update, []Reason{{Text: "flags", Effect: effect}}
		}
		return p
	}
	for name, c := range map[string]struct {
		plane ControlPlane
		stays bool
	}{
		"the others alone":                    {of(Behind, Behind), true},
		"the others, and nothing":             {of(Behind, None), true},
		"the API server of another replica":   {of(Behind, Restart), false},
		"what a repair restarts is not known": {of(Behind, Repair), false},
	} {
		title := c.plane.replicasTitle()
		if strings.Contains(title, "stay in rotation") != c.stays || strings.Contains(title, "leaves rotation") == c.stays {
			t.Errorf("%s: %s", name, title)
		}
		if got := strings.Join(c.plane.apiAvailability(), " "); strings.Contains(got, "rotation, drained first") == c.stays {
			t.Errorf("%s: %s", name, got)
		}
	}
	if text := updateText(of(Behind).Replicas[0].Resource); !strings.Contains(text, "the API server does not restart") {
		t.Error(text)
	}
}
