package connections

import (
	"context"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/firewall"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

// machines is the lab of this package's tests; missing is the reason if there is none.
var machines struct {
	lab     *lab.Lab
	missing string
}

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	if testing.Short() {
		machines.missing = "-short leaves the lab out"
	} else if machines.missing = lab.Missing(); machines.missing == "" {
		config := lab.Config{
			Name: "connlab", Subnet: netip.MustParsePrefix("10.88.0.0/24"), Machines: []string{"m1", "m2"},
		}
		return lab.RunTests(ctx, config, m, func(l *lab.Lab) { machines.lab = l })
	}
	return m.Run()
}

// pair is two machines of the lab as sides, and the rules between them.
type pair struct {
	t      *testing.T
	m1, m2 *lab.Machine
	pool   *host.Pool
	rules  []firewall.Rule
}

func newPair(t *testing.T) *pair {
	t.Helper()
	if machines.lab == nil {
		testrun.Missing(t, "no lab: "+machines.missing)
	}
	p := &pair{t: t, m1: machines.lab.Machine("m1"), m2: machines.lab.Machine("m2")}
	key, err := machines.lab.PrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	known, err := machines.lab.KnownHosts()
	if err != nil {
		t.Fatal(err)
	}
	p.pool, err = host.NewPool(host.Config{Credentials: host.Credentials{PrivateKey: key}, KnownHosts: known})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.pool.Close() })
	site := firewall.Site{Machines: map[firewall.Role][]netip.Addr{firewall.Members: {p.m1.Address, p.m2.Address}}}
	p.rules = site.Between()
	return p
}

func (p *pair) ssh(m *lab.Machine) SSH {
	return SSH{p.pool.Host(host.Target{Address: m.Address.String()})}
}

// check returns the closed connections, shortened, and how long it took.
func (p *pair) check(bare1, bare2 bool) (closed []string, took time.Duration) {
	p.t.Helper()
	begun := time.Now()
	all := Check(p.t.Context(), p.rules, map[netip.Addr]Side{
		p.m1.Address: {p.ssh(p.m1), bare1}, p.m2.Address: {p.ssh(p.m2), bare2},
	})
	took = time.Since(begun)
	for _, c := range all {
		closed = append(closed, fmt.Sprintf("%s to %s:%d", c.Remote.Addr(), c.Machine, c.Port))
	}
	return closed, took
}

func (p *pair) shell(m *lab.Machine, script string) string {
	p.t.Helper()
	out, err := m.Run(p.t.Context(), script)
	if err != nil {
		p.t.Fatalf("%s: %v", script, err)
	}
	return strings.TrimSpace(out)
}

// expectSilent fails if anything of a check is left on the machines.
func (p *pair) expectSilent() {
	p.t.Helper()
	for _, m := range []*lab.Machine{p.m1, p.m2} {
		left := p.shell(m, "ss -Hltn '( sport = 2379 or sport = 2380 )'; "+
			"pgrep -af 'systemd-socket-activat[e]|slee[p] 20' || true")
		if left != "" {
			p.t.Errorf("left on %s: %s", m.Name, left)
		}
	}
}

