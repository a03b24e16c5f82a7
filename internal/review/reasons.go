package review

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// argument describes a change of an argument and its effect. For a map, the changed keys are
// listed. Values are shown only if shown is set and the values are short.
type argument struct {
	label  string
	effect Effect
	shown  bool
	inert  []string // prefixes of keys whose change has no effect on running components
	behind []string // prefixes of keys whose change restarts only components behind the API server
	ends   ends     // nil: a change ends no connection
}

// inertRegistration are the parts of a registration that no running component uses.
var inertRegistration = []string{
	"hosts.", "drain_timeout", "cluster_id", "kind", "target_port", "probe_from", "zone",
	"hooks", "bgp", "kube_vip",
}

// inertVolume are where a volume is found, and a statement about the machine that had it before.
var inertVolume = []string{"device", "uuid", "fenced"}

// inertMetrics and inertHAProxy are the parts of these arguments that only timers or packages depend on.
var (
	inertMetrics = []string{"textfile_directory"}
	inertHAProxy = []string{"liveness_probe", "install_packages", "metrics.textfile_directory"}
)

// arguments lists the arguments whose changes may be shown, by type and name. The effects are
// those in the descriptions of the schemas. A change of any other argument is shown as "other
// arguments", without its name or value, and counts as a restart.
func arguments(kind string) map[string]argument {
	common := map[string]argument{
		"timeouts":      {label: "timeouts"},
		"early_renewal": {label: "when certificates are renewed"},
		"signed":        {label: "signed certificates", effect: Repair},
		"pki":           {label: "the PKI bundle", effect: Repair},
	}
	maps.Copy(common, argumentsByType[kind])
	return common
}

// computed are attributes that the provider observes or generates. Their change is a
// consequence and never a reason.
var computed = []string{
	"backend", "bundle", "ca_cert_hashes", "ca_certificate", "certificate_expires_at", "client_certificate", "client_key",
	"client_url", "cluster_ca_certificate", "compared", "config_digest", "content", "discovery_file", "drift", "encrypted",
	"etcd_ca_certificate", "expires_at", "fingerprints", "front_proxy_ca_certificate", "id", "join_command", "keys",
	"learner", "machine_id", "objects", "peer_url", "ran_on", "registered", "registration", "requests", "revision",
	"rpo_seconds", "rto_seconds", "saved_at", "sealed_for", "service_account_public_key", "sha256", "size_bytes",
	"snapshot_name", "source", "stages", "steps", "token", "token_id", "tokens_verified", "url",
}

// change is a resource before and after: the raw values, to detect differences, and the values
// that may be shown.
type change struct {
	before, after, unknown      map[string]any
	beforeVisible, afterVisible map[string]any
}

// reasons lists the reasons for which a resource is changed.
func (c change) reasons(kind string, drift []string) []Reason {
	var reasons []Reason
	if len(drift) > 0 {
		reasons = append(reasons, Reason{Text: "drift is repaired", Effect: repairEffect(kind, drift)})
	}
	known := arguments(kind)
	names := slices.Sorted(maps.Keys(c.after))
	for name := range c.unknown {
		names = append(names, name)
	}
	slices.Sort(names)
	observed := c.keepsMachine()
	others := false
	for _, name := range slices.Compact(names) {
		a, ok := known[name]
		if !c.differs(name) || !ok && slices.Contains(computed, name) {
			continue
		}
		if !ok {
			others = true
			continue
		}
		reason := c.reason(name, a)
		if kind == "kube_control_plane_replica" {
			reason.Effect = c.replicaEffect(name, reason.Effect)
		}
		if request, ok := requests[name]; ok {
			reason.Effect = request(c)
		} else if observed {
			reason.Effect, reason.Ends = None, false
		}
		if kind == "kube_etcd_member" && name == "version" && isOlderMinor(c.afterVisible[name], c.beforeVisible[name]) {
			reason.Text += " (the cluster is downgraded)"
		}
		reasons = append(reasons, reason)
	}
	if others {
		reasons = append(reasons, Reason{Text: "other arguments", Effect: unless(observed, Restart)})
	}
	return reasons
}

// keepsMachine reports whether an update changes no machine, apart from requested maintenance: otherwise the provider
// plans the digest of the configuration as known after the apply.
func (c change) keepsMachine() bool {
	digest, there := c.after["config_digest"]
	return there && !anyTrue(c.unknown["config_digest"]) && reflect.DeepEqual(digest, c.before["config_digest"])
}

// requests are the arguments that request something once, with a new value. Other changes of them do nothing.
var requests = map[string]func(change) Effect{
	"maintenance": func(c change) Effect {
		if c.requested("maintenance", "defragment") || c.requested("maintenance", "drain") {
			return Restart
		}
		return None
	},
	"restore": func(c change) Effect { return unless(!c.requested("restore", "id"), Restart) },
}

func unless(nothing bool, effect Effect) Effect {
	if nothing {
		return None
	}
	return effect
}

