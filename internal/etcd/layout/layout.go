// Package layout says where the files of an etcd member are on its machine.
package layout

import (
	"regexp"
)

// Locations of a member on its machine. The certificates are at kubeadm's paths.
const (
	Unit       = "etcd.service"
	UnitPath   = "/etc/systemd/system/" + Unit
	DropInDir  = UnitPath + ".d"
	ConfigDir  = "/etc/etcd"
	EnvPath    = ConfigDir + "/bootstrap.env"
	RecordPath = ConfigDir + "/member.json"
	DrillPath  = ConfigDir + "/restore-drill.json" // the result of the last drill on the machine
	RuntimeDir = "etcd"                            // below /run, where systemd creates and removes it
	StartNote  = "/run/" + RuntimeDir + "/started"
	PKIDir     = "/etc/kubernetes/pki/etcd"
	CAPath     = PKIDir + "/ca.crt"
	User       = "etcd"
	Product    = "etcd"
)

// Locations of a member that is a static pod. The kubelet runs a copy of the definition: see package staticpod.
const (
	PodPath = ConfigDir + "/etcd.yaml" // the definition, what UnitPath is for a unit
	// StartGuard is a link to a directory that exists only if the member may start: see the pod's mounts.
	StartGuard = ConfigDir + "/start-allowed"
	// Inherited keeps the manifest of somebody else that the provider has replaced.
	Inherited = ConfigDir + "/inherited"
	// MovedManifests is where other manifests of the member's pod are moved.
	MovedManifests = ConfigDir + "/moved-manifests"
)

// RollbackUnitPath is the copy of the unit, or of the definition of the pod, that a member ran with before its version
// changed. It exists from the moment the new unit is written until the member serves with
// it. A rollback restores it, and after an interruption its existence shows that an
// upgrade is incomplete.
const RollbackUnitPath = ConfigDir + "/" + Unit + ".before"

// DrillRunDir has the files of a restore drill that are keys, or say how far it is: in memory.
const DrillRunDir = "/run/kube-restore-drill"

// ArchiveRoot returns the directory next to the data directory. It contains the snapshots,
// and the archives if it is on the same file system as the data.
func ArchiveRoot(dataDir string) string { return dataDir + "-archive" }

// ArchiveInside returns the directory for archives when ArchiveRoot is on another file
// system.
func ArchiveInside(dataDir string) string { return dataDir + "/archive" }

// DefaultDataDir is where a member stores its data, the same path as kubeadm's.
const DefaultDataDir = "/var/lib/etcd"

// PlainPath is a path that needs no quoting, in a unit or a shell.
var PlainPath = regexp.MustCompile(`^[A-Za-z0-9._/-]+$`)
