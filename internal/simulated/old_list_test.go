package simulated

import (
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/haproxy"
)

// judge makes the machines answer drains as HAProxy does where all servers are well, and notes how many other servers
// each was told of. known is by name of the machine.
func judge(machines []*machine) (known func() map[string]string) {
	var mu sync.Mutex
	counts := map[string]string{}
	for _, m := range machines {
		f := front(func(line string, channel ssh.Channel, honest func(io.Reader, io.Writer) error) error {
			switch {
			case strings.Contains(line, "# Takes server $name out of rotation"):
				words, _, _ := nextCall(line)
				others := variables(words[slices.Index(words, "-euc")+1])["known"]
				mu.Lock()
				counts[m.name] = others
				mu.Unlock()
				m.mu.Lock()
				defer m.mu.Unlock()
				answer := "drained\n"
				if len(m.backends()) == 1 && others != "0" {
					answer = "last\n" + strings.TrimPrefix(m.balancer(""), separator+separator)
				}
				_, err := io.WriteString(channel, answer)
				return err
			case strings.Contains(line, "# Reverts a drain"):
				_, err := io.WriteString(channel, "ready\n")
				return err
			case strings.Contains(line, "# Waits until server $name has no session"):
				_, err := io.WriteString(channel, "0\n")
				return err
			}
			return honest(channel, channel)
		})
		m.front.Store(&f)
	}
	return func() map[string]string {
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(counts)
	}
}

// TestDrainFromAnOldList: a balancer that was down while a replica registered lists only the one that leaves. That one
// does not leave before the endpoint was applied, which completes the list.
func TestDrainFromAnOldList(t *testing.T) {
	fleet, p := bareOn(t, 1)
	if _, err := haproxy.Create(t.Context(), p.endpoint); err != nil {
		t.Fatal(err)
	}
	machines := fleet.clusters[0].machines
	all := p.registrars.For(p.endpoint.Registration())
	if err := all.Register(t.Context(), "cp1", machines[0].address+":6443"); err != nil {
		t.Fatal(err)
	}
	known := judge(machines)
	if err := all.Drain(t.Context(), "cp1"); err != nil {
		t.Fatalf("the only replica: %v", err)
	}
	for name, others := range known() {
		if others != "0" {
			t.Errorf("%s was told of %s others", name, others)
		}
	}
	up := p.registrars.For(p.withHosts(machines[0].name, machines[1].name).Registration())
	if err := up.Register(t.Context(), "cp2", machines[1].address+":6443"); err != nil {
		t.Fatal(err)
	}
	err := all.Drain(t.Context(), "cp1")
	var refusal *endpoint.Refusal
	if !errors.As(err, &refusal) || !refusal.Last || refusal.Host != machines[2].name ||
		!strings.Contains(refusal.Cause, "runs without cp2") || !strings.Contains(refusal.Next, "apply the endpoint") {
		t.Errorf("one balancer has an old list: %v", err)
	}
	if err := all.Register(t.Context(), "cp2", machines[1].address+":6443"); err != nil {
		t.Fatal(err)
	}
	if err := all.Drain(t.Context(), "cp1"); err != nil {
		t.Errorf("the list is complete: %v", err)
	}
}
