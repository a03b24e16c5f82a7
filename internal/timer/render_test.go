package timer

import (
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

func TestRendered(t *testing.T) {
	files := Job{Name: "job"}.Rendered(
		Schedule{Description: "Schedule of it", Lines: []string{"OnCalendar=hourly"}},
		Service{
			Description: "It", Order: []string{"After=other.service"}, Environment: []string{"EnvironmentFile=/etc/it"},
			Options: []string{"-eu"}, Script: "/etc/it.sh", Timeout: "1min", Settings: []string{"Nice=1"},
			Capabilities: "CAP_CHOWN", Sandbox: []string{"PrivateTmp=yes"},
		}, "script\n")
	want := map[string]string{
		"/etc/systemd/system/job.timer": systemd.Managed + `
[Unit]
Description=Schedule of it

[Timer]
OnCalendar=hourly

[Install]
WantedBy=timers.target
`,
		"/etc/systemd/system/job.service": systemd.Managed + `
[Unit]
Description=It
After=other.service

[Service]
Type=oneshot
User=root
EnvironmentFile=/etc/it
ExecStart=/bin/sh -eu /etc/it.sh
TimeoutStartSec=1min
Nice=1
UMask=0077
NoNewPrivileges=yes
CapabilityBoundingSet=CAP_CHOWN
PrivateTmp=yes
`,
		"/etc/it.sh": "script\n",
	}
	for _, file := range files {
		if got := string(file.Content); got != want[file.Path] {
			t.Errorf("%s is\n%s\nwanted\n%s", file.Path, got, want[file.Path])
		}
	}
	if len(files) != len(want) {
		t.Errorf("%d files", len(files))
	}
}
