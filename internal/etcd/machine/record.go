package machine

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/volume"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// RecordLost reports whether the machine has the member of s although its record is
// missing: the cluster lists a healthy member with that name and address, and it runs on
// the machine. The record is then written again.
func (f Observed) RecordLost(s Spec, v *membership.View) bool {
	entry := EntryOf(v, s)
	return f.Reached() && f.Record == nil && f.Data && f.Running() && entry != nil && entry.Name == s.Name && entry.Healthy
}

// identity returns the IDs of the member as the cluster reports them, or as recorded.
func (f Observed) identity(v *membership.View, entry *membership.Member) ID {
	var id ID
	if f.Record != nil {
		id = ID{Member: f.Record.ID(), Cluster: membership.ParseID(f.Record.EtcdCluster)}
	}
	if v != nil && entry != nil {
		id = ID{Member: entry.ID, Cluster: v.ClusterID}
	}
	return id
}

// recordFits reports whether the record matches s. Fields missing in a record of an
// earlier version are added.
func (f Observed) recordFits(s Spec, id ID) bool {
	m := f.Record
	return m != nil && m.ClusterName == s.Bundle.ClusterName && m.Generation == s.Generation() &&
		m.UpgradeSnapshots() == s.UpgradeSnapshots() && m.saysConfigured(s) &&
		m.recordFitsRestore(s) && m.Inherited == f.inheritedDigest(s) &&
		m.ID() == id.Member && (id.Cluster == 0 || membership.ParseID(m.EtcdCluster) == id.Cluster)
}

// recordFitsRestore reports whether m says that the restore of s is done, if s has one.
func (m Record) recordFitsRestore(s Spec) bool {
	return s.Restore == nil || m.Restored == s.RestoreID()
}

// MemberID returns the recorded ID of the member; 0 if there is no record.
func (f Observed) MemberID() uint64 {
	if f.Record == nil {
		return 0
	}
	return f.Record.ID()
}

// ID identifies a member by etcd's own IDs.
type ID struct {
	Member  uint64
	Cluster uint64 // 0: unknown
}

// recordFile returns member.json.
func recordFile(s Spec, id ID, pairs map[string]string) host.File {
	return encodeRecord(s.record(id, pairs))
}

// restoringRecord returns member.json of a member whose data is being restored.
func restoringRecord(s Spec, id ID, pairs map[string]string) host.File {
	m := s.record(id, pairs)
	m.Restored, m.Restoring = "", s.RestoreID()
	return encodeRecord(m)
}

func (s Spec) record(id ID, pairs map[string]string) Record {
	configured := s.configured()
	cluster := ""
	if id.Cluster != 0 {
		cluster = fmt.Sprintf("%x", id.Cluster)
	}
	var silent map[string]string
	if s.Restore != nil {
		silent = s.Restore.Silent
	}
	return Record{
		Silent:    silent,
		ClusterID: s.Bundle.ClusterID, ClusterName: s.Bundle.ClusterName, Name: s.Name,
		MemberID: fmt.Sprintf("%x", id.Member), EtcdCluster: cluster, Generation: s.Generation(),
		SnapshotsKept: s.UpgradeSnapshots(), Pairs: pairs, Restored: s.RestoreID(),
		Configured: &configured,
	}
}

func encodeRecord(m Record) host.File {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		panic("etcd: encode the member record: " + err.Error())
	}
	return host.File{Path: layout.RecordPath, Content: append(text, '\n'), Mode: 0o644}
}

// Record is member.json: the cluster and the member that a data directory belongs to.
// etcd's own files do not contain this in a form that can be read next to a running
// server.
type Record struct {
	ClusterID   string `json:"cluster_id"`
	ClusterName string `json:"cluster_name"`
	Name        string `json:"name"`
	MemberID    string `json:"member_id"` // hex
	// EtcdCluster is etcd's own ID of the cluster, in hex. Each bootstrap of a cluster
	// results in another ID. Records of earlier versions have none.
	EtcdCluster string `json:"etcd_cluster_id,omitempty"`
	// Generation is the generation of the etcd authority that the files were made for.
	// Records written before rotations existed have none, which is 0.
	Generation int `json:"generation"`
	// SnapshotsKept is Spec.SnapshotsKept, for readers that have no spec. Records of
	// earlier versions have none, which means the default.
	SnapshotsKept int `json:"snapshots_kept"`
	// Pairs ties the certificate and the key of each leaf together: see pairDigest.
	Pairs map[string]string `json:"pairs"`
	// Restored is the ID of the restore that the data of the cluster comes from; "" if
	// there was none.
	Restored string `json:"restored,omitempty"`
	// Restoring is the ID of a restore that the machine has begun and not completed.
	Restoring string `json:"restoring,omitempty"`
	// Silent has the members whose machines the user had abandoned when the cluster was restored: address → name. What
	// they still have is of the former cluster. Only the machine on which the data was restored records it.
	Silent map[string]string `json:"silent,omitempty"`
	// Inherited is the digest of the CA pool with which a member of kubeadm was taken over; "" if the provider has
	// started the member. It matters while the manifest is kubeadm's.
	Inherited string `json:"inherited,omitempty"`
	// Configured is for an import. Records of earlier versions have none, which is
	// equivalent to an empty one.
	Configured *configured `json:"configured,omitempty"`
}

// configured is the part of the configuration that nothing else on the machine tells: the
// flags include the defaults, no certificate contains its renewal time, and a unit without
// limits does not tell whether null or an empty object was configured.
type configured struct {
	ExtraArgs    map[string]string `json:"extra_args"` // null if none are configured, as in the configuration
	EarlyRenewal time.Duration     `json:"early_renewal"`
	Settings     json.RawMessage   `json:"settings,omitempty"` // Spec.Settings
	// ArchivesKept has no effect on the machine, so an outdated value is no drift.
	ArchivesKept int `json:"archives_kept,omitempty"`
	// Volume is that of Spec. Nothing else on the machine tells by what name it was configured.
	Volume *volume.Spec `json:"volume,omitempty"`
}

func (s Spec) configured() configured {
	return configured{
		ExtraArgs: s.ExtraArgs, EarlyRenewal: s.EarlyRenewal, Settings: s.Settings,
		ArchivesKept: s.archives(), Volume: s.Volume,
	}
}

// text returns the form in which c is compared: without fields that are no drift, and
// without the white space that indenting has added to its raw part.
func (c configured) text() string {
	c.ArchivesKept = 0
	text, _ := json.Marshal(c) // its one raw part is JSON, as Spec requires: it always encodes
	return string(text)
}

// saysConfigured reports whether m has what an import of s needs.
func (m Record) saysConfigured(s Spec) bool {
	return m.recorded().text() == s.configured().text()
}

func (m Record) recorded() configured {
	if m.Configured == nil {
		return configured{}
	}
	return *m.Configured
}

// UpgradeSnapshots returns how many upgrade snapshots are kept.
func (m Record) UpgradeSnapshots() int { return orDefault(m.SnapshotsKept) }

// ID returns the ID of the member; 0 if it is not recorded.
func (m Record) ID() uint64 { return membership.ParseID(m.MemberID) }
