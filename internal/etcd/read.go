package etcd

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Read observes the member in one round trip and queries the cluster about it. It returns
// ErrGone if the member is gone, and host.ErrUnreachable or host.ErrNoAnswer if its host cannot be reached or hangs
// (the caller then keeps its state).
func (c *Clusters) Read(ctx context.Context, s Spec) (Status, error) {
	cl := c.of(s)
	clients, err := cl.connect(s)
	if err != nil {
		return Status{}, err
	}
	defer clients.Close()
	var f machine.Observed
	var v *membership.View
	var ids map[string]uint64
	var group sync.WaitGroup
	group.Go(func() { f = cl.observeInTime(ctx, s, s.Name, s.Host) })
	var asked error
	group.Go(func() { v, asked = cl.viewOf(ctx, s) })
	group.Go(func() { ids = cl.served(ctx, clients, s) })
	group.Wait()
	if asked != nil {
		return Status{}, asked
	}
	if v != nil || f.HasMember() || f.HoldsVolume(s.Spec) && f.Volume.Identity.Has() {
		cl.noteExists("a read of member " + s.Name)
	}
	if v != nil || f.Data {
		cl.noteLost(v == nil)
	}
	if isGone(s, f, v) {
		return Status{}, goneProblem(s, v)
	}
	if !f.Reached() {
		return Status{}, fmt.Errorf("observe %s: %w", s.Label(), f.Err)
	}
	status := describe(s, f, v)
	status.Drift = append(status.Drift, clusterDrift(s, f, v, ids)...)
	return cl.withUnmanaged(s, status, nil)
}

// clusterDrift reports that the member, or another one of the bundle, belongs to another
// etcd cluster than it should.
func clusterDrift(s Spec, f machine.Observed, v *membership.View, ids map[string]uint64) []string {
	var words []string
	if cause := membership.DescribeSplit(ids); cause != "" {
		words = append(words, s.Name+": "+cause)
	}
	if v != nil && f.OfEarlierCluster(v.ClusterID) != "" {
		words = append(words, s.Name+": "+f.OfEarlierCluster(v.ClusterID))
	}
	return words
}

// isGone requires positive evidence: the machine answers, nothing of the member is on it,
// and no member list backed by a quorum contains the member. If the machine still has
// something of a removed member, the member is not gone: its removal was interrupted, or
// done by hand, and either a Delete has to clean the machine or an Update has to join the
// member again. If the machine cannot be observed, the member is not gone either:
// abandoning it is the user's decision.
//
// A member with a volume needs more: without an answer of the cluster, a machine without the volume says nothing. Its
// data may be on a disk that is not attached now, so the member is gone only if the volume says that it was removed.
func isGone(s Spec, f machine.Observed, v *membership.View) bool {
	if !f.Reached() {
		return false
	}
	return v != nil && machine.EntryOf(v, s.Spec) == nil && !f.Holds(s.Spec) ||
		v == nil && f.Empty() && (s.Volume == nil || f.VolumeSaysRemoved(s.Spec))
}

// goneProblem returns ErrGone with the evidence. The next plan shows it together with the
// new member.
func goneProblem(s Spec, v *membership.View) error {
	cause := "it is not in the cluster's member list"
	if v == nil {
		cause = "the machine answers and has nothing of the member, and no other member lists it"
	}
	return &problem.Problem{
		Summary: fmt.Sprintf("etcd member %q is gone", s.Name), Host: s.Label(), Cause: cause, Err: ErrGone,
		Next: "apply to create it again; if it is no longer needed, remove it from the configuration",
	}
}

// describe combines the observed state of the machine with the cluster's view; v is nil if
// no member answered.
func describe(s Spec, f machine.Observed, v *membership.View) Status {
	out := Status{
		Unit:              f.Unit.Active,
		MachineID:         f.Facts.MachineID,
		Holds:             f.HasMemberOf(s.Spec),
		ConfigDigest:      machine.ConfigDigest(f.Facts.Files),
		CertificateExpiry: machine.Expiry(f.Facts.Files),
		NewID:             machine.Rebuilt(f) && s.Volume == nil && s.ArchivedDataDir == "" || replaced(s, f, v),
		unmanaged:         unmanaged(s, v),
	}
	if f.Reached() {
		out.Remedy = cmp.Or(s.VolumeRemedy(f), machine.CrowdRemedy(f))
	}
	var entry *membership.Member
	if v != nil {
		if m, ok := v.ByPeerURL(s.PeerURL()); ok {
			entry = &m
			out.ID, out.Version, out.Learner = fmt.Sprintf("%x", m.ID), m.Version, m.Learner
			out.Healthy = m.Healthy && len(m.Alarms) == 0
			out.Leader, out.DBSize, out.Alarms = m.ID == v.Leader, m.DBSize, m.Alarms
		}
	}
	switch {
	case v != nil && entry == nil: // nothing else is reported then
		out.Drift = []string{s.Name + ": the cluster no longer lists this member, but its machine still has its files"}
	case f.Reached():
		out.Drift = slices.Concat(machine.Drift(s.Spec, f, entry, time.Now()), membership.AlarmDrift(s.Name, v, entry),
			membership.DowngradeDrift(s.Name, v, s.Version))
	}
	return out
}

