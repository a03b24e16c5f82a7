package review

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// step is one stage of an apply, in Terraform's order: the bundle, removals, the endpoint, members, replicas, replaced
// resources, what only needs these, the removal of the bundle. See "What it is" in DESIGN.md.
type step struct {
	title string
	items []item
}

// item is one resource within a step.
type item struct {
	name string
	text string
}

const bundleKind = "kube_pki_bundle"

// secretKinds are the known types of which nothing runs on a machine.
var secretKinds = []string{
	bundleKind, "kube_certificate_requests", nodeBootstrapKind, "kube_bootstrap_token", drillKind, "kube_kubeconfig",
	"kube_etcd_client_certificate",
}

// runsNowhere reports whether a resource has nothing that could restart.
func (r Resource) runsNowhere() bool {
	return r.Kind != bundleKind && slices.Contains(secretKinds, r.Kind)
}

// steps returns the changes of an apply in order.
func (p ControlPlane) steps() []step {
	var steps []step
	add := func(title string, items []item) {
		if len(items) > 0 {
			steps = append(steps, step{title, items})
		}
	}
	if text := p.restoring(); text != "" {
		steps = append(steps, step{title: text})
	}
	members, replicas := p.members(), p.replicas()
	ofKind := func(kinds ...string) func(Resource) bool {
		return func(r Resource) bool { return slices.Contains(kinds, r.Kind) && r.Action != Delete }
	}
	gone := func(bundle bool) func(Resource) bool {
		return func(r Resource) bool { return r.Action == Delete && (r.Kind == bundleKind) == bundle }
	}
	add("The PKI bundle, from which certificates are issued.", changes(p.Secrets, ofKind(bundleKind)))
	add("Certificates are requested, to be signed elsewhere.", changes(p.Secrets, ofKind("kube_certificate_requests")))
	add("What was issued, or is needed to join, is removed.", changes(p.Secrets, gone(false)))
	first := func(r Resource) bool { return r.Action == Delete || r.Action == Replace }
	add("Replicas are removed: drained, deregistered, stopped.", removals(replicas, first))
	add("Members are removed one at a time, each only if the others keep quorum.", removals(members, first))
	add("The endpoint: "+p.endpointTitle(), changes(p.endpoints(), func(r Resource) bool { return r.Action != Delete }))
	add(p.membersTitle(), p.updates(members))
	add(p.joinTitle(), additions(members))
	add(p.replicasTitle(), p.updates(replicas))
	add("Replicas are added. Each enters rotation when it is ready.", additions(replicas))
	last := func(r Resource) bool { return r.Action == CreateFirst }
	replaced := append(removals(replicas, last), removals(members, last)...)
	add("The replaced replicas and members are removed, replicas first.", replaced)
	add("The endpoint is removed, after its replicas.", removals(p.endpoints(), first))
	add("What workers join with is put into the cluster.", changes(p.Secrets, ofKind(nodeBootstrapKind)))
	add("Bootstrap tokens are made.", changes(p.Secrets, ofKind("kube_bootstrap_token")))
	add("Restore drills run.", changes(p.Secrets, ofKind(drillKind)))
	add("Kubeconfigs are issued. They do not wait for the other steps.", changes(p.Secrets, ofKind("kube_kubeconfig")))
	add("Certificates of etcd's clients are issued. They do not wait for the other steps.",
		changes(p.Secrets, ofKind("kube_etcd_client_certificate")))
	add("Other resources of the provider change.", changes(p.Secrets, func(r Resource) bool {
		return r.Action != Delete && !slices.Contains(secretKinds, r.Kind)
	}))
	add("The PKI bundle is removed last.", changes(p.Secrets, gone(true)))
	add("kube-review does not know what happens to these.", withAction(p.resources(), Unknown))
	add("Only the state changes.", withAction(p.resources(), Import, Forget))
	return steps
}

// leader returns the name of etcd's last observed leader, or "".
func (p ControlPlane) leader() string {
	for _, m := range p.Members {
		if m.Leader && !p.unreachable(m.Resource) {
			return m.Name
		}
	}
	return ""
}

// updates returns the resources that change in place. The leader of etcd is last.
func (p ControlPlane) updates(resources []Resource) []item {
	updated := slices.DeleteFunc(slices.Clone(resources), func(r Resource) bool { return r.Action != Update })
	leader := p.leader()
	slices.SortStableFunc(updated, func(a, b Resource) int {
		rank := func(r Resource) int {
			if r.Kind == "kube_etcd_member" && r.Name == leader && r.Effect() >= Repair {
				return 1
			}
			return 0
		}
		return rank(a) - rank(b)
	})
	var items []item
	for _, r := range updated {
		items = append(items, item{r.Name, updateText(r)})
	}
	return items
}

// updateText describes the reasons for an update and its effect on running components.
func updateText(r Resource) string {
	text := reasonsText(r)
	if text == "" {
		text = "its state"
	}
	if r.runsNowhere() {
		return text
	}
	effect := map[Effect]string{
		None: "nothing restarts", Reload: "reloads, nothing restarts",
		Behind: "the API server does not restart", Repair: "restarts only if needed", Restart: "restarts",
	}[r.Effect()]
	if r.ends() {
		effect = strings.TrimPrefix(effect+", connections may end", "reloads, nothing restarts, ")
	}
	return text + " (" + effect + ")"
}

func reasonsText(r Resource) string {
	var texts []string
	for _, reason := range r.Reasons {
		texts = append(texts, reason.Text)
	}
	return strings.Join(texts, "; ")
}

