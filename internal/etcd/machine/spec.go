package machine

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/volume"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/node"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

// Spec is the desired state of a member on its machine.
type Spec struct {
	Name      string
	Host      *host.Host
	Bundle    *pki.Bundle
	Version   string            // "3.6.16"
	ExtraArgs map[string]string // flag without dashes → value; override the defaults
	Limits    systemd.Limits    // of the unit; a change restarts the member
	// Environment has variables of the unit; a change restarts the member. Their values are no secrets.
	Environment map[string]string
	DataDir     string // "" means /var/lib/etcd
	OnDestroy   OnDestroy
	Source      host.Source
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
	StoreVersion string             // of kube-snapshot-store, which uploads them to a bucket
	// LivenessProbe restarts the member when it hangs. A change restarts nothing.
	LivenessProbe bool
	// MetricsAddress is one of AllAddresses, at which etcd also serves its metrics over TLS; "": nowhere. A change
	// restarts the member.
	MetricsAddress string
	// TextfileDirectory is that of node_exporter's textfile collector, where facts about the member are
	// written; "": nowhere. A change restarts nothing.
	TextfileDirectory string
	// Volume is the disk with the member's data and identity; nil: none. DataDir is on it.
	Volume *volume.Spec
	// ArchivedDataDir is a data directory of the member that was moved aside, which it goes on with if it has no data;
	// "": none. It is not recorded on machines.
	ArchivedDataDir string
	// Runtime is what runs the member. It is never changed on a machine.
	Runtime Runtime
	Image   string // of a static pod; "": DefaultImage
	// InstallKubelet is installed, with containerd, if the machine of a static pod has no kubelet; nil: nothing is.
	InstallKubelet *node.Wanted
	Patch          string            // strategic merge patch of a static pod, in YAML or JSON
	initial        map[string]string // flags of a static pod that forms or joins its cluster
	Restore        *Restore          // nil: none. It matters until the members' records say that it is done
}

// RestoreID returns the ID of the restore that the cluster's data comes from; "" if there is none.
func (s Spec) RestoreID() string {
	if s.Restore == nil {
		return ""
	}
	return s.Restore.ID
}

// OnDestroy is what happens to the data directory of a member that is removed.
type OnDestroy string

// The values of OnDestroy.
const (
	// renamed to DataDir + "-archive/NAME-TIME", or to "/archive/NAME-TIME" in it (see archive.sh);
	// the last member leaves a snapshot there too
	Archive OnDestroy = "archive"
	Wipe    OnDestroy = "wipe"
)

// ClientURL returns the URL at which API servers reach the member.
func (s Spec) ClientURL() string { return membership.ClientURL(s.Host.Address()) }

// PeerURL returns the URL at which the other members reach it.
func (s Spec) PeerURL() string { return membership.PeerURL(s.Host.Address()) }

// Directory returns the data directory.
func (s Spec) Directory() string {
	if s.DataDir == "" {
		return layout.DefaultDataDir
	}
	return s.DataDir
}

// UpgradeSnapshots returns how many upgrade snapshots are kept.
func (s Spec) UpgradeSnapshots() int { return orDefault(s.SnapshotsKept) }

func orDefault(snapshots int) int {
	if snapshots == 0 {
		return snapshot.DefaultKept
	}
	return snapshots
}

// Label names the member for messages.
func (s Spec) Label() string { return membership.Label(s.Name, s.Host.Address()) }

// SnapshotMember returns the member as package snapshot describes it.
func (s Spec) SnapshotMember() snapshot.Member {
	m := snapshot.Member{Name: s.Name, ClientURL: s.ClientURL(), DataDir: s.Directory(), Settings: s.Snapshots}
	m.StoreVersion = s.StoreVersion
	if s.Bundle != nil {
		m.ClusterID, m.ClusterName = s.Bundle.ClusterID, s.Bundle.ClusterName
	}
	return m
}

// Generation returns the stage of s in the rotation of the etcd authority: each number is
// one stage (see package pki).
func (s Spec) Generation() int { return s.Bundle.Generation(pki.EtcdPart) }

var dnsName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$`)

// longestName is the limit of X.509 for the common name of a certificate (RFC 5280, ub-common-name).
const longestName = 64

// ValidateName accepts what is safe in a certificate, a path and etcd's NAME=URL lists: a DNS name, as nodes have,
// which kubeadm names members after. One of digits and dots alone would pass for an address.
func ValidateName(name string) error {
	if len(name) > longestName || !dnsName.MatchString(name) ||
		strings.Contains(name, ".") && strings.Trim(name, "0123456789.") == "" {
		return fmt.Errorf("member name %q is not a DNS name of at most %d characters: use lower-case letters, digits and "+
			"dashes, with dots between, each part starting and ending with a letter or digit", name, longestName)
	}
	if isRestoring(name) {
		return fmt.Errorf("member name %q is reserved: beside the archives, what a restore has made is called so", name)
	}
	return nil
}

// ValidatePeers checks the map of member name → address through which the cluster is
// found: it must contain this member at this address, and no address twice.
func ValidatePeers(name, address string, peers map[string]string) error {
	listed, ok := peers[name]
	if !ok {
		return fmt.Errorf("peers does not contain this member: add %q = %q", name, address)
	}
	if listed != address {
		return fmt.Errorf("peers lists %q at %s, but its host.address is %s", name, listed, address)
	}
	seen := map[string]string{}
	for _, peer := range slices.Sorted(maps.Keys(peers)) {
		if err := ValidateName(peer); err != nil {
			return fmt.Errorf("peers: %w", err)
		}
		at := peers[peer]
		if err := host.CheckAddressForm(at); err != nil {
			return fmt.Errorf("peers: address of %q: %w", peer, err)
		}
		if other, twice := seen[at]; twice {
			return fmt.Errorf("peers lists %s twice, for %q and %q", at, other, peer)
		}
		seen[at] = peer
	}
	return nil
}

// ValidateDataDir accepts an absolute path that is used for nothing else. The archive is
// next to it, and the directory as a whole is moved there.
func ValidateDataDir(dir string) error {
	shared := []string{"/var/lib", "/var/log", "/usr/lib", "/etc/etcd", "/etc/kubernetes", "/opt/kube"}
	switch {
	case !path.IsAbs(dir) || path.Clean(dir) != dir:
		return fmt.Errorf("data directory %q is not a clean absolute path", dir)
	case strings.Count(dir, "/") < 2 || slices.Contains(shared, dir):
		return fmt.Errorf("data directory %q is shared with other software: use a directory for etcd only, such as %s", dir,
			layout.DefaultDataDir)
	case !layout.PlainPath.MatchString(dir):
		return fmt.Errorf("data directory %q has characters other than letters, digits and . _ - /", dir)
	}
	return nil
}

// ValidateArchivedDataDir checks the data directory that a member takes up again, together with its own.
func ValidateArchivedDataDir(archived, dataDir string) error {
	if err := ValidateDataDir(archived); err != nil {
		return fmt.Errorf("archived %w", err)
	}
	if archived == dataDir || strings.HasPrefix(dataDir, archived+"/") || strings.HasPrefix(archived, dataDir+"/member") {
		return fmt.Errorf("archived data directory %s is or has the data directory %s: name the directory that its member "+
			"directory was moved to", archived, dataDir)
	}
	return nil
}
