package endpoint

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// leaving is how a replica leaves rotation, as drain.sh names it.
type leaving string

const (
	leavesToReturn leaving = "back"   // all others must serve
	leavesAlone    leaving = "alone"  // for good; another must serve, unless there is no other
	leavesOthers   leaving = "others" // for good; another must serve
)

// drain gives the command that takes a server out of rotation.
func drain(name string, how leaving) host.Command {
	c := backendCommand(drainScript, server{Name: name}, 0)
	c.Vars["leaving"] = string(how)
	return c
}

// Drain takes a replica out of rotation for a restart: it stops new connections to
// it on every balancer and waits until its sessions have ended or the drain timeout
// has passed. It is refused while the health check of another replica fails on a
// balancer. A replica that is unhealthy or not registered is always drained.
func (r *Registrar) Drain(ctx context.Context, name string) error {
	return r.takeOut(ctx, name, leavesToReturn)
}

// DrainForDelete drains a replica that leaves for good: one other replica has to serve.
// With lastAllowed the only replica may leave too.
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
	answers, err := r.runOnAll(ctx, drain(name, how))
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
		case answerUnknown: // sends it nothing
		case answerAbsent, answerStopped: // sends nothing to anybody
			stopped = append(stopped, balancer)
		default:
			return r.operationError("drained", name, "", fmt.Errorf("unexpected answer %q from %s", word, balancer))
		}
	}
	switch {
	case len(refused) > 0:
		return r.refuse(ctx, name, answers, refused)
	case how == leavesOthers && len(stopped) == len(answers):
		return r.notCheckedError(name, stopped)
	}
	if err := r.wait(ctx, server{Name: name}, draining); err != nil {
		return r.operationError("drained", name, "", r.undoDrain(ctx, name, err))
	}
	return nil
}

// undoDrainTimeout bounds undoDrain, which has a context of its own: a drain fails
// most often because its caller's context has ended.
const undoDrainTimeout = 10 * time.Second

// undoDrain reverts a drain that failed, on the balancers that can be reached. It
// returns the drain's error.
func (r *Registrar) undoDrain(ctx context.Context, name string, why error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoDrainTimeout)
	defer cancel()
	if err := r.undrain(ctx, name, names(r.registration.Hosts)); err != nil {
		return fmt.Errorf("%w; returning it to rotation failed too: %w", why, err)
	}
	return why
}

// Undrain puts back into rotation what Drain or DrainForDelete has taken out of it, where
// it is still registered.
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
	answers, err := r.runOn(ctx, balancers, backendCommand(undrainScript, server{Name: name}, 0))
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

// refusal is the error of a drain that a balancer refuses.
type refusal struct {
	*problem.Problem
	last bool
}

// Unwrap gives the problem.
func (r *refusal) Unwrap() error { return r.Problem }

// LastServing reports whether the reason is that no other replica serves.
func (r *refusal) LastServing() bool { return r.last }

// refuse reverts the drain on the other balancers.
func (r *Registrar) refuse(ctx context.Context, name string, answers map[string]string, refused []string) error {
	var undo []string
	at := refused[0]
	for _, balancer := range names(answers) {
		switch word, _ := answer(answers[balancer]); word {
		case answerDrained:
			undo = append(undo, balancer)
		case answerLast:
			at = balancer // it says more than that another one is out
		}
	}
	if err := r.undrain(ctx, name, undo); err != nil {
		return r.operationError("drained", name, "", fmt.Errorf("a balancer refused, and undoing the drain failed: %w", err))
	}
	word, statistics := answer(answers[at])
	cause := "another replica is out of rotation, and at most one may be"
	if word == answerLast {
		cause = "it is the last replica that serves: every other backend fails its health check or is out of rotation"
	}
	return &refusal{last: word == answerLast, Problem: &problem.Problem{
		Summary:   "Replica " + name + " not taken out of rotation at endpoint " + r.registration.Address,
		Host:      strings.Join(refused, ", "),
		Cause:     cause,
		Unchanged: problem.Nothing,
		Next:      "bring the other back, or destroy it if it is gone (the balancer sees it as below), then apply again",
		Detail:    rotationTable(parseStats(statistics)),
	}}
}

// notCheckedError is the refusal where no HAProxy runs that checks the other replicas.
func (r *Registrar) notCheckedError(name string, balancers []string) error {
	return &problem.Problem{
		Summary:   "Replica " + name + " not taken out of rotation at endpoint " + r.registration.Address,
		Host:      strings.Join(balancers, ", "),
		Cause:     "HAProxy runs on none of these hosts, so it is unknown whether another replica serves",
		Unchanged: problem.Nothing,
		Next:      "apply the endpoint (kube_control_plane_endpoint), which starts HAProxy, then apply again",
	}
}

// rotationTable shows the replicas as a balancer sees them.
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

// wait returns when the replica's sessions on the balancers have ended, or no
// longer do by themselves.
func (r *Registrar) wait(ctx context.Context, replica server, balancers []string) error {
	timeout := orDefault(r.registration.DrainTimeout, defaultDrainTimeout)
	answers, err := r.runOn(ctx, balancers,
		backendCommand(waitScript, replica, int(timeout.Round(time.Second)/time.Second)))
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
