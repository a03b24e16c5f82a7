package haproxy

import (
	"fmt"
	"hash/fnv"
	"net/netip"
	"strings"
	"time"
)

// routerID returns the configured id, or one that is derived from the address: two endpoints in
// one network then rarely have the same one, and every host computes the same.
func (s Spec) routerID() int {
	if s.VirtualRouterID != 0 {
		return s.VirtualRouterID
	}
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(s.Address))
	return int(sum.Sum32()%255) + 1
}

// realtimePriority is the priority of the process that sends advertisements.
const realtimePriority = 50

// realtimeLimit is how long that process may compute without waiting for anything. The kernel kills
// it afterwards (RLIMIT_RTTIME), and the address moves. keepalived's default is 10 ms, which a busy
// machine exceeds (acassen/keepalived#2312).
const realtimeLimit = time.Second

// renderKeepalived renders the configuration of the named host.
//
// All hosts start as BACKUP and never preempt: a machine that comes back does not take the
// address from one that serves. VRRP version 3 is used because only it allows advertisements that
// are a fraction of a second apart. Advertisements go to the other hosts by unicast, which every
// network passes, and which names who is trusted. A single
// host has no other one, and without any peer keepalived would use multicast and release the
// address for a moment when it changes to unicast. So its peer is its own loopback address (as in
// openshift/machine-config-operator#2576). The kernel would choose an IPv6 virtual address as the
// source of the machine's own connections; preferred_lft 0 prevents that.
//
// Further virtual IPs belong to the same instance: they are "excluded" from its advertisements,
// which have addresses of one family, and come and go with the first (keepalived.conf(5)). Two
// instances in a synchronization group would be two elections that can contradict each other, and
// a reload that adds the second one would let go of the first address.
func renderKeepalived(s Spec, name, device string) string {
	file, tracked := s.waiting()
	return fmt.Sprintf(`# Managed by terraform-provider-kube.
global_defs {
    router_id %s
    vrrp_version 3
    vrrp_rt_priority %d
    vrrp_rlimit_rttime %d
    vrrp_garp_master_delay 1
    vrrp_garp_master_repeat 3
    vrrp_garp_master_refresh %d
    vrrp_garp_master_refresh_repeat 1
}

track_file haproxy_stopped {
    file %s
    weight 0
}

%svrrp_instance kube_endpoint {
    state BACKUP
    nopreempt
    interface %s
    virtual_router_id %d
    priority %d
    advert_int 0.25
%s    virtual_ipaddress {
        %s
    }
%s    track_file {
        haproxy_stopped
%s    }
}
`, name, realtimePriority, realtimeLimit.Microseconds(), s.announceEvery(), stoppedPath, file, device, s.routerID(),
		s.priority(name), s.advertisements(name), s.virtualAddress(s.Address, device), s.excludedAddresses(device), tracked)
}

// waiting returns the definition of the file that keeps keepalived from taking the address, and the
// line of the instance that tracks it.
func (s Spec) waiting() (file, tracked string) {
	if s.HandOver == "" {
		return "", ""
	}
	return fmt.Sprintf("track_file waiting {\n    file %s\n    weight 0\n}\n\n", waitingPath), "        waiting\n"
}

// announceEvery returns after how many seconds the holder announces its addresses again. While they move, it
// does so each second: those that the previous machine has told last would otherwise send their packets to it
// for as long.
func (s Spec) announceEvery() int {
	if s.HandOver != "" {
		return announceMoving
	}
	return announceSteady
}

const (
	announceSteady = 10
	announceMoving = 1
)

// priority returns a different value for each host, so that no election ends in a tie.
func (s Spec) priority(name string) int {
	priority := 200
	for _, other := range names(s.Hosts) {
		if other == name {
			break
		}
		priority--
	}
	return priority
}

// advertisements returns from where and to whom the named host sends them. With multicast, the
// other hosts are in no file.
func (s Spec) advertisements(name string) string {
	own := s.Hosts[name].Address()
	if s.multicast() {
		return fmt.Sprintf("    mcast_src_ip %s\n", own)
	}
	var peers []string
	for _, other := range names(s.Hosts) {
		if other != name {
			peers = append(peers, s.Hosts[other].Address())
		}
	}
	if len(peers) == 0 {
		peers = []string{loopback(own)}
	}
	return fmt.Sprintf("    check_unicast_src\n    unicast_src_ip %s\n    unicast_peer {\n        %s\n    }\n",
		own, strings.Join(peers, "\n        "))
}

// loopback returns the loopback address of the same family.
func loopback(address string) string {
	if strings.Contains(address, ":") {
		return "::1"
	}
	return "127.0.0.1"
}

func (s Spec) virtualAddress(address, device string) string {
	options := ""
	if ip, err := netip.ParseAddr(address); err == nil && ip.Is6() {
		options = " preferred_lft 0"
	}
	if s.Inherit {
		options += " noprefixroute no_track"
	}
	return s.entry(address) + " dev " + device + options
}

// entry returns a virtual IP with the length of a network, as keepalived adds it to the interface. A keepalived that
// starts removes what it finds of its own, and one that sees an address of its own removed is no master any more. So
// while the address is taken from the hosts' own services, it has another length than a single address has there, and
// the endpoint's keepalived does not mind that the former entry is removed (no_track).
func (s Spec) entry(address string) string {
	length := 32
	if strings.Contains(address, ":") {
		length = 128
	}
	if s.Inherit {
		length--
	}
	return fmt.Sprintf("%s/%d", address, length)
}

// excludedAddresses returns the block of the virtual IPs beside the first. Nobody waits for duplicate address
// detection: keepalived sets nodad by itself.
func (s Spec) excludedAddresses(device string) string {
	var lines strings.Builder
	for _, address := range s.vips()[1:] {
		lines.WriteString("        " + s.virtualAddress(address, device) + "\n")
	}
	if lines.Len() == 0 {
		return ""
	}
	return "    virtual_ipaddress_excluded {\n" + lines.String() + "    }\n"
}
