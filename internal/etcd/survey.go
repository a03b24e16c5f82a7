package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// survey is everything about a cluster at one moment.
type survey struct {
	machines map[string]found // by address
	answered bool
	view     membership.View // when answered
	silence  error           // why nobody answered
}

// survey looks at every peer and asks every one of them, all at once.
func (cl *cluster) survey(ctx context.Context, s Spec) survey {
	out := survey{machines: map[string]found{}}
	var group sync.WaitGroup
	group.Go(func() {
		for _, m := range cl.lookAround(ctx, s) {
			out.machines[m.Address] = m
		}
	})
	group.Go(func() { out.view, out.silence = cl.ask(ctx, s) })
	group.Wait()
	out.answered = out.silence == nil
	return out
}

// ask asks the cluster of s for its view once.
func (cl *cluster) ask(ctx context.Context, s Spec) (membership.View, error) {
	conv, err := cl.connect(s)
	if err != nil {
		return membership.View{}, err
	}
	defer conv.Close()
	return conv.View(ctx, cl.addresses(s))
}

// agree refuses members that are created together and contradict each other about
// where a peer is.
func agree(specs map[string]Spec) error {
	at := map[string]string{}
	for _, spec := range specs {
		for name, h := range spec.Peers {
			if known, ok := at[name]; ok && known != h.Address() {
				return &problem.Problem{
					Summary: "peers contradict each other", Attribute: "peers",
					Cause:     fmt.Sprintf("peer %q is at %s for one member and at %s for another", name, known, h.Address()),
					Unchanged: problem.Nothing, Next: "give every member of the cluster the same peers",
				}
			}
			at[name] = h.Address()
		}
	}
	return nil
}

// of is the machine of a member.
func (s survey) of(spec Spec) found { return s.machines[spec.Host.Address()] }

// sorted are the machines by name, then address.
func (s survey) sorted() []found {
	all := slices.Collect(maps.Values(s.machines))
	slices.SortFunc(all, func(a, b found) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Address, b.Address))
	})
	return all
}

// unreached is the problem of a machine that could not be observed, before
// anything was changed.
func unreached(summary string, s Spec, err error) error {
	return &problem.Problem{Summary: summary, Host: s.label(), Cause: err.Error(), Unchanged: problem.Nothing, Next: accessRemedy(err), Err: err}
}

// accessRemedy is the next step for a machine that could not be observed.
func accessRemedy(err error) string {
	var key *host.HostKeyError
	switch {
	case errors.As(err, &key):
		return fmt.Sprintf("compare the key with the machine's console; if it is right, pin it on the provider: ssh = { hosts = { %q = { host_key = %q } } }", key.Address, key.Seen)
	case errors.Is(err, host.ErrAuth), errors.Is(err, host.ErrNotRoot):
		return "check ssh on the provider, and that the user is root or may run sudo without a password"
	}
	return "bring the machine or its network back and apply again"
}
