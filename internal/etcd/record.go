package etcd

import "github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"

// recordLost reports whether the machine holds the very member of s although its
// record is gone: the cluster lists a healthy member of that name and address, and it
// runs there. The record is then written anew.
func (f found) recordLost(s Spec, v *membership.View) bool {
	entry := entryOf(v, s)
	return f.reached() && f.Marker == nil && f.Data && f.running() && entry != nil && entry.Name == s.Name && entry.Healthy
}

// identity is the member in etcd's terms: as the cluster says, or as recorded.
func (f found) identity(v *membership.View, entry *membership.Member) memberID {
	var id memberID
	if f.Marker != nil {
		id = memberID{Member: f.Marker.id(), Cluster: membership.ParseID(f.Marker.EtcdCluster)}
	}
	if v != nil && entry != nil {
		id = memberID{Member: entry.ID, Cluster: v.ClusterID}
	}
	return id
}

// recordFits reports whether the record says what it should say of s. What a record
// of an earlier version lacks is added.
func (f found) recordFits(s Spec, id memberID) bool {
	m := f.Marker
	return m != nil && m.Generation == s.generation() && m.snapshotsKept() == s.snapshotsKept() && m.saysConfigured(s) &&
		m.id() == id.Member && (id.Cluster == 0 || membership.ParseID(m.EtcdCluster) == id.Cluster)
}

// memberID is the recorded id of the member; 0 where there is no record.
func (f found) memberID() uint64 {
	if f.Marker == nil {
		return 0
	}
	return f.Marker.id()
}
