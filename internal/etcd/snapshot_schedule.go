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

// Snapshots is how snapshots are saved on a schedule. Every member's machine has
// the timer; the one whose member leads saves.
type Snapshots struct {
	Schedule        string // a calendar expression of systemd
	Kept            int    // that many stay on a machine, the newest
	Upload          string // commands for sh that bring one elsewhere; "": it stays
	EnvironmentFile string // on the machine, for the upload; "": none
}

// What a schedule and a retention are by default.
const (
	DefaultSchedule      = "hourly"
	DefaultScheduledKept = 24
)

// longestUpload is in bytes: more commands belong in a program of their own.
const longestUpload = 16 << 10

// Where scheduled snapshots are set up.
const (
	snapshotTimer       = "etcd-snapshot.timer"
	snapshotService     = "etcd-snapshot.service"
	snapshotTimerPath   = "/etc/systemd/system/" + snapshotTimer
	snapshotServicePath = "/etc/systemd/system/" + snapshotService
	snapshotScriptPath  = configDir + "/snapshot.sh"
	snapshotUploadPath  = configDir + "/snapshot-upload.sh"
)

// snapshotPaths are all files of scheduled snapshots, in the order in which they
// go: what says that they are the provider's goes last.
var snapshotPaths = []string{snapshotUploadPath, snapshotScriptPath, snapshotServicePath, snapshotTimerPath}

// snapshotLink is what "systemctl enable" makes.
var snapshotLink = host.Link{Path: "/etc/systemd/system/timers.target.wants/" + snapshotTimer, Target: snapshotTimerPath}

// scheduledDir is where scheduled snapshots are kept: in the archive, so that a
// destroy leaves them too.
func scheduledDir(dataDir string) string { return archiveRoot(dataDir) + "/scheduled" }

// snapshotFiles are those of the scheduled snapshots of s. etcd reads none of them.
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

// renderSnapshotTimer is the timer. All machines ask at the same time who leads,
// so that one of them saves: systemd must not spread them.
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

// renderSnapshotService is what the timer starts. It is root's, who reads the
// member's key and whatever the upload needs. It does not come after
// etcd.service: a member without quorum is never ready, and that has to be told.
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

// renderSnapshotScript is what the service runs.
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

// What is read back of the files, by an import.
const (
	scheduleKey    = "OnCalendar="
	environmentKey = "EnvironmentFile="
	keptVariable   = "kept"
)

// snapshotsIn reads back what files on a machine were made for; nil where there
// is no timer of the provider's.
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

// lineAfter is the rest of the first line that begins with key, or "".
func lineAfter(text, key string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, key); ok {
			return strings.TrimSuffix(rest, "\n")
		}
	}
	return ""
}

// hasProviderHeader reports whether a file is the provider's. People have timers of
// their own by such a name, which are to be left alone.
func hasProviderHeader(file host.FileState) bool {
	return strings.HasPrefix(file.Content, systemd.Managed)
}

// ValidateUpload accepts commands that a file can hold.
func ValidateUpload(commands string) error {
	switch {
	case strings.TrimSpace(commands) == "":
		return fmt.Errorf("the upload command is empty: leave the argument out where snapshots stay on the machine")
	case strings.ContainsRune(commands, 0):
		return fmt.Errorf("the upload command holds a NUL character")
	case len(commands) > longestUpload:
		return fmt.Errorf("the upload command has %d bytes, at most %d are taken: put it into a program on the machines", len(commands), longestUpload)
	}
	return nil
}

// ValidateEnvironmentFile accepts an absolute path that a unit can name as it is.
func ValidateEnvironmentFile(file string) error {
	switch {
	case !path.IsAbs(file) || path.Clean(file) != file || file == "/":
		return fmt.Errorf("environment file %q is not a plain absolute path", file)
	case !plainPath.MatchString(file):
		return fmt.Errorf("environment file %q has characters other than letters, digits and . _ - /", file)
	}
	return nil
}
