// Package etcd creates, reads, changes and removes the members of one etcd cluster on
// machines, by rules that never risk quorum. It is the only package that uses etcd's
// protocol.
package etcd

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

// ErrGone means that there is positive evidence that the member no longer exists. Either
// the cluster's own member list lacks it, and the host does not answer or has nothing of
// it; or no member answers, and the host has nothing of it.
var ErrGone = errors.New("etcd member does not exist")

// OnDestroy is what happens to the data directory of a member that is removed.
type OnDestroy string

// The values of OnDestroy.
const (
	Archive OnDestroy = "archive" // renamed to DataDir + "-archive/NAME-TIME", or to "/archive/NAME-TIME" in it (see archive.sh); the last member leaves a snapshot there too
	Wipe    OnDestroy = "wipe"
)

// Spec is the desired state of one member.
type Spec struct {
	Name       string
	Host       *host.Host
	Peers      map[string]*host.Host // by member name, this one included: where to find the cluster
	Bundle     *pki.Bundle
	Version    string            // "3.6.16"
	ExtraArgs  map[string]string // flag without dashes → value; override the defaults
	Limits     systemd.Limits    // of the unit; a change restarts the member
	DataDir    string            // "" means /var/lib/etcd
	OnDestroy  OnDestroy
	Source     host.Source
	Outage     Outage     // nil: nothing has to be drained
	APIServers APIServers // nil: no API servers are checked
	// EarlyRenewal is how long before its expiry a certificate is renewed; 0 means a third
	// of its lifetime.
	EarlyRenewal time.Duration
	// Settings is Limits as written in the configuration, as JSON. It is kept on the
	// machine, for an import.
	Settings json.RawMessage
	// SnapshotsKept is how many upgrade snapshots are kept on the machine; 0 means
	// DefaultSnapshotsKept.
	SnapshotsKept int
	// ArchivesKept is how many archives of data directories are kept on the machine; 0
	// means DefaultArchivesKept. Changing it does not change the machine.
	ArchivesKept int
	Snapshots    *snapshot.Settings // on a schedule; nil: none. A change restarts nothing
	// FormerPeers are the peers in the state that an Update starts from. A peer that is no
	// longer in Peers leaves in the same run.
	FormerPeers map[string]*host.Host
}

// ClientURL returns the URL at which API servers reach the member.
func (s Spec) ClientURL() string { return membership.ClientURL(s.Host.Address()) }

// PeerURL returns the URL at which the other members reach it.
func (s Spec) PeerURL() string { return membership.PeerURL(s.Host.Address()) }

func (s Spec) dataDir() string {
	if s.DataDir == "" {
		return layout.DefaultDataDir
	}
	return s.DataDir
}

func (s Spec) snapshotsKept() int { return orDefault(s.SnapshotsKept) }

func orDefault(snapshots int) int {
	if snapshots == 0 {
		return snapshot.DefaultKept
	}
	return snapshots
}

// snapshotMember returns the member as package snapshot describes it.
func (s Spec) snapshotMember() snapshot.Member {
	m := snapshot.Member{Name: s.Name, ClientURL: s.ClientURL(), DataDir: s.dataDir(), Settings: s.Snapshots}
	if s.Bundle != nil {
		m.ClusterName = s.Bundle.ClusterName
	}
	return m
}

func (s Spec) label() string { return membership.Label(s.Name, s.Host.Address()) }

// Status is the observed state of one member.
type Status struct {
	ID                string // hex
	Version           string // of the running server; "" if it does not answer
	Leader            bool
	Learner           bool
	Healthy           bool
	DBSize            int64 // bytes
	Alarms            []string
	Unit              string // systemd's ActiveState
	MachineID         string
	ConfigDigest      string    // of the rendered files on the machine
	CertificateExpiry time.Time // the earliest of its leaf certificates
	// Drift describes how the machine differs from Spec. Each entry contains the machine
	// and the difference; for a flag: name, observed value, desired value. It is empty if
	// there is none.
	Drift []string
	// Remedy is the next step for those entries of Drift that no Update can repair; "" if
	// there are none.
	Remedy string
	// NewID reports whether the next Update joins the member again, with another ID.
	NewID bool

	unmanaged []membership.Member // see withUnmanaged
}
