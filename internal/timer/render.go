package timer

import (
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

// Schedule says when a timer starts its service.
type Schedule struct {
	Description string
	Lines       []string // of [Timer]: "OnCalendar=hourly"
}

// Service is what a timer starts: a script that the shell runs as root, once for each start.
type Service struct {
	Description  string
	Order        []string // more lines of [Unit]: "After=network-online.target"
	Environment  []string // lines that set it
	Options      []string // of the shell
	Script       string   // path
	Timeout      string   // of one run
	Settings     []string // lines for priorities, limits, directories and the journal
	Capabilities string   // all that it has of root's
	Sandbox      []string // lines that take more away
}

// Rendered returns the files of the job: its units, and the script that they run.
func (j Job) Rendered(when Schedule, run Service, script string) []host.File {
	return []host.File{
		{Path: j.TimerPath(), Content: []byte(when.Render()), Mode: 0o644},
		{Path: j.ServicePath(), Content: []byte(run.Render()), Mode: 0o644},
		{Path: run.Script, Content: []byte(script), Mode: 0o644},
	}
}

// Render renders the timer's unit.
func (s Schedule) Render() string {
	return systemd.Managed + "\n[Unit]\nDescription=" + s.Description + "\n\n[Timer]\n" + lines(s.Lines) +
		"\n[Install]\nWantedBy=timers.target\n"
}

// Render renders the service's unit.
func (s Service) Render() string {
	return systemd.Managed + "\n[Unit]\nDescription=" + s.Description + "\n" + lines(s.Order) + `
[Service]
Type=oneshot
User=root
` + lines(s.Environment) + "ExecStart=" + s.command() + "\nTimeoutStartSec=" + s.Timeout + "\n" +
		lines(s.Settings) + "UMask=0077\nNoNewPrivileges=yes\nCapabilityBoundingSet=" + s.Capabilities + "\n" +
		lines(s.Sandbox)
}

func (s Service) command() string {
	return strings.Join(slices.Concat([]string{"/bin/sh"}, s.Options, []string{s.Script}), " ")
}

// lines ends each line.
func lines(all []string) string {
	if len(all) == 0 {
		return ""
	}
	return strings.Join(all, "\n") + "\n"
}
