package etcd

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

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
	OwnDisk bool   // the data directory is not on the file system of /
	Disk    string // the mount point of that file system; "" if there is no such directory
	Memory  bool   // that file system is in memory
	Timers  []Timer
	// Scheduled is the timer for the scheduled snapshots of a Spec; nil: there is none.
	Scheduled *Scheduled
	FsyncErr  error         // why Fsync and Fsyncs are unknown
	Fsync     time.Duration // an upper bound of the 99th percentile of the log's fsync durations since the start
	Fsyncs    uint64        // the number of fsyncs
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
	Ran     time.Time // zero: never
	Next    time.Time // zero: the timer does not run
}

// Review returns Health with a Reading of every machine that could be observed. It never
// fails either.
func (c *Clusters) Review(ctx context.Context, hosts map[string]*host.Host, b *pki.Bundle) (Health, []ObservedMember) {
	cl := c.named(b.ClusterID)
	latencies := make(chan map[string]latency, 1)
	go func() { latencies <- cl.latencies(ctx, hosts, b) }()
	q := healthQuery()
	q.Script = reviewScript
	health := cl.health(ctx, hosts, b, q)
	measured := <-latencies
	var members []ObservedMember
	for _, m := range health.Machines {
		if m.Err == nil {
			members = append(members, observedMember(m.Address, m.output, measured[m.Address]))
		}
	}
	return health, members
}

