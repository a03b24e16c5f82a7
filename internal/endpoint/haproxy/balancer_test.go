package haproxy

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

const addressesText = `1: lo    inet 127.0.0.1/8 scope host lo\       valid_lft forever preferred_lft forever
2: eth0    inet 10.0.0.11/24 brd 10.0.0.255 scope global eth0\       valid_lft forever preferred_lft forever
2: eth0    inet 10.0.0.100/32 scope global eth0\       valid_lft forever preferred_lft forever
3: wg0    inet 10.9.0.1 peer 10.9.0.2/32 scope global wg0\       valid_lft forever preferred_lft forever
2: eth0    inet6 fe80::1/64 scope link \       valid_lft forever preferred_lft forever
`

// As HAProxy 2.6.12 prints it, with the columns of interest.
const statsText = `# pxname,svname,scur,status,last_chk,check_status,check_desc,addr,
kube-apiserver,cp1,3,UP,,L7OK,Layer7 check passed,10.0.0.11:6443,
kube-apiserver,cp2,0,DOWN,"Connection refused, at step 1",* L4CON,Layer4 connection problem,10.0.0.12:6443,
other,cp9,0,UP,,L7OK,,10.0.0.19:6443,

`

func TestNewBalancer(t *testing.T) {
	facts := host.Facts{Output: addressesText + "--\n10.0.0.100 dev eth0 lladdr 02:00:00:00:00:01 REACHABLE\n--\n" +
		statsText}
	b := newBalancer(threeHosts(), facts, "10.0.0.11")
	if b.device != "eth0" || !b.holdsVIP("10.0.0.100") || b.holdsVIP("10.0.0.10") || !b.answers || b.ipv6 ||
		b.neighbors.By["10.0.0.100"] != "02:00:00:00:00:01" {
		t.Errorf("got %+v", b)
	}
	want := []stat{
		{
			Name: "cp1", Status: "UP", Check: "L7OK", Last: "Layer7 check passed",
			Address: netip.MustParseAddrPort("10.0.0.11:6443"), Sessions: 3,
		},
		{
			Name: "cp2", Status: "DOWN", Check: "L4CON", Last: "Layer4 connection problem Connection refused, at step 1",
			Address: netip.MustParseAddrPort("10.0.0.12:6443"),
		},
	}
	if !reflect.DeepEqual(b.stats, want) {
		t.Errorf("stats %+v", b.stats)
	}
	otherHosts := threeHosts()
	otherHosts.Interface = "eth7"
	if b := newBalancer(otherHosts, facts, "10.0.0.11"); b.device != "" {
		t.Errorf("an interface that is not there became %q", b.device)
	}
	if b := newBalancer(threeHosts(), host.Facts{Output: "--\n10.0.0.100 dev eth0 FAILED\n--\n"},
		"10.0.0.11"); b.device != "" || len(b.neighbors.By) > 0 || b.answers {
		t.Errorf("of an empty machine: %+v", b)
	}
}

// asRendered is a balancer on which all is as wanted.
func asRendered(s Spec, name string) balancer {
	b := balancer{
		device: "eth0", ipv6: true, answers: true,
		local: []netip.Addr{netip.MustParseAddr(s.Hosts[name].Address())},
	}
	b.facts = host.Facts{
		Systemd: "252", Files: map[string]host.FileState{}, Listeners: map[int]host.Listener{},
		Commands: map[string]string{
			"haproxy": "/usr/sbin/haproxy", "keepalived": "/usr/sbin/keepalived",
			"perl": "/usr/bin/perl", "apt-get": "/usr/bin/apt-get",
		},
		Units: map[string]host.UnitState{
			haproxyUnit:    {Load: "loaded", Active: "active", Enabled: "enabled"},
			keepalivedUnit: {Load: "loaded", Active: "active", Enabled: "enabled"},
		},
	}
	for _, file := range files(s, name, b) {
		b.facts.Files[file.Path] = host.FileState{
			Mode: file.Mode, Owner: "root", Group: "root",
			SHA256: sha256Hex(file.Content), Content: string(file.Content),
		}
	}
	b.owner = owner{s.ClusterID, s.ClusterName, s.Address}
	return withList(b, s.Address, backendsHeader)
}

func edit(b *balancer, path, before, after string) {
	state := b.facts.Files[path]
	state.Content = strings.Replace(state.Content, before, after, 1)
	b.facts.Files[path] = state
}