// TestFirewallsOnMachines closes one connection in every way that firewalls have.
func TestFirewallsOnMachines(t *testing.T) {
	p := newPair(t)
	p.check(true, true) // connects
	if closed, took := p.check(true, true); len(closed) > 0 {
		t.Fatalf("open machines: %v", closed)
	} else {
		t.Logf("open: %v", took.Round(time.Millisecond))
	}
	into := fmt.Sprintf("INPUT -p tcp -s %s --dport 2380 -j ", p.m2.Address)
	out := fmt.Sprintf("OUTPUT -p tcp -d %s --dport 2380 -j ", p.m1.Address)
	want := fmt.Sprintf("%s to %s:2380", p.m2.Address, p.m1.Address)
	for name, c := range map[string]struct {
		machine *lab.Machine
		rule    string
	}{
		"dropped":                     {p.m1, into + "DROP"},
		"rejected, port unreachable":  {p.m1, into + "REJECT"},
		"rejected, prohibited":        {p.m1, into + "REJECT --reject-with icmp-admin-prohibited"},
		"rejected, host prohibited":   {p.m1, into + "REJECT --reject-with icmp-host-prohibited"},
		"rejected, reset":             {p.m1, into + "REJECT --reject-with tcp-reset"},
		"not let out":                 {p.m2, out + "DROP"},
		"not let out, and told so":    {p.m2, out + "REJECT"},
		"not let out, and prohibited": {p.m2, out + "REJECT --reject-with icmp-admin-prohibited"},
	} {
		p.shell(c.machine, "iptables -I "+c.rule)
		closed, took := p.check(true, true)
		p.shell(c.machine, "iptables -D "+c.rule)
		t.Logf("%-28s %v", name, took.Round(time.Millisecond))
		if len(closed) != 1 || closed[0] != want {
			t.Errorf("%s: closed are %q, want %q", name, closed, want)
		}
		if took > 10*time.Second {
			t.Errorf("%s: %v", name, took)
		}
	}
	p.expectSilent()
	if closed, _ := p.check(true, true); len(closed) > 0 {
		t.Errorf("opened again: %v", closed)
	}
}

// TestOthersOnMachines checks that a peer that has nothing yet, is stopped or dead is no reason.
func TestOthersOnMachines(t *testing.T) {
	p := newPair(t)
	if closed, took := p.check(true, false); len(closed) > 0 || took > 3*time.Second {
		t.Errorf("a peer on which nothing is created now: %q after %v", closed, took)
	}
	p.expectSilent()
	// A machine without the program that listens: nobody can tell a rejection from a closed port.
	const program = "systemd-socket-activate"
	p.shell(p.m1, "mv /usr/bin/"+program+" /root/")
	rule := fmt.Sprintf("INPUT -p tcp -s %s --dport 2380 -j REJECT", p.m2.Address)
	p.shell(p.m1, "iptables -I "+rule)
	closed, _ := p.check(true, true)
	p.shell(p.m1, "iptables -D "+rule+"; mv /root/"+program+" /usr/bin/")
	if len(closed) > 0 {
		t.Errorf("a machine that cannot listen: %q", closed)
	}
	if err := p.m2.PowerOff(t.Context()); err != nil {
		t.Fatal(err)
	}
	closed, took := p.check(true, true)
	t.Logf("a dead peer: %v", took.Round(time.Millisecond))
	if err := p.m2.Boot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(closed) > 0 || took > reachTimeout+2*time.Second {
		t.Errorf("a dead peer: %q after %v", closed, took)
	}
	p.expectSilent()
}

