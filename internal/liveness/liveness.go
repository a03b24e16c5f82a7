// Package liveness restarts components that hang: a timer on the machine probes them, as the
// kubelet probes kubeadm's static pods, and round.sh says when one is killed. The package
// decides what is on the machine and what a round's result means; the caller observes and
// changes the machine.
package liveness

import (
	"cmp"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
	"github.com/kubequorum/terraform-provider-kube/internal/timer"
)

// Pace says how often components are probed, and what counts as hanging.
type Pace struct {
	Period    time.Duration
	Timeout   time.Duration
	Threshold int
	// Start is how long a start may take until the component is ready. It is also how long a restart
	// in a cluster excludes others.
	Start time.Duration
}

// Kubeadm is the pace of kubeadm's static pods: livenessProbe with periodSeconds 10,
// timeoutSeconds 15 and failureThreshold 8, and a startup probe of 24 periods
// (cmd/kubeadm/app/util/staticpod, LivenessProbe and StartupProbe).
var Kubeadm = Pace{Period: 10 * time.Second, Timeout: 15 * time.Second, Threshold: 8, Start: 240 * time.Second}

const (
	// accuracy is how late systemd may start a round.
	accuracy = time.Second
	// slowAfter is how long systemd may take to answer on a machine that is not slow.
	systemdTimeout = 2 * time.Second
)

// Silent returns how long it takes at most until a component is killed that answers nothing, if nothing forbids it and
// etcd answers at once: it begins to hang right after a probe, the first failed one begins a period later, and each of
// the others when the last one has ended.
func (p Pace) Silent(r Rule) time.Duration {
	every := max(p.Period, p.Timeout) + accuracy
	limit := p.Period + accuracy + time.Duration(p.Threshold-1)*every + p.Timeout
	switch r {
	case ServerRule, MemberRule:
		limit += p.Timeout // it is probed once more
	case AloneRule:
		limit += systemdTimeout
	case ClientRule:
	}
	return limit
}

// Rule says what allows to restart a component: see round.sh.
type Rule string

// The rules.
const (
	ServerRule Rule = "server" // an API server
	ClientRule Rule = "client" // a component that works with the API server of its machine
	MemberRule Rule = "member" // an etcd member
	AloneRule  Rule = "alone"  // a program that serves nobody while it hangs, and holds nothing of others
)

// Component is what is probed.
type Component struct {
	Unit  string // "kube-apiserver.service"
	Ready string // URL that answers 200 if the component is ready, or what Sockets or Awake returns
	Live  string // the same if it need not be restarted; may be the same
	Rule  Rule
}

// Sockets returns the probe of sockets on which HAProxy takes commands: each of them answers.
func Sockets(paths ...string) string { return "haproxy:" + strings.Join(paths, ",") }

// Awake returns the probe of a process that never sleeps for longer than a second: it runs again
// and again. pidFile names it. It may sleep if one of the files in resting says 1, or that an
// interface is down.
func Awake(pidFile string, resting ...string) string {
	return "awake:" + strings.Join(append([]string{pidFile}, resting...), ",")
}

// Probe is the probe of the components of one kind on a machine.
type Probe struct {
	Name       string // of its units: "kube-liveness"
	Script     string // path
	Wanted     bool
	Pace       Pace // zero: kubeadm's
	Components []Component
	Server     string   // URL at which the machine's API server says that it is ready
	Endpoints  []string // client URLs of etcd, for the lock of API servers
	Own        string   // client URL of the machine's member; "" if it is not what is probed
	DataDir    string   // of that member
	CA         string   // files with which etcd is asked
	Cert       string
	Key        string
	Asks       string // path of the program with which Sockets are asked
}

func (p Probe) pace() Pace { return cmp.Or(p.Pace, Kubeadm) }

// stateDir is where the rounds leave what they have observed.
func (p Probe) stateDir() string { return "/run/" + p.Name }

// StatePath returns the file with the State of a unit.
func (p Probe) StatePath(unit string) string { return p.stateDir() + "/" + unit }

