package haproxy

import (
	"reflect"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// specOf gives a spec whose hosts are only asked for their addresses.
func specOf(address string, hosts map[string]string) Spec {
	s := Spec{ClusterID: testCluster, ClusterName: "test", Address: address, Hosts: map[string]*host.Host{}}
	pool := &host.Pool{}
	for name, at := range hosts {
		s.Hosts[name] = pool.Host(host.Target{Address: at})
	}
	return s
}

func threeHosts() Spec {
	return specOf("10.0.0.100", map[string]string{"cp1": "10.0.0.11", "cp2": "10.0.0.12", "cp3": "10.0.0.13"})
}

func TestRenderKeepalived(t *testing.T) {
	three := threeHosts()
	three.VirtualRouterID = 51
	tests := []struct {
		name         string
		spec         Spec
		host         string
		has, missing []string
	}{
		{
			name: "the first of three", spec: three, host: "cp1",
			has: []string{
				"state BACKUP\n    nopreempt\n", "priority 200\n", "virtual_router_id 51\n", "unicast_src_ip 10.0.0.11\n",
				"unicast_peer {\n        10.0.0.12\n        10.0.0.13\n    }\n", "10.0.0.100/32 dev eth0\n",
			},
			missing: []string{"preferred_lft"},
		},
		{
			name: "the last of three", spec: three, host: "cp3",
			has: []string{"priority 198\n", "unicast_peer {\n        10.0.0.11\n        10.0.0.12\n    }\n"},
		},
		{
			name: "alone", spec: specOf("10.0.0.100", map[string]string{"cp1": "10.0.0.11"}), host: "cp1",
			has: []string{"unicast_src_ip 10.0.0.11\n", "unicast_peer {\n        127.0.0.1\n    }\n"},
		},
		{
			name: "IPv6", spec: specOf("fd00::100", map[string]string{"cp1": "fd00::11", "cp2": "fd00::12"}), host: "cp2",
			has: []string{"unicast_src_ip fd00::12\n", "fd00::100/128 dev eth0 preferred_lft 0\n"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := renderKeepalived(test.spec, test.host, "eth0")
			for _, part := range test.has {
				if !strings.Contains(got, part) {
					t.Errorf("%q is not in\n%s", part, got)
				}
			}
			for _, part := range test.missing {
				if strings.Contains(got, part) {
					t.Errorf("%q is in\n%s", part, got)
				}
			}
		})
	}
}

func TestRouterID(t *testing.T) {
	for _, address := range []string{"10.0.0.100", "10.0.0.101", "192.168.1.1", "fd00::1"} {
		id := Spec{Address: address}.routerID()
		if err := validateVirtualRouterID(id); err != nil {
			t.Errorf("%s: %v", address, err)
		}
		if again := (Spec{Address: address}).routerID(); again != id {
			t.Errorf("%s: %d, then %d", address, id, again)
		}
	}
	if id := (Spec{Address: "10.0.0.100", VirtualRouterID: 7}).routerID(); id != 7 {
		t.Errorf("a given id became %d", id)
	}
}

func TestRenderHAProxy(t *testing.T) {
	s := threeHosts()
	if got := renderHAProxy(s); !strings.Contains(got, "bind 10.0.0.100:6443 transparent\n") ||
		!strings.Contains(got, "check-ssl verify none ") {
		t.Errorf("without a CA:\n%s", got)
	}
	s.Address, s.Port, s.CACertificate = "fd00::100", 443, "PEM"
	if got := renderHAProxy(s); !strings.Contains(got, "bind [fd00::100]:443 transparent\n") ||
		!strings.Contains(got, "verify required ca-file /etc/haproxy/kube/ca.crt verifyhost kubernetes ") {
		t.Errorf("with a CA:\n%s", got)
	}
}

func TestRegistration(t *testing.T) {
	got := threeHosts().Registration()
	want := endpoint.Registration{
		Address: "10.0.0.100", Port: 6443, DrainTimeout: endpoint.DefaultDrainTimeout, ClusterID: testCluster,
		Hosts: map[string]string{"cp1": "10.0.0.11", "cp2": "10.0.0.12", "cp3": "10.0.0.13"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
}
