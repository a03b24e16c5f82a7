package haproxy

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// stepSandbox: both units are as confined as the control plane's, and what they do
// beside running still works.
func stepSandbox(f *fixture) {
	level := regexp.MustCompile(`Overall exposure level for \S+: ([0-9.]+)`)
	for _, name := range names(f.spec.Hosts) {
		for _, unit := range []string{haproxyUnit, keepalivedUnit} {
			text := f.shell(name, "systemd-analyze security --no-pager "+unit)
			got := level.FindStringSubmatch(text)
			if got == nil {
				f.Fatalf("%s on %s: %s", unit, name, text)
			}
			if score, err := strconv.ParseFloat(got[1], 64); err != nil || score > 3 {
				f.Errorf("%s on %s has the score %s, wanted 3.0 at most (%v)", unit, name, got[1], err)
			}
		}
	}
	holder := f.read().holder
	address := "ip -o address show | grep -w " + labVIP + " || true"
	f.shell(holder, "systemctl stop "+keepalivedUnit)
	if left := f.shell(holder, address); left != "" {
		f.Errorf("after a stop: %s", left)
	}
	f.shell(holder, "systemctl start "+keepalivedUnit)
	next := f.eventually("another holder", 5*time.Second, func(s observed) bool {
		return s.holder != "" && len(s.Drift) == 0
	}).holder
	f.shell(next, "systemctl kill --kill-whom=all --signal KILL "+keepalivedUnit)
	f.eventually("a holder again", 5*time.Second, func(s observed) bool { return s.holder != "" && len(s.Drift) == 0 })
	f.shell(holder, "systemctl reload "+haproxyUnit)
}

// stepConnectionLog: the line of a connection holds the address and port that the
// replica sees, which is the balancer's.
func stepConnectionLog(f *fixture) {
	var own string
	dialer := &net.Dialer{Timeout: 3 * time.Second}
	web := client(f.ca, true, 3*time.Second)
	web.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, address)
		if err == nil {
			own = conn.LocalAddr().String()
		}
		return conn, err
	}
	answer, err := web.Get(f.url())
	f.must(err)
	defer answer.Body.Close()
	seen := answer.Header.Get(seenFrom)
	if seen == "" || strings.HasPrefix(seen, own) {
		f.Fatalf("the replica saw %q, the client is %s", seen, own)
	}
	want := fmt.Sprintf("client=%s source=%s server=", own, seen)
	holder, lines := f.read().holder, ""
	for range 20 {
		if lines = f.shell(holder, "journalctl --quiet --no-pager --output=cat --unit="+haproxyUnit+" --grep=source="+seen+
			" || true"); strings.Contains(lines, want) {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	f.Errorf("the journal of %s has %q, wanted %q", holder, lines, want)
}

// stepServers: what stands in one balancer's list is executed nowhere, gets to no
// other balancer, and goes; what a balancer has missed comes.
func stepServers(f *fixture) {
	wanted := f.shell("a", "cat "+backendsPath)
	f.shell("b", `printf "    server zz';id>/tmp/p;:' 10.95.0.12:6443\n    server zz 10.95.0.12:6443\n$(grep 'server a ' `+
		backendsPath+`)\n" >>`+backendsPath)
	f.shell("c", "sed -i '/server a /d' "+backendsPath)
	drift := strings.Join(f.read().Drift, "\n")
	for _, directives := range []string{
		`b: /etc/haproxy/kube/20-backends.cfg: found "server zz';id>/tmp/p;:' 10.95.0.12:6443", which no registration writes`,
		"b: /etc/haproxy/kube/20-backends.cfg: zz (10.95.0.12:6443) has no mark of a registration",
		"b: /etc/haproxy/kube/20-backends.cfg: a (10.95.0.11:6443) is there more than once",
		"c: /etc/haproxy/kube/20-backends.cfg: lacks a (10.95.0.11:6443), which is registered on a and b",
	} {
		if !strings.Contains(drift, directives) {
			f.Errorf("drift lacks %q:\n%s", directives, drift)
		}
	}
	f.timed("repair lists of servers", func() error {
		got, err := Update(f.ctx, f.spec, f.spec)
		if len(got.Drift) > 0 {
			f.Errorf("drift after update: %q", got.Drift)
		}
		return err
	})
	for _, name := range names(f.spec.Hosts) {
		if now := f.shell(name, "cat "+backendsPath+"; ls /tmp/p 2>/dev/null || true"); now != wanted {
			f.Errorf("on %s:\n%s\nwanted:\n%s", name, now, wanted)
		}
		if differences, err := f.registered(name); err != nil || differences != nil {
			f.Errorf("%s: %q, %v", name, differences, err)
		}
	}
}
