package review

import (
	"fmt"
	"slices"
	"strings"
)

// step is one stage of an apply, in Terraform's order: the bundle, what is removed first, the
// endpoint, members, replicas, what is removed last. See "What it is" in DESIGN.md.
type step struct {
	title string
	items []item
}

// item is one resource within a step.
type item struct {
	name string
	what string
}

// steps returns the changes of an apply in order.
func (p Plane) steps() []step {
	var steps []step
	add := func(title string, items []item) {
		if len(items) > 0 {
			steps = append(steps, step{title, items})
		}
	}
	members, replicas := p.members(), p.replicas()
	secrets := func(r Resource) bool { return r.Kind != "kube_kubeconfig" }
	add("The PKI bundle, from which certificates are issued.", changed(p.Rest, secrets))
	first := func(r Resource) bool { return r.Action == Delete || r.Action == Replace }
	add("Replicas leave: out of rotation, drained, stopped.", leaving(replicas, first))
	add("Members leave, one at a time, each only if the others keep quorum.", leaving(members, first))
	add("The endpoint: "+p.endpointTitle(), changed(p.endpoints(), func(r Resource) bool { return r.Action != Delete }))
	add(p.membersTitle(), p.updates(members))
	add(p.joinTitle(), coming(members))
	add(p.replicasTitle(), p.updates(replicas))
	add("Replicas are added, each in rotation as soon as it is ready.", coming(replicas))
	last := func(r Resource) bool { return r.Action == CreateFirst }
	add("What was replaced leaves: replicas, then members.", append(leaving(replicas, last), leaving(members, last)...))
	add("The endpoint goes, last of all.", leaving(p.endpoints(), first))
	add("Kubeconfigs are issued, without waiting for the rest.", changed(p.Rest, func(r Resource) bool { return !secrets(r) }))
	add("Nothing but the state changes.", stateOnly(p.resources()))
	return steps
}

func (p Plane) members() []Resource {
	var all []Resource
	for _, m := range p.Members {
		all = append(all, m.Resource)
	}
	return all
}

func (p Plane) replicas() []Resource {
	var all []Resource
	for _, r := range p.Replicas {
		all = append(all, r.Resource)
	}
	return all
}

func (p Plane) endpoints() []Resource {
	var all []Resource
	for _, e := range p.Endpoints {
		all = append(all, e.Resource)
	}
	return all
}

// leader returns the name of etcd's last observed leader, or "".
func (p Plane) leader() string {
	for _, m := range p.Members {
		if m.Leader && !p.unreachable(m.Resource) {
			return m.Name
		}
	}
	return ""
}

// updates returns the resources that change in place. The leader of etcd is last.
func (p Plane) updates(resources []Resource) []item {
	updated := slices.DeleteFunc(slices.Clone(resources), func(r Resource) bool { return r.Action != Update })
	leader := p.leader()
	slices.SortStableFunc(updated, func(a, b Resource) int {
		last := func(r Resource) int {
			if r.Kind == "kube_etcd_member" && r.Name == leader && r.Effect() >= Repair {
				return 1
			}
			return 0
		}
		return last(a) - last(b)
	})
	var items []item
	for _, r := range updated {
		items = append(items, item{r.Name, why(r)})
	}
	return items
}

// why describes the reasons for an update and its effect on running components.
func why(r Resource) string {
	text := reasonsIn(r)
	if text == "" {
		text = "what is kept of it in the state"
	}
	does := map[Effect]string{
		None: "nothing restarts", Reload: "a reload, nothing restarts",
		Repair: "restarts only what it must", Restart: "restarts",
	}[r.Effect()]
	return text + " (" + does + ")"
}

func reasonsIn(r Resource) string {
	var texts []string
	for _, reason := range r.Reasons {
		texts = append(texts, reason.Text)
	}
	return strings.Join(texts, "; ")
}

// replaced describes the reasons for a replacement. A replacement requested with -replace has
// no other reason.
func replaced(r Resource, word string) string {
	if text := reasonsIn(r); text != "" {
		return word + ": " + text
	}
	return word
}

func (p Plane) membersTitle() string {
	if loudest(p.members()) == None {
		return "Members: only what is known of them changes."
	}
	if leader := p.leader(); leader != "" {
		return fmt.Sprintf("Members change one at a time, the leader (%s) last; the next one waits until all are healthy again.", plainName(leader))
	}
	return "Members change one at a time; the next one waits until all are healthy again."
}

func (p Plane) replicasTitle() string {
	if loudest(p.replicas()) == None {
		return "Replicas: only what is known of them changes."
	}
	return "Replicas change one at a time; each leaves rotation for what needs a restart, and the next one waits until it is back."
}

// loudest returns the greatest effect of the in-place updates.
func loudest(resources []Resource) Effect {
	effect := None
	for _, r := range resources {
		if r.Action == Update {
			effect = max(effect, r.Effect())
		}
	}
	return effect
}

func (p Plane) joinTitle() string {
	for _, m := range p.Members {
		if m.Action != Create && m.Action != Replace {
			return "Members join one at a time, without a vote until they have caught up."
		}
	}
	return "Members bootstrap a new cluster together."
}

func (p Plane) endpointTitle() string {
	if slices.ContainsFunc(p.endpoints(), func(r Resource) bool { return r.Action == Create || r.Action == Replace }) {
		return "HAProxy and the virtual IP are installed."
	}
	if loudest(p.endpoints()) == Repair {
		return "drift on its machines is repaired."
	}
	return "HAProxy reloads its configuration, and no connection is dropped."
}

func leaving(resources []Resource, which func(Resource) bool) []item {
	var items []item
	for _, r := range resources {
		switch {
		case !r.leaves() || !which(r):
		case r.Action == Delete:
			items = append(items, item{r.Name, "for good"})
		default:
			items = append(items, item{r.Name, replaced(r, "replaced")})
		}
	}
	return items
}

func coming(resources []Resource) []item {
	var items []item
	for _, r := range resources {
		switch {
		case !r.comes():
		case r.Action == Create:
			items = append(items, item{r.Name, "new"})
		default:
			items = append(items, item{r.Name, "in place of the one that is replaced"})
		}
	}
	return items
}

// changed returns the changed resources of a kind that usually has only one.
func changed(resources []Resource, which func(Resource) bool) []item {
	var items []item
	for _, r := range resources {
		switch {
		case !r.changes() || !which(r) || r.Action == Import || r.Action == Forget:
		case r.Action == Update:
			items = append(items, item{r.Name, why(r)})
		default:
			items = append(items, item{r.Name, replaced(r, string(r.Action))})
		}
	}
	return items
}

// stateOnly returns the resources that Terraform only imports or forgets.
func stateOnly(resources []Resource) []item {
	var items []item
	for _, r := range resources {
		if r.Action == Import || r.Action == Forget {
			items = append(items, item{r.Address, string(r.Action)})
		}
	}
	return items
}
