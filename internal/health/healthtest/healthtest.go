// Package healthtest has observed control planes for tests.
package healthtest

import (
	"fmt"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/haproxy"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/health"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// Now is when these control planes were observed.
var Now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// farEnd is when their certificates expire.
var farEnd = Now.AddDate(1, 0, 0)

// ControlPlane returns three healthy machines. The caller may change them.
func ControlPlane() health.ControlPlane {
	seen := health.ControlPlane{
		Endpoint: health.Endpoint{Health: haproxy.Health{
			Address: "10.0.0.100", Balancers: map[string]haproxy.Balancer{},
			Replicas: map[string]string{},
		}},
		Replicas:    map[string]health.Replica{},
		Authorities: map[string]time.Time{"kubernetes": Now.AddDate(10, 0, 0)},
	}
	seen.Etcd.ClusterVersion = "3.6"
	for i, name := range []string{"cp1", "cp2", "cp3"} {
		address := fmt.Sprintf("10.0.0.%d", 11+i)
		seen.Etcd.Members = append(seen.Etcd.Members, membership.MemberStatus{
			Member: membership.Member{
				Name: name, Version: "3.6.16", Healthy: true, DBSize: 20 << 20, DBInUse: 10 << 20,
				DBQuota: 2 << 30,
			},
			Address: address, ID: "a" + name, Leader: i == 1,
		})
		seen.Etcd.Machines = append(seen.Etcd.Machines, etcd.Machine{
			Address: address, Member: name, Unit: "active", Volume: "/var/lib/etcd-volume",
			Quota: 2 << 30, CertificateExpiry: farEnd,
		})
		seen.Endpoint.Replicas[name] = address + ":6443"
		replica := health.Replica{Health: controlplane.Health{
			Address: address, Name: name, Version: "1.36.3",
			CertificateExpiry: farEnd,
		}, Listed: address + ":6443"}
		for _, component := range release.Components() {
			replica.Components = append(replica.Components, controlplane.Component{
				Name: component, Healthy: true, Health: "ok",
				Version: "1.36.3", CertificateExpiry: farEnd,
			})
		}
		seen.Replicas[name] = replica
	}
	for i, name := range []string{"cp1", "cp2", "cp3"} {
		b := haproxy.Balancer{
			Address: fmt.Sprintf("10.0.0.%d", 11+i), Present: true, HAProxy: "active", Keepalived: "active", Answers: true,
			Backends: map[string]haproxy.Backend{}, Out: map[string]string{},
		}
		if name == "cp1" {
			b.Holds = []string{"10.0.0.100"}
		}
		for replica, at := range seen.Endpoint.Replicas {
			b.Backends[replica] = haproxy.Backend{Address: at, Status: "UP", Check: "L7OK", Sessions: 3}
		}
		seen.Endpoint.Balancers[name] = b
	}
	return seen
}

// External gives the control plane an external endpoint.
func External(seen *health.ControlPlane) {
	seen.Endpoint = health.Endpoint{
		Health: haproxy.Health{Address: "10.0.0.100", Replicas: seen.Endpoint.Replicas},
		Targets: &targets.Health{
			Replicas: seen.Endpoint.Replicas, NotReady: map[string]string{}, URL: "https://10.0.0.100:6443",
		},
	}
}

// ChangeBalancer changes one of the balancers.
func ChangeBalancer(seen *health.ControlPlane, name string, change func(*haproxy.Balancer)) {
	b := seen.Endpoint.Balancers[name]
	change(&b)
	seen.Endpoint.Balancers[name] = b
}

// ChangeReplica changes one of the replicas.
func ChangeReplica(seen *health.ControlPlane, name string, change func(*health.Replica)) {
	r := seen.Replicas[name]
	change(&r)
	seen.Replicas[name] = r
}

// LoseMachine sets what is observed of a machine without power: the one at index i, with the components called name.
func LoseMachine(seen *health.ControlPlane, i int, name string) {
	lost := fmt.Errorf("observe the machine on 10.0.0.%d: connect to it: %w: no answer in time", 11+i, host.ErrUnreachable)
	address := seen.Etcd.Machines[i].Address
	seen.Etcd.Machines[i] = etcd.Machine{Address: address, Err: lost}
	seen.Etcd.Members[i] = membership.MemberStatus{
		Member:  membership.Member{Name: name, Trouble: "does not answer"},
		Address: address,
	}
	ChangeReplica(seen, name, func(r *health.Replica) { r.Health = controlplane.Health{Address: address, Err: lost} })
	ChangeBalancer(seen, name, func(b *haproxy.Balancer) { *b = haproxy.Balancer{Address: address, Err: lost} })
	for _, other := range []string{"cp1", "cp2", "cp3"} {
		if other != name {
			ChangeBalancer(seen, other, func(b *haproxy.Balancer) { b.Out[name] = "out of rotation: DOWN L4TOUT" })
		}
	}
}
