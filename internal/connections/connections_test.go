package connections

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/firewall"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

func TestJudge(t *testing.T) {
	other := errors.New("sshd forbids TCP forwarding")
	refused, unanswered := fmt.Errorf("x: %w", host.ErrRefused), fmt.Errorf("x: %w", host.ErrUnanswered)
	for name, c := range map[string]struct {
		err             error
		listening, late bool
		want            string
	}{
		"connected":                       {nil, true, false, ""},
		"connected to a running program":  {nil, false, false, ""},
		"refused, nobody listens":         {refused, false, false, ""},
		"refused by a firewall":           {refused, true, false, "rejected"},
		"forbidden by ICMP":               {unanswered, true, false, "on the way"},
		"forbidden, nobody listens":       {unanswered, false, false, "on the way"},
		"dropped":                         {context.DeadlineExceeded, true, true, "no answer within 5s"},
		"dropped, nobody listens":         {context.DeadlineExceeded, false, true, "no answer within 5s"},
		"the sender does not answer":      {context.DeadlineExceeded, true, false, ""},
		"the sender may not connect":      {other, true, false, ""},
		"the sender cannot be reached":    {host.ErrUnreachable, true, false, ""},
		"the answer is late, but it came": {nil, true, true, ""},
	} {
		got := judge(c.err, c.listening, c.late)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// fakeMachine answers as a network of these machines would.
type fakeMachine struct {
	network *network
	address string
	down    bool // SSH does not answer
	deaf    bool // it cannot listen
	brief   bool // what listens ends after the machine has reached itself once
}

// network is who has something that listens, and what a firewall does to whom.
type network struct {
	mu        sync.Mutex
	listening map[string]bool
	firewall  map[string]error // "from to" → what becomes of the connection
	once      map[string]error // the same, for the first connection only
	dials     int
}

func (m *fakeMachine) Dial(_ context.Context, _, to string) (net.Conn, error) {
	m.network.mu.Lock()
	defer m.network.mu.Unlock()
	m.network.dials++
	if m.down {
		return nil, host.ErrUnreachable
	}
	if err := m.network.firewall[m.address+" "+to]; err != nil {
		return nil, err
	}
	if err := m.network.once[m.address+" "+to]; err != nil {
		delete(m.network.once, m.address+" "+to)
		return nil, err
	}
	if !m.network.listening[to] {
		return nil, host.ErrRefused
	}
	if m.brief {
		m.network.listening[to] = false
	}
	client, server := net.Pipe()
	_ = server.Close()
	return client, nil
}

func (m *fakeMachine) Listen(_ context.Context, addresses []string) Listener {
	if m.deaf {
		return Deaf()
	}
	set := func(on bool) {
		m.network.mu.Lock()
		defer m.network.mu.Unlock()
		for _, address := range addresses {
			m.network.listening[address] = on
		}
	}
	set(true)
	return Listener{make(chan struct{}), func() { set(false) }}
}

func TestCheck(t *testing.T) {
	const one, two, three = "10.0.0.11", "10.0.0.12", "10.0.0.13"
	type side struct{ bare, down, deaf, brief bool }
	all := map[string]side{one: {bare: true}, two: {bare: true}, three: {bare: true}}
	for name, c := range map[string]struct {
		machines  map[string]side
		firewall  map[string]error
		once      map[string]error
		listening []string
		want      []string
	}{
		"open": {machines: all},
		"rejected": {
			machines: all, firewall: map[string]error{two + " " + one + ":2380": host.ErrRefused},
			want: []string{two + " to " + one},
		},
		"forbidden in both directions": {
			machines: all, firewall: map[string]error{
				two + " " + one + ":2380": host.ErrUnanswered, one + " " + two + ":2380": host.ErrUnanswered,
			},
			want: []string{two + " to " + one, one + " to " + two},
		},
		"rejected by a machine that cannot listen": {
			machines: map[string]side{one: {bare: true, deaf: true}, two: {bare: true}},
			firewall: map[string]error{two + " " + one + ":2380": host.ErrRefused},
		},
		"what listened has ended meanwhile": {
			machines: map[string]side{one: {bare: true, brief: true}, two: {}},
		},
		"another process's listener has ended, and this one's has not begun": {
			machines: map[string]side{one: {bare: true}, two: {}},
			once:     map[string]error{two + " " + one + ":2380": host.ErrRefused},
		},
		"the other is down": {
			machines: map[string]side{one: {bare: true}, two: {bare: true, down: true}},
			firewall: map[string]error{one + " " + two + ":2380": host.ErrUnanswered},
		},
		"the other's program is stopped": {machines: map[string]side{one: {bare: true}, two: {}}},
		"the other serves and does not reach the new one": {
			machines: map[string]side{one: {bare: true}, two: {}}, listening: []string{two + ":2380"},
			firewall: map[string]error{two + " " + one + ":2380": host.ErrUnanswered}, want: []string{two + " to " + one},
		},
		"both run already": {
			machines: map[string]side{one: {}, two: {}},
			firewall: map[string]error{two + " " + one + ":2380": host.ErrUnanswered},
		},
		"the firewall of a machine closes its own port": {
			machines: map[string]side{one: {bare: true}, two: {}},
			firewall: map[string]error{
				one + " " + one + ":2380": host.ErrUnanswered, two + " " + one + ":2380": host.ErrRefused,
			},
		},
	} {
		n := &network{listening: map[string]bool{}, firewall: c.firewall, once: c.once}
		for _, address := range c.listening {
			n.listening[address] = true
		}
		sides := map[netip.Addr]Side{}
		site := firewall.Site{Machines: map[firewall.Role][]netip.Addr{}}
		for address, s := range c.machines {
			machine := &fakeMachine{network: n, address: address, down: s.down, deaf: s.deaf, brief: s.brief}
			sides[netip.MustParseAddr(address)] = Side{machine, s.bare}
			site.Machines[firewall.Members] = append(site.Machines[firewall.Members], netip.MustParseAddr(address))
		}
		rules := slices.DeleteFunc(site.Between(), func(r firewall.Rule) bool { return r.Port != 2380 })
		var got []string
		for _, closed := range Check(t.Context(), rules, sides) {
			got = append(got, closed.Remote.Addr().String()+" to "+closed.Machine.String())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		n.mu.Lock()
		for address, on := range n.listening {
			if on && !slices.Contains(c.listening, address) {
				t.Errorf("%s: %s still listens", name, address)
			}
		}
		n.mu.Unlock()
	}
}

func TestClosedNamesTheRule(t *testing.T) {
	c := Closed{firewall.Rule{
		Name: "etcd-peer", Machine: netip.MustParseAddr("10.0.0.11"), Direction: firewall.Ingress,
		Remote: netip.MustParsePrefix("10.0.0.12/32"), Protocol: firewall.TCP, Port: 2380, Purpose: "Raft between members",
	}, "no answer within 5s"}
	for _, want := range []string{
		"10.0.0.12 does not reach TCP port 2380 of 10.0.0.11 (etcd-peer: Raft between members): no answer within 5s. ",
		"let TCP 2380 in on 10.0.0.11 from 10.0.0.12 (ingress; ", "nftables: ip saddr 10.0.0.12/32 tcp dport 2380 accept; ",
		`'rule family="ipv4" source address="10.0.0.12/32" port port="2380" protocol="tcp" accept'; `,
		"security group: inbound TCP 2380 from 10.0.0.12/32)", "let TCP 2380 out on 10.0.0.12 to 10.0.0.11 (egress)",
	} {
		if !strings.Contains(c.String(), want) {
			t.Errorf("%q is not in\n%s", want, c)
		}
	}
}
