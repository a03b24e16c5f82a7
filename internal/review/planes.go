package review

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	tfjson "github.com/hashicorp/terraform-json"
)

// planes are control planes by their module.
type planes map[string]*Plane

func (p planes) at(module string) *Plane {
	if p[module] == nil {
		p[module] = &Plane{Module: module}
	}
	return p[module]
}

// sorted returns the control planes by module, each with its resources by name.
func (p planes) sorted() []Plane {
	var all []Plane
	for _, module := range slices.Sorted(maps.Keys(p)) {
		plane := *p[module]
		slices.SortFunc(plane.Endpoints, func(a, b Endpoint) int { return cmp.Compare(a.Address, b.Address) })
		slices.SortFunc(plane.Members, func(a, b Member) int { return cmp.Compare(a.Name, b.Name) })
		slices.SortFunc(plane.Replicas, func(a, b Replica) int { return cmp.Compare(a.Name, b.Name) })
		slices.SortFunc(plane.Rest, func(a, b Resource) int { return cmp.Compare(a.Address, b.Address) })
		all = append(all, plane)
	}
	return all
}

// gone records that a resource existed at the last apply and no longer exists.
func (p planes) gone(r *tfjson.ResourceChange) {
	if !ours(r) {
		return
	}
	for _, plane := range p {
		mark := func(known *Resource) {
			if known.Address == r.Address {
				known.Gone = true
			}
		}
		for i := range plane.Endpoints {
			mark(&plane.Endpoints[i].Resource)
		}
		for i := range plane.Members {
			mark(&plane.Members[i].Resource)
		}
		for i := range plane.Replicas {
			mark(&plane.Replicas[i].Resource)
		}
		for i := range plane.Rest {
			mark(&plane.Rest[i])
		}
	}
}

// add adds one of the provider's resources.
func (p planes) add(r *tfjson.ResourceChange, action Action) error {
	plane := p.at(r.ModuleAddress)
	value, marks := r.Change.Before, r.Change.BeforeSensitive
	if value == nil {
		value, marks = r.Change.After, r.Change.AfterSensitive
	}
	own, err := decode[struct {
		Name    string `json:"name"`
		Cluster string `json:"cluster_name"`
		User    string `json:"user"`
		Address string `json:"address"`
		Host    struct {
			Address string `json:"address"`
		} `json:"host"`
		Drift []string `json:"drift"`
	}](r.Address, value, marks)
	if err != nil {
		return err
	}
	resource := Resource{Address: r.Address, Kind: r.Type, Machine: own.Host.Address, Action: action, Drift: own.Drift}
	resource.Name = cmp.Or(own.Name, own.Cluster, own.User, own.Address, label(r))
	if action == Update || resource.leaves() && resource.comes() {
		c := change{
			before: attributes(r.Change.Before), after: attributes(r.Change.After), unknown: attributes(r.Change.AfterUnknown),
			beforeVisible: attributes(visible(r.Change.Before, r.Change.BeforeSensitive)),
			afterVisible:  attributes(visible(r.Change.After, r.Change.AfterSensitive)),
		}
		resource.Reasons = c.reasons(r.Type, len(own.Drift) > 0)
	}
	switch r.Type {
	case "kube_etcd_member":
		err = plane.addMember(resource, value, marks)
	case "kube_control_plane_replica":
		err = plane.addReplica(resource, value, marks)
	case "kube_control_plane_endpoint":
		err = plane.addEndpoint(resource, value, marks)
	default:
		plane.Rest = append(plane.Rest, resource)
	}
	return err
}

// label returns a resource's name if its values contain none.
func label(r *tfjson.ResourceChange) string {
	if key, ok := r.Index.(string); ok {
		return key
	}
	return r.Address[strings.LastIndex(r.Address, ".")+1:]
}

func (p *Plane) addMember(resource Resource, value, marks any) error {
	found, err := decode[struct {
		Version string `json:"version"`
		URL     string `json:"client_url"`
		Learner bool   `json:"learner"`
	}](resource.Address, value, marks)
	if err != nil {
		return err
	}
	p.Members = append(p.Members, Member{
		Resource: resource, Version: found.Version, URL: found.URL, Learner: found.Learner,
	})
	return nil
}

func (p *Plane) addReplica(resource Resource, value, marks any) error {
	found, err := decode[struct {
		Version    string   `json:"version"`
		Registered *bool    `json:"registered"`
		Etcd       []string `json:"etcd"`
		Endpoint   struct {
			Address string `json:"address"`
		} `json:"endpoint"`
	}](resource.Address, value, marks)
	if err != nil {
		return err
	}
	p.Replicas = append(p.Replicas, Replica{
		Resource: resource, Version: found.Version, Etcd: found.Etcd,
		Endpoint: found.Endpoint.Address, Registered: found.Registered,
	})
	return nil
}

func (p *Plane) addEndpoint(resource Resource, value, marks any) error {
	found, err := decode[struct {
		Port    int `json:"port"`
		HAProxy struct {
			Hosts map[string]string `json:"hosts"`
		} `json:"haproxy"`
	}](resource.Address, value, marks)
	if err != nil {
		return err
	}
	p.Endpoints = append(p.Endpoints, Endpoint{Resource: resource, Port: found.Port, Hosts: found.HAProxy.Hosts})
	return nil
}
