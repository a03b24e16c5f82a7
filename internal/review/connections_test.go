package review

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

type values = map[string]any

// updating lets a plan update a resource on its machines. An argument is {before, after}.
func updating(t *testing.T, d map[string]any, address string, arguments map[string][2]any) {
	t.Helper()
	c := changeOf(t, d, address)
	before, after := maps.Clone(attributes(c["before"])), maps.Clone(attributes(c["before"]))
	for name, both := range arguments {
		before[name], after[name] = both[0], both[1]
	}
	c["actions"], c["before"], c["after"] = []any{"update"}, before, after
	c["after_unknown"] = values{"config_digest": true}
	delete(after, "config_digest")
}

// TestEndpointChanges: the comment says what a change of each kind of endpoint does, and whether connections end.
func TestEndpointChanges(t *testing.T) {
	const (
		reload  = "The endpoint: HAProxy reloads its configuration, and no connection is dropped.\n"
		moves   = "The endpoint: HAProxy and keepalived change on one machine after the other, and connections may end.\n"
		vip     = "The endpoint: kube-vip restarts on one machine after the other, with its replica, and connections"
		routes  = "The endpoint: BGP sessions start again on one machine after the other, with its replica, and"
		nothing = "The endpoint: nothing restarts.\n"
		ends    = ": **connections may end**, and new ones may fail"
		stays   = ": keeps answering. Connections survive"
	)
	drift := []any{"cp1 (10.89.0.11): x"}
	for name, test := range map[string]struct {
		means         string
		before, after values
		drift         []any
		title, what   string
		ends          bool
	}{
		"a host":         {"haproxy", nil, values{"address6": "fd00::1"}, nil, reload, "(reloads, nothing restarts)", false},
		"probes":         {"haproxy", nil, values{"liveness_probe": true}, nil, nothing, "(nothing restarts)", false},
		"released":       {"haproxy", nil, values{"hand_over": "release"}, nil, moves, "(connections may end)", true},
		"taken":          {"haproxy", nil, values{"hand_over": "take"}, nil, moves, "(connections may end)", true},
		"prepared":       {"haproxy", nil, values{"hand_over": "prepare"}, nil, reload, "(reloads, nothing restarts)", false},
		"handed over":    {"haproxy", values{"hand_over": "take"}, nil, nil, reload, "(reloads, nothing restarts)", false},
		"VRRP":           {"haproxy", nil, values{"vrrp": "multicast"}, nil, moves, "(connections may end)", true},
		"a router ID":    {"haproxy", nil, values{"virtual_router_id": 7}, nil, moves, "(connections may end)", true},
		"and drift":      {"haproxy", nil, values{"vrrp": "multicast"}, drift, moves, "needed, connections may end)", true},
		"drift":          {"haproxy", nil, nil, drift, "drift on its machines is repaired.\n", "(restarts only", false},
		"a program":      {"kube_vip", nil, values{"program": "/x"}, nil, vip, "(connections may end)", true},
		"its targets":    {"kube_vip", nil, values{"targets": values{"a": "b"}}, nil, nothing, "(nothing restarts)", false},
		"DNS":            {"dns", nil, values{"ttl": "9s"}, nil, nothing, "(nothing restarts)", false},
		"DNS, drift":     {"dns", nil, nil, drift, "The endpoint: its drift is repaired.\n", "(restarts only", false},
		"a peer":         {"bgp", nil, values{"peers": []any{}}, nil, routes, "(connections may end)", true},
		"a hold time":    {"bgp", nil, values{"hold_time": "9s"}, nil, routes, "(connections may end)", true},
		"the network":    {"bgp", nil, values{"propagation_time": "9s"}, nil, nothing, "(nothing restarts)", false},
		"a health check": {"external", nil, values{"health_check": values{}}, nil, nothing, "(nothing", false},
	} {
		d := document(t, "nothing")
		both := [2]any{values{"hosts": values{}}, values{"hosts": values{}}}
		maps.Copy(both[0].(values), test.before)
		maps.Copy(both[1].(values), test.after)
		updating(t, d, endpointAddress, map[string][2]any{"haproxy": {}, "drift": {test.drift, nil}, test.means: both})
		want := []string{test.title, test.what, stays}
		if test.ends {
			want[2] = ends
		}
		got := comment(t, d)
		for _, text := range want {
			if !strings.Contains(got, text) {
				t.Errorf("%s: the comment lacks %q:\n%.1500s", name, text, got)
			}
		}
	}
}

