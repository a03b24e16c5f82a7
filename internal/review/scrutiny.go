package review

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
)

// scrutiny is what a verdict needs from a plan: the changes that are renewals and repairs, and
// the objections to everything else. It is taken from the values of the plan itself, before they
// are selected for readers, and is never handed on.
type scrutiny struct {
	done       bool // false for a reduced plan, which lacks the values
	obscure    bool // a part of the plan is not understood, so that the rest says little
	objections []string
	changes    []scrutinized
}

// scrutinized is an update that is a renewal, a repair or a drill. A kubeconfig is renewed, and a drill
// runs, at its time.
type scrutinized struct {
	address  string
	kind     string // its type
	class    Class
	machines []string
	due      time.Time // zero: its drift says that it is
}

// planKeys are the known parts of a plan (terraform's internal/command/jsonplan). An unknown
// part may be something that an apply does.
var planKeys = []string{
	"format_version", "terraform_version", "variables", "planned_values", "resource_drift", "resource_changes",
	"deferred_changes", "output_changes", "prior_state", "configuration", "relevant_attributes", "checks", "timestamp",
	"applyable", "complete", "errored",
}

// planChange is a change in a plan, with every field that Terraform and OpenTofu write. One with
// another field cannot be judged.
type planChange struct {
	Actions         []string `json:"actions"`
	Before          any      `json:"before"`
	After           any      `json:"after"`
	AfterUnknown    any      `json:"after_unknown"`
	BeforeSensitive any      `json:"before_sensitive"`
	AfterSensitive  any      `json:"after_sensitive"`
	ReplacePaths    any      `json:"replace_paths"`
	Importing       any      `json:"importing"`
	GeneratedConfig string   `json:"generated_config"`
	BeforeIdentity  any      `json:"before_identity"`
	AfterIdentity   any      `json:"after_identity"`
}

type planResource struct {
	Address         string     `json:"address"`
	PreviousAddress string     `json:"previous_address"`
	ModuleAddress   string     `json:"module_address"`
	Mode            string     `json:"mode"`
	Type            string     `json:"type"`
	Name            string     `json:"name"`
	Index           any        `json:"index"`
	ProviderName    string     `json:"provider_name"`
	Deposed         string     `json:"deposed"`
	ActionReason    string     `json:"action_reason"`
	Change          planChange `json:"change"`
}

// wholePlan is the subject of an objection that is about no resource.
const wholePlan = "the plan"

// scrutinize reads a plan without trusting anything in it that it does not know.
func scrutinize(text []byte) scrutiny {
	s := scrutiny{done: true}
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(text, &parts); err != nil {
		s.object(wholePlan, "cannot be read")
		s.obscure = true
		return s
	}
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		if !slices.Contains(planKeys, name) {
			s.object(wholePlan, "has a part that kube-review does not know: "+code(name))
			s.obscure = s.obscure || name != "action_invocations" // it adds to the changes, and changes none of them
		}
	}
	var (
		changes, drift []planResource
		outputs        map[string]planChange
		deferred       []any
	)
	s.read(parts, "resource_changes", &changes)
	s.read(parts, "resource_drift", &drift)
	s.read(parts, "output_changes", &outputs)
	s.read(parts, "deferred_changes", &deferred)
	if len(deferred) > 0 {
		s.object(wholePlan, "defers changes")
	}
	for _, r := range changes {
		s.resource(r)
	}
	for _, r := range drift {
		s.drift(r)
	}
	for _, name := range slices.Sorted(maps.Keys(outputs)) {
		s.output(name, outputs[name])
	}
	return s
}

// read decodes a part of a plan strictly. Numbers keep all their digits.
func (s *scrutiny) read(parts map[string]json.RawMessage, name string, into any) {
	if parts[name] == nil {
		return
	}
	decoder := json.NewDecoder(bytes.NewReader(parts[name]))
	decoder.UseNumber()
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		s.object(wholePlan, "has "+code(name)+" that kube-review does not understand")
		s.obscure = true
	}
}

// object records why a person has to decide.
func (s *scrutiny) object(subject, reason string) {
	s.objections = append(s.objections, subject+": "+reason)
}

