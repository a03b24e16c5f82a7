package etcd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// survey is everything about a cluster at one moment.
type survey struct {
	machines map[string]found
	answered bool
	view     View  // when answered
	silence  error // why nobody answered
}

// survey looks at every peer and asks every one of them, all at once.
func (cl *cluster) survey(ctx context.Context, s Spec) survey {
	out := survey{machines: map[string]found{}}
	var group sync.WaitGroup
	group.Go(func() {
		for _, m := range cl.lookAround(ctx, s) {
			out.machines[m.Name] = m
		}
	})
	group.Go(func() { out.view, out.silence = cl.ask(ctx, s) })
	group.Wait()
	out.answered = out.silence == nil
	return out
}

// ask asks the cluster of s for its view once.
func (cl *cluster) ask(ctx context.Context, s Spec) (View, error) {
	conv, err := cl.converse(s)
	if err != nil {
		return View{}, err
	}
	defer conv.Close()
	return conv.view(ctx, addresses(s))
}

// complete adds the machines of specs that came with other peers than the
// spec that the survey was made for.
func (cl *cluster) complete(ctx context.Context, s *survey, specs map[string]Spec) error {
	for _, spec := range specs {
		all := maps.Clone(spec.Peers)
		if all == nil {
			all = map[string]*host.Host{}
		}
		all[spec.Name] = spec.Host
		for name, h := range all {
			known, ok := s.machines[name]
			if !ok {
				s.machines[name] = cl.look(ctx, spec, name, h)
			} else if known.Address != h.Address() {
				return &problem.Problem{
					Summary: "peers contradict each other", Attribute: "peers",
					Cause:     fmt.Sprintf("peer %q is at %s for one member and at %s for another", name, known.Address, h.Address()),
					Unchanged: problem.Nothing, Next: "give every member of the cluster the same peers",
				}
			}
		}
	}
	return nil
}

func (s survey) sorted() []found {
	var all []found
	for _, name := range slices.Sorted(maps.Keys(s.machines)) {
		all = append(all, s.machines[name])
	}
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
