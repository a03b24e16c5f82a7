package etcd

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// Where a member lives on its machine. The certificates have kubeadm's places.
const (
	unitName   = "etcd.service"
	unitPath   = "/etc/systemd/system/" + unitName
	dropInDir  = unitPath + ".d"
	configDir  = "/etc/etcd"
	envPath    = configDir + "/bootstrap.env"
	markerPath = configDir + "/member.json"
	runtimeDir = "etcd" // below /run, where systemd makes and removes it
	startNote  = "/run/" + runtimeDir + "/started"
	pkiDir     = "/etc/kubernetes/pki/etcd"
	caPath     = pkiDir + "/ca.crt"
	user       = "etcd"
	product    = "etcd"
)

var ports = []int{2379, 2380, 2381}

// query is everything the package ever wants to know of a machine, in one
// round trip.
func query(s Spec) host.Query {
	q := host.Query{
		Contents: []string{unitPath, envPath, markerPath, caPath, startNote, beforePath},
		Dirs:     []string{s.dataDir(), artifactDir(s.Version), dropInDir, upgradesDir(s.dataDir())},
		Units:    []string{unitName, snapshotTimer, snapshotService},
		Ports:    ports,
		Disks:    []string{s.dataDir(), upgradesDir(s.dataDir())},
	}
	q.Contents = append(q.Contents, snapshotPaths...)
	q.Script, q.Vars = snapshotQuestions(s)
	for _, leaf := range leaves(s) {
		q.Contents = append(q.Contents, certificatePath(leaf))
		q.Files = append(q.Files, keyPath(leaf))
	}
	return q
}

// marker is member.json: to which cluster and member a data directory belongs.
// etcd's own files do not say so in a form that can be read beside a running server.
type marker struct {
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
func (m marker) saysConfigured(s Spec) bool { return m.configured().text() == s.configured().text() }

func (m marker) configured() configured {
	if m.Configured == nil {
		return configured{}
	}
	return *m.Configured
}

func (m marker) snapshotsKept() int { return orDefault(m.SnapshotsKept) }

func (m marker) id() uint64 { return membership.ParseID(m.MemberID) }

// found is one machine as it was observed, in this package's terms.
type found struct {
	Name    string
	Address string
	Err     error // why it could not be observed; everything below is empty then
	facts   host.Facts

	Data      bool    // the data directory holds a member
	Marker    *marker // nil: no readable member.json
	MarkerErr error   // why it is there and cannot be read
	Pending   bool    // bootstrap.env is there: not yet an established voter
	New       bool    // Pending, and the static bootstrap of a new cluster
	Token     string  // of that cluster
	Initial   []string
	Unit      host.UnitState
}

// reached reports whether the machine answered over SSH.
func (f found) reached() bool { return f.Err == nil }

// running reports whether etcd runs or systemd is about to start it (again).
func (f found) running() bool {
	return slices.Contains([]string{"active", "activating", "reloading", "deactivating"}, f.Unit.Active)
}

// began reports whether a member of ours has, had, or is about to have data
// here. An established member whose data directory was emptied counts: there was a cluster.
func (f found) began() bool {
	return f.Data || f.running() || (f.Marker != nil && !f.Pending)
}

// foreign says in words why what is on the machine is not of this cluster, or "".
func (f found) foreign(clusterID, dataDir string) string {
	switch {
	case f.Data && f.Marker == nil:
		return fmt.Sprintf("%s on %s holds etcd data, and no %s says to which cluster it belongs%s", dataDir, f.label(), markerPath, f.unreadable())
	case f.Marker != nil && f.Marker.ClusterID != clusterID:
		return fmt.Sprintf("%s is a member of another cluster, %q (id %s)", f.label(), f.Marker.ClusterName, f.Marker.ClusterID)
	case f.running() && f.Marker == nil:
		return fmt.Sprintf("%s runs on %s, and no %s says to which cluster it belongs%s", unitName, f.label(), markerPath, f.unreadable())
	}
	return ""
}

// unreadable says why there is no record although there is a file.
func (f found) unreadable() string {
	if f.MarkerErr == nil {
		return ""
	}
	return " (the one that is there cannot be read: " + f.MarkerErr.Error() + ")"
}

// empty reports whether nothing of a member is on the machine.
func (f found) empty() bool {
	_, unit := f.facts.Files[unitPath]
	return !f.Data && !unit && !f.running() && f.Marker == nil
}

func (f found) label() string { return membership.Label(f.Name, f.Address) }

// interpret reads the facts of one machine.
func interpret(name, address, dataDir string, facts host.Facts, err error) found {
	f := found{Name: name, Address: address, Err: err, facts: facts}
	if err != nil {
		return f
	}
	f.Data = slices.Contains(facts.Dirs[dataDir], "member")
	f.Unit = facts.Units[unitName]
	if file, ok := facts.Files[markerPath]; ok {
		f.Marker, f.MarkerErr = readRecord(file.Content)
	}
	if file, ok := facts.Files[envPath]; ok {
		f.Pending = true
		env := parseEnvironment(file.Content)
		f.New = env["ETCD_INITIAL_CLUSTER_STATE"] == "new"
		f.Token = initialToken(env["ETCD_INITIAL_CLUSTER_TOKEN"])
		f.Initial = initialNames(env["ETCD_INITIAL_CLUSTER"])
	}
	return f
}

func parseEnvironment(text string) map[string]string {
	env := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			env[key] = value
		}
	}
	return env
}
