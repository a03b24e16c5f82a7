// Package textfile writes facts that only the provider knows about a machine as metrics, for
// node_exporter's textfile collector: a timer on the machine starts a script, which replaces one
// file. The package decides what is on the machine; the caller observes and changes it.
package textfile

import (
	"cmp"
	_ "embed"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/staticpod"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
	"github.com/kubequorum/terraform-provider-kube/internal/timer"
)

// Program is a running program. Its version is that in the path of its file, or in the tag of its image.
type Program struct {
	Name string // "kube-apiserver"
	Unit string // "kube-apiserver.service"; "" for a static pod
}

// Certificate is a file with a certificate: PEM, or a kubeconfig (.conf) with one.
type Certificate struct {
	File string
	At   string // "10.0.0.11:6443": who serves it; "" if nobody does
}

// Snapshots are those that a machine of an etcd member saves on a schedule.
type Snapshots struct {
	Dir      string
	Calendar string // of systemd
	Timer    string // the file of the timer, which says since when they are scheduled
	Service  string
	Upload   bool // they are sent elsewhere
	// Ahead is how far a clock may be ahead: a snapshot that is named after a later time is never the last one.
	Ahead time.Duration
}

// Announced is an address that the machine announces by BGP.
type Announced struct {
	Address string
	By      string // who says whether it does: "bird:" and the path of bird's socket, or the URL of kube-vip's metrics
}

// Writer writes the facts of one resource on a machine.
type Writer struct {
	Resource  string // the label "resource" of all series: "kube_etcd_member"
	Name      string // of its units: "etcd-facts"
	Script    string // path
	Directory string // of the textfile collector; "": nothing is written
	Period    time.Duration

	Programs     []Program
	Certificates []Certificate
	Record       string     // the file with the stages of rotations; "": none
	Snapshots    *Snapshots // nil: none are scheduled
	Drill        string     // the file with the result of the last restore drill, as indented JSON; "": none
	Learner      string     // URL of the metrics of an etcd member; ""
	Addresses    []string   // virtual IPs that the machine may hold
	Announced    []Announced
}

// directoryForm is a path that needs no quoting anywhere.
var directoryForm = regexp.MustCompile(`^(/[A-Za-z0-9_][A-Za-z0-9._-]*)+$`)

// ValidateDirectory checks the directory of a textfile collector.
func ValidateDirectory(dir string) error {
	if !directoryForm.MatchString(dir) || len(dir) > 200 {
		return fmt.Errorf("%q is no absolute path of letters, digits and ._- such as /var/lib/prometheus/node-exporter", dir)
	}
	return nil
}

// Output returns the file that is written.
func (w Writer) Output() string { return path.Join(w.Directory, w.Resource+".prom") }

// Job returns the timer, with its files.
func (w Writer) Job() timer.Job {
	job := timer.Job{Name: w.Name}
	job.Paths = []string{w.Script, job.ServicePath(), job.TimerPath()}
	if w.Directory != "" {
		job.Files = job.Rendered(w.schedule(), w.service(), w.script())
	}
	return job
}

// programs are what the script needs and a small machine may not have.
var programs = []string{"openssl", "curl"}

// AddTo adds what Drift, Repair and Problems need to the query of a machine.
func (w Writer) AddTo(q *host.Query) {
	q.Contents = append(q.Contents, w.Job().Paths...)
	q.Units = append(q.Units, w.Job().Units()...)
	for _, program := range programs {
		if w.Directory != "" && !slices.Contains(q.Commands, program) {
			q.Commands = append(q.Commands, program)
		}
	}
}

// Problems lists what keeps the facts from being written on the machine.
func (w Writer) Problems(facts host.Facts) []string {
	problems, changes := w.Job().Foreign(facts)
	for _, program := range programs {
		if _, there := facts.Commands[program]; changes && !there {
			problems = append(problems, program+" is not installed, which metrics.textfile_directory needs: install it, or "+
				"remove the setting")
		}
	}
	return problems
}

// Stale lists what was written to another directory than the wanted one, to be removed.
func (w Writer) Stale(files map[string]host.FileState) []string {
	before := w.DirectoryIn(files)
	if before == "" || before == w.Directory {
		return nil
	}
	w.Directory = before
	return []string{w.Output()}
}

