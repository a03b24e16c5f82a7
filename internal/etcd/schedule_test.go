package etcd

import (
	"strings"
	"testing"
)

func TestValidateSchedules(t *testing.T) {
	for schedule, want := range map[string]string{
		"hourly": "", "daily": "", "daily UTC": "", "weekly Europe/Berlin": "", "*-*-* 02:30:00": "", "*-*-* 00/6:00": "", "*:0/15": "", "Mon..Fri 02:30 Europe/Berlin": "",
		"Sat,Sun *-*-* 04:00": "", "Mon *-*~07/1": "", "02:30 America/Argentina/Buenos_Aires": "", "mon": "",
		"": "no calendar expression", "hourley": "no calendar expression", "Hourly": "no calendar expression", "0 2 * * *": "no calendar expression", "hourly\n": "no calendar expression",
		"hourly\nOnBootSec=1": "no calendar expression", "every day": "no calendar expression", "02:30  UTC": "no calendar expression", " hourly": "no calendar expression",
		"hourly 02:30": "no calendar expression", "1h": "no calendar expression", "02:30 %h/x": "no calendar expression",
	} {
		wantError(t, "schedule "+schedule, ValidateSchedule(schedule), want)
	}
	for upload, want := range map[string]string{
		"cp \"$SNAPSHOT\" /backup/": "", "a\nb": "", "": "empty", " \n": "empty", "a\x00b": "NUL", strings.Repeat("x", longestUpload+1): "at most",
	} {
		wantError(t, "upload "+upload[:min(len(upload), 20)], ValidateUpload(upload), want)
	}
	for file, want := range map[string]string{
		"/etc/rclone.env": "", "/etc/a-b/c_d.env": "", "etc/rclone.env": "absolute", "/etc/../x": "absolute", "/": "absolute", "/etc/a b": "characters", "/etc/%h": "characters", "": "absolute",
	} {
		wantError(t, "environment file "+file, ValidateEnvironmentFile(file), want)
	}
}