func TestStatus(t *testing.T) {
	lost := balancer{unreachable: fmt.Errorf("no route: %w", host.ErrUnreachable)}
	addVIP := func(b *balancer) { b.local = append(b.local, netip.MustParseAddr("10.0.0.100")) }
	tests := []struct {
		name    string
		change  func(seen map[string]balancer)
		holders string
		drift   []string
	}{
		{name: "all well", holders: "cp1"},
		{name: "an unreachable host is no drift", holders: "cp1", change: func(seen map[string]balancer) {
			seen["cp3"] = lost
		}},
		{name: "an unreachable holder is no drift", change: func(seen map[string]balancer) { seen["cp1"] = lost }},
		{
			name: "no holder", change: func(seen map[string]balancer) { b := seen["cp1"]; b.local = nil; seen["cp1"] = b },
			drift: []string{"10.0.0.100 is held by none of the hosts"},
		},
		{
			name: "two holders", holders: "cp1, cp2", change: func(seen map[string]balancer) {
				b := seen["cp2"]
				addVIP(&b)
				seen["cp2"] = b
			},
			drift: []string{"10.0.0.100 is held by cp1 and cp2"},
		},
		{
			name: "a hand-edited setting", holders: "cp1", change: func(seen map[string]balancer) {
				b := seen["cp2"]
				edit(&b, endpointPath, "timeout client 24h", "timeout client 1m")
			},
			drift: []string{`cp2: /etc/haproxy/kube/10-endpoint.cfg: found "timeout client 1m", wanted "timeout client 24h"`},
		},
		{
			name: "lines added, removed and moved", holders: "cp1", change: func(seen map[string]balancer) {
				b := seen["cp2"]
				edit(&b, endpointPath, "    retries 3\n", "")
				edit(&b, keepalivedPath, "nopreempt", "nopreempt\n    debug 4")
				edit(&b, unitDir+haproxyUnit, "Restart=always\nRestartSec=500ms\n", "RestartSec=500ms\nRestart=always\n")
			},
			drift: []string{
				`cp2: /etc/haproxy/kube/10-endpoint.cfg: wanted "retries 3", found nothing`,
				`cp2: /etc/keepalived/kube.conf: found "debug 4", wanted nothing`,
				`cp2: /etc/systemd/system/kube-endpoint-haproxy.service: lines are in another order`,
			},
		},
		{
			name: "a stopped and disabled unit", holders: "cp1", change: func(seen map[string]balancer) {
				seen["cp3"].facts.Units[haproxyUnit] = host.UnitState{Load: "loaded", Active: "inactive", Enabled: "disabled"}
			},
			drift: []string{
				"cp3: kube-endpoint-haproxy.service is inactive",
				"cp3: kube-endpoint-haproxy.service is not enabled",
			},
		},
		{
			name: "a package that went", holders: "cp1", change: func(seen map[string]balancer) {
				delete(seen["cp3"].facts.Commands, "perl")
			},
			drift: []string{"cp3: package socat is not completely installed"},
		},
		{
			name: "a rebuilt host", holders: "cp1", change: func(seen map[string]balancer) {
				seen["cp3"] = balancer{device: "eth0", facts: host.Facts{Systemd: "252"}}
			},
			drift: []string{"cp3: the endpoint is not set up there"},
		},
		{
			name: "another mode and owner", holders: "cp1", change: func(seen map[string]balancer) {
				state := seen["cp1"].facts.Files[keepalivedPath]
				state.Mode, state.Owner = 0o666, "nobody"
				seen["cp1"].facts.Files[keepalivedPath] = state
			},
			drift: []string{
				"cp1: /etc/keepalived/kube.conf: mode is 0666, wanted 0644",
				"cp1: /etc/keepalived/kube.conf: owner is nobody:root, wanted root:root",
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := threeHosts()
			seen := map[string]balancer{}
			for name := range s.Hosts {
				seen[name] = asRendered(s, name)
			}
			first := seen["cp1"]
			addVIP(&first)
			seen["cp1"] = first
			if test.change != nil {
				test.change(seen)
			}
			got := status(s, seen)
			if !reflect.DeepEqual(got.Drift, test.drift) {
				t.Errorf("drift:\n%s", strings.Join(got.Drift, "\n"))
			}
			if holders := strings.Join(holders(s.Address, seen), ", "); holders != test.holders {
				t.Errorf("holders %q, want %q", holders, test.holders)
			}
		})
	}
}

