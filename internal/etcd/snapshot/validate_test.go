package snapshot

import (
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/etcdtest"
)

func TestValidateSchedules(t *testing.T) {
	for schedule, want := range map[string]string{
		"hourly": "", "daily": "", "daily UTC": "", "weekly Europe/Berlin": "", "*-*-* 02:30:00": "", "*-*-* 00/6:00": "",
		"*:0/15": "", "Mon..Fri 02:30 Europe/Berlin": "",
		"Sat,Sun *-*-* 04:00": "", "Mon *-*~07/1": "", "02:30 America/Argentina/Buenos_Aires": "", "mon": "",
		"": "not a systemd calendar expression", "hourley": "not a systemd calendar expression",
		"Hourly": "not a systemd calendar expression", "0 2 * * *": "not a systemd calendar expression",
		"hourly\n":            "not a systemd calendar expression",
		"hourly\nOnBootSec=1": "not a systemd calendar expression", "every day": "not a systemd calendar expression",
		"02:30  UTC": "not a systemd calendar expression", " hourly": "not a systemd calendar expression",
		"hourly 02:30": "not a systemd calendar expression", "1h": "not a systemd calendar expression",
		"02:30 %h/x": "not a systemd calendar expression",
	} {
		etcdtest.WantError(t, "schedule "+schedule, ValidateSchedule(schedule), want)
	}
	for upload, want := range map[string]string{
		"cp \"$SNAPSHOT\" /backup/": "", "a\nb": "", "": "empty", " \n": "empty",
		"a\x00b": "NUL", strings.Repeat("x", longestUpload+1): "at most",
	} {
		etcdtest.WantError(t, "upload "+upload[:min(len(upload), 20)], ValidateUpload(upload), want)
	}
	for file, want := range map[string]string{
		"/etc/rclone.env": "", "/etc/a-b/c_d.env": "", "etc/rclone.env": "absolute", "/etc/../x": "absolute", "/": "absolute",
		"/etc/a b": "characters", "/etc/%h": "characters", "": "absolute",
	} {
		etcdtest.WantError(t, "environment file "+file, ValidateEnvironmentFile(file), want)
	}
}