// TestNewEndpoints: each kind is set up in its own way.
func TestNewEndpoints(t *testing.T) {
	for means, want := range map[string]string{
		"haproxy": "HAProxy and the virtual IP are installed.", "external": "nothing is installed: others look after",
		"dns": "replicas add their records.", "bgp": "replicas bring bird", "kube_vip": "replicas bring the agent",
		"later": "it is set up.",
	} {
		d := document(t, "create")
		after := attributes(changeOf(t, d, endpointAddress)["after"])
		hosts := after["haproxy"]
		delete(after, "haproxy")
		after[means] = hosts
		if got := comment(t, d); !strings.Contains(got, want) {
			t.Errorf("%s: the comment lacks %q:\n%.900s", means, want, got)
		}
	}
}

// TestAnnouncementOfReplicas: a replica restarts what announces the endpoint on its machine, and not its API server.
func TestAnnouncementOfReplicas(t *testing.T) {
	vip, bgp := values{"program": "/a", "sha256": "1"}, values{"asn": 1, "hold_time": "3s", "propagation_time": "1s"}
	with := func(object values, key string, value any) values {
		object = maps.Clone(object)
		object[key] = value
		return object
	}
	for name, test := range map[string]struct {
		argument      string
		before, after any
		want          string
	}{
		"kube-vip": {
			"endpoint",
			values{"kube_vip": vip},
			values{"kube_vip": with(vip, "sha256", "2")},
			"registration kube_vip.sha256 (connections may end)",
		},
		"sessions": {"endpoint", values{"bgp": bgp}, values{"bgp": with(bgp, "asn", 2)}, "bgp.asn (connections may end)"},
		"a time": {
			"endpoint", values{"bgp": bgp}, values{"bgp": with(bgp, "propagation_time", "2s")}, "(nothing restarts)",
		},
		"a time of kube-vip": {
			"endpoint",
			values{"bgp": bgp, "kube_vip": vip},
			values{"bgp": with(bgp, "propagation_time", "2s"), "kube_vip": vip},
			"bgp.propagation_time (connections may end)",
		},
		"an external one, and kube-vip": {
			"endpoint",
			values{"kube_vip": vip, "detection_time": "3s"},
			values{"kube_vip": with(vip, "sha256", "2"), "detection_time": "9s"},
			"(restarts only if needed, connections may end)",
		},
		"an additional one": {
			"additional_endpoints",
			[]any{values{"kube_vip": vip}},
			[]any{values{"kube_vip": with(vip, "sha256", "2")}},
			"additional endpoints (restarts only if needed, connections may end)",
		},
		"one more": {
			"additional_endpoints", []any{}, []any{values{"kube_vip": vip}}, "additional endpoints (restarts only if needed)",
		},
	} {
		d := document(t, "nothing")
		updating(t, d, replica1, map[string][2]any{test.argument: {test.before, test.after}})
		got := strings.ReplaceAll(comment(t, d), `\_`, "_")
		want := []string{test.want}
		if strings.Contains(test.want, "may end") {
			want = append(want, "API: what announces the endpoint changes on one machine after the other, and **connections")
		}
		if strings.Contains(test.want, "(connections") {
			want = append(want, "Replicas: no API server restarts. ")
		}
		if i := slices.IndexFunc(want, func(text string) bool { return !strings.Contains(got, text) }); i >= 0 {
			t.Errorf("%s: the comment lacks %q:\n%.1500s", name, want[i], got)
		}
	}
}