func TestPreflight(t *testing.T) {
	tests := []struct {
		name   string
		change func(s *Spec, b *balancer)
		cause  string // "" for none
	}{
		{name: "all well"},
		{name: "an API server on its own address", change: func(_ *Spec, b *balancer) {
			b.facts.Listeners[6443] = host.Listener{Process: "kube-apiserver", Addresses: []string{"10.0.0.11"}}
		}},
		{
			name:  "an API server on all addresses",
			cause: "cp1 (10.0.0.11): kube-apiserver listens on port 6443 of all addresses", change: func(_ *Spec, b *balancer) {
				b.facts.Listeners[6443] = host.Listener{Process: "kube-apiserver", Addresses: []string{"::"}}
			},
		},
		{
			name: "no packages", cause: "packages are not installed: haproxy (install them, or set haproxy.install_packages",
			change: func(_ *Spec, b *balancer) {
				delete(b.facts.Commands, "haproxy")
			},
		},
		{name: "packages that can be installed", change: func(s *Spec, b *balancer) {
			s.InstallPackages = true
			delete(b.facts.Commands, "haproxy")
		}},
		{name: "no package manager", cause: "none of apt-get, dnf, yum, zypper", change: func(s *Spec, b *balancer) {
			s.InstallPackages = true
			delete(b.facts.Commands, "haproxy")
			delete(b.facts.Commands, "apt-get")
		}},
		{name: "no systemd", cause: "systemd does not run", change: func(_ *Spec, b *balancer) { b.facts.Systemd = "" }},
		{name: "no interface", cause: "no interface has the host's address", change: func(_ *Spec, b *balancer) {
			b.device = ""
		}},
		{
			name: "the VIP in use elsewhere", cause: "10.0.0.100 is in use: cp1 sees it at hardware address 02:01",
			change: func(_ *Spec, b *balancer) { b.neighbors.By = map[string]string{"10.0.0.100": "02:01"} },
		},
		{name: "the VIP held by the endpoint itself", change: func(_ *Spec, b *balancer) {
			b.neighbors.By = map[string]string{"10.0.0.100": "02:01"}
			b.local = append(b.local, netip.MustParseAddr("10.0.0.100"))
		}},
		{
			name: "the VIP as the machine's own address", cause: "already an address of this machine",
			change: func(_ *Spec, b *balancer) {
				delete(b.facts.Files, keepalivedPath)
				b.local = append(b.local, netip.MustParseAddr("10.0.0.100"))
			},
		},
		{name: "an unreachable host", cause: "cp1 (10.0.0.11): no route", change: func(_ *Spec, b *balancer) {
			*b = balancer{unreachable: fmt.Errorf("no route: %w", host.ErrUnreachable)}
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := threeHosts()
			b := asRendered(s, "cp1")
			if test.change != nil {
				test.change(&s, &b)
			}
			err := preflight(s, map[string]balancer{"cp1": b})
			check(t, test.name, err, test.cause)
			if err != nil && !problem.Untouched(err) {
				t.Error("the refusal does not say that nothing was changed")
			}
			if b.unreachable != nil && !errors.Is(err, host.ErrUnreachable) {
				t.Error("the cause is lost")
			}
		})
	}
}

func TestSequence(t *testing.T) {
	s := specOf("10.0.0.100", map[string]string{"a": "10.0.0.1", "b": "10.0.0.2", "c": "10.0.0.3", "d": "10.0.0.4"})
	seen := map[string]balancer{}
	for name := range s.Hosts {
		seen[name] = asRendered(s, name)
	}
	holder, newcomer := seen["b"], seen["a"]
	holder.local = append(holder.local, netip.MustParseAddr("10.0.0.100"))
	newcomer.facts.Units = nil
	seen["b"], seen["a"] = holder, newcomer
	if got := updateOrder(s, seen); !slices.Equal(slices.Concat(got...), []string{"c", "d", "b", "a"}) || len(got) != 4 {
		t.Errorf("got %v", got)
	}
	for name := range s.Hosts {
		seen[name] = balancer{}
	}
	if got := updateOrder(s, seen); len(got) != 1 || len(got[0]) != 4 {
		t.Errorf("of a new endpoint: %v", got)
	}
}

func TestLeavingHosts(t *testing.T) {
	before := threeHosts()
	after := specOf("10.0.0.100", map[string]string{"renamed": "10.0.0.11", "cp3": "10.0.0.13"})
	if got := leavingHosts(before, after, nil); !slices.Equal(slices.Collect(maps.Keys(got.Hosts)), []string{"cp2"}) {
		t.Errorf("got %v", names(got.Hosts))
	}
	same := map[string]balancer{"renamed": {local: []netip.Addr{netip.MustParseAddr("10.0.0.12")}}}
	if got := leavingHosts(before, after, same); len(got.Hosts) > 0 {
		t.Errorf("a machine that has another address in the configuration leaves: %v", names(got.Hosts))
	}
}

