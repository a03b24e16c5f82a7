package etcd

import (
	"fmt"
	"strings"
	"testing"
)

// TestLogExcerpt: the reason for which a server did not start is shown, however much it wrote
// while it stopped.
func TestLogExcerpt(t *testing.T) {
	const (
		info   = `Nov 23 10:06:37 cp1 etcd[1]: {"level":"info","msg":"stopped streaming %d"}`
		reason = `Nov 23 10:06:37 cp1 etcd[1]: {"level":"fatal","msg":"failed","error":"listen tcp: address already in use"}`
		exited = `Nov 23 10:06:37 cp1 systemd[1]: etcd.service: Main process exited, code=exited, status=1/FAILURE`
	)
	var log []string
	for start := range 3 {
		for i := range 50 {
			log = append(log, fmt.Sprintf(info, 100*start+i))
		}
		log = append(log, reason, exited)
		for i := range 50 {
			log = append(log, fmt.Sprintf(info, 100*start+50+i))
		}
	}
	got := logExcerpt(strings.Join(log, "\n"))
	lines := strings.Split(got, "\n")
	if strings.Count(got, "address already in use") != 3 || strings.Count(got, "Main process exited") != 3 ||
		lines[len(lines)-1] != fmt.Sprintf(info, 299) {
		t.Errorf("the excerpt is\n%s", got)
	}
	if shown := len(lines) - strings.Count(got, "[…]"); shown != logShown {
		t.Errorf("%d lines are shown, want %d", shown, logShown)
	}
	for short, want := range map[string]string{
		"": "", "one": "one", "one\ntwo": "one\ntwo",
		strings.Repeat("x", logWidth+1): strings.Repeat("x", logWidth) + "…",
	} {
		if got := logExcerpt(short); got != want {
			t.Errorf("%q gives %q", short, got)
		}
	}
}
