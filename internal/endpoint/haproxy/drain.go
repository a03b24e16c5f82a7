package haproxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// leaving is the kind of a drain, as drain.sh names it.
type leaving string

const (
	leavesToReturn leaving = "back"   // for a restart: all others must serve
	leavesAlone    leaving = "alone"  // for a removal: another one must serve, unless there is no other
	leavesOthers   leaving = "others" // for a removal: another one must serve
)

// drain returns the command that takes a server out of rotation. known is the number of other servers that any balancer
// has: the list of one that was down may lack them.
func drain(name string, how leaving, known int) host.Command {
	c := backendCommand("drain", drainScript, server{Name: name}, 0)
	c.Vars["leaving"], c.Vars["known"] = string(how), strconv.Itoa(known)
	return c
}

// Drain takes a replica out of rotation for a restart: it stops new connections to it on every
// balancer and waits until its sessions have ended or the drain timeout has passed. It refuses
// while the health check of another replica fails on a balancer. A replica that is unhealthy or
// not registered is always drained.
func (r *Registrar) Drain(ctx context.Context, name string) error {
	return r.takeOut(ctx, name, leavesToReturn)
}

// DrainForDelete drains a replica that is removed: at least one other replica must serve. With
// lastAllowed, the only replica may be removed too.
func (r *Registrar) DrainForDelete(ctx context.Context, name string, lastAllowed bool) error {
	if lastAllowed {
		return r.takeOut(ctx, name, leavesAlone)
	}
	return r.takeOut(ctx, name, leavesOthers)
}

func (r *Registrar) takeOut(ctx context.Context, name string, how leaving) error {
	if err := validateName("replica name", name); err != nil {
		return r.operationError("drained", name, "", err)
	}
	now := r.askAll(ctx, backendsQuery())
	others := otherReplicas(name, now.seen)
	answers, err := r.runUnlessHung(ctx, now, drain(name, how, len(others)))
	var hang *hangError
	if errors.As(err, &hang) {
		return r.operationError("drained", name, "", err)
	}
	if err != nil {
		return r.operationError("drained", name, "", r.undoDrain(ctx, name, err))
	}
	var refused, draining, stopped []string
	for _, balancer := range names(answers) {
		switch word, _ := answer(answers[balancer]); word {
		case answerLast, answerAnother:
			refused = append(refused, balancer)
		case answerDrained, answerIdle:
			draining = append(draining, balancer)
		case answerUnknown: // it sends the replica no requests
		case answerAbsent, answerStopped: // it sends no requests at all
			stopped = append(stopped, balancer)
		default:
			return r.operationError("drained", name, "", fmt.Errorf("unexpected answer %q from %s", word, balancer))
		}
	}
	switch {
	case len(refused) > 0:
		return r.refuse(ctx, name, answers, refused, others)
	case how == leavesOthers && len(stopped) == len(answers):
		return r.notCheckedError(name, stopped)
	}
	if err := r.wait(ctx, server{Name: name}, draining); err != nil {
		return r.operationError("drained", name, "", r.undoDrain(ctx, name, err))
	}
	return nil
}

// undoDrainTimeout limits undoDrain, which has its own context: the most frequent cause of a
// failed drain is that its caller's context has ended.
const undoDrainTimeout = 10 * time.Second

// undoDrain reverts a failed drain on the balancers that can be reached. It returns the error of
// the drain.
func (r *Registrar) undoDrain(ctx context.Context, name string, why error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoDrainTimeout)
	defer cancel()
	if err := r.undrain(ctx, name, names(r.registration.Hosts)); err != nil {
		return fmt.Errorf("%w; returning it to rotation failed too: %w", why, err)
	}
	return why
}

// Undrain reverts Drain and DrainForDelete on the balancers where the replica is still
// registered.
func (r *Registrar) Undrain(ctx context.Context, name string) error {
	if err := validateName("replica name", name); err != nil {
		return r.operationError("put back", name, "", err)
	}
	if err := r.undrain(ctx, name, names(r.registration.Hosts)); err != nil {
		return r.operationError("put back", name, "", err)
	}
	return nil
}

func (r *Registrar) undrain(ctx context.Context, name string, balancers []string) error {
	answers, err := r.runOn(ctx, balancers, backendCommand("return", undrainScript, server{Name: name}, 0))
	if err != nil {
		return err
	}
	for _, balancer := range names(answers) {
		switch word, _ := answer(answers[balancer]); word {
		case answerReady, answerAbsent, answerStopped:
		default:
			return fmt.Errorf("unexpected answer %q from %s", word, balancer)
		}
	}
	return nil
}

