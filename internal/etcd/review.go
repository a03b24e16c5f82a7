package etcd

import (
	"context"
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

// ObservedMember is what a review reads of the member on one machine in addition to its health.
type ObservedMember struct {
	Address string
	Process host.Process
	OwnDisk bool     // the data directory is not on the file system of /
	Disk    string   // the mount point of that file system; "" if there is no such directory
	Memory  bool     // that file system is in memory
	Devices []string // the whole disks below that file system; empty: not known
	Sharing []string // mount points of other file systems on these disks
	Timers  []Timer
	// Scheduled is the timer for the scheduled snapshots of a Spec; nil: there is none.
	Scheduled *Scheduled
	FsyncErr  error         // why Fsync and Fsyncs are unknown
	Fsync     time.Duration // an upper bound of the 99th percentile of the log's fsync durations since the start
	Fsyncs    uint64        // the number of fsyncs

	Compaction Compaction
	Profiles   client.Answer // to a request for the page of profiles
	TLS        ObservedTLS
	// Scrapers are connected to the listener for metrics alone. ScrapersErr is why they are not known.
	Scrapers    []host.Client
	ScrapersErr error
}

// Timer is a systemd timer, not the provider's, whose name or command contains etcd.
type Timer struct {
	Name    string
	Command string // of the service that it starts
	Failed  bool
	Ran     time.Time // zero: never
}

// Scheduled is the state of a Spec's scheduled snapshots on one machine.
type Scheduled struct {
	Failed  bool      // the last run failed
	Uploads bool      // snapshots are uploaded
	Sent    time.Time // when the newest snapshot uploaded from here was saved; zero: none
	Since   time.Time // when uploads were configured as they are; zero: they are not, or it is not known
	Ran     time.Time // zero: never
	Next    time.Time // zero: the timer does not run
	// Interval is the longest time between two of the next runs; 0: not known.
	Interval time.Duration
}

// Review returns Health with a Reading of every machine that could be observed. It never
// fails either.
func (c *Clusters) Review(ctx context.Context, hosts map[string]*host.Host, b *pki.Bundle) (Health, []ObservedMember) {
	cl := c.named(b.ClusterID)
	asked := make(chan map[string]answers, 1)
	go func() { asked <- cl.askMembers(ctx, hosts, b) }()
	q := healthQuery()
	q.Script = reviewScript
	health := cl.health(ctx, hosts, b, q)
	reported := <-asked
	var members []ObservedMember
	for _, m := range health.Machines {
		if m.Err == nil {
			o := observedMember(m.Address, m.output, reported[m.Address])
			o.TLS = observedTLS(m.output, m.Address, b, time.Now())
			members = append(members, o)
		}
	}
	return health, members
}

// reviewScript reads the process, the disk of its data, and timers. It distinguishes the
// provider's own timer from others by the content of its file.
var reviewScript = machine.RuntimeQuestion() + host.ProcessScript(layout.Unit) + host.ClientFunctions +
	host.DiskFunctions + reviewFunctions + `
pid=$(member_pid)
dir=
if member_is_pod && [ "${pid:-0}" -gt 0 ]; then
  containerized ` + layout.Unit + ` "$pid"
fi
[ "${pid:-0}" -gt 0 ] && dir=$(tr '\0' '\n' <"/proc/$pid/cmdline" | sed -n 's/^--data-dir=//p')
dir=${dir:-$(member_directory)} # of a member that is stopped
dir=${dir:-` + layout.DefaultDataDir + `}
[ -d "$dir" ] && printf 'disk\t%s\t%s\t%s\t%s\n' "$(stat -c %d "$dir")" "$(stat -c %d /)" \
  "$(df --output=target "$dir" | tail -n 1)" "$(stat -f -c %T "$dir")"
disks_below "$dir"
weighs_below "$dir"
if [ "${pid:-0}" -gt 0 ]; then
  certificates "$pid"
  clients $(metrics_ports "$pid")
fi
property() { TZ=UTC systemctl show --property="$1" --value "$2"; }
ours=
if grep -qsxF '` + systemd.Managed + `' ` + snapshot.TimerPath + ` ` + snapshot.ServicePath + `; then
  ours=` + snapshot.Timer + `
  uploads=no
  since=
  for file in ` + snapshot.UploadPath + ` ` + snapshot.StorePath + `; do
    [ ! -e "$file" ] || { uploads=yes && since=$(stat -c %Y "$file"); }
  done
  next=
  ! systemctl is-active --quiet ` + snapshot.Timer + ` || next=$(property NextElapseUSecRealtime ` + snapshot.Timer + `)
  printf 'scheduled\t%s\t%s\t%s\t%s\t%s\t%s\n' "$(property Result ` + snapshot.Service + `)" "$uploads" \
    "$(property LastTriggerUSec ` + snapshot.Timer + `)" "$next" \
    "$(ls "$dir-archive/scheduled" | grep '\.sent$' | sort | tail -n 1)" "$since"
  runs "$(property TimersCalendar ` + snapshot.Timer + ` | sed -n 's/.*OnCalendar=\(.*\) ; next_elapse.*/\1/p')"
fi
systemctl list-timers --all --no-legend --plain | grep -o '[^ ]*\.timer' | sort -u | while read -r timer; do
  [ "$timer" != "$ours" ] && [ "$timer" != ` + machine.LivenessTimer + ` ] && [ "$timer" != ` +
	machine.FactsTimer + ` ] || continue
  service=$(property Unit "$timer")
  command=$(property ExecStart "$service")
  case "$timer $service $command" in *etcd*)
    printf 'timer\t%s\t%s\t%s\t%s\n' "$timer" "$(property Result "$service")" \
      "$(property LastTriggerUSec "$timer")" "$(printf %s "$command" | base64 -w 0)" ;;
  esac
done
`

// mostTimers is how many timers of a machine are read.
const mostTimers = 200

// observedMember parses the output of reviewScript.
func observedMember(address, output string, reported answers) ObservedMember {
	r := ObservedMember{
		Address: address, Process: host.ReadProcesses(output)[layout.Unit], FsyncErr: reported.fsync.err,
		Fsync: reported.fsync.bound, Fsyncs: reported.fsync.count, Compaction: reported.compaction,
		Profiles: reported.profiles,
	}
	r.Devices, r.Sharing = observedDisks(output)
	r.Scrapers, r.ScrapersErr = observedScrapers(output)
	var runs []time.Time
	for line := range strings.Lines(output) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		switch {
		case len(fields) == 2 && fields[0] == "run" && len(runs) < mostRuns:
			runs = append(runs, timeIn(host.SystemdTime, fields[1]))
		case len(fields) == 5 && fields[0] == "disk":
			r.OwnDisk, r.Disk, r.Memory = fields[1] != fields[2], problem.Line(fields[3]), fields[4] == "tmpfs" ||
				fields[4] == "ramfs"
		case len(fields) == 7 && fields[0] == "scheduled":
			r.Scheduled = scheduledIn(fields[1:])
		case len(fields) == 5 && fields[0] == "timer" && len(r.Timers) < mostTimers:
			if timer, ok := timerIn(fields[1:]); ok {
				r.Timers = append(r.Timers, timer)
			}
		}
	}
	if r.Scheduled != nil {
		r.Scheduled.Interval = longestGap(runs)
	}
	return r
}

