// Package etcd makes, reads, changes and removes the members of one etcd
// cluster on machines, by rules that never risk quorum. It is the only package
// that speaks etcd's protocol.
package etcd

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

// ErrGone: there is positive evidence that the member no longer exists: the
// cluster's own member list lacks it, and the host does not answer or holds
// nothing of it; or no member answers, and the host holds nothing of it.
var ErrGone = errors.New("etcd member does not exist")

// OnDestroy says what becomes of the data directory of a member that leaves.
type OnDestroy string

// The choices of OnDestroy.
const (
	Archive OnDestroy = "archive" // renamed to DataDir + "-archive/NAME-TIME", or to "/archive/NAME-TIME" in it (see archive.sh); the last member leaves a snapshot there too
	Wipe    OnDestroy = "wipe"
)

// Spec is one member as it is wanted.
type Spec struct {
	Name       string
	Host       *host.Host
	Peers      map[string]*host.Host // by member name, this one included: where to look for the cluster
	Bundle     *pki.Bundle
	Version    string            // "3.6.16"
	ExtraArgs  map[string]string // flag without dashes → value; override the defaults
	Limits     systemd.Limits    // of the unit; a change restarts the member
	DataDir    string            // "" means /var/lib/etcd
	OnDestroy  OnDestroy
	Source     host.Source
	Outage     Outage     // nil: nobody has to step aside
	APIServers APIServers // nil: nobody is asked
	// EarlyRenewal is how long before its end a certificate is renewed; 0 means a
	// third of its life.
	EarlyRenewal time.Duration
	// Settings are Limits as the configuration writes them, as JSON. They are kept
	// on the machine, for an import.
	Settings json.RawMessage
	// SnapshotsKept is how many snapshots of upgrades stay on the machine; 0 means
	// DefaultSnapshotsKept.
	SnapshotsKept int
	// ArchivesKept is how many archives of data directories stay on the machine; 0
	// means DefaultArchivesKept. A change of it touches nothing there.
	ArchivesKept int
	Snapshots    *Snapshots // on a schedule; nil: none. A change restarts nothing
	// FormerPeers are the peers of the state that an Update starts from. Who is no
	// longer in Peers leaves in the same run.
	FormerPeers map[string]*host.Host
}

// ClientURL is where API servers reach the member.
func (s Spec) ClientURL() string { return membership.ClientURL(s.Host.Address()) }

// PeerURL is where the other members reach it.
func (s Spec) PeerURL() string { return membership.PeerURL(s.Host.Address()) }

func (s Spec) dataDir() string {
	if s.DataDir == "" {
		return DefaultDataDir
	}
	return s.DataDir
}

func (s Spec) snapshotsKept() int { return orDefault(s.SnapshotsKept) }

func orDefault(snapshots int) int {
	if snapshots == 0 {
		return DefaultSnapshotsKept
	}
	return snapshots
}

func (s Spec) label() string { return membership.Label(s.Name, s.Host.Address()) }

// Status is one member as it was found.
type Status struct {
	ID                string // hex
	Version           string // of the running server; "" when it does not answer
	Leader            bool
	Learner           bool
	Healthy           bool
	DBSize            int64 // bytes
	Alarms            []string
	Unit              string // systemd's ActiveState
	MachineID         string
	ConfigDigest      string    // of the rendered files as found
	CertificateExpiry time.Time // the earliest of its leaf certificates
	// Drift says in words how the machine differs from Spec, naming machine and
	// difference; empty when it does not. For a flag: name, found, wanted.
	Drift []string
	// Remedy is the next step for what is in Drift and no Update can mend; "" where
	// there is no such thing.
	Remedy string
	// NewID is whether the next Update joins the member anew, with another id.
	NewID bool

	unmanaged []membership.Member // see withUnmanaged
}
