package etcd

import (
	"maps"
	"slices"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// note adds the machines in a spec to those that this process knows of the cluster. They
// are never forgotten: a machine that a configuration no longer contains may still have a
// member.
func (cl *cluster) note(s Spec) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if s.Bundle != nil {
		cl.name = s.Bundle.ClusterName
	}
	for name, h := range s.Peers {
		cl.known[h.Address()] = knownMachine{name, h}
	}
	if s.Host != nil {
		cl.known[s.Host.Address()] = knownMachine{s.Name, s.Host}
	}
}

// knownMachine is a machine with the name that a resource gave it last.
type knownMachine struct {
	name string
	host *host.Host
}

// machines returns all machines that any resource of the cluster has named in this
// process, by address.
func (cl *cluster) machines() map[string]knownMachine {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return maps.Clone(cl.known)
}

// hosts returns the machines sorted by address.
func (cl *cluster) hosts() []*host.Host {
	known := cl.machines()
	var all []*host.Host
	for _, address := range slices.Sorted(maps.Keys(known)) {
		all = append(all, known[address].host)
	}
	return all
}

// hostAt returns the known machine at an address, else that of s.
func (cl *cluster) hostAt(address string, s Spec) *host.Host {
	if known, ok := cl.machines()[address]; ok {
		return known.host
	}
	return s.Host
}

// addresses returns those of all known machines, that of s first.
func (cl *cluster) addresses(s Spec) []string {
	all := []string{s.Host.Address()}
	for _, h := range cl.hosts() {
		if h.Address() != s.Host.Address() {
			all = append(all, h.Address())
		}
	}
	return all
}

// hostAddresses returns the addresses of hosts, sorted by the name of the host.
func hostAddresses(hosts map[string]*host.Host) []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		all = append(all, hosts[name].Address())
	}
	return all
}