// reviewScript reads the process, the disk of its data, and timers. It distinguishes the
// provider's own timer from others by the content of its file.
var reviewScript = host.ProcessScript(layout.Unit) + `
pid=$(systemctl show --property=MainPID --value ` + layout.Unit + `)
dir=
[ "${pid:-0}" -gt 0 ] && dir=$(tr '\0' '\n' <"/proc/$pid/cmdline" | sed -n 's/^--data-dir=//p')
dir=${dir:-` + layout.DefaultDataDir + `}
[ -d "$dir" ] && printf 'disk\t%s\t%s\t%s\t%s\n' "$(stat -c %d "$dir")" "$(stat -c %d /)" \
  "$(df --output=target "$dir" | tail -n 1)" "$(stat -f -c %T "$dir")"
property() { TZ=UTC systemctl show --property="$1" --value "$2"; }
ours=
if grep -qsxF '` + systemd.Managed + `' ` + snapshot.TimerPath + ` ` + snapshot.ServicePath + `; then
  ours=` + snapshot.Timer + `
  uploads=no
  [ ! -e ` + snapshot.UploadPath + ` ] && [ ! -e ` + snapshot.StorePath + ` ] || uploads=yes
  next=
  ! systemctl is-active --quiet ` + snapshot.Timer + ` || next=$(property NextElapseUSecRealtime ` + snapshot.Timer + `)
  printf 'scheduled\t%s\t%s\t%s\t%s\t%s\n' "$(property Result ` + snapshot.Service + `)" "$uploads" \
    "$(property LastTriggerUSec ` + snapshot.Timer + `)" "$next" \
    "$(ls "$dir-archive/scheduled" | grep '\.sent$' | sort | tail -n 1)"
fi
systemctl list-timers --all --no-legend --plain | grep -o '[^ ]*\.timer' | sort -u | while read -r timer; do
  [ "$timer" != "$ours" ] && [ "$timer" != ` + machine.LivenessTimer + ` ] || continue
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
func observedMember(address, output string, measured latency) ObservedMember {
	r := ObservedMember{
		Address: address, Process: host.ReadProcesses(output)[layout.Unit], FsyncErr: measured.err,
		Fsync: measured.bound, Fsyncs: measured.count,
	}
	for line := range strings.Lines(output) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		switch {
		case len(fields) == 5 && fields[0] == "disk":
			r.OwnDisk, r.Disk, r.Memory = fields[1] != fields[2], problem.Line(fields[3]), fields[4] == "tmpfs" ||
				fields[4] == "ramfs"
		case len(fields) == 6 && fields[0] == "scheduled":
			sent, _, _ := strings.Cut(fields[5], "-")
			r.Scheduled = &Scheduled{
				Failed: fields[1] != "success", Uploads: fields[2] == "yes",
				Ran: timeIn(systemdTime, fields[3]), Next: timeIn(systemdTime, fields[4]), Sent: timeIn(snapshot.TimeLayout, sent),
			}
		case len(fields) == 5 && fields[0] == "timer":
			command, err := base64.StdEncoding.DecodeString(fields[4])
			if err != nil || len(r.Timers) >= mostTimers {
				continue // truncated
			}
			r.Timers = append(r.Timers, Timer{
				Name: problem.Line(fields[1]), Command: problem.Line(string(command)),
				Failed: fields[2] != "success", Ran: timeIn(systemdTime, fields[3]),
			})
		}
	}
	return r
}

// systemdTime is how systemctl prints a time under TZ=UTC.
const systemdTime = "Mon 2006-01-02 15:04:05 MST"

// timeIn parses a time; "n/a", or an empty text, is zero.
func timeIn(layout, text string) time.Time {
	read, err := time.Parse(layout, text)
	if err != nil {
		return time.Time{}
	}
	return read
}

// latency is how long a member's log takes to reach the disk.
type latency struct {
	bound time.Duration
	count uint64
	err   error
}

// latencies queries the members on all machines in parallel.
func (cl *cluster) latencies(ctx context.Context, hosts map[string]*host.Host, b *pki.Bundle) map[string]latency {
	addresses := hostAddresses(hosts)
	all := make(map[string]latency, len(addresses))
	clients, err := cl.connectThrough(b, slices.Collect(maps.Values(hosts)))
	if err != nil {
		for _, address := range addresses {
			all[address] = latency{err: err}
		}
		return all
	}
	defer clients.Close()
	var mu sync.Mutex
	var asking sync.WaitGroup
	for _, address := range addresses {
		asking.Go(func() {
			text, err := clients.GetHTTP(ctx, address, "/metrics", 8<<20)
			measured := latency{err: err}
			if err == nil {
				measured = fsyncIn(string(text))
			}
			mu.Lock()
			defer mu.Unlock()
			all[address] = measured
		})
	}
	asking.Wait()
	return all
}

// fsyncHistogram is etcd's metric of how long its log takes to reach the disk.
const fsyncHistogram = "etcd_disk_wal_fsync_duration_seconds"

var errNoFsync = errors.New("the metrics of the member do not contain " + fsyncHistogram)

// fsyncIn parses the histogram from a page of metrics. It returns the bound of the first
// bucket that contains 99 of 100.
func fsyncIn(metrics string) latency {
	type bucket struct {
		bound float64
		count uint64
	}
	var buckets []bucket
	for line := range strings.Lines(metrics) {
		rest, ok := strings.CutPrefix(line, fsyncHistogram+`_bucket{le="`)
		bound, count, cut := strings.Cut(strings.TrimSpace(rest), `"} `)
		if !ok || !cut {
			continue
		}
		le, boundErr := strconv.ParseFloat(bound, 64) // accepts "+Inf"
		n, countErr := strconv.ParseFloat(count, 64)
		if err := errors.Join(boundErr, countErr); err != nil {
			return latency{err: fmt.Errorf("read %s: %w", fsyncHistogram, err)}
		}
		if valid := le > 0 && (le < 1e6 || math.IsInf(le, 1)) && n >= 0 && n < 1<<53; !valid { // NaN is not
			return latency{err: fmt.Errorf("read %s: a bucket %s of %s", fsyncHistogram, problem.Quote(bound),
				problem.Quote(count))}
		}
		buckets = append(buckets, bucket{le, uint64(n)})
	}
	if len(buckets) == 0 {
		return latency{err: errNoFsync}
	}
	all := buckets[len(buckets)-1].count
	for _, b := range buckets {
		if float64(b.count) >= 0.99*float64(all) && !math.IsInf(b.bound, 1) {
			return latency{bound: time.Duration(b.bound * float64(time.Second)), count: all}
		}
	}
	// Slower than the last bound (8.192 s).
	return latency{bound: time.Minute, count: all}
}
