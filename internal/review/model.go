// Package review puts a plan into words for somebody who has to approve it: what
// drifted on which machine, what an apply would do in which order, and what
// stays available meanwhile. It reads the JSON of "terraform show -json" and is
// pure: text in, text out.
//
// A comment is read by more people than a plan. So nothing reaches it but what
// this package asks for by name, of the provider's own resources, and that the
// plan does not mark sensitive; and what comes from machines is shown as code,
// where no forge makes links, pictures or mentions of it.
package review

import "slices"

// Action is what an apply does to one resource.
type Action string

// The actions. A replacement destroys first, unless it says that it creates first.
const (
	Keep        Action = "keep"
	Create      Action = "create"
	Update      Action = "change"
	Delete      Action = "destroy"
	Replace     Action = "replace"
	CreateFirst Action = "replace, the new one first"
	Forget      Action = "forget"
	Import      Action = "import"
)

// Plan is what is to be approved.
type Plan struct {
	Planes    []Plane
	Scores    []Score
	Checks    []Check
	Waiting   []string    // addresses of data sources that are asked in the apply only
	Elsewhere []Elsewhere // changes of what is not this provider's
	Partial   bool        // it leaves something out: -target, or deferred changes
	Errored   bool        // planning failed half-way
}

// Plane is a control plane: what one module describes.
type Plane struct {
	Module    string            // "" for the root module
	Asked     bool              // a kube_control_plane has told of its health
	Unreached map[string]string // why a machine did not answer, by address
	Endpoints []Endpoint
	Members   []Member
	Replicas  []Replica
	Rest      []Resource // bundles, requests, kubeconfigs
}

// Resource is what every resource has.
type Resource struct {
	Address string
	Kind    string // its type
	Name    string // the name that people know it by
	Machine string // address of its machine; "" for what has none
	Action  Action
	Reasons []Reason // why it is updated or replaced
	Drift   []string
	Gone    bool // it was there at the last apply
}

// Reason is one change of a description, in words, and what it does to what runs.
type Reason struct {
	Text   string
	Effect Effect
}

// Effect is what a change does to what runs.
type Effect int

// The effects, from the least.
const (
	None    Effect = iota // nothing on the machine changes that runs
	Reload                // configuration is reloaded, without an interruption
	Repair                // the least that repairs it, which may be a restart
	Restart               // it restarts
)

// Effect is the greatest of its reasons.
func (r Resource) Effect() Effect {
	effect := None
	for _, reason := range r.Reasons {
		effect = max(effect, reason.Effect)
	}
	return effect
}

// changes says whether an apply does anything to it.
func (r Resource) changes() bool { return r.Action != Keep }

// leaves and comes say whether an apply takes it away, or makes it.
func (r Resource) leaves() bool {
	return slices.Contains([]Action{Delete, Replace, CreateFirst}, r.Action)
}

func (r Resource) comes() bool {
	return slices.Contains([]Action{Create, Replace, CreateFirst}, r.Action)
}

// Member is an etcd member.
type Member struct {
	Resource
	Version string // that runs, where that was asked, or else that is wanted
	URL     string
	Leader  bool
	Learner bool
	Healthy *bool  // nil: not known
	Trouble string // why it is not healthy
}

// Replica is a control-plane replica.
type Replica struct {
	Resource
	Version    string
	Endpoint   string   // address of its endpoint
	Etcd       []string // client URLs
	Registered *bool    // nil: not known
	Unhealthy  []string // components that are not healthy, in words
}

// Endpoint is a virtual IP with its balancers.
type Endpoint struct {
	Resource
	Port     int
	Hosts    map[string]string // addresses of its machines, by name
	Asked    bool              // whether what follows is known
	Holder   string
	Backends map[string]string // HAProxy's word by replica
	Impaired bool              // a balancer does not answer, or does not run
}

// Score is what a kube_production_readiness says.
type Score struct {
	Address      string
	Score, Total float64
	Open         []Item // that did not pass, the worst first
}

// Item is one of a kube_production_readiness.
type Item struct {
	Status   string `json:"status"`
	Title    string `json:"title"`
	Evidence string `json:"evidence"`
}

// Check is what a kube_control_plane says.
type Check struct {
	Address string
	Healthy *bool
	Issues  []string
}

// Elsewhere is a change of another provider's resource.
type Elsewhere struct {
	Address string
	Action  Action
}

// Changes says whether an apply would do anything.
func (p Plan) Changes() bool {
	return len(p.Elsewhere) > 0 || slices.ContainsFunc(p.resources(), Resource.changes)
}

// resources are all of the provider's, in no particular order.
func (p Plan) resources() []Resource {
	var all []Resource
	for _, plane := range p.Planes {
		all = append(all, plane.resources()...)
	}
	return all
}

func (p Plane) resources() []Resource {
	all := slices.Clone(p.Rest)
	for _, e := range p.Endpoints {
		all = append(all, e.Resource)
	}
	for _, m := range p.Members {
		all = append(all, m.Resource)
	}
	for _, r := range p.Replicas {
		all = append(all, r.Resource)
	}
	return all
}