// TestListenerEndsOnMachines ends a listener with its process, and with a connection that is lost.
func TestListenerEndsOnMachines(t *testing.T) {
	p := newPair(t)
	address := fmt.Sprintf("%s:2380", p.m1.Address)
	for name, end := range map[string]func(cancel func()){
		"cancelled": func(cancel func()) { cancel() },
		"connection lost": func(func()) {
			if err := p.m1.HangUp(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
		"shell killed": func(func()) { p.shell(p.m1, "pkill -KILL -f '^sh -euc .*systemd-socket-activat[e]'") },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		listener := p.ssh(p.m1).Listen(ctx, []string{address})
		if !listens(ctx, p.ssh(p.m1), address, listener.Ended) {
			t.Fatalf("%s: nothing listens", name)
		}
		end(cancel)
		listener.Release()
		deadline := time.Now().Add(listenLimit / 4) // well before it would end by itself
		for p.shell(p.m1, "ss -Hltn sport = 2380") != "" {
			if time.Now().After(deadline) {
				t.Fatalf("%s: it still listens", name)
			}
			time.Sleep(200 * time.Millisecond)
		}
		cancel()
	}
	p.expectSilent()
}

// TestReleaseFreesThePort: whoever starts after a check finds its port free, on a machine that is busy too.
func TestReleaseFreesThePort(t *testing.T) {
	p := newPair(t)
	address := fmt.Sprintf("%s:2380", p.m1.Address)
	p.shell(p.m1, "for i in 1 2 3 4; do systemd-run -q --unit=busy$i sh -c 'while :; do true & wait; done'; done")
	t.Cleanup(func() {
		if _, err := p.m1.Run(context.WithoutCancel(t.Context()), "systemctl stop 'busy*'"); err != nil {
			t.Error(err)
		}
	})
	for range 20 {
		listener := p.ssh(p.m1).Listen(t.Context(), []string{address})
		listens(t.Context(), p.ssh(p.m1), address, listener.Ended)
		listener.Release()
		if left := p.shell(p.m1, "ss -Hltnp sport = 2380"); left != "" {
			t.Fatalf("released, and still: %s", left)
		}
	}
}

// TestVRRPOnMachines drops VRRP from one machine to another in each way, and finds it.
func TestVRRPOnMachines(t *testing.T) {
	p := newPair(t)
	site := firewall.Site{Endpoint: "haproxy", Machines: map[firewall.Role][]netip.Addr{
		firewall.Balancers: {p.m1.Address, p.m2.Address},
	}}
	from, to := p.m1, p.m2
	if to.Address.Less(from.Address) {
		from, to = to, from
	}
	check := func() (closed []string) {
		t.Helper()
		begun := time.Now()
		for _, c := range CheckVRRP(t.Context(), site.VRRPBetween(), map[netip.Addr]VRRPSide{
			p.m1.Address: {p.ssh(p.m1), true}, p.m2.Address: {p.ssh(p.m2), true},
		}) {
			closed = append(closed, fmt.Sprintf("%s to %s", c.Remote.Addr(), c.Machine))
		}
		t.Logf("closed: %v, after %v", closed, time.Since(begun).Round(time.Millisecond))
		for _, m := range []*lab.Machine{p.m1, p.m2} {
			if left := p.shell(m, "pgrep -af '[S]OCK_RAW' || true"); left != "" {
				t.Errorf("left on %s: %s", m.Name, left)
			}
		}
		return closed
	}
	if closed := check(); len(closed) > 0 {
		t.Errorf("open machines: %q", closed)
	}
	want := []string{fmt.Sprintf("%s to %s", from.Address, to.Address)}
	for name, c := range map[string]struct {
		machine *lab.Machine
		rules   []string
	}{
		"dropped":     {to, []string{fmt.Sprintf("INPUT -p 112 -s %s -j DROP", from.Address)}},
		"rejected":    {to, []string{fmt.Sprintf("INPUT -p 112 -s %s -j REJECT", from.Address)}},
		"not let out": {from, []string{fmt.Sprintf("OUTPUT -p 112 -d %s -j DROP", to.Address)}},
		"dropped by a firewall that knows connections": {to, []string{
			"INPUT -p 112 -j DROP", "INPUT -i lo -j ACCEPT", "INPUT -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT",
		}},
	} {
		for _, rule := range c.rules { // each before the last
			p.shell(c.machine, "iptables -I "+rule)
		}
		for range 2 { // the second try finds it too
			if closed := check(); strings.Join(closed, ", ") != want[0] {
				t.Errorf("%s: closed are %q, want %q", name, closed, want)
			}
		}
		for _, rule := range c.rules {
			p.shell(c.machine, "iptables -D "+rule)
		}
	}
	// Without Perl, nobody knows.
	p.shell(to, "mv /usr/bin/perl /root/; iptables -I "+"INPUT -p 112 -j DROP")
	closed := check()
	p.shell(to, "mv /root/perl /usr/bin/; iptables -D INPUT -p 112 -j DROP")
	if len(closed) > 0 {
		t.Errorf("a machine without Perl: %q", closed)
	}
}