// resource judges the change of one resource.
func (s *scrutiny) resource(r planResource) {
	name, actions := code(r.Address), strings.Join(r.Change.Actions, ", ")
	switch {
	case r.PreviousAddress != "" && r.PreviousAddress != r.Address:
		s.object(name, "is moved from "+code(r.PreviousAddress))
	case r.Change.Importing != nil:
		s.object(name, "is imported")
	case r.Deposed != "":
		s.object(name, "has a deposed object")
	case actions == "no-op":
	case r.Mode == "data" && actions == "read" && isSource(r.Type, r.ProviderName):
	case r.Mode != "managed" || !r.own():
		s.object(name, "is of another provider or kind, and the plan has the action "+code(actions))
	case actions != "update":
		s.object(name, "the action is "+code(actions))
	case r.Change.ReplacePaths != nil:
		s.object(name, "has arguments whose change replaces it")
	case r.Type == "kube_kubeconfig" || r.Type == "kube_etcd_client_certificate":
		s.kubeconfig(r)
	case r.Type == drillKind:
		s.drill(r)
	case consequences[r.Type] != nil:
		s.update(r)
	default:
		s.object(name, "changes")
	}
}

func (r planResource) own() bool {
	return strings.HasPrefix(r.Type, "kube_") && strings.HasSuffix(r.ProviderName, "/kubequorum/kube")
}

// consequences are the attributes that a renewal or a repair changes: known after the apply.
// Everything else is an argument, or an identity: the ID of a member that would join again, the
// ID of a rebuilt machine, a learner that would be promoted.
var consequences = map[string][]string{
	"kube_etcd_member":            {"config_digest", "certificate_expires_at"},
	"kube_control_plane_replica":  {"config_digest", "certificate_expires_at", "registered"},
	"kube_control_plane_endpoint": {"config_digest"},
	"kube_kubeconfig": {
		"id", "content", "cluster_ca_certificate", "client_certificate", "client_key", "expires_at",
	},
	"kube_etcd_client_certificate": {"id", "ca_certificate", "client_certificate", "client_key", "expires_at"},
	// Its objects are applied again, and nothing is determined by that.
	nodeBootstrapKind: {},
	drillKind: {
		"id", "ran_on", "completed_at", "rto_seconds", "rpo_seconds", "steps", "source", "snapshot_name", "saved_at",
		"size_bytes", "revision", "sha256", "objects", "compared", "tokens_verified", "encrypted",
	},
}

// Types of resources without a machine of their own.
const (
	nodeBootstrapKind = "kube_node_bootstrap"
	drillKind         = "kube_etcd_restore_drill"
)

// update judges an update on machines. Only its values before and after decide whether it
// changes an argument. The text of the drift comes from machines in part, and only tells a
// renewal from a repair.
func (s *scrutiny) update(r planResource) {
	before, after := attributes(r.Change.Before), attributes(r.Change.After)
	changed := s.arguments(r, "drift")
	drift, ok := texts(before["drift"])
	planned, noDrift := texts(after["drift"])
	switch {
	case changed:
	case !ok || len(drift) == 0:
		s.object(code(r.Address), "changes without drift")
	case !noDrift || len(planned) > 0 || anyTrue(attributes(r.Change.AfterUnknown)["drift"]):
		s.object(code(r.Address), "an apply would not repair its drift")
	default:
		s.changes = append(s.changes, scrutinized{
			address: r.Address, kind: r.Type, class: driftClass(before, drift), machines: driftMachines(r.Type, before, drift),
		})
	}
}

// arguments objects to every attribute that changes and is no consequence of a renewal or a
// repair. It reports whether there is one.
func (s *scrutiny) arguments(r planResource, but ...string) bool {
	before, after := attributes(r.Change.Before), attributes(r.Change.After)
	unknown := attributes(r.Change.AfterUnknown)
	if before == nil || after == nil || unknown == nil && r.Change.AfterUnknown != nil {
		s.object(code(r.Address), "its values cannot be read")
		return true
	}
	changed := false
	for _, name := range slices.Sorted(maps.Keys(merged(merged(before, after), unknown))) {
		later := anyTrue(unknown[name])
		switch {
		case slices.Contains(but, name):
		case later && slices.Contains(consequences[r.Type], name):
		case later, !reflect.DeepEqual(before[name], after[name]):
			s.object(code(r.Address), code(name)+" changes")
			changed = true
		}
	}
	return changed
}

