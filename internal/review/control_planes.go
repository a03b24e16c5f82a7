package review

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	tfjson "github.com/hashicorp/terraform-json"
)

// controlPlanes are control planes by their module.
type controlPlanes map[string]*ControlPlane

func (p controlPlanes) at(module string) *ControlPlane {
	if p[module] == nil {
		p[module] = &ControlPlane{Module: module}
	}
	return p[module]
}

// sorted returns the control planes by module, each with its resources by name.
func (p controlPlanes) sorted() []ControlPlane {
	var all []ControlPlane
	for _, module := range slices.Sorted(maps.Keys(p)) {
		plane := *p[module]
		slices.SortFunc(plane.Endpoints, func(a, b Endpoint) int { return cmp.Compare(a.Address, b.Address) })
		slices.SortFunc(plane.Members, func(a, b Member) int { return cmp.Compare(a.Name, b.Name) })
		slices.SortFunc(plane.Replicas, func(a, b Replica) int { return cmp.Compare(a.Name, b.Name) })
		slices.SortFunc(plane.Secrets, func(a, b Resource) int { return cmp.Compare(a.Address, b.Address) })
		all = append(all, plane)
	}
	return all
}

// markMissing records that a resource existed at the last apply and no longer exists.
func (p controlPlanes) markMissing(r *tfjson.ResourceChange) {
	if !isProviderResource(r) {
		return
	}
	for _, plane := range p {
		mark := func(known *Resource) {
			if known.Address == r.Address {
				known.Missing = true
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
		for i := range plane.Secrets {
			mark(&plane.Secrets[i])
		}
	}
}

// add adds one of the provider's resources.
func (p controlPlanes) add(r *tfjson.ResourceChange, action Action) error {
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
	resource := Resource{
		Address: r.Address, Kind: r.Type, Machine: own.Host.Address, Action: action, Drift: own.Drift,
		Name: cmp.Or(own.Name, own.Cluster, own.User, own.Address, label(r)),
	}
	if action == Update || action.destroys() && action.creates() {
		c := change{
			before:        attributes(r.Change.Before),
			after:         attributes(r.Change.After),
			unknown:       attributes(r.Change.AfterUnknown),
			beforeVisible: attributes(visible(r.Change.Before, r.Change.BeforeSensitive)),
			afterVisible:  attributes(visible(r.Change.After, r.Change.AfterSensitive)),
		}
		resource.Reasons = c.reasons(r.Type, own.Drift)
	}
	switch r.Type {
	case "kube_etcd_member":
		if err = plane.addMember(resource, value, marks); err == nil {
			m := &plane.Members[len(plane.Members)-1]
			after, before := visible(r.Change.After, r.Change.AfterSensitive), visible(r.Change.Before, r.Change.BeforeSensitive)
			m.Restore = restoreOf(attributes(after), attributes(r.Change.AfterUnknown))
			m.Restored = restoreOf(attributes(before), nil).ID
		}
	case "kube_control_plane_replica":
		if err = plane.addReplica(resource, value, marks); err == nil {
			err = plane.Replicas[len(plane.Replicas)-1].moves(r.Change)
		}
	case "kube_control_plane_endpoint":
		err = plane.addEndpoint(resource, value, marks)
	default:
		plane.Secrets = append(plane.Secrets, resource)
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

func (p *ControlPlane) addMember(resource Resource, value, marks any) error {
	planned, err := decode[struct {
		Version string            `json:"version"`
		URL     string            `json:"client_url"`
		Peers   map[string]string `json:"peers"`
		Learner bool              `json:"learner"`
	}](resource.Address, value, marks)
	if err != nil {
		return err
	}
	p.Members = append(p.Members, Member{
		Resource: resource, URL: planned.URL, peers: planned.Peers,
		MemberStatus: MemberStatus{Version: planned.Version, Learner: planned.Learner},
	})
	return nil
}

func (p *ControlPlane) addReplica(resource Resource, value, marks any) error {
	planned, err := decode[struct {
		Version    string   `json:"version"`
		Registered *bool    `json:"registered"`
		Etcd       []string `json:"etcd"`
		Endpoint   behind   `json:"endpoint"`
	}](resource.Address, value, marks)
	if err != nil {
		return err
	}
	p.Replicas = append(p.Replicas, Replica{
		Resource: resource, Version: planned.Version, Etcd: planned.Etcd,
		Endpoint: planned.Endpoint.Address, endpointPort: planned.Endpoint.Port, cluster: planned.Endpoint.Cluster,
		Registered: planned.Registered,
	})
	return nil
}

// moves reads which endpoint the replica has after the apply.
func (r *Replica) moves(c *tfjson.Change) error {
	planned, err := decode[struct {
		Endpoint behind `json:"endpoint"`
	}](r.Address, c.After, c.AfterSensitive)
	r.next = planned.Endpoint
	return err
}

func (p *ControlPlane) addEndpoint(resource Resource, value, marks any) error {
	planned, err := decode[struct {
		Port    int `json:"port"`
		HAProxy struct {
			Hosts map[string]string `json:"hosts"`
		} `json:"haproxy"`
	}](resource.Address, value, marks)
	if err != nil {
		return err
	}
	p.Endpoints = append(p.Endpoints, Endpoint{
		Resource: resource, Port: planned.Port, Means: means(attributes(value)), Hosts: planned.HAProxy.Hosts,
	})
	return nil
}

// means returns the argument of an endpoint that says how it is reached.
func means(values map[string]any) string {
	for _, name := range []string{"haproxy", "external", "dns", "bgp", "kube_vip"} {
		if values[name] != nil {
			return name
		}
	}
	return ""
}