// withReasons adds the reasons for a replacement. A replacement requested with -replace has no
// other reason.
func withReasons(r Resource, action string) string {
	if text := reasonsText(r); text != "" {
		return action + ": " + text
	}
	return action
}

// eachWaits is the rule for changes of members.
const eachWaits = "The next one waits until all are healthy again."

// restoreTitle is that of all members that a restore starts.
const restoreTitle = "Members: one starts with the restored data as a new cluster, and the others join it."

func (p ControlPlane) membersTitle() string {
	if p.restoring() != "" {
		return restoreTitle
	}
	if greatestEffect(p.members()) == None {
		return "Members: nothing restarts."
	}
	if leader := p.leader(); leader != "" {
		return fmt.Sprintf("Members change one at a time, the leader (%s) last. "+eachWaits, plainName(leader))
	}
	return "Members change one at a time. " + eachWaits
}

func (p ControlPlane) replicasTitle() string {
	switch greatestEffect(p.replicas()) {
	case None:
		return "Replicas: nothing restarts."
	case Reload:
		return "Replicas: no API server restarts. What announces the endpoint changes on one machine after the other, and " +
			"connections may end."
	case Behind:
		return "Replicas change one at a time and stay in rotation: no API server restarts."
	}
	return "Replicas change one at a time. Each leaves rotation for a restart, and the next one waits until it is back."
}

// greatestEffect returns the greatest effect of the in-place updates.
func greatestEffect(resources []Resource) Effect {
	effect := None
	for _, r := range resources {
		if r.Action == Update {
			effect = max(effect, r.Effect())
		}
	}
	return effect
}

func (p ControlPlane) joinTitle() string {
	if p.restoring() != "" {
		return restoreTitle
	}
	for _, m := range p.Members {
		if m.Action != Create && m.Action != Replace {
			return "Members join one at a time, as learners until they have caught up."
		}
	}
	return "Members bootstrap a new cluster together."
}

// endpointTitle describes what happens to the endpoints: a sentence for each way in which they change.
func (p ControlPlane) endpointTitle() string {
	var sentences []string
	for _, e := range p.Endpoints {
		if e.Action.creates() || e.Action == Update {
			sentences = append(sentences, e.title())
		}
	}
	slices.Sort(sentences)
	return strings.Join(slices.Compact(sentences), " ")
}

// Sentences about an endpoint by its means, and with "" if that is not known.
var (
	setUp = map[string]string{
		"":         "it is set up.",
		"haproxy":  "HAProxy and the virtual IP are installed.",
		"external": "nothing is installed: others look after its balancer.",
		"dns":      "nothing is installed: replicas add their records.",
		"bgp":      "nothing is installed: replicas bring bird, which announces the address.",
		"kube_vip": "nothing is installed: replicas bring the agent that runs kube-vip.",
	}
	mayEnd = map[string]string{
		"":        "what serves it changes, and connections may end.",
		"haproxy": "HAProxy and keepalived change on one machine after the other, and connections may end.",
		"bgp":     "BGP sessions start again on one machine after the other, with its replica, and connections may end.",
		"kube_vip": "kube-vip restarts on one machine after the other, with its replica, and connections through it end. " +
			"Clients connect again.",
	}
)

func (e Endpoint) title() string {
	balancers := e.Means == "haproxy" || e.Means == ""
	switch effect := e.Effect(); {
	case e.Action != Update:
		return cmp.Or(setUp[e.Means], setUp[""])
	case e.ends():
		return cmp.Or(mayEnd[e.Means], mayEnd[""])
	case len(e.Drift) > 0 && balancers:
		return "drift on its machines is repaired."
	case len(e.Drift) > 0:
		return "its drift is repaired."
	case effect == None:
		return "nothing restarts."
	case effect == Reload && balancers:
		return "HAProxy reloads its configuration, and no connection is dropped."
	}
	return mayEnd[""]
}

// removals returns the removed resources that which selects.
func removals(resources []Resource, which func(Resource) bool) []item {
	var items []item
	for _, r := range resources {
		switch {
		case !r.Action.destroys() || !which(r):
		case r.Action == Delete:
			items = append(items, item{r.Name, "removed"})
		default:
			items = append(items, item{r.Name, withReasons(r, "replaced")})
		}
	}
	return items
}

// additions returns the created resources.
func additions(resources []Resource) []item {
	var items []item
	for _, r := range resources {
		switch {
		case !r.Action.creates():
		case r.Action == Create:
			items = append(items, item{r.Name, "new"})
		case r.Action.forsakes():
			items = append(items, item{r.Name, "new; the old one stays, and Terraform forgets it"})
		default:
			items = append(items, item{r.Name, "the replacement"})
		}
	}
	return items
}

// changes returns the changed resources of a kind that usually has only one.
func changes(resources []Resource, which func(Resource) bool) []item {
	var items []item
	for _, r := range resources {
		switch {
		case !r.changes() || !which(r) || slices.Contains([]Action{Import, Forget, Unknown}, r.Action):
		case r.Action == Update:
			items = append(items, item{r.Name, updateText(r)})
		default:
			items = append(items, item{r.Name, withReasons(r, string(r.Action))})
		}
	}
	return items
}

// withAction returns the resources with one of these actions, by address.
func withAction(resources []Resource, actions ...Action) []item {
	var items []item
	for _, r := range resources {
		if slices.Contains(actions, r.Action) {
			items = append(items, item{r.Address, string(r.Action)})
		}
	}
	return items
}