// drift judges what the refresh has changed in the state. Machines may change what is observed.
// An argument that follows a machine would hide a change from the plan.
func (s *scrutiny) drift(r planResource) {
	if !r.own() || strings.Join(r.Change.Actions, "") == "no-op" {
		return
	}
	observed := append([]string{"drift", "learner", "registered"}, consequences[r.Type]...)
	before, after := attributes(r.Change.Before), attributes(r.Change.After)
	if before == nil || after == nil {
		s.object(code(r.Address), "no longer exists")
		return
	}
	for _, name := range slices.Sorted(maps.Keys(merged(before, after))) {
		if !slices.Contains(observed, name) && !reflect.DeepEqual(before[name], after[name]) {
			s.object(code(r.Address), code(name)+" has changed outside of Terraform")
		}
	}
}

// texts returns a list of texts, and whether it is one.
func texts(value any) ([]string, bool) {
	list, ok := value.([]any)
	var all []string
	for _, element := range list {
		text, isText := element.(string)
		ok = ok && isText
		all = append(all, text)
	}
	return all, ok
}

// due matches the whole entry for a certificate whose time has come (pki.Bundle.Renewal). No
// character in it quotes: text that a machine provides stands within the provider's own words.
var due = regexp.MustCompile(`^([A-Za-z0-9._-]+)(?: \([0-9A-Fa-f.:]+\))?: (?:/[A-Za-z0-9._/-]+: )?` +
	`[A-Za-z0-9._:/@-]+ certificate expires on [0-9]{4}-[0-9]{2}-[0-9]{2}: it is due for renewal$`)

// restarting matches the entries for certificates that a program reads only when it starts: the proxy server of
// Konnectivity, which restarts together with the API server, and kube-vip.
var restarting = regexp.MustCompile(`: (?:/etc/kubernetes/(?:kube-konnectivity-server|kube-vip-endpoint)\.conf: |` +
	`kube-konnectivity-server certificate )`)

// driftClass tells a renewal from a repair. A renewal restarts nothing that serves.
func driftClass(values map[string]any, drift []string) Class {
	for _, text := range drift {
		if match := due.FindStringSubmatch(text); match == nil || match[1] != values["name"] ||
			restarting.MatchString(text) {
			return ClassRepair
		}
	}
	return ClassRenewal
}

// driftMachines returns the machines that an update may change: the resource's own, or those of
// an endpoint that its drift names. What workers join with are objects of the API, on no machine.
func driftMachines(kind string, values map[string]any, drift []string) []string {
	switch kind {
	case nodeBootstrapKind:
		return nil
	case "kube_control_plane_endpoint":
	default:
		return []string{fmt.Sprint(attributes(values["host"])["address"])}
	}
	hosts := map[string]any{}
	for _, list := range [][2]string{
		{"haproxy", "hosts"}, {"external", "targets"}, {"dns", "targets"}, {"bgp", "targets"}, {"kube_vip", "targets"},
	} {
		maps.Copy(hosts, attributes(attributes(values[list[0]])[list[1]]))
	}
	var machines []string
	for _, name := range driftHosts(hosts, drift) {
		machines = append(machines, fmt.Sprint(hosts[name]))
	}
	return machines
}

// driftHosts returns the names of the hosts that the drift of an endpoint names. If an entry names none of them, it may
// be any.
func driftHosts[T any](hosts map[string]T, drift []string) []string {
	var some []string
	for _, text := range drift {
		match := driftEntry.FindStringSubmatch(text)
		if match == nil {
			match = []string{"", ""}
		}
		if _, ok := hosts[match[1]]; !ok {
			return slices.Sorted(maps.Keys(hosts))
		}
		some = append(some, match[1])
	}
	return distinct(some)
}
