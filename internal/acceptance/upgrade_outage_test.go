package acceptance

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// outage is the time between the stop of one unit on one machine and its readiness, according
// to the machine's journal. All machines share one clock.
type outage struct {
	machine string
	unit    string  // "etcd"
	began   float64 // seconds
	ended   float64 // 0: not yet
	version string  // version after the restart
}

func (o outage) String() string {
	return fmt.Sprintf("%s of %s from %.3f to %.3f, then %s", o.unit, o.machine, o.began, o.ended, o.version)
}

// outages returns those of the named machines since a moment, in order.
func outages(t *testing.T, since float64, names ...string) []outage {
	t.Helper()
	var all []outage
	for _, name := range names {
		for _, unit := range []string{"etcd", "kube-apiserver"} {
			// There is no line of a unit that was left alone.
			text := onMachine(t, shared.lab.Machine(name), fmt.Sprintf(
				`journalctl -q -o json --output-fields=MESSAGE,_EXE,_COMM --since=@%.3f -u %s >/run/journal
grep -E '"_COMM":"systemd"|"_EXE"' /run/journal || test $? = 1`, since, unit))
			all = append(all, outagesIn(t, name, unit, text)...)
		}
	}
	slices.SortFunc(all, func(a, b outage) int { return cmp.Compare(a.began, b.began) })
	return all
}

// outagesIn reads the journal of one unit: the messages of systemd, and the path of the program
// that wrote the last line before the unit was ready.
func outagesIn(t *testing.T, machine, unit, journal string) []outage {
	t.Helper()
	var all []outage
	var version string
	for line := range strings.Lines(journal) {
		var entry struct {
			Time    string `json:"__REALTIME_TIMESTAMP"`
			Message any    `json:"MESSAGE"` // a list of numbers if it is not text
			Program string `json:"_EXE"`
			Command string `json:"_COMM"`
		}
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatalf("journal of %s on %s: %v: %s", unit, machine, err, line)
		}
		microseconds, err := strconv.ParseInt(entry.Time, 10, 64)
		if err != nil {
			t.Fatalf("journal of %s on %s: %v", unit, machine, err)
		}
		message, _ := entry.Message.(string)
		at := float64(microseconds) / 1e6
		switch {
		case strings.HasPrefix(entry.Program, "/opt/kube/"):
			version = path.Base(path.Dir(entry.Program))
		case entry.Command != "systemd":
		case strings.HasPrefix(message, "Stopping ") && (len(all) == 0 || all[len(all)-1].ended > 0):
			all = append(all, outage{machine: machine, unit: unit, began: at})
		case strings.HasPrefix(message, "Started ") && len(all) > 0 && all[len(all)-1].ended == 0:
			all[len(all)-1].ended, all[len(all)-1].version = at, version
		}
	}
	return all
}

// ofUnit returns the outages of a unit, or only those that led to a version.
func ofUnit(all []outage, unit, version string) []outage {
	return slices.DeleteFunc(slices.Clone(all), func(o outage) bool {
		return o.unit != unit || version != "" && o.version != version
	})
}

// expectOneAtATime expects that a unit was never down on two machines at the same time.
func expectOneAtATime(t *testing.T, all []outage) {
	t.Helper()
	for i, o := range all {
		if o.ended == 0 {
			t.Errorf("it did not come back: %v", o)
		}
		if i > 0 && all[i-1].ended > o.began {
			t.Errorf("two were out at the same time: %v; %v", all[i-1], o)
		}
	}
}

// expectInOrder expects that each of the machines changed to the version once and, if last is a
// name, that this machine was the last one.
func expectInOrder(t *testing.T, all []outage, names []string, last string) {
	t.Helper()
	var order []string
	for _, o := range all {
		order = append(order, o.machine)
	}
	sorted := slices.Sorted(slices.Values(order))
	if !slices.Equal(sorted, names) || last != "" && order[len(order)-1] != last {
		t.Errorf("machines went in the order %v, want each of %v once, and %q last", order, names, last)
	}
}

// expectPrepared expects that a program was on every machine before the first outage.
func expectPrepared(t *testing.T, first outage, program string, names []string) {
	t.Helper()
	for _, name := range names {
		if there := seconds(t, name, "stat -c %.Z "+program); there > first.began {
			t.Errorf("%s came to %s at %.3f, after the first outage: %v", program, name, there, first)
		}
	}
}