func TestUnregistered(t *testing.T) {
	replica := serverAt("cp1", "10.0.0.11:6443")
	healthyBalancer := balancer{
		answers: true, backends: backends{servers: []server{replica}},
		stats: []stat{{Name: "cp1", Status: "UP", Check: "L7OK", Address: replica.Address}},
	}
	tests := map[string]struct {
		change func(b *balancer)
		want   []string
	}{
		"in rotation": {func(*balancer) {}, nil},
		"one check failed": {func(b *balancer) {
			b.stats = []stat{{Name: "cp1", Status: "UP 1/3", Address: replica.Address}}
		}, nil},
		"unreachable": {func(b *balancer) { *b = balancer{unreachable: host.ErrUnreachable} }, nil},
		"not listed":  {func(b *balancer) { b.servers = nil }, []string{"lb: not registered"}},
		"another address": {
			func(b *balancer) { b.servers = []server{serverAt("cp1", "10.0.0.99:6443")} },
			[]string{"lb: registered as 10.0.0.99:6443, wanted 10.0.0.11:6443"},
		},
		"not reloaded": {func(b *balancer) { b.stats = nil }, []string{"lb: HAProxy runs with an older list of replicas"}},
		"silent":       {func(b *balancer) { b.answers = false }, []string{"lb: HAProxy does not answer"}},
		"drained": {
			func(b *balancer) {
				b.stats = []stat{{Name: "cp1", Status: "DRAIN", Check: "L7OK", Address: replica.Address}}
			},
			[]string{"lb: out of rotation: DRAIN L7OK"},
		},
	}
	for name, test := range tests {
		b := healthyBalancer
		test.change(&b)
		if got := unregistered(replica, map[string]balancer{"lb": b}); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

func TestInUse(t *testing.T) {
	s := threeHosts()
	seen := map[string]balancer{"cp1": {}, "cp2": lists(s.Address, serverAt("cp3", "10.0.0.13:6443"))}
	err := inUse(s, seen)
	check(t, "one replica", err, "cp3 on cp2 (10.0.0.12)")
	if !problem.Untouched(err) {
		t.Error("the refusal does not say that nothing was changed")
	}
	check(t, "none", inUse(s, map[string]balancer{"cp1": {}}), "")
}

func TestWithoutChain(t *testing.T) {
	running := func(name, address, status string) stat {
		return stat{Name: name, Address: netip.MustParseAddrPort(address), Status: status}
	}
	first := lists("10.0.0.100", serverAt("cp2", "10.0.0.12:6443"))
	first.stats = []stat{running("cp2", "10.0.0.98:6443", "UP"), running("cp4", "10.0.0.14:6443", "DRAIN")}
	seen := map[string]balancer{
		"a": first,
		"b": lists("10.0.0.100", serverAt("cp1", "10.0.0.11:6443"), serverAt("cp2", "10.0.0.99:6443")),
		"c": {},
	}
	want := map[string]string{"cp1": "10.0.0.11:6443", "cp2": "10.0.0.12:6443", "cp4": "10.0.0.14:6443"}
	if got := replicaAddresses(seen); !maps.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	if got := listedAt("cp2", seen); !slices.Equal(got, []string{"10.0.0.12", "10.0.0.98", "10.0.0.99"}) {
		t.Errorf("cp2 is listed at %v", got)
	}
	if got := listedAt("cp3", seen); len(got) > 0 {
		t.Errorf("cp3 is listed at %v", got)
	}
	if got := replicaAddresses(nil); len(got) > 0 {
		t.Errorf("of no balancer: %v", got)
	}
}

// TestReplicasUnasked: that no balancer could be asked is an error, never "there
// are none".
func TestReplicasUnasked(t *testing.T) {
	pool, err := host.NewPool(
		host.Config{Credentials: host.Credentials{PrivateKey: servingPair(t, bundles(t)[0]).PrivateKey}})
	if err != nil {
		t.Fatal(err)
	}
	if err := pool.Close(); err != nil { // nothing is reachable any more
		t.Fatal(err)
	}
	dead := func(address string) *host.Host { return pool.Host(host.Target{Address: address}) }
	got, err := NewRegistrars(dead).For(endpoint.Registration{
		Address: "10.0.0.100", Port: 6443,
		Hosts: map[string]string{"lb": "10.0.0.11"},
	}).Replicas(t.Context())
	if !errors.Is(err, host.ErrUnreachable) || !problem.Untouched(err) ||
		!strings.Contains(err.Error(), "no balancer answers: lb: ") || got != nil {
		t.Errorf("got %v, %v", got, err)
	}
}
