package provider

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/combined"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/external"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// TestAttempted: a replica leaves the endpoints that only the record on its machine names. A record is believed about
// the replica's own machine and cluster only.
func TestAttempted(t *testing.T) {
	cluster := strings.Repeat("0a", 16)
	s := controlplane.Spec{Replica: component.Replica{
		Name: "cp1", Address: "10.0.0.11", Bundle: &pki.Bundle{ClusterID: cluster},
	}}
	at := func(kind endpoint.Kind, address string) endpoint.Registration {
		return endpoint.Registration{
			Kind: kind, Address: address, Port: 6443, TargetPort: 6443, ClusterID: cluster, DetectionTime: time.Second,
			Hosts: map[string]string{"cp1": "10.0.0.11"},
		}
	}
	first, added := at(endpoint.HAProxy, "10.0.0.100"), at(endpoint.External, "api.example.com")
	balancer := at(endpoint.HAProxy, "10.0.0.101")
	balancer.Hosts = map[string]string{"lb1": "10.0.0.21"}
	elsewhere, other := added, added
	elsewhere.Hosts = map[string]string{"cp1": "10.0.0.12"}
	other.ClusterID = strings.Repeat("f", 32)
	recorded := func(additional ...endpoint.Registration) controlplane.Recorded {
		r := first
		r.Additional = additional
		return controlplane.Recorded{ClusterID: cluster, Name: "cp1", Registration: registrationText(r)}
	}
	stranger, unreadable := recorded(added), recorded(added)
	stranger.Name, unreadable.Registration = "cp2", []byte("{")
	name, otherName := at(endpoint.DNS, "api.example.com"), at(endpoint.DNS, "api.example.org")
	for _, r := range []*endpoint.Registration{&name, &otherName} {
		r.Zone = &endpoint.Zone{
			Name: r.Address, Server: "10.0.0.53:53", TTL: 5 * time.Second, TSIGKey: "key", CheckInterval: time.Second,
			CheckThreshold: 3,
		}
	}
	moved := controlplane.Recorded{ClusterID: cluster, Name: "cp1", Registration: registrationText(otherName)}
	moving := recorded()
	moving.Leaves = registrationText(balancer)
	both := first
	both.Additional = []endpoint.Registration{added}
	for name, c := range map[string]struct {
		observed      controlplane.Recorded
		before, after endpoint.Registration
		want          []string
	}{
		"added and reverted":       {recorded(added), first, first, []string{"external api.example.com"}},
		"tried again":              {recorded(added), first, both, nil},
		"known to the state":       {recorded(added), both, first, nil},
		"imported while it moved":  {moving, first, first, []string{balancer.ID()}},
		"still moving":             {moving, balancer, first, nil},
		"nothing added":            {recorded(), first, first, nil},
		"a balancer added":         {recorded(balancer), first, first, []string{balancer.ID()}},
		"no record":                {controlplane.Recorded{}, first, first, nil},
		"another replica's record": {stranger, first, first, nil},
		"an unreadable record":     {unreadable, first, first, nil},
		"names another machine":    {recorded(elsewhere), first, first, nil},
		"names another cluster":    {recorded(other), first, first, nil},

		"another name":                   {moved, name, name, []string{"dns api.example.org"}}, // its record is left
		"another name, tried again":      {moved, name, otherName, nil},
		"another name, DNS given up":     {moved, name, first, []string{"dns api.example.org"}},
		"another name, deleted":          {moved, name, endpoint.Registration{}, []string{"dns api.example.org"}},
		"another name, deleted later":    {moved, otherName, endpoint.Registration{}, nil},
		"a name added, which is deleted": {recorded(name), first, endpoint.Registration{}, []string{"dns api.example.com"}},
	} {
		var got []string
		for _, each := range attempted(s, c.observed, c.before, c.after) {
			got = append(got, each.ID())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: it leaves %q, want %q", name, got, c.want)
		}
	}
}

// TestChangingKnowsWhoseEndpointsChange: also a replica that only comes to another endpoint is the one whose endpoints
// change. The others have theirs until their own turn.
func TestChangingKnowsWhoseEndpointsChange(t *testing.T) {
	s := &session{registrars: registrars{external: external.New(targets.NewObserver(nil, nil)), hooks: &sync.Map{}}}
	first := endpoint.Registration{Kind: endpoint.External, Address: "api.example.com", ClusterID: "c"}
	other, both := first, first
	other.Address = "api.example.org"
	both.Additional = []endpoint.Registration{other}
	for name, c := range map[string]struct {
		before, after endpoint.Registration
		replica       string
		left          int
	}{
		"the same":     {both, both, "", 0},
		"one is added": {first, both, "cp1", 0},
		"one is left":  {both, first, "cp1", 1},
		"another one":  {first, other, "cp1", 1},
	} {
		r, ok := s.registrars.changing("cp1", c.before, c.after, nil).(*combined.Registrar)
		if !ok || r.Replica != c.replica || len(r.Left) != c.left {
			t.Errorf("%s: %+v, want that %q leaves %d", name, r, c.replica, c.left)
		}
	}
}

// leaver is a registrar at which a replica leaves.
type leaver struct {
	registrar
	left []string
}

func (l *leaver) Deregister(_ context.Context, name string) error {
	l.left = append(l.left, name)
	return nil
}

// TestLeaving: a replica that is deleted leaves its endpoints, and those that only the record on its machine names.
func TestLeaving(t *testing.T) {
	own, tried := &leaver{}, &leaver{}
	if r := leaving(own, "cp1", "own", nil); r != controlplane.Registrar(own) {
		t.Errorf("got %v, want the registrar itself", r)
	}
	r := leaving(own, "cp1", "own", []combined.Endpoint{{ID: "tried", Registrar: tried, Attempted: true}})
	if err := r.Deregister(t.Context(), "cp1"); err != nil || len(own.left) != 1 || len(tried.left) != 1 {
		t.Errorf("left %v and %v: %v", own.left, tried.left, err)
	}
}
