package etcd

import (
	"fmt"
	"maps"
	"slices"
)

// creating records that the Create of a member is in progress.
func (cl *cluster) creating(name string) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	cl.creates[name] = nil
}

// created records the result of a Create. A failure is remembered, because the run
// intended to continue with the member.
func (cl *cluster) created(name string, err error) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if delete(cl.creates, name); err != nil {
		cl.creates[name] = err
	}
}

// Creating returns the names of the members that this process is creating, or has failed
// to create: the cluster is meant to continue.
func (c *Clusters) Creating(clusterID string) []string {
	pending, failed := c.named(clusterID).arrivals()
	var all []string
	for _, name := range append(pending, failed...) {
		all = append(all, fmt.Sprintf("etcd member %q", name))
	}
	return all
}

// arrivals returns the members whose Create is in progress, and those whose Create has
// failed in this process.
func (cl *cluster) arrivals() (pending, failed []string) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(cl.creates)) {
		if cl.creates[name] == nil {
			pending = append(pending, name)
		} else {
			failed = append(failed, name)
		}
	}
	return pending, failed
}

// countJoining counts the Creates in progress, by peer URL.
func (cl *cluster) countJoining(peerURL string, n int) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if cl.joining == nil {
		cl.joining = map[string]int{}
	}
	cl.joining[peerURL] += n
}

func (cl *cluster) joiningPeerURLs() map[string]bool {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	urls := map[string]bool{}
	for url, n := range cl.joining {
		urls[url] = n > 0
	}
	return urls
}

// countLeaving counts the Deletes in progress: another member that is leaving too is no
// reason to keep this one.
func (cl *cluster) countLeaving(name string, n int) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	cl.leaving[name] += n
}

func (cl *cluster) leavingMembers() map[string]bool {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	names := map[string]bool{}
	for name, n := range cl.leaving {
		names[name] = n > 0
	}
	return names
}
