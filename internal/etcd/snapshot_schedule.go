package etcd

import (
	_ "embed"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

// Snapshots configures snapshots on a schedule. Every member's machine has the timer; the
// machine of the leader saves the snapshot.
type Snapshots struct {
	Schedule        string // a calendar expression of systemd
	Kept            int    // the number of newest snapshots to keep on a machine
	Upload          string // shell commands that upload a snapshot; "": it stays on the machine only
	EnvironmentFile string // on the machine, for the upload; "": none
}

// Defaults of the schedule and the retention.
const (
	DefaultSchedule      = "hourly"
	DefaultScheduledKept = 24
)

// longestUpload is in bytes: a longer script should be a program of its own.
const longestUpload = 16 << 10

// Names and locations of scheduled snapshots.
const (
	snapshotTimer       = "etcd-snapshot.timer"
	snapshotService     = "etcd-snapshot.service"
	snapshotTimerPath   = "/etc/systemd/system/" + snapshotTimer
	snapshotServicePath = "/etc/systemd/system/" + snapshotService
	snapshotScriptPath  = configDir + "/snapshot.sh"
	snapshotUploadPath  = configDir + "/snapshot-upload.sh"
)

// snapshotPaths contains all files of scheduled snapshots, in the order in which they are
// removed: those that identify them as the provider's are removed last.
var snapshotPaths = []string{snapshotUploadPath, snapshotScriptPath, snapshotServicePath, snapshotTimerPath}

// snapshotLink is the link that "systemctl enable" creates.
var snapshotLink = host.Link{Path: "/etc/systemd/system/timers.target.wants/" + snapshotTimer, Target: snapshotTimerPath}

// scheduledDir returns the directory of scheduled snapshots. It is in the archive, so a
// destroy leaves them in place.
func scheduledDir(dataDir string) string { return archiveRoot(dataDir) + "/scheduled" }

// snapshotFiles returns the files of the scheduled snapshots of s. etcd reads none of
// them.
func snapshotFiles(s Spec) []host.File {
	if s.Snapshots == nil {
		return nil
	}
	files := []host.File{
		{Path: snapshotTimerPath, Content: []byte(renderSnapshotTimer(*s.Snapshots)), Mode: 0o644},
		{Path: snapshotServicePath, Content: []byte(renderSnapshotService(*s.Snapshots)), Mode: 0o644},
		{Path: snapshotScriptPath, Content: []byte(renderSnapshotScript(s)), Mode: 0o644},
	}
	if s.Snapshots.Upload != "" {
		files = append(files, host.File{Path: snapshotUploadPath, Content: []byte(s.Snapshots.Upload), Mode: 0o600})
	}
	return files
}

// renderSnapshotTimer renders the timer. All machines check at the same time which member
// is the leader, so that one of them saves: systemd must not spread the times.
func renderSnapshotTimer(p Snapshots) string {
	return systemd.Managed + `
[Unit]
Description=Schedule of etcd's snapshots

[Timer]
` + scheduleKey + p.Schedule + `
AccuracySec=1s
Persistent=yes

[Install]
WantedBy=timers.target
`
}

// renderSnapshotService renders the service that the timer starts. It runs as root, which
// can read the member's key and whatever the upload needs. It is not ordered after
// etcd.service: a member without quorum is never ready, and the service must report that.
func renderSnapshotService(p Snapshots) string {
	environment := ""
	if p.EnvironmentFile != "" {
		environment = environmentKey + p.EnvironmentFile + "\n"
	}
	return systemd.Managed + `
[Unit]
Description=Snapshot of etcd, saved, verified and brought elsewhere
Wants=network-online.target
After=network-online.target

[Service]
Type=oneshot
User=root
` + environment + `ExecStart=/bin/sh -eu ` + snapshotScriptPath + `
TimeoutStartSec=1h
Nice=19
IOSchedulingClass=idle
OOMScoreAdjust=500
UMask=0077
NoNewPrivileges=yes
CapabilityBoundingSet=CAP_DAC_OVERRIDE CAP_CHOWN CAP_FOWNER
ProtectSystem=full
ProtectProc=invisible
ProtectClock=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectControlGroups=yes
PrivateTmp=yes
PrivateDevices=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
`
}

//go:embed scheduled.sh
var scheduledScript host.Script

// renderSnapshotScript renders the script that the service runs.
func renderSnapshotScript(s Spec) string {
	upload := ""
	if s.Snapshots.Upload != "" {
		upload = snapshotUploadPath
	}
	return string(systemd.Managed + "\n" + host.Assignments(map[string]string{
		"unit": unitPath, "endpoint": s.ClientURL(), "pki": pkiDir, "dir": scheduledDir(s.dataDir()), "upload": upload,
		"reserve": strconv.Itoa(snapshotReserve), "cluster": s.Bundle.ClusterName, "member": s.Name, keptVariable: strconv.Itoa(s.Snapshots.Kept),
	}) + "\nsave() {\n" + saveScript + "}\n\n" + scheduledScript)
}

// The parts of the files that an import reads.
const (
	scheduleKey    = "OnCalendar="
	environmentKey = "EnvironmentFile="
	keptVariable   = "kept"
)

// snapshotsIn derives the configuration from the files on a machine. It returns nil if
// there is no timer of the provider.
func snapshotsIn(files map[string]host.FileState) *Snapshots {
	timer := files[snapshotTimerPath]
	if !hasProviderHeader(timer) {
		return nil
	}
	kept, err := strconv.Atoi(lineAfter(files[snapshotScriptPath].Content, keptVariable+"="))
	if err != nil {
		kept = DefaultScheduledKept
	}
	return &Snapshots{
		Schedule: lineAfter(timer.Content, scheduleKey), Kept: kept, Upload: files[snapshotUploadPath].Content,
		EnvironmentFile: lineAfter(files[snapshotServicePath].Content, environmentKey),
	}
}

// lineAfter returns the rest of the first line that begins with key, or "".
func lineAfter(text, key string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, key); ok {
			return strings.TrimSuffix(rest, "\n")
		}
	}
	return ""
}

// hasProviderHeader reports whether the provider wrote a file. Operators may have timers
// of their own with the same name, which must not be changed.
func hasProviderHeader(file host.FileState) bool {
	return strings.HasPrefix(file.Content, systemd.Managed)
}

// ValidateUpload accepts commands that can be stored in a file.
func ValidateUpload(commands string) error {
	switch {
	case strings.TrimSpace(commands) == "":
		return fmt.Errorf("the upload command is empty: omit the argument to keep the snapshots on the machine")
	case strings.ContainsRune(commands, 0):
		return fmt.Errorf("the upload command contains a NUL character")
	case len(commands) > longestUpload:
		return fmt.Errorf("the upload command has %d bytes, at most %d are allowed: put it into a program on the machines", len(commands), longestUpload)
	}
	return nil
}

// ValidateEnvironmentFile accepts an absolute path that needs no quoting in a unit.
func ValidateEnvironmentFile(file string) error {
	switch {
	case !path.IsAbs(file) || path.Clean(file) != file || file == "/":
		return fmt.Errorf("environment file %q is not a clean absolute path", file)
	case !plainPath.MatchString(file):
		return fmt.Errorf("environment file %q has characters other than letters, digits and . _ - /", file)
	}
	return nil
}
