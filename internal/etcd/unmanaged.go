package etcd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
)

// unmanaged returns the members that the cluster lists but the peers of s do not contain:
// another party added them, or a resource was forgotten. Each of them has a vote, or will
// have one, and all the data. A member matches a peer by its name and peer URL; a member
// that has not started has no name yet. FormerPeers count as peers.
func unmanaged(s Spec, v *membership.View) []membership.Member {
	if machine.EntryOf(v, s.Spec) == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(v.Members), func(m membership.Member) bool {
		names := s.namesAt(m.PeerURLs)
		return len(names) > 0 && (m.Name == "" || slices.Contains(names, m.Name))
	})
}

// namesAt returns the names in s for the member at any of the peer URLs.
func (s Spec) namesAt(peerURLs []string) []string {
	var out []string
	for name, h := range s.Peers {
		if slices.Contains(peerURLs, membership.PeerURL(h.Address())) {
			out = append(out, name)
		}
	}
	for name, h := range s.FormerPeers {
		if slices.Contains(peerURLs, membership.PeerURL(h.Address())) {
			out = append(out, name)
		}
	}
	if slices.Contains(peerURLs, s.PeerURL()) {
		out = append(out, s.Name)
	}
	return out
}

// withUnmanaged adds the unmanaged members to the drift of a member. It skips those that
// join or leave in this process, because their own resources handle them.
func (cl *cluster) withUnmanaged(s Spec, status Status, err error) (Status, error) {
	comers, goers := cl.joiningPeerURLs(), cl.leavingMembers()
	var ids []string
	for _, m := range status.unmanaged {
		coming := m.Learner && slices.ContainsFunc(m.PeerURLs, func(url string) bool { return comers[url] })
		if coming || m.Name != "" && goers[m.Name] {
			continue
		}
		ids = append(ids, fmt.Sprintf("%x", m.ID))
		status.Drift = append(status.Drift, s.Name+": "+unmanagedText(m))
	}
	if len(ids) > 0 {
		status.Remedy = unmanagedRemedy(s, ids)
	}
	return status, err
}

// unmanagedText describes an unmanaged member. Values that the member reports are quoted.
func unmanagedText(m membership.Member) string {
	who := fmt.Sprintf("member %q (%x)", m.Name, m.ID)
	switch {
	case m.Name == "":
		who = fmt.Sprintf("a member that has never started (%x)", m.ID)
	case m.Learner:
		who = fmt.Sprintf("learner %q (%x)", m.Name, m.ID)
	}
	return fmt.Sprintf("the cluster lists %s at %q, which is not in peers", who, strings.Join(m.PeerURLs, ","))
}

// unmanagedRemedy returns the next step: no apply adds a member to peers, or removes one,
// that no configuration describes.
func unmanagedRemedy(s Spec, ids []string) string {
	text := "find out who added it. If it belongs to the cluster, add it to peers of every member. Otherwise remove it while all other members are healthy, on the machine of " + s.Name + ":"
	for _, id := range ids {
		text += "\n  " + machine.ArtifactDir(s.Version) + "/etcdctl --endpoints=" + s.ClientURL() + " --cacert=" + layout.CAPath +
			" --cert=" + layout.PKIDir + "/healthcheck-client.crt --key=" + layout.PKIDir + "/healthcheck-client.key member remove " + id
	}
	return text
}

// countJoining counts the Creates in progress, by peer URL.
func (cl *cluster) countJoining(peerURL string, n int) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if cl.coming == nil {
		cl.coming = map[string]int{}
	}
	cl.coming[peerURL] += n
}

func (cl *cluster) joiningPeerURLs() map[string]bool {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	urls := map[string]bool{}
	for url, n := range cl.coming {
		urls[url] = n > 0
	}
	return urls
}