// Job returns the timer of the probe, with its files.
func (p Probe) Job() timer.Job {
	job := timer.Job{Name: p.Name}
	job.Paths = []string{p.Script, job.ServicePath(), job.TimerPath()}
	if p.Wanted {
		job.Files = job.Rendered(p.schedule(), p.service(), p.script())
	}
	return job
}

// AddTo adds what Drift and Repair need to the query of a machine.
func (p Probe) AddTo(q *host.Query) {
	q.Contents = append(q.Contents, p.Job().Paths...)
	for _, c := range p.Components {
		q.Contents = append(q.Contents, p.StatePath(c.Unit))
	}
	q.Units = append(q.Units, p.Job().Units()...)
	q.Commands = append(q.Commands, program)
}

// program is what the probes are sent with.
const program = "curl"

// atURL reports whether the component is probed by HTTP.
func (c Component) atURL() bool {
	return strings.HasPrefix(c.Ready, "http") || strings.HasPrefix(c.Live, "http")
}

// Problems lists what keeps the probe from being set up on the machine.
func (p Probe) Problems(facts host.Facts) []string {
	problems, changes := p.Job().Foreign(facts)
	if changes {
		problems = append(problems, p.Lacks(facts)...)
	}
	return problems
}

// Lacks lists what the machine lacks, without which the probe does not work.
func (p Probe) Lacks(facts host.Facts) []string {
	if _, there := facts.Commands[program]; there || !p.Wanted || !slices.ContainsFunc(p.Components, Component.atURL) {
		return nil
	}
	return []string{program + " is not installed, which liveness_probe needs: install it, or set liveness_probe = false"}
}

// schedule starts a round one period after the start of the last one, or at once when that has taken longer: so does
// the kubelet.
func (p Probe) schedule() timer.Schedule {
	every := seconds(p.pace().Period)
	return timer.Schedule{Description: "Schedule of liveness probes", Lines: []string{
		"OnActiveSec=" + every, "OnUnitActiveSec=" + every, "AccuracySec=" + seconds(accuracy) + "s",
	}}
}

// service returns the service of one round. Rounds are frequent, so it has the parts of a
// sandbox that cost nothing at its start: no mount namespace, and no filter of system calls.
// What systemd logs of each start is left out of the journal.
// The number of starts has no limit: whoever starts rounds by hand would otherwise end the timer.
func (p Probe) service() timer.Service {
	return timer.Service{
		Description: "Liveness probes", Script: p.Script, Timeout: "3min",
		Order: []string{"StartLimitIntervalSec=0"},
		Settings: []string{
			"RuntimeDirectory=" + p.Name, "RuntimeDirectoryMode=0755", "RuntimeDirectoryPreserve=yes",
			"SyslogLevel=warning", "LogLevelMax=notice", "TasksMax=100", "MemoryMax=256M",
		},
		Capabilities: "CAP_DAC_READ_SEARCH CAP_DAC_OVERRIDE",
	}
}

//go:embed round.sh
var round host.Script

func (p Probe) script() string {
	var lines []string
	for _, c := range p.Components {
		lines = append(lines, fmt.Sprintf("%s %s %s %s", c.Unit, c.Ready, c.Live, c.Rule))
	}
	pace := p.pace()
	vars := map[string]string{
		"components": strings.Join(lines, "\n"), "state": p.stateDir(), "server": p.Server,
		"endpoints": strings.Join(p.Endpoints, " "), "own": p.Own, "data": p.DataDir,
		"ca": p.CA, "cert": p.Cert, "key": p.Key, "asks": p.Asks,
		"timeout": seconds(pace.Timeout), "threshold": strconv.Itoa(pace.Threshold), "hold": seconds(pace.Start),
		"systemd_timeout": seconds(systemdTimeout),
	}
	return string(systemd.Managed + "\n" + host.Assignments(vars) + "\n" + round)
}

func seconds(d time.Duration) string { return strconv.Itoa(int(d / time.Second)) }