// statusNow returns the status after a change.
func (cl *cluster) statusNow(ctx context.Context, clients *client.Clients, s Spec) (Status, error) {
	f := cl.observe(ctx, s, s.Name, s.Host)
	if !f.Reached() {
		return Status{}, fmt.Errorf("observe %s after its change: %w", s.Label(), f.Err)
	}
	v, err := clients.View(ctx, cl.addresses(s))
	if err != nil {
		return describe(s, f, nil), nil // the change succeeded; Read reports health
	}
	return describe(s, f, &v), nil
}

// unmanaged returns the members that the cluster lists but the peers of s do not contain:
// another party added them, or a resource was forgotten. Each of them has a vote, or will
// have one, and all the data. A member matches a peer by its name and peer URL; a member
// that has not started has no name yet. FormerPeers count as peers.
func unmanaged(s Spec, v *membership.View) []unmanagedMember {
	if machine.EntryOf(v, s.Spec) == nil {
		return nil
	}
	var out []unmanagedMember
	for _, m := range v.Members {
		names := s.namesAt(m.PeerURLs)
		if len(names) == 0 || m.Name != "" && !slices.Contains(names, m.Name) {
			out = append(out, unmanagedMember{Member: m, movesTo: s.movesTo(m, v)})
		}
	}
	return out
}

// unmanagedMember is a member that is not in peers as the cluster lists it.
type unmanagedMember struct {
	membership.Member
	movesTo string // the peer URL that peers have for this name, if no member is listed there
}

// movesTo returns the peer URL to which the member moves with its volume, or "": an apply that was cut off leaves it
// where it was, while peers of the others have the new address.
func (s Spec) movesTo(m membership.Member, v *membership.View) string {
	peer, ok := s.Peers[m.Name]
	if !ok || m.Learner || len(s.namesAt(m.PeerURLs)) > 0 {
		return ""
	}
	url := membership.PeerURL(peer.Address())
	if _, listed := v.ByPeerURL(url); listed {
		return ""
	}
	return url
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
	joining, leaving := cl.joiningPeerURLs(), cl.leavingMembers()
	var ids []string
	for _, m := range status.unmanaged {
		isJoining := m.Learner && slices.ContainsFunc(m.PeerURLs, func(url string) bool { return joining[url] })
		if isJoining || m.Name != "" && leaving[m.Name] {
			continue
		}
		if m.movesTo == "" {
			ids = append(ids, fmt.Sprintf("%x", m.ID))
		}
		status.Drift = append(status.Drift, s.Name+": "+unmanagedText(m))
	}
	if len(ids) > 0 {
		status.Remedy = unmanagedRemedy(s, ids)
	}
	return status, err
}

// unmanagedText describes an unmanaged member. Values that the member reports are quoted.
func unmanagedText(m unmanagedMember) string {
	who := fmt.Sprintf("member %q (%x)", m.Name, m.ID)
	switch {
	case m.movesTo != "":
		return fmt.Sprintf("the cluster lists %s at %q, and peers have it at %q: it has not been moved yet", who,
			strings.Join(m.PeerURLs, ","), m.movesTo)
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
	text := "find out who added it. If it belongs to the cluster, add it to peers of every member. Otherwise remove it " +
		"while all other members are healthy, on the machine of " + s.Name + ":"
	for _, id := range ids {
		text += "\n  " + machine.ArtifactDir(s.Version) + "/etcdctl --endpoints=" + s.ClientURL() + " --cacert=" +
			layout.CAPath +
			" --cert=" + layout.PKIDir + "/healthcheck-client.crt --key=" + layout.PKIDir +
			"/healthcheck-client.key member remove " + id
	}
	return text
}