// Forget returns the files of Stale, and the commands that remove them once more: a round that was
// running may have written them before its timer was stopped.
func (w Writer) Forget(files map[string]host.FileState) (remove []string, commands host.Script) {
	stale := w.Stale(files)
	if len(stale) == 0 {
		return nil, ""
	}
	return stale, host.Discard(stale...)
}

// outputVariable is the variable of the script that names the file.
const outputVariable = "output"

var outputLine = regexp.MustCompile(`(?m)^` + outputVariable + `='?([^'\n]*)'?$`)

// DirectoryIn returns the directory that the script on a machine writes to; "" if there is none.
func (w Writer) DirectoryIn(files map[string]host.FileState) string {
	if !timer.Managed(files[w.Job().TimerPath()]) && !timer.Managed(files[w.Script]) {
		return ""
	}
	match := outputLine.FindStringSubmatch(files[w.Script].Content)
	if match == nil || path.Base(match[1]) != w.Resource+".prom" || ValidateDirectory(path.Dir(match[1])) != nil {
		return ""
	}
	return path.Dir(match[1])
}

// ForgetScript removes what the script has written. It comes after the timer was stopped.
func (w Writer) ForgetScript() host.Script {
	script := host.Words(w.Script)
	return "if head -n 1 " + script + " 2>/dev/null | grep -qxF '" + systemd.Managed + "'; then\n" +
		"  /bin/sh " + script + " remove || true\nfi\n"
}

func (w Writer) schedule() timer.Schedule {
	return timer.Schedule{Description: "Schedule of facts for node_exporter", Lines: []string{
		"OnActiveSec=1", "OnUnitInactiveSec=" + strconv.Itoa(int(w.Period/time.Second)), "AccuracySec=1s",
	}}
}

// service returns the service of one round. It reads certificates and processes of others, and
// writes to the directory of another user.
func (w Writer) service() timer.Service {
	return timer.Service{
		Description: "Write facts for node_exporter", Script: w.Script, Timeout: "2min",
		Settings: []string{
			"RuntimeDirectory=" + w.Name, "RuntimeDirectoryMode=0700", "Nice=10", "SyslogLevel=warning",
			"LogLevelMax=notice", "TasksMax=50", "MemoryMax=128M",
		},
		Capabilities: "CAP_DAC_READ_SEARCH CAP_DAC_OVERRIDE CAP_SYS_PTRACE",
	}
}

//go:embed facts.sh
var factsScript host.Script

func (w Writer) script() string {
	vars := map[string]string{
		"resource": w.Resource, outputVariable: w.Output(), "work": "/run/" + w.Name, "record": w.Record,
		"drill":   w.Drill,
		"learner": w.Learner, "addresses": strings.Join(w.Addresses, "\n"),
		"snapshots": "", "calendar": "", "snapshot_timer": "", "snapshot_service": "", "upload": "", "ahead": "0",
	}
	if s := w.Snapshots; s != nil {
		vars["snapshots"], vars["calendar"] = s.Dir, s.Calendar
		vars["snapshot_timer"], vars["snapshot_service"] = s.Timer, s.Service
		vars["ahead"] = strconv.Itoa(int(s.Ahead / time.Second))
		if s.Upload {
			vars["upload"] = "yes"
		}
	}
	var running, certificates, announced []string
	var functions host.Script
	for _, p := range w.Programs {
		if p.Unit == "" {
			functions = staticpod.Functions()
		}
		running = append(running, p.Name+" "+cmp.Or(p.Unit, "pod"))
	}
	for _, c := range w.Certificates {
		certificates = append(certificates, strings.TrimSpace(c.File+" "+c.At))
	}
	for _, a := range w.Announced {
		announced = append(announced, a.Address+" "+a.By)
	}
	vars["announced"] = strings.Join(announced, "\n")
	vars["programs"], vars["certificates"] = strings.Join(running, "\n"), strings.Join(certificates, "\n")
	return string(systemd.Managed + "\n" + host.Assignments(vars) + "\n" + functions + factsScript)
}
