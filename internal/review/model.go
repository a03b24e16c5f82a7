// Package review summarizes plans for a reviewer: what drifted on which machine, what an apply
// would do in which order, and what stays available meanwhile. It reads the JSON of "terraform
// show -json", and writes Markdown for a comment or JSON for other programs. It is pure: text
// in, text out.
//
// A comment has more readers than a plan. So it contains only values that this package selects
// by name, that belong to the provider's own resources, and that the plan does not mark as
// sensitive. Text from machines is shown as code, in which no forge renders links, pictures or
// mentions.
package review

import (
	"slices"
	"time"
)

// Action is what an apply does to one resource.
type Action string

// The actions. Replace destroys first. CreateFirst creates the replacement first. ForgetFirst and ForgetLast create
// one too, and destroy nothing: the old object stays, and Terraform does not know it any more.
const (
	Keep        Action = "keep"
	Create      Action = "create"
	Update      Action = "change"
	Delete      Action = "destroy"
	Replace     Action = "replace"
	CreateFirst Action = "replace, the new one first"
	Forget      Action = "forget"
	Import      Action = "import"
	ForgetFirst Action = "replace, the old one stays"
	ForgetLast  Action = "replace, the new one first; the old one stays"
	Unknown     Action = "unknown action"
)

// destroys reports whether the action destroys an object that exists.
func (a Action) destroys() bool {
	return slices.Contains([]Action{Delete, Replace, CreateFirst}, a)
}

// creates reports whether the action creates an object.
func (a Action) creates() bool {
	return a.forsakes() || slices.Contains([]Action{Create, Replace, CreateFirst}, a)
}

// forsakes reports whether the action creates an object, and forgets the one that exists.
func (a Action) forsakes() bool { return a == ForgetFirst || a == ForgetLast }

// Plan is the plan under review.
type Plan struct {
	ControlPlanes []ControlPlane
	Scores        []Score
	HealthChecks  []HealthCheck
	Deferred      []string        // addresses of data sources that are read during the apply
	Others        []OtherResource // changes of other providers' resources
	Invoked       []string        // addresses of actions that the apply invokes, of all providers
	Partial       bool            // the plan is incomplete: -target, or deferred changes
	Errored       bool            // planning failed
	Time          time.Time       // when it was made; zero if it does not say

	scrutiny scrutiny // for a verdict; see Judge
}

// ControlPlane is what one module describes: usually one control plane.
type ControlPlane struct {
	Module      string            // "" for the root module
	HealthKnown bool              // a kube_control_plane reported its health
	Unreached   map[string]string // why a machine did not answer, by address
	Endpoints   []Endpoint
	Members     []Member
	Replicas    []Replica
	Secrets     []Resource // those of which nothing runs on a machine: bundles, kubeconfigs, drills
}

// Resource has the fields that all resources share.
type Resource struct {
	Address string
	Kind    string // its type
	Name    string // its display name
	Machine string // address of its machine; "" if it has none
	Action  Action
	Reasons []Reason // why it is updated or replaced
	Drift   []string
	Missing bool // it existed at the last apply, and does not exist now
	Group   int  // of a member or replica: the number of its etcd cluster or endpoint in the plan; 0: not known

	module string // of its control plane; see Plan.whole
}

// Reason is one changed argument, as text, and the effect of the change on running components.
type Reason struct {
	Text   string
	Effect Effect
	Ends   bool // clients' connections to the endpoint may end
}

// Effect is the effect of a change on running components.
type Effect int

// The effects, in ascending order.
const (
	None    Effect = iota // no running component changes
	Reload                // configuration is reloaded without an interruption
	Behind                // a component behind the API server restarts, which stays in rotation
	Repair                // the smallest change that repairs it, which may be a restart
	Restart               // it restarts
)

// Effect returns the greatest effect of the resource's reasons.
func (r Resource) Effect() Effect {
	effect := None
	for _, reason := range r.Reasons {
		effect = max(effect, reason.Effect)
	}
	return effect
}

// ends reports whether an update may end clients' connections to the endpoint.
func (r Resource) ends() bool {
	return r.Action == Update && slices.ContainsFunc(r.Reasons, func(reason Reason) bool { return reason.Ends })
}

// changes reports whether an apply changes the resource.
func (r Resource) changes() bool { return r.Action != Keep }

// Member is an etcd member. Its status is what a kube_control_plane observed, or what the plan
// contains if there is none.
type Member struct {
	Resource
	MemberStatus
	URL      string
	Restore  Restore // that its arguments request
	Restored string  // ID of the restore in the state before
	Others   int     // how many machines in the peers of its cluster have no member in the plan

	peers map[string]string // addresses of the machines of its cluster, by member; for a verdict
}

// Replica is a control-plane replica.
type Replica struct {
	Resource
	Version     string
	Endpoint    string   // address of its endpoint
	Etcd        []string // client URLs
	Registered  *bool    // nil: not known
	HealthKnown bool     // a kube_control_plane observed it
	Unhealthy   []string // unhealthy components, as text

	endpointPort int    // for a verdict
	cluster      string // ID of the endpoint's cluster, for a verdict; "" if the endpoint has none
	next         behind // its endpoint after the apply
}

// Endpoint is a virtual IP with its balancers.
type Endpoint struct {
	Resource
	Port        int
	Means       string            // the argument that says how it is reached, such as "haproxy"; "" if it is not known
	Hosts       map[string]string // addresses of its machines, by name
	HealthKnown bool              // whether the following fields are known
	Holder      string
	Backends    map[string]string // HAProxy's status by replica
	Working     map[string]bool   // whether HAProxy and keepalived run on a host, by its name
}

// Score is the result of a kube_production_readiness.
type Score struct {
	Address      string
	Score, Total float64
	Open         []Item // items that did not pass, the worst first
}

// Item is one item of a kube_production_readiness.
type Item struct {
	Status   string `json:"status"`
	Title    string `json:"title"`
	Evidence string `json:"evidence"`
	Accepted bool   `json:"accepted,omitempty"`
}

// HealthCheck is the result of a kube_control_plane.
type HealthCheck struct {
	Address string
	Healthy *bool
	Issues  []string
}

// OtherResource is a change of another provider's resource.
type OtherResource struct {
	Address string
	Action  Action
}

// resources returns all of the provider's resources, in no particular order.
func (p Plan) resources() []Resource {
	var all []Resource
	for _, plane := range p.ControlPlanes {
		all = append(all, plane.resources()...)
	}
	return all
}

func (p ControlPlane) resources() []Resource {
	return slices.Concat(p.Secrets, p.endpoints(), p.members(), p.replicas())
}

func (p ControlPlane) members() []Resource {
	var all []Resource
	for _, m := range p.Members {
		all = append(all, m.Resource)
	}
	return all
}

func (p ControlPlane) replicas() []Resource {
	var all []Resource
	for _, r := range p.Replicas {
		all = append(all, r.Resource)
	}
	return all
}

func (p ControlPlane) endpoints() []Resource {
	var all []Resource
	for _, e := range p.Endpoints {
		all = append(all, e.Resource)
	}
	return all
}
