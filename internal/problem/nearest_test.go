package problem

import "testing"

func TestNearest(t *testing.T) {
	flags := []string{"event-ttl", "etcd-servers", "v", "max-wals", "max-walz", "goaway-chance"}
	for name, want := range map[string]string{
		"event-ttl":     "event-ttl",
		"event-tll":     "event-ttl",
		"eventttl":      "event-ttl",
		"etcd-server":   "etcd-servers",
		"goaway-chanec": "goaway-chance",
		"max-wal":       "max-wals", // of equals, the first in order
		"away-chance":   "goaway-chance",
		"chance":        "",
		"vv":            "",
		"":              "",
		"no-such-flag":  "",
	} {
		if got := Nearest(name, flags); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