func scheduledIn(fields []string) *Scheduled {
	sent, _, _ := strings.Cut(fields[4], "-")
	return &Scheduled{
		Failed: fields[0] != "success", Uploads: fields[1] == "yes",
		Ran:  timeIn(host.SystemdTime, fields[2]),
		Next: timeIn(host.SystemdTime, fields[3]), Sent: timeIn(snapshot.TimeLayout, sent),
		Since: secondsIn(fields[5]),
	}
}

// secondsIn parses a time in seconds since 1970; anything else is zero.
func secondsIn(text string) time.Time {
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds <= 0 || seconds >= 1<<40 {
		return time.Time{}
	}
	return time.Unix(seconds, 0).UTC()
}

// timerIn parses a timer. ok is false if the line was truncated.
func timerIn(fields []string) (t Timer, ok bool) {
	command, err := base64.StdEncoding.DecodeString(fields[3])
	return Timer{
		Name: problem.Line(fields[0]), Command: problem.Line(string(command)),
		Failed: fields[1] != "success", Ran: timeIn(host.SystemdTime, fields[2]),
	}, err == nil
}

// mostRuns is how many of the next runs of a timer are read: a week of hours.
const mostRuns = 170

// longestGap returns the longest time between two runs, in their order; 0 if it is not known.
func longestGap(runs []time.Time) time.Duration {
	longest := time.Duration(0)
	for i := 1; i < len(runs); i++ {
		gap := runs[i].Sub(runs[i-1])
		if runs[i-1].IsZero() || gap <= 0 {
			return 0
		}
		longest = max(longest, gap)
	}
	return longest
}

// timeIn parses a time; "n/a", or an empty text, is zero.
func timeIn(layout, text string) time.Time {
	read, err := time.Parse(layout, text)
	if err != nil {
		return time.Time{}
	}
	return read
}
