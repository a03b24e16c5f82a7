package etcd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// deadSamples is how often at least a member is asked in vain before it counts
// as dead.
const deadSamples = 3

// silence is how often and for how long a member was asked in vain. It is pure.
type silence struct {
	from, last time.Time
	asked      int
}

// unheard notes a question that was asked at one time and not answered until
// another.
func (s *silence) unheard(asked, until time.Time) {
	if s.asked == 0 {
		s.from = asked
	}
	s.asked, s.last = s.asked+1, until
}

// dead reports whether the silence is that of a dead member.
func (s silence) dead(limit time.Duration) bool {
	return s.asked >= deadSamples && s.last.Sub(s.from) >= limit
}

// verdict is that a member is dead. It is worth something for a short time only.
type verdict struct {
	id uint64
	at time.Time
}

// mark returns v with the verdict beside the member, unless that one answers
// again or the verdict is old.
func (d verdict) mark(v View, lasts time.Duration) View {
	m, listed := v.member(d.id)
	if !listed || m.Healthy || time.Since(d.at) > lasts {
		return v
	}
	return v.withDead(d.id)
}

// verdictLasts is long enough for one look behind it, in which the member is
// silent once more.
func (cl *cluster) verdictLasts() time.Duration { return cl.pace.Dead + 4*askTimeout }

// withDead is v with a member that is dead.
func (v View) withDead(id uint64) View {
	members := make([]Member, len(v.Members))
	for i, m := range v.Members {
		m.Dead = m.Dead || m.ID == id && !m.Healthy
		members[i] = m
	}
	v.Members = members
	return v
}

// examine says whether a member that was not healthy at one look is dead. It is
// asked again and again, at its own machine and through every other one, until
// it is heard or has been silent for long enough. That an answer is an error
// does not matter: the dead give none.
func (cl *cluster) examine(ctx context.Context, s Spec, m Member) (verdict, error) {
	problem.Progress(ctx, "etcd %s: member %s is silent; it counts as dead when it stays so for %s", s.Name, m.label(), cl.pace.Dead)
	var heard silence
	for !heard.dead(cl.pace.Dead) {
		begin := time.Now()
		answered, err := cl.answers(ctx, s, m)
		switch {
		case err != nil:
			return verdict{}, err
		case answered:
			return verdict{}, nil
		}
		heard.unheard(begin, time.Now())
		if err := pause(ctx, cl.pace.Dead/(2*deadSamples)); err != nil {
			return verdict{}, fmt.Errorf("find out whether member %s is dead: %w", m.label(), err)
		}
	}
	return verdict{id: m.ID, at: time.Now()}, nil
}

// answers reports whether a member answers anything, on connections that are
// made for this question.
func (cl *cluster) answers(ctx context.Context, s Spec, m Member) (bool, error) {
	conv, err := cl.converseBy(s.Bundle, append(slices.Collect(maps.Values(s.Peers)), s.Host), dialAny)
	if err != nil {
		return false, err
	}
	defer conv.Close()
	for _, address := range m.hosts() {
		_, id, err := conv.memory(ctx, address)
		if id == m.ID || err != nil && isAnswer(err) {
			return true, nil
		}
	}
	return false, ctx.Err()
}

// isAnswer reports whether an error came from a server of the cluster, rather
// than from not getting to one.
func isAnswer(err error) bool {
	var known rpctypes.EtcdError
	if errors.As(err, &known) {
		return true
	}
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return false
	}
	return true
}

// hosts are the addresses at which a member may answer: where its clients reach
// it, and where the other members do.
func (m Member) hosts() []string {
	seen := map[string]bool{}
	var all []string
	for _, text := range slices.Concat(m.ClientURLs, m.PeerURLs) {
		u, err := url.Parse(text)
		if err != nil || u.Hostname() == "" || seen[u.Hostname()] {
			continue
		}
		seen[u.Hostname()] = true
		all = append(all, u.Hostname())
	}
	return all
}

// dialAny dials addr from every machine at once: what one of them cannot reach
// another may.
func dialAny(ctx context.Context, routes map[string]machine, addr string) (net.Conn, error) {
	results := make(chan dialled, len(routes))
	for _, m := range routes {
		go func() {
			conn, err := m.Dial(ctx, "tcp", addr)
			results <- dialled{conn, err}
		}()
	}
	errs := []error{fmt.Errorf("reach %s", addr)}
	for i := range len(routes) {
		r := <-results
		if r.err == nil {
			go closeRest(results, len(routes)-i-1)
			return r.conn, nil
		}
		errs = append(errs, r.err)
	}
	return nil, errors.Join(errs...)
}

// verify finds out whether a member that stands in the way is dead. One that
// answers, well or not, is not removed on another's word.
func (j *joining) verify(ctx context.Context, v View, next step) error {
	m, _ := v.member(next.ID)
	d, err := j.cl.examine(ctx, j.s, m)
	if err != nil {
		return err
	}
	if j.verdict = d; d.id == 0 {
		return j.hold(ctx, &v, j.cl.pace.Patience, fmt.Errorf("member %s is alive at %v: it answers, but it %s", m.label(), m.PeerURLs, m.Trouble))
	}
	return nil
}

// judged is v, with this member marked as dead where that is what its removal
// hangs on, and true.
func (l *departure) judged(ctx context.Context, v View) (View, error) {
	v = l.verdict.mark(v, l.cl.verdictLasts())
	m, listed := v.at(l.s.PeerURL())
	if !listed || m.Learner || m.Healthy || m.Dead || MayRemove(v, m.ID) == nil || MayRemove(v.withDead(m.ID), m.ID) != nil {
		return v, nil
	}
	d, err := l.cl.examine(ctx, l.s, m)
	if err != nil {
		return v, err
	}
	l.verdict = d
	return d.mark(v, l.cl.verdictLasts()), nil
}
