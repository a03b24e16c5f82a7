package review

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// argument describes a change of an argument and its effect. For a map, the changed keys are
// listed. Values are shown only if told is set and they are short.
type argument struct {
	words  string
	effect Effect
	told   bool
	quiet  []string // prefixes of keys whose change has no effect on running components
}

// arguments lists the arguments whose changes may be shown, by type and name. The effects are
// those in the descriptions of the schemas. A change of any other argument is shown as "other
// arguments", without its name or value, and counts as a restart.
func arguments(kind string) map[string]argument {
	common := map[string]argument{
		"timeouts":      {words: "timeouts"},
		"early_renewal": {words: "when certificates are renewed"},
		"signed":        {words: "signed certificates", effect: Repair},
		"pki":           {words: "the PKI bundle", effect: Repair},
	}
	maps.Copy(common, map[string]map[string]argument{
		"kube_etcd_member": {
			"version":                {words: "version", effect: Restart, told: true},
			"extra_args":             {words: "flags", effect: Restart},
			"peers":                  {words: "peers"},
			"data_dir":               {words: "directory of its data", effect: Restart},
			"host":                   {words: "machine", effect: Restart, told: true},
			"on_destroy":             {words: "what becomes of its data", told: true},
			"upgrade_snapshots_kept": {words: "how many snapshots of upgrades stay"},
			"archives_kept":          {words: "how many archives of its data stay"},
			"snapshots":              {words: "scheduled snapshots"},
			"resources":              {words: "limits", effect: Restart, told: true},
			"name":                   {words: "name", effect: Restart, told: true},
		},
		"kube_control_plane_replica": {
			"version":              {words: "version", effect: Restart, told: true},
			"extra_args":           {words: "flags", effect: Restart},
			"etcd":                 {words: "its etcd", effect: Restart},
			"host":                 {words: "machine", effect: Restart, told: true},
			"port":                 {words: "port", effect: Restart, told: true},
			"pod_cidrs":            {words: "address ranges of pods", effect: Restart},
			"service_cidrs":        {words: "address ranges of services", effect: Restart},
			"cluster_domain":       {words: "cluster domain", effect: Restart},
			"extra_sans":           {words: "names of the API server's certificate"},
			"audit":                {words: "audit log", effect: Restart, told: true},
			"admin_conf":           {words: "admin.conf", told: true},
			"authentication":       {words: "authentication", effect: Restart},
			"resources":            {words: "limits", effect: Restart, told: true},
			"name":                 {words: "name", effect: Restart, told: true},
			"supplementary_groups": {words: "groups of the API server", effect: Restart, told: true},
			"endpoint":             {words: "the endpoint's registration", effect: Repair, quiet: []string{"hosts.", "drain_timeout", "cluster_id"}},
		},
		"kube_control_plane_endpoint": {
			"address":        {words: "virtual IP", effect: Restart, told: true},
			"haproxy":        {words: "balancers", effect: Reload},
			"port":           {words: "port", effect: Reload, told: true},
			"ca_certificate": {words: "authority that health checks verify", effect: Reload},
			"drain_timeout":  {words: "drain timeout"},
			"pki":            {words: "the PKI bundle"},
		},
		"kube_pki_bundle": {
			"cluster_name":        {words: "cluster name", effect: Repair, told: true},
			"rotation":            {words: "rotation", effect: Repair, told: true},
			"encryption":          {words: "encryption at rest", effect: Repair},
			"key_algorithm":       {words: "algorithm of new keys"},
			"deletion_protection": {words: "whether the cluster may be destroyed"},
			"ca_validity":         {words: "life of new authorities"},
			"sealed_for":          {words: "for whom private keys are sealed"},
			"ca":                  {words: "Kubernetes authority", effect: Repair},
			"etcd_ca":             {words: "etcd authority", effect: Repair},
			"front_proxy_ca":      {words: "front-proxy authority", effect: Repair},
			"service_account":     {words: "service-account key", effect: Repair},
		},
		"kube_kubeconfig": {
			"server":   {words: "server", told: true},
			"user":     {words: "user", told: true},
			"groups":   {words: "groups", told: true},
			"validity": {words: "validity", told: true},
		},
		"kube_certificate_requests": {
			"etcd_member": {words: "member"},
			"replica":     {words: "replica"},
			"user":        {words: "user"},
		},
	}[kind])
	return common
}

