package review

import (
	"reflect"
	"slices"
	"strings"
)

// ends reports whether the change of a key of an argument may end clients' connections to the endpoint. values is the
// argument after the change. The key is "" for an argument whose keys are not known: values then has "before" and
// "after".
type ends func(key string, values map[string]any) bool

// endsHAProxy: the address moves, or keepalived restarts.
func endsHAProxy(key string, values map[string]any) bool {
	switch key {
	case "", "vrrp", "virtual_router_id":
		return true
	case "hand_over":
		return slices.Contains([]any{"take", "release"}, values["hand_over"])
	}
	return false
}

// endsBGP: sessions start again.
func endsBGP(key string, _ map[string]any) bool {
	return slices.Contains([]string{"", "asn", "peers", "hold_time"}, key)
}

// endsKubeVIP: kube-vip restarts.
func endsKubeVIP(key string, _ map[string]any) bool { return !strings.HasPrefix(key, "targets") }

// endsRegistration: a replica changes what announces the endpoint on its machine.
func endsRegistration(key string, values map[string]any) bool {
	argument, part, _ := strings.Cut(key, ".")
	switch {
	case argument == "kube_vip":
		return true
	case argument != "bgp":
		return false
	case values["kube_vip"] != nil:
		return part != "bfd_interval" && part != "install_packages"
	}
	return part == "" || endsBGP(part, nil)
}

// endsRegistrations is the same for a list. Registrations that are added or removed end nothing at the others.
func endsRegistrations(_ string, values map[string]any) bool {
	before, _ := values["before"].([]any)
	after, _ := values["after"].([]any)
	announcement := func(registration any) []any {
		return []any{attributes(registration)["kube_vip"], attributes(registration)["bgp"]}
	}
	return len(before) == len(after) && !slices.EqualFunc(before, after, func(was, is any) bool {
		return reflect.DeepEqual(announcement(was), announcement(is))
	})
}
