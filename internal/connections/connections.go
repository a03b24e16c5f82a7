// Package connections finds which connections between machines are closed, before the programs that need
// them are installed. Nothing changes on a machine: where nothing of the control plane runs yet, something
// listens for a moment, so that a firewall that rejects can be told from a port that nobody listens on.
package connections

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/firewall"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

const (
	// answerTimeout is how long a connection may take. TCP repeats its first packet after 1 s and 3 s.
	answerTimeout = 5 * time.Second
	// reachTimeout is how long a machine may take to be reached over SSH, and to listen. Whoever takes
	// longer is not asked: that is no evidence about a firewall.
	reachTimeout = 3 * time.Second
	listenPoll   = 30 * time.Millisecond
)

// Machine is one side of connections.
type Machine interface {
	// Dial connects from the machine. host.ErrRefused and host.ErrUnanswered are answers about the other
	// side; other errors are not.
	Dial(ctx context.Context, network, addr string) (net.Conn, error)
	// Listen accepts connections at addresses of the machine.
	Listen(ctx context.Context, addresses []string) Listener
}

// Side is a machine, and whether its ports are free to be listened on.
type Side struct {
	Machine
	Bare bool // nothing of the control plane is there
}

// SSH is a machine reached over SSH.
type SSH struct{ *host.Host }

// Listen accepts connections at addresses of the machine.
func (m SSH) Listen(ctx context.Context, addresses []string) Listener {
	return Listen(ctx, m.Host, addresses)
}

// Closed is a rule whose connections are closed, and how they fail.
type Closed struct {
	firewall.Rule
	How string
}

// Next is the next step of a refusal because of closed connections.
const Next = "open what is listed below, then apply again. The function provider::kube::firewall_rules gives all " +
	"rules that the control plane needs"

// String describes the connection, and the rule that is missing.
func (c Closed) String() string {
	fails := "does not reach TCP port " + strconv.Itoa(c.Port) + " of"
	if c.Protocol == firewall.VRRP {
		fails = "does not reach by " + c.What()
	}
	return c.Remote.Addr().String() + " " + fails + " " + c.Machine.String() + " (" + c.Name + ": " + c.Purpose + "): " +
		c.How + ". " + c.Missing()
}

// Check tries the connections of rules (ingress, TCP) of which both machines are among the sides and one is
// bare, and returns those that are closed, in the order of the rules. A connection about which there is
// no evidence, such as one of a machine that cannot be reached, is not closed.
func Check(ctx context.Context, rules []firewall.Rule, sides map[netip.Addr]Side) []Closed {
	if len(byReceiver(rules, sides)) == 0 {
		return nil
	}
	awake := awakeOf(ctx, sides)
	failures := make([]string, len(rules))
	var all sync.WaitGroup
	for address, wanted := range byReceiver(rules, awake) {
		all.Go(func() { receive(ctx, awake[address], rules, wanted, awake, failures) })
	}
	all.Wait()
	var closed []Closed
	for i, how := range failures {
		if how != "" {
			closed = append(closed, Closed{rules[i], how})
		}
	}
	return closed
}

// awakeOf returns the sides that answer over SSH, and that may be asked to connect.
func awakeOf(ctx context.Context, sides map[netip.Addr]Side) map[netip.Addr]Side {
	var (
		mu    sync.Mutex
		all   sync.WaitGroup
		awake = map[netip.Addr]Side{}
	)
	for address, side := range sides {
		all.Go(func() {
			if !isAwake(ctx, side) {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			awake[address] = side
		})
	}
	all.Wait()
	return awake
}

// byReceiver returns the rules to try, by their index, for each receiver.
func byReceiver(rules []firewall.Rule, sides map[netip.Addr]Side) map[netip.Addr][]int {
	wanted := map[netip.Addr][]int{}
	for i, r := range rules {
		to, from := sides[r.Machine], sides[r.Remote.Addr()]
		if to.Machine != nil && from.Machine != nil && (to.Bare || from.Bare) {
			wanted[r.Machine] = append(wanted[r.Machine], i)
		}
	}
	return wanted
}

// receive tries the wanted connections to one machine, and writes how they fail to failures.
func receive(
	ctx context.Context, to Side, rules []firewall.Rule, wanted []int, sides map[netip.Addr]Side, failures []string,
) {
	listening := map[string]bool{} // by address
	for _, i := range wanted {
		listening[at(rules[i])] = false
	}
	listener := Deaf()
	if to.Bare {
		listener = to.Listen(ctx, slices.Sorted(maps.Keys(listening)))
		defer listener.Release()
	}
	for address := range listening {
		listening[address] = listens(ctx, to, address, listener.Ended)
	}
	var all sync.WaitGroup
	for _, i := range wanted {
		all.Go(func() {
			failures[i] = try(ctx, sides[rules[i].Remote.Addr()], to, at(rules[i]), listening[at(rules[i])])
		})
	}
	all.Wait()
}

// at returns where the receiver of a rule is connected to.
func at(r firewall.Rule) string { return net.JoinHostPort(r.Machine.String(), strconv.Itoa(r.Port)) }

// listens waits until a machine reaches itself at an address, or until nothing can listen there.
func listens(ctx context.Context, m Machine, address string, ended <-chan struct{}) bool {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	for {
		err := dial(ctx, m, address)
		if !errors.Is(err, host.ErrRefused) {
			return err == nil
		}
		select {
		case <-ended:
			return false
		case <-ctx.Done():
			return false
		case <-time.After(listenPoll):
		}
	}
}

// try connects from one machine to another, and returns how that fails if the connection is closed.
func try(ctx context.Context, from, to Machine, address string, listening bool) string {
	limited, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	err := dial(limited, from, address)
	if listening && errors.Is(err, host.ErrRefused) {
		// Another process may have listened, and stopped, before this one could.
		if listening = dial(ctx, to, address) == nil; listening {
			err = dial(limited, from, address)
		}
	}
	late := limited.Err() != nil && ctx.Err() == nil && isAwake(ctx, from)
	how := judge(err, listening, late)
	if err != nil {
		problem.Detail(ctx, "connection to %s: %v; closed: %t", address, err, how != "")
	}
	return how
}

// judge decides from the error of a connection whether it is closed. late means that there was no answer
// in time, although the machine that connects is awake. A machine that refuses has been reached, unless
// something listened there: then a firewall has refused in its name.
func judge(err error, listening, late bool) string {
	switch {
	case err == nil:
		return ""
	case late:
		return "no answer within " + answerTimeout.String()
	case errors.Is(err, host.ErrUnanswered):
		return "something on the way forbids it, or does not answer"
	case errors.Is(err, host.ErrRefused) && listening:
		return "it is rejected, although something listened there"
	}
	return ""
}

// isAwake reports whether a machine answers over SSH: one that does not is no evidence about a firewall.
func isAwake(ctx context.Context, m Machine) bool {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	err := dial(ctx, m, "127.0.0.1:1")
	return err == nil || errors.Is(err, host.ErrRefused) || errors.Is(err, host.ErrUnanswered)
}

func dial(ctx context.Context, m Machine, address string) error {
	connection, err := m.Dial(ctx, "tcp", address)
	if err == nil {
		_ = connection.Close()
	}
	return err
}
