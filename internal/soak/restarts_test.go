package soak

import (
	"slices"
	"testing"
)

func TestParseRestarts(t *testing.T) {
	started := func(at, id string) string {
		return at + ` cp1 etcd[9]: {"level":"info","msg":"starting etcd server","local-member-id":"` + id +
			`","cluster-id":"c"}` + "\n" +
			at + "5 cp1 systemd[1]: Started etcd.service - etcd member cp1.\n"
	}
	const stopping = " cp1 systemd[1]: Stopping etcd.service - etcd member cp1...\n"
	const deactivated = " cp1 systemd[1]: etcd.service: Deactivated successfully.\n"
	for _, c := range []struct {
		name, journal string
		want          []restart
	}{
		{"nothing", "", nil},
		{"the first start", started("10.", "a"), nil},
		{"one that ran before", "20.0" + stopping + "20.2" + deactivated + started("21.", "a"), []restart{{"cp1", 20, 21.5}}},
		{
			"twice", started("10.", "a") + "20.0" + stopping + started("21.", "a") + "30.0" + stopping + started("31.", "a"),
			[]restart{{"cp1", 20, 21.5}, {"cp1", 30, 31.5}},
		},
		{"replaced by another", started("10.", "a") + "20.0" + stopping + "20.2" + deactivated + started("41.", "b"), nil},
		{"gone for good", started("10.", "a") + "20.0" + stopping + "20.2" + deactivated, nil},
		{"it ended by itself", started("10.", "a") + "20.0 cp1 systemd[1]: etcd.service: Main process exited, code=killed\n" +
			started("22.", "a"), []restart{{"cp1", 20, 22.5}}},
	} {
		if got, err := parseRestarts("cp1", c.journal); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v; want %v", c.name, got, err, c.want)
		}
	}
	if _, err := parseRestarts("cp1", "soon cp1 systemd[1]: Started etcd\n"); err == nil {
		t.Error("a line without a time is read")
	}
}

func TestOverlaps(t *testing.T) {
	one, two, three := restart{"cp1", 1, 2}, restart{"cp2", 2, 3}, restart{"cp3", 2.5, 4}
	if got := overlaps([]restart{one, two}); len(got) > 0 {
		t.Errorf("one after the other: %q", got)
	}
	if got := overlaps([]restart{one, two, three}); len(got) != 1 {
		t.Errorf("the last two at once: %q", got)
	}
	if got := overlaps([]restart{{"cp1", 1, 3}, {"cp1", 2, 4}}); len(got) > 0 {
		t.Errorf("one machine: %q", got)
	}
}
