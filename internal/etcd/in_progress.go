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
	delete(cl.awaits, name)
	if delete(cl.creates, name); err != nil {
		cl.creates[name] = err
	}
}

// forgetFailure forgets a Create of a member that has failed: the cluster is no longer meant to continue with it.
func (cl *cluster) forgetFailure(name string) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if cl.creates[name] != nil {
		delete(cl.creates, name)
	}
}

// await records that the Create of a member waits until another one is removed, and follows it then.
func (cl *cluster) await(name, removed string) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if cl.awaits == nil {
		cl.awaits = map[string]string{}
	}
	cl.awaits[name] = removed
}

// Creating returns the names of the members that this process is creating, or has failed
// to create: the cluster is meant to continue.
func (c *Clusters) Creating(clusterID string) []string {
	a := c.named(clusterID).arrivals()
	var all []string
	for _, name := range slices.Concat(a.pending, a.awaiting, a.failed) {
		all = append(all, fmt.Sprintf("etcd member %q", name))
	}
	return all
}

// arrivals are the members whose Create is in progress, or has failed in this process.
type arrivals struct {
	pending   []string
	following []string // the pending ones whose Creates have waited for a Delete, which has ended
	awaiting  []string // their Creates wait for a Delete that is in progress
	failed    []string
}

func (cl *cluster) arrivals() arrivals {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	var all arrivals
	for _, name := range slices.Sorted(maps.Keys(cl.creates)) {
		switch {
		case cl.creates[name] != nil:
			all.failed = append(all.failed, name)
		case cl.leaving[cl.awaits[name]] > 0:
			all.awaiting = append(all.awaiting, name)
		default:
			all.pending = append(all.pending, name)
			if cl.awaits[name] != "" {
				all.following = append(all.following, name)
			}
		}
	}
	return all
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
