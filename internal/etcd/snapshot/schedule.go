package snapshot

import (
	_ "embed"
	"strconv"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
	"github.com/kubequorum/terraform-provider-kube/internal/textfile"
	"github.com/kubequorum/terraform-provider-kube/internal/timer"
)

// Settings configures snapshots on a schedule. Every member's machine has the timer; the
// machine of the leader saves the snapshot.
type Settings struct {
	Schedule        string // a calendar expression of systemd
	Kept            int    // the number of newest snapshots to keep on a machine
	Upload          string // shell commands that upload a snapshot; "": it stays on the machine only
	EnvironmentFile string // on the machine, for the upload; "": none
	S3              *S3    // the bucket to which snapshots are uploaded, instead of by Upload; nil: none
}

// Member is a member with the settings of its scheduled snapshots.
type Member struct {
	Name        string
	ClusterID   string
	ClusterName string
	ClientURL   string
	DataDir     string
	Settings    *Settings // nil: no snapshots are scheduled
	// StoreVersion is the version of kube-snapshot-store, which is released with the provider.
	StoreVersion string
}

// Defaults of the schedule and the retention.
const (
	DefaultSchedule      = "hourly"
	DefaultScheduledKept = 24
)

// Names and locations of scheduled snapshots.
const (
	jobName     = "etcd-snapshot"
	Timer       = jobName + ".timer"
	Service     = jobName + ".service"
	TimerPath   = "/etc/systemd/system/" + Timer
	ServicePath = "/etc/systemd/system/" + Service
	ScriptPath  = layout.ConfigDir + "/snapshot.sh"
	UploadPath  = layout.ConfigDir + "/snapshot-upload.sh"
)

// Paths contains all files of scheduled snapshots, in the order in which they are
// removed: those that identify them as the provider's are removed last.
var Paths = []string{UploadPath, StorePath, ScriptPath, ServicePath, TimerPath}

// scheduledDir returns the directory of scheduled snapshots. It is in the archive, so a
// destroy leaves them in place.
func scheduledDir(dataDir string) string { return layout.ArchiveRoot(dataDir) + "/scheduled" }

// Files returns the files of the scheduled snapshots of m. etcd reads none of them.
func (m Member) Files() []host.File {
	if m.Settings == nil {
		return nil
	}
	files := timer.Job{Name: jobName}.Rendered(schedule(*m.Settings), service(*m.Settings), m.renderScript())
	if m.Settings.Upload != "" {
		files = append(files, host.File{Path: UploadPath, Content: []byte(m.Settings.Upload), Mode: 0o600})
	}
	if m.Settings.S3 != nil {
		files = append(files, host.File{Path: StorePath, Content: m.renderStore(), Mode: 0o600})
	}
	return files
}

// Facts returns where facts about the scheduled snapshots of m are; nil without any.
func (m Member) Facts() *textfile.Snapshots {
	if m.Settings == nil {
		return nil
	}
	return &textfile.Snapshots{
		Dir: scheduledDir(m.DataDir), Calendar: m.Settings.Schedule, Timer: TimerPath, Service: Service,
		Upload: m.Settings.Upload != "" || m.Settings.S3 != nil, Ahead: MostAhead,
	}
}

// schedule returns when the timer elapses. All machines check at the same time which member
// is the leader, so that one of them saves: systemd must not spread the times.
func schedule(p Settings) timer.Schedule {
	return timer.Schedule{
		Description: "Schedule of etcd snapshots",
		Lines:       []string{scheduleKey + p.Schedule, "AccuracySec=1s", "Persistent=yes"},
	}
}

// service returns the service that the timer starts. It runs as root, which
// can read the member's key and whatever the upload needs. It is not ordered after
// etcd.service: a member without quorum is never ready, and the service must report that.
func service(p Settings) timer.Service {
	var environment []string
	if p.EnvironmentFile != "" {
		environment = []string{environmentKey + p.EnvironmentFile}
	}
	return timer.Service{
		Description: "Save, verify and upload an etcd snapshot",
		Order:       []string{"Wants=network-online.target", "After=network-online.target"},
		Environment: environment, Options: []string{"-eu"}, Script: ScriptPath, Timeout: "1h",
		Settings:     []string{"Nice=19", "IOSchedulingClass=idle", "OOMScoreAdjust=500"},
		Capabilities: "CAP_DAC_OVERRIDE CAP_CHOWN CAP_FOWNER",
		Sandbox: []string{
			"ProtectSystem=full", "ProtectProc=invisible", "ProtectClock=yes", "ProtectHostname=yes",
			"ProtectKernelLogs=yes", "ProtectKernelModules=yes", "ProtectKernelTunables=yes", "ProtectControlGroups=yes",
			"PrivateTmp=yes", "PrivateDevices=yes", "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK",
			"RestrictNamespaces=yes", "RestrictRealtime=yes", "RestrictSUIDSGID=yes", "LockPersonality=yes",
			"SystemCallArchitectures=native", "SystemCallFilter=@system-service", "SystemCallErrorNumber=EPERM",
		},
	}
}

//go:embed scheduled.sh
var scheduledScript host.Script

// renderScript renders the script that the service runs.
func (m Member) renderScript() string {
	upload, store, kept := "", "", 0
	if m.Settings.Upload != "" {
		upload = UploadPath
	}
	if m.Settings.S3 != nil {
		upload, store, kept = StorePath, m.Artifacts()[0].Path(), m.Settings.S3.Kept
	}
	return string(systemd.Managed + "\n" + host.Assignments(map[string]string{
		"unit": layout.UnitPath, "pod": layout.PodPath, "endpoint": m.ClientURL, "pki": layout.PKIDir,
		"dir":    scheduledDir(m.DataDir),
		"upload": upload, "store": store, "store_kept": strconv.Itoa(kept),
		"reserve": strconv.Itoa(Reserve), "cluster": m.ClusterName, "record": layout.RecordPath,
		"member": m.Name, keptVariable: strconv.Itoa(m.Settings.Kept),
	}) + "\n" + OwnFunctions + "\nsave() {\n" + SaveScript + "}\n\n" + scheduledScript)
}

// The parts of the files that an import reads.
const (
	scheduleKey    = "OnCalendar="
	environmentKey = "EnvironmentFile="
	keptVariable   = "kept"
)

// SettingsIn derives the configuration from the files on a machine. It returns nil if
// there is no timer of the provider.
func SettingsIn(files map[string]host.FileState) *Settings {
	unit := files[TimerPath]
	if !timer.Managed(unit) {
		return nil
	}
	kept, err := strconv.Atoi(lineAfter(files[ScriptPath].Content, keptVariable+"="))
	if err != nil {
		kept = DefaultScheduledKept
	}
	return &Settings{
		Schedule: lineAfter(unit.Content, scheduleKey), Kept: kept, Upload: files[UploadPath].Content,
		EnvironmentFile: lineAfter(files[ServicePath].Content, environmentKey), S3: storeIn(files[StorePath].Content),
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