// found are attributes that the provider observes or generates. Their change is a consequence
// and never a reason.
var found = []string{
	"bundle", "ca_certificate", "certificate_expires_at", "client_certificate", "client_key", "client_url",
	"cluster_ca_certificate", "config_digest", "content", "drift", "etcd_ca_certificate", "expires_at",
	"fingerprints", "front_proxy_ca_certificate", "id", "keys", "learner", "machine_id",
	"peer_url", "registered", "registration", "requests", "sealed_for", "service_account_public_key", "stages",
	"url",
}

// change is a resource before and after: the raw values, to detect differences, and the values
// that may be shown.
type change struct {
	before, after, unknown      map[string]any
	beforeVisible, afterVisible map[string]any
}

// reasons lists the reasons for which a resource is changed.
func (c change) reasons(kind string, drifted bool) []Reason {
	var reasons []Reason
	if drifted {
		reasons = append(reasons, Reason{"drift is repaired", Repair})
	}
	known := arguments(kind)
	names := slices.Sorted(maps.Keys(c.after))
	for name := range c.unknown {
		names = append(names, name)
	}
	slices.Sort(names)
	others := false
	for _, name := range slices.Compact(names) {
		a, ok := known[name]
		if !c.differs(name) || !ok && slices.Contains(found, name) {
			continue
		}
		if !ok {
			others = true
			continue
		}
		reasons = append(reasons, c.reason(name, a))
	}
	if others {
		reasons = append(reasons, Reason{"other arguments", Restart})
	}
	return reasons
}

func (c change) differs(name string) bool {
	if mark, ok := c.unknown[name]; ok && holds(mark) {
		return true
	}
	return !reflect.DeepEqual(c.before[name], c.after[name])
}

// holds reports whether marks contain a true anywhere.
func holds(marks any) bool {
	switch marks := marks.(type) {
	case bool:
		return marks
	case map[string]any:
		return slices.ContainsFunc(slices.Collect(maps.Values(marks)), holds)
	case []any:
		return slices.ContainsFunc(marks, holds)
	}
	return false
}

// reason describes the change of one argument.
func (c change) reason(name string, a argument) Reason {
	before, after := c.beforeVisible[name], c.afterVisible[name]
	if keys := keysChanged("", before, after, a.told); len(keys) > 0 {
		loud := func(key string) bool {
			return !slices.ContainsFunc(a.quiet, func(quiet string) bool { return strings.HasPrefix(strings.TrimLeft(key, "+−"), quiet) })
		}
		if len(a.quiet) > 0 && !slices.ContainsFunc(keys, loud) {
			a.effect = None
		}
		return Reason{a.words + " " + strings.Join(keys, ", "), a.effect}
	}
	if a.told && before != nil && after != nil && short(before) && short(after) {
		return Reason{a.words + " " + fromTo(before, after), a.effect}
	}
	return Reason{a.words, a.effect}
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
	const most = 60
	text := plain(value)
	return len(text) <= most && !strings.Contains(text, "\n")
}

// keysChanged lists the keys of maps that were added, removed or changed, with their path. The
// values themselves are listed only if they may be shown.
func keysChanged(way string, before, after any, told bool) []string {
	old, new := attributes(before), attributes(after)
	var keys []string
	for _, name := range slices.Sorted(maps.Keys(merged(old, new))) {
		was, wasThere := old[name]
		is, isThere := new[name]
		tell := told && (!wasThere || short(was)) && (!isThere || short(is))
		switch {
		case reflect.DeepEqual(was, is):
		case nested(was, wasThere) && nested(is, isThere) && len(attributes(was))+len(attributes(is)) > 0:
			keys = append(keys, keysChanged(way+name+".", was, is, told)...)
		case tell && wasThere && isThere:
			keys = append(keys, way+name+" "+fromTo(was, is))
		case !wasThere && tell:
			keys = append(keys, "+"+way+name+" "+plain(is))
		case !wasThere:
			keys = append(keys, "+"+way+name)
		case !isThere:
			keys = append(keys, "−"+way+name)
		default:
			keys = append(keys, way+name)
		}
	}
	return keys
}

// nested reports whether a value is a map, or absent where the other value is a map.
func nested(value any, there bool) bool { return !there || attributes(value) != nil }

func merged(a, b map[string]any) map[string]any {
	both := maps.Clone(a)
	if both == nil {
		both = map[string]any{}
	}
	maps.Copy(both, b)
	return both
}
