package etcd

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// recordLost reports whether the machine holds the very member of s although its
// record is gone: the cluster lists a healthy member of that name and address, and it
// runs there. The record is then written anew.
func (f observed) recordLost(s Spec, v *membership.View) bool {
	entry := entryOf(v, s)
	return f.reached() && f.Record == nil && f.Data && f.running() && entry != nil && entry.Name == s.Name && entry.Healthy
}

// identity is the member in etcd's terms: as the cluster says, or as recorded.
func (f observed) identity(v *membership.View, entry *membership.Member) memberID {
	var id memberID
	if f.Record != nil {
		id = memberID{Member: f.Record.id(), Cluster: membership.ParseID(f.Record.EtcdCluster)}
	}
	if v != nil && entry != nil {
		id = memberID{Member: entry.ID, Cluster: v.ClusterID}
	}
	return id
}

// recordFits reports whether the record says what it should say of s. What a record
// of an earlier version lacks is added.
func (f observed) recordFits(s Spec, id memberID) bool {
	m := f.Record
	return m != nil && m.Generation == s.generation() && m.snapshotsKept() == s.snapshotsKept() && m.saysConfigured(s) &&
		m.id() == id.Member && (id.Cluster == 0 || membership.ParseID(m.EtcdCluster) == id.Cluster)
}

// memberID is the recorded id of the member; 0 where there is no record.
func (f observed) memberID() uint64 {
	if f.Record == nil {
		return 0
	}
	return f.Record.id()
}

// memberID is a member in etcd's own terms.
type memberID struct {
	Member  uint64
	Cluster uint64 // 0: not known
}

// recordFile is member.json.
func recordFile(s Spec, id memberID, pairs map[string]string) host.File {
	given := s.configured()
	cluster := ""
	if id.Cluster != 0 {
		cluster = fmt.Sprintf("%x", id.Cluster)
	}
	text, err := json.MarshalIndent(record{
		ClusterID: s.Bundle.ClusterID, ClusterName: s.Bundle.ClusterName, Name: s.Name,
		MemberID: fmt.Sprintf("%x", id.Member), EtcdCluster: cluster, Generation: s.generation(), SnapshotsKept: s.snapshotsKept(), Pairs: pairs,
		Configured: &given,
	}, "", "  ")
	if err != nil {
		panic("etcd: a marker of strings cannot fail to encode: " + err.Error())
	}
	return host.File{Path: recordPath, Content: append(text, '\n'), Mode: 0o644}
}

// record is member.json: to which cluster and member a data directory belongs.
// etcd's own files do not say so in a form that can be read beside a running server.
type record struct {
	ClusterID   string `json:"cluster_id"`
	ClusterName string `json:"cluster_name"`
	Name        string `json:"name"`
	MemberID    string `json:"member_id"` // hex
	// EtcdCluster is etcd's own id of the cluster, hex: another one each time a
	// cluster is founded. A record of an earlier version has none.
	EtcdCluster string `json:"etcd_cluster_id,omitempty"`
	// Generation of the etcd authority that the files were made for. One that
	// was written before there were rotations has none, which is 0.
	Generation int `json:"generation"`
	// SnapshotsKept is Spec.SnapshotsKept for who has no spec. One that was
	// written before there was such a thing has none, which is the default.
	SnapshotsKept int `json:"snapshots_kept"`
	// Pairs ties certificate and key of each leaf: see pairDigest.
	Pairs map[string]string `json:"pairs"`
	// Configured is for an import. One that was written before there was such a
	// thing has none, which is as good as one that says nothing.
	Configured *configured `json:"configured,omitempty"`
}

// configured is what the configuration says and nothing else on the machine
// tells: the flags have the defaults among them, no certificate says when it is to
// be renewed, and a unit without limits not whether null or an empty object gave none.
type configured struct {
	ExtraArgs    map[string]string `json:"extra_args"` // null where none are given, as in the configuration
	EarlyRenewal time.Duration     `json:"early_renewal"`
	Settings     json.RawMessage   `json:"settings,omitempty"` // Spec.Settings
	// ArchivesKept is of no use to the machine: one that is out of date is no drift.
	ArchivesKept int `json:"archives_kept,omitempty"`
}

func (s Spec) configured() configured {
	return configured{ExtraArgs: s.ExtraArgs, EarlyRenewal: s.EarlyRenewal, Settings: s.Settings, ArchivesKept: s.archivesKept()}
}

// text is how c is compared: without what is no drift, and without the white space that indenting has put into
// its raw part.
func (c configured) text() string {
	c.ArchivesKept = 0
	text, _ := json.Marshal(c) // its one raw part is JSON by Spec's promise: it always encodes
	return string(text)
}

// saysConfigured reports whether m has what an import of s needs.
func (m record) saysConfigured(s Spec) bool { return m.configured().text() == s.configured().text() }

func (m record) configured() configured {
	if m.Configured == nil {
		return configured{}
	}
	return *m.Configured
}

func (m record) snapshotsKept() int { return orDefault(m.SnapshotsKept) }

func (m record) id() uint64 { return membership.ParseID(m.MemberID) }
