// Package volume decides how a member's volume is taken into use: a disk that has the data and the identity of a
// member, and that moves from one machine to another. It decides what is to be done and renders scripts and files; the
// caller observes and changes the machines.
package volume

import (
	_ "embed"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

// Spec is the volume of a member as it is configured.
type Spec struct {
	Device    string `json:"device,omitempty"` // "/dev/disk/by-id/…"; "" if UUID is set
	UUID      string `json:"uuid,omitempty"`   // of the file system; "" if Device is set
	MountPath string `json:"mount_path"`
	// Fenced says that no other machine can write to the volume any more. It is not recorded on machines.
	Fenced bool `json:"-"`
}

// Name returns what the configuration calls the volume.
func (s Spec) Name() string {
	if s.Device != "" {
		return s.Device
	}
	return "UUID " + s.UUID
}

// The unit that mounts the volume, its script, and the identity on the volume.
const (
	Unit         = "etcd-volume.service"
	UnitPath     = "/etc/systemd/system/" + Unit
	ScriptPath   = layout.ConfigDir + "/volume.sh"
	IdentityFile = "kube-etcd-member.json"
)

// IdentityPath returns the path of the identity on the mounted volume.
func (s Spec) IdentityPath() string { return s.MountPath + "/" + IdentityFile }

var (
	devicePath = regexp.MustCompile(`^/dev(/[A-Za-z0-9][A-Za-z0-9._:@+=-]*)+$`)
	mountPath  = regexp.MustCompile(`^(/[A-Za-z0-9][A-Za-z0-9._-]*){2,}$`)
	uuidForm   = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
)

// ValidateDevice accepts the path of a device.
func ValidateDevice(device string) error {
	if !devicePath.MatchString(device) || len(device) > 200 || path.Clean(device) != device {
		return fmt.Errorf("device %q is not the path of a device, such as /dev/disk/by-id/scsi-0QEMU_etcd1", device)
	}
	return nil
}

// ValidateUUID accepts the UUID of a file system.
func ValidateUUID(uuid string) error {
	if !uuidForm.MatchString(uuid) {
		return fmt.Errorf("uuid %q is not the UUID of a file system as blkid shows it: 32 lower-case hexadecimal digits in "+
			"five groups", uuid)
	}
	return nil
}

// systemDirs are directories over which nothing is mounted.
var systemDirs = []string{
	"/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/root", "/run", "/sbin", "/sys", "/tmp",
	"/usr", "/var/log", "/var/run", "/var/tmp",
}

// ValidateMountPath accepts an absolute path that is used for nothing else.
func ValidateMountPath(at string) error {
	shared := slices.Contains([]string{"/var/lib", "/var/cache", "/var/spool"}, at) ||
		slices.ContainsFunc(systemDirs, func(dir string) bool { return at == dir || strings.HasPrefix(at, dir+"/") })
	switch {
	case !mountPath.MatchString(at) || len(at) > 200:
		return fmt.Errorf("mount path %q is not a path such as /var/lib/etcd-volume: at least two words of letters, digits "+
			"and . _ -, each after a slash", at)
	case shared:
		return fmt.Errorf("mount path %q belongs to the system: use a directory for the volume only, such as "+
			"/var/lib/etcd-volume", at)
	}
	return nil
}

// Validate checks the arguments together, and the data directory of the member.
func (s Spec) Validate(dataDir string) error {
	if (s.Device == "") == (s.UUID == "") {
		return errors.New("set exactly one of device and uuid")
	}
	if !strings.HasPrefix(dataDir, s.MountPath+"/") {
		return fmt.Errorf("data_dir is %s, which is not on the volume: set data_dir to a directory below mount_path, such "+
			"as %s/etcd", dataDir, s.MountPath)
	}
	return nil
}

// CheckRecorded checks what a machine has recorded of a configuration.
func (s Spec) CheckRecorded() error {
	if s.Device != "" {
		if err := ValidateDevice(s.Device); err != nil {
			return err
		}
	}
	if s.UUID != "" {
		if err := ValidateUUID(s.UUID); err != nil {
			return err
		}
	}
	return ValidateMountPath(s.MountPath)
}

//go:embed functions.sh
var functions host.Script

//go:embed service.sh
var serviceScript host.Script

//go:embed observe.sh
var observeScript host.Script

//go:embed search.sh
var searchScript host.Script

//go:embed take.sh
var takeScript host.Script

//go:embed stage.sh
var stageScript host.Script

//go:embed release.sh
var releaseScript host.Script

//go:embed grow.sh
var growScript host.Script

// vars are the variables of functions.sh.
func (s Spec) vars() map[string]string {
	return map[string]string{"device": s.Device, "uuid": s.UUID, "mount": s.MountPath}
}

// Questions returns the script that observes the volume, for Read.
func (s Spec) Questions() host.Script { return host.Assignments(s.vars()) + functions + observeScript }

// SearchScript prints what ReadUnmounted parses: the identities on volumes that a machine has and has not mounted.
func SearchScript() host.Script { return functions + searchScript }

// TakeScript mounts the volume and writes its identity. fileSystem is that to make on a blank device; "": none is made.
func (s Spec) TakeScript(fileSystem string, i Identity) host.Script {
	return host.Assignments(s.vars()) + host.Assignments(map[string]string{"make": fileSystem, "identity": i.text()}) +
		functions + takeScript
}

// StageScript writes the identity that ReleaseScript will write beside the present one, if the volume is mounted. It
// fails on a volume without space, or which a process would keep mounted, before anything is stopped.
func (s Spec) StageScript(i *Identity) host.Script { return s.leaving(i) + stageScript }

// ReleaseScript unmounts the volume, if it is mounted, after it has written its identity.
func (s Spec) ReleaseScript(i *Identity) host.Script { return s.leaving(i) + releaseScript }

// leaving begins the scripts about a volume that its machine leaves.
func (s Spec) leaving(i *Identity) host.Script {
	text := ""
	if i != nil {
		text = i.text()
	}
	return host.Assignments(s.vars()) + host.Assignments(map[string]string{"identity": text}) + functions
}

// GrowScript grows the file system to its device.
func (s Spec) GrowScript() host.Script { return host.Assignments(s.vars()) + functions + growScript }

// Files returns the unit that mounts the volume, and its script.
func (s Spec) Files(clusterID, member string) []host.File {
	vars := s.vars()
	vars["cluster"], vars["name"] = clusterID, member
	script := "#!/bin/sh -eu\n" + systemd.Managed + "\n" + string(host.Assignments(vars)+functions+serviceScript)
	return []host.File{
		{Path: ScriptPath, Content: []byte(script), Mode: 0o755},
		{Path: UnitPath, Content: []byte(renderUnit(member)), Mode: 0o644},
	}
}

// renderUnit renders the unit that mounts the volume. It is neither a mount unit nor a line in fstab: these cannot ask
// whose volume it is, and they know a volume by its device, which a new machine may give to another disk.
func renderUnit(member string) string {
	return systemd.Managed + `
[Unit]
Description=volume of etcd member ` + member + `
After=local-fs.target multipathd.service
StartLimitIntervalSec=0

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=` + ScriptPath + ` mount
ExecStop=` + ScriptPath + ` unmount
TimeoutStartSec=180
Restart=on-failure
RestartSec=10
`
}

// UnitLines are the lines by which etcd's unit never starts without its volume.
func (s Spec) UnitLines() []string {
	return []string{
		"Requires=" + Unit, "After=" + Unit, "AssertPathIsMountPoint=" + s.MountPath,
	}
}
