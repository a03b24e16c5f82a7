package soak

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestLongestOutage(t *testing.T) {
	begun, refused := time.Now(), fmt.Errorf("dial: %w", syscall.ECONNREFUSED)
	at := func(ms int, err error) dial {
		return dial{begun.Add(time.Duration(ms) * time.Millisecond), 5 * time.Millisecond, err}
	}
	lost, out := errors.New("i/o timeout"), 65*time.Millisecond
	for name, c := range map[string]struct {
		dials   []dial
		want    time.Duration
		refused int
	}{
		"none":        {nil, 0, 0},
		"all succeed": {[]dial{at(0, nil), at(20, nil), at(900, nil)}, 0, 0},
		"one outage":  {[]dial{at(0, nil), at(20, nil), at(40, lost), at(60, lost), at(80, nil)}, out, 0},
		"the longer of two": {
			[]dial{at(0, nil), at(20, lost), at(40, nil), at(60, lost), at(80, refused), at(100, nil)}, out, 1,
		},
		"not there at first": {[]dial{at(0, lost), at(20, lost), at(60, nil)}, out, 0},
		"it does not come back": {
			[]dial{at(0, lost), at(20, nil), at(40, nil), at(60, lost), at(100, lost)}, out, 0,
		},
		"refused all the time": {[]dial{at(0, refused), at(60, refused)}, out, 2},
	} {
		if got, n := longestOutage(c.dials), refusals(c.dials); got != c.want || n != c.refused {
			t.Errorf("%s: %s and %d refused, want %s and %d", name, got, n, c.want, c.refused)
		}
	}
}

// TestDialer: an address where nobody listens refuses, and one where somebody does is connected to.
func TestDialer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := startDialer(t.Context(), listener.Addr().String())
	time.Sleep(200 * time.Millisecond)
	_ = listener.Close()
	time.Sleep(300 * time.Millisecond)
	again, err := net.Listen("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	time.Sleep(300 * time.Millisecond)
	dials := d.stop()
	if out := longestOutage(dials); out < 200*time.Millisecond || out > 3*time.Second || refusals(dials) == 0 {
		t.Errorf("%s without an answer, %d of %d refused", out, refusals(dials), len(dials))
	}
}

func TestPlugResults(t *testing.T) {
	var all []plug
	for n := range 4 {
		all = append(all, plug{
			victim: "cp1", address: time.Duration(400+n) * time.Millisecond, reads: time.Second,
			writes: time.Duration(1000+n) * time.Millisecond, load: "1.0 on 2 processors",
			elected: elections{time.Duration(300+n) * time.Millisecond, time.Duration(900+n) * time.Millisecond},
			report:  clientsReport(),
		})
	}
	for _, r := range plugResults(all) {
		if r.Tried != 4 || r.Passed != 4 || len(r.Violated) > 0 {
			t.Errorf("within the limits: %+v", r)
		}
	}
	all[1].elected = elections{}
	all[3].address, all[3].writes, all[3].refused, all[3].failed = 1100*time.Millisecond, 3200*time.Millisecond, 7, 60
	for i, want := range []string{
		"connections to the virtual IP: minimum 400, median 401, maximum 1100 ms; of it until keepalived has elected: " +
			"minimum 300, median 302, maximum 303 ms; the first read: minimum 1000, median 1000, maximum 1000 ms",
		"the first write: minimum 1000, median 1001, maximum 3200 ms; of it until etcd has elected: minimum 900, " +
			"median 902, maximum 903 ms",
		"refused requests and connections: minimum 0, median 0, maximum 7; failed requests: minimum 0, median 0, maximum 60",
	} {
		r := plugResults(all)[i]
		if first, _, _ := strings.Cut(r.Detail, "\n"); first != want || r.Tried != 4 || r.Passed != 3 {
			t.Errorf("%+v, want %q", r, want)
		}
	}
	all[2].report.Clients[0].Lost = []string{"x"}
	if kept := plugResults(all)[3]; kept.Tried != 4 || kept.Passed != 3 {
		t.Errorf("a lost write: %+v", kept)
	}
	all[2].report.Watches[0].Missed = []string{"x"}
	if first := plugResults(all)[0]; len(first.Violated) != 2 || len(first.Observed) != 4 || !strings.HasPrefix(
		first.Violated[0], "time 3: watch own 1: of 100 events 1 missed") || !slices.Contains(first.Criteria,
		"no acknowledged write is lost, and the members of etcd agree") {
		t.Errorf("violated: %q, %q", first.Violated, first.Criteria)
	}
	if f := plugResults(all)[1].Figures; len(f) != 2 || f[0].Worst() != 3200 || f[0].Median() != 1001 ||
		f[0].Limit != 2000 || len(f[1].Values) != 3 {
		t.Errorf("figures of writes: %+v", f)
	}
	if r := plugResults(nil)[0]; r.Tried != 0 || !strings.Contains(r.Detail, ": not measured") {
		t.Errorf("without a time: %+v", r)
	}
	if names := PlugFigures(); len(names) != 7 || names[0].Name != "connections to the virtual IP" {
		t.Errorf("what is measured: %+v", names)
	}
	if text := computerLoad(); !strings.Contains(text, " processors") {
		t.Errorf("the load is %q", text)
	}
}
