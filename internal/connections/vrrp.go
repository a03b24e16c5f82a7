package connections

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/hex"
	"io"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/firewall"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

var (
	//go:embed hear.sh
	hearScript host.Script
	//go:embed say.sh
	sayScript host.Script
)

const (
	// round0 is when each machine sends to itself only: what it hears then shows that it listens before the others send.
	round0 = "0"
	round1 = "1"

	repeats0 = 6 // a tenth of a second apart, while the listeners start
	repeats1 = 3

	// settleTime is how long a packet may be on its way.
	settleTime = 200 * time.Millisecond
)

// Peer is a machine that sends and hears packets of VRRP.
type Peer interface {
	// Hear returns what arrives at the machine's own address until release is closed.
	Hear(ctx context.Context, own netip.Addr, token string, release <-chan struct{}) Heard
	// Say sends to other addresses, and returns whether the machine has tried.
	Say(ctx context.Context, own netip.Addr, tag string, repeats int, to []netip.Addr) bool
}

// Heard is from whom a machine has heard in each round. It is no evidence unless Complete.
type Heard struct {
	From     map[string][]netip.Addr
	Complete bool // it listened until it was told to end
}

// VRRPSide is a machine, and whether nothing of the endpoint is there.
type VRRPSide struct {
	Peer
	Bare bool
}

// CheckVRRP sends packets with VRRP's protocol number between machines of which one is bare, and returns the rules
// (ingress) of those that are not heard. They belong to no virtual router, so a keepalived that runs ignores them.
// Of each pair, only the one with the lower address sends: firewalls that know connections would let in what the
// other sends then as its answer, for ten minutes. Whoever cannot send or hear, because there is no Perl for example,
// is no evidence.
func CheckVRRP(ctx context.Context, rules []firewall.Rule, sides map[netip.Addr]VRRPSide) []Closed {
	wanted := slices.DeleteFunc(slices.Clone(rules), func(r firewall.Rule) bool {
		to, from := sides[r.Machine], sides[r.Remote.Addr()]
		return to.Peer == nil || from.Peer == nil || !to.Bare && !from.Bare || !r.Remote.Addr().Less(r.Machine)
	})
	if len(wanted) == 0 {
		return nil
	}
	heard, sent := exchange(ctx, wanted, sides)
	var closed []Closed
	for _, r := range wanted {
		if unheard(heard[r.Machine], r.Machine, r.Remote.Addr(), sent[r.Remote.Addr()]) {
			closed = append(closed, Closed{r, "it hears itself, and not the other"})
		}
	}
	return closed
}

// unheard reports whether a machine that has listened all the time has not heard another one that has sent.
func unheard(h Heard, own, other netip.Addr, sent bool) bool {
	return sent && h.Complete && slices.Contains(h.From[round0], own) && slices.Contains(h.From[round1], own) &&
		!slices.Contains(h.From[round1], other)
}

// exchange lets all machines of the rules listen and send.
func exchange(
	ctx context.Context, rules []firewall.Rule, sides map[netip.Addr]VRRPSide,
) (heard map[netip.Addr]Heard, sent map[netip.Addr]bool) {
	var (
		mu        sync.Mutex
		listeners sync.WaitGroup
		token     = newToken()
		release   = make(chan struct{})
		to        = map[netip.Addr][]netip.Addr{}
	)
	heard, sent = map[netip.Addr]Heard{}, map[netip.Addr]bool{}
	for _, r := range rules {
		to[r.Machine] = append(to[r.Machine], r.Machine) // to itself
		to[r.Remote.Addr()] = append(to[r.Remote.Addr()], r.Machine)
	}
	for own := range to {
		listeners.Go(func() {
			result := sides[own].Hear(ctx, own, token, release)
			mu.Lock()
			defer mu.Unlock()
			heard[own] = result
		})
	}
	each := func(say func(own netip.Addr, others []netip.Addr)) {
		var all sync.WaitGroup
		for own, others := range to {
			all.Go(func() { say(own, others) })
		}
		all.Wait()
	}
	each(func(own netip.Addr, _ []netip.Addr) {
		sides[own].Say(ctx, own, token+round0, repeats0, []netip.Addr{own})
	})
	each(func(own netip.Addr, others []netip.Addr) {
		done := sides[own].Say(ctx, own, token+round1, repeats1, others)
		mu.Lock()
		defer mu.Unlock()
		sent[own] = done
	})
	select {
	case <-time.After(settleTime):
	case <-ctx.Done():
	}
	close(release)
	listeners.Wait()
	return heard, sent
}

// newToken returns what tells these packets from those of another run.
func newToken() string {
	var random [8]byte
	_, _ = rand.Read(random[:]) // it never fails
	return hex.EncodeToString(random[:])
}

// Hear implements Peer.
func (m SSH) Hear(ctx context.Context, own netip.Addr, token string, release <-chan struct{}) Heard {
	stdin, held := io.Pipe()
	defer stdin.Close()
	go func() {
		select {
		case <-release:
		case <-ctx.Done():
		}
		_ = held.Close()
	}()
	output, err := m.Run(ctx, host.Command{Script: hearScript, Stdin: stdin, Vars: map[string]string{
		"own": own.String(), "token": token, "limit": strconv.Itoa(int(listenLimit.Seconds())),
	}})
	if err != nil {
		problem.Detail(ctx, "%s does not listen for VRRP: %v", m.Address(), err)
		return Heard{}
	}
	return parseHeard(output)
}

var heardForm = regexp.MustCompile(`^([01]) ([0-9a-f.:]{2,45})$`)

// heardLimit is more than machines can say in the time that they have.
const heardLimit = 1 << 20

// parseHeard parses lines with a round and a sender, and "end" when it was told to end.
func parseHeard(output string) Heard {
	h := Heard{From: map[string][]netip.Addr{}}
	for line := range strings.Lines(output[:min(len(output), heardLimit)]) {
		line = strings.TrimSuffix(line, "\n")
		h.Complete = h.Complete || line == "end"
		match := heardForm.FindStringSubmatch(line)
		if match == nil {
			continue
		}
		if address, err := netip.ParseAddr(match[2]); err == nil && !slices.Contains(h.From[match[1]], address) {
			h.From[match[1]] = append(h.From[match[1]], address)
		}
	}
	return h
}

// Say implements Peer.
func (m SSH) Say(ctx context.Context, own netip.Addr, tag string, repeats int, to []netip.Addr) bool {
	var others []string
	for _, address := range to {
		others = append(others, address.String())
	}
	output, err := m.Run(ctx, host.Command{Script: sayScript, Vars: map[string]string{
		"own": own.String(), "tag": tag, "repeats": strconv.Itoa(repeats), "others": strings.Join(others, " "),
	}})
	if err != nil {
		problem.Detail(ctx, "%s sends no VRRP: %v", m.Address(), err)
	}
	return err == nil && output == "sent\n"
}