// requested reports whether a key of an argument has a new value, or may get one.
func (c change) requested(argument, key string) bool {
	mark := c.unknown[argument]
	if keys := attributes(mark); keys != nil {
		mark = keys[key]
	}
	value := attributes(c.after[argument])[key]
	return anyTrue(mark) || value != nil && value != "" && value != attributes(c.before[argument])[key]
}

// isOlderMinor reports whether a version, such as "3.5.35", is of an older minor version than another one.
func isOlderMinor(version, than any) bool {
	minor := func(value any) int {
		var major, minor, patch int
		if _, err := fmt.Sscanf(plain(value), "%d.%d.%d", &major, &minor, &patch); err != nil {
			return -1
		}
		return minor
	}
	is, was := minor(version), minor(than)
	return is >= 0 && is < was
}

func (c change) differs(name string) bool {
	if mark, ok := c.unknown[name]; ok && anyTrue(mark) {
		return true
	}
	return !reflect.DeepEqual(c.before[name], c.after[name])
}

// anyTrue reports whether marks contain a true anywhere.
func anyTrue(marks any) bool {
	switch marks := marks.(type) {
	case bool:
		return marks
	case map[string]any:
		return slices.ContainsFunc(slices.Collect(maps.Values(marks)), anyTrue)
	case []any:
		return slices.ContainsFunc(marks, anyTrue)
	}
	return false
}

// reason describes the change of one argument.
func (c change) reason(name string, a argument) Reason {
	before, after := c.beforeVisible[name], c.afterVisible[name]
	if keys := keysChanged("", before, after, a.shown); len(keys) > 0 {
		reason := Reason{Text: a.label + " " + strings.Join(keys, ", "), Effect: c.effectOf(name, a)}
		for _, key := range keys {
			if a.ends != nil && a.ends(strings.TrimLeft(key, "+−"), attributes(after)) {
				reason.Effect, reason.Ends = max(reason.Effect, Reload), true
			}
		}
		return reason
	}
	reason := Reason{Text: a.label, Effect: a.effect}
	if a.shown && before != nil && after != nil && short(before) && short(after) {
		reason.Text += " " + fromTo(before, after)
	}
	if a.ends != nil && a.ends("", map[string]any{"before": before, "after": after}) {
		reason.Effect, reason.Ends = max(reason.Effect, Reload), true
	}
	return reason
}

// effectOf returns the effect of the changed keys of an argument, also of those that may not be shown.
func (c change) effectOf(name string, a argument) Effect {
	effect := None
	keys := keysChanged("", c.before[name], withUnknown(c.after[name], c.unknown[name]), false)
	for _, key := range keys {
		key = strings.TrimLeft(key, "+−")
		switch {
		case a.ends != nil && a.ends(key, attributes(c.afterVisible[name])):
		case hasPrefix(key, a.inert):
		case hasPrefix(key, a.behind):
			effect = max(effect, Behind)
		default:
			effect = max(effect, a.effect)
		}
	}
	if _, whole := withUnknown(nil, c.unknown[name]).(unknownValue); whole {
		return max(effect, a.effect)
	}
	return effect
}

func hasPrefix(key string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}

func fromTo(before, after any) string { return plain(before) + " → " + plain(after) }

// plain returns a value as JSON, and a string without its quotes.
func plain(value any) string {
	if text, ok := value.(string); ok {
		return text
	}
	text, _ := json.Marshal(value) // it was decoded from JSON
	return string(text)
}

// short reports whether a value is short enough for a sentence. A policy is not.
func short(value any) bool {
	const limit = 60
	text := plain(value)
	return len(text) <= limit && !strings.Contains(text, "\n")
}

// keysChanged lists the keys of maps that were added, removed or changed, with their path. The
// values themselves are listed only if they may be shown.
func keysChanged(path string, before, after any, shown bool) []string {
	old, new := present(before), present(after)
	var keys []string
	for _, name := range slices.Sorted(maps.Keys(merged(old, new))) {
		was, existed := old[name]
		is, exists := new[name]
		show := shown && (!existed || short(was)) && (!exists || short(is))
		switch {
		case reflect.DeepEqual(was, is):
		case nested(was, existed) && nested(is, exists) && len(present(was))+len(present(is)) > 0:
			keys = append(keys, keysChanged(path+name+".", was, is, shown)...)
		case show && existed && exists:
			keys = append(keys, path+name+" "+fromTo(was, is))
		case !existed && show:
			keys = append(keys, "+"+path+name+" "+plain(is))
		case !existed:
			keys = append(keys, "+"+path+name)
		case !exists:
			keys = append(keys, "−"+path+name)
		default:
			keys = append(keys, path+name)
		}
	}
	return keys
}

// present returns the attributes that are not null.
func present(value any) map[string]any {
	out := maps.Clone(attributes(value))
	maps.DeleteFunc(out, func(_ string, v any) bool { return v == nil })
	return out
}

// nested reports whether a value is a map, or absent where the other value is a map.
func nested(value any, exists bool) bool { return !exists || attributes(value) != nil }

func merged(a, b map[string]any) map[string]any {
	both := maps.Clone(a)
	if both == nil {
		both = map[string]any{}
	}
	maps.Copy(both, b)
	return both
}