// returning returns the balancers that have drained a replica, which a refusal of another one reverts. A replica whose
// checks fail on one of them is drained there too, and would stay so when they pass again: HAProxy keeps a drain until
// it is restarted.
func returning(answers map[string]string) []string {
	var drained []string
	for _, balancer := range names(answers) {
		if word, _ := answer(answers[balancer]); word == answerDrained || word == answerIdle {
			drained = append(drained, balancer)
		}
	}
	return drained
}

// otherReplicas returns the names of all replicas but one that a balancer lists, or its HAProxy runs with.
func otherReplicas(name string, seen map[string]balancer) []string {
	return slices.DeleteFunc(names(replicaAddresses(reachableOf(seen))), func(other string) bool { return other == name })
}

// refuse reverts the drain on the other balancers. others are those of otherReplicas.
func (r *Registrar) refuse(
	ctx context.Context, name string, answers map[string]string, refused, others []string,
) error {
	at := refused[0]
	for _, balancer := range refused {
		if word, _ := answer(answers[balancer]); word == answerLast {
			at = balancer // it is more specific than that another replica is out
		}
	}
	if err := r.undrain(ctx, name, returning(answers)); err != nil {
		return r.operationError("drained", name, "", fmt.Errorf("a balancer refused, and undoing the drain failed: %w", err))
	}
	word, statistics := answer(answers[at])
	stats := parseStats(statistics)
	cause, next := refusal(word, others, stats)
	return &endpoint.Refusal{Last: word == answerLast, Problem: &problem.Problem{
		Summary:   "Replica " + name + " not taken out of rotation at endpoint " + r.registration.Address,
		Host:      strings.Join(refused, ", "),
		Cause:     cause,
		Unchanged: problem.Nothing,
		Next:      next + " (the balancer sees it as below), then apply again",
		Detail:    rotationTable(stats),
	}}
}

// refusal returns why a balancer with these statistics has refused a drain by its answer, and what to do. others are
// those of otherReplicas.
func refusal(answer string, others []string, stats []stat) (cause, next string) {
	const restore = "bring the other back, or destroy it if it is gone"
	if answer != answerLast {
		return "another replica is out of rotation, and at most one may be", restore
	}
	lacking := slices.DeleteFunc(slices.Clone(others), func(name string) bool {
		return slices.ContainsFunc(stats, func(s stat) bool { return s.Name == name })
	})
	if len(lacking) == 0 {
		return "it is the last replica that serves: every other backend fails its health check or is out of rotation", restore
	}
	return "it is the last replica that serves there: HAProxy runs without " + strings.Join(lacking, ", ") +
			", which the endpoint's balancers list",
		"apply the endpoint (kube_control_plane_endpoint) and these replicas, or destroy those that are gone"
}

// notCheckedError is the refusal if no HAProxy runs that could check the other replicas.
func (r *Registrar) notCheckedError(name string, balancers []string) error {
	return &problem.Problem{
		Summary:   "Replica " + name + " not taken out of rotation at endpoint " + r.registration.Address,
		Host:      strings.Join(balancers, ", "),
		Cause:     "HAProxy runs on none of these hosts, so it is unknown whether another replica serves",
		Unchanged: problem.Nothing,
		Next:      "apply the endpoint (kube_control_plane_endpoint), which starts HAProxy, then apply again",
	}
}

// rotationTable returns a table of the replicas as a balancer reports them.
func rotationTable(stats []stat) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "REPLICA\tADDRESS\tSTATE\tLAST CHECK")
	for _, s := range stats {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s %s\n", s.Name, s.Address, s.Status, s.Check, s.Last)
	}
	_ = w.Flush() // into memory
	return b.String()
}

// wait returns when the replica's sessions on the balancers have ended, or their number no longer
// falls.
func (r *Registrar) wait(ctx context.Context, replica server, balancers []string) error {
	timeout := orDefault(r.registration.DrainTimeout, endpoint.DefaultDrainTimeout)
	answers, err := r.runOn(ctx, balancers,
		backendCommand("wait for the sessions of", waitScript, replica, int(timeout.Round(time.Second)/time.Second)))
	if err != nil {
		return err
	}
	for _, balancer := range names(answers) {
		if left, _ := answer(answers[balancer]); left != "0" {
			problem.Progress(ctx, "replica %s keeps %s sessions on %s until its API server ends them", replica.Name, left,
				balancer)
		}
	}
	return nil
}
