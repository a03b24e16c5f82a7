package endpoint

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Drain stops new connections to the replica on every balancer and waits until
// its sessions have ended or the drain timeout has passed. It refuses to take
// the last one that serves, and, unless the replica leaves for good, to take one
// while another does not serve.
func (r *Registrar) Drain(ctx context.Context, name string, forGood bool) error {
	if err := validateName("replica name", name); err != nil {
		return r.failed("drained", name, "", err)
	}
	answers, err := r.onEach(ctx, drain(name, forGood))
	if err != nil {
		return r.failed("drained", name, "", err)
	}
	var refused, draining []string
	for _, balancer := range names(answers) {
		switch word, _ := answer(answers[balancer]); word {
		case answerLast, answerAnother:
			refused = append(refused, balancer)
		case answerDrained, answerIdle:
			draining = append(draining, balancer)
		case answerUnknown, answerAbsent, answerStopped: // sends it nothing
		default:
			return r.failed("drained", name, "", fmt.Errorf("unexpected answer %q from %s", word, balancer))
		}
	}
	if len(refused) > 0 {
		return r.refuse(ctx, name, answers, refused)
	}
	return r.wait(ctx, server{Name: name}, draining)
}

// refuse takes back what other balancers did.
func (r *Registrar) refuse(ctx context.Context, name string, answers map[string]string, refused []string) error {
	var undo []string
	for _, balancer := range names(answers) {
		if word, _ := answer(answers[balancer]); word == answerDrained {
			undo = append(undo, balancer)
		}
	}
	if _, err := r.on(ctx, undo, rotate(undrainScript, server{Name: name}, 0)); err != nil {
		return r.failed("drained", name, "", fmt.Errorf("a balancer refused, and taking the drain back failed: %w", err))
	}
	word, statistics := answer(answers[refused[0]])
	cause := "another replica is out of rotation, and at most one may be"
	if word == answerLast {
		cause = "it is the last replica that serves: every other backend fails its health check or is out of rotation"
	}
	return &problem.Problem{
		Summary:   "replica " + name + " not taken out of rotation at endpoint " + r.registration.Address,
		Host:      strings.Join(refused, ", "),
		Cause:     cause,
		Unchanged: problem.Nothing,
		Next:      "bring the other back, or destroy it if it is gone (the balancer sees it as below), then apply again",
		Detail:    rotationTable(parseStats(statistics)),
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
	patience := orDefault(r.registration.DrainTimeout, defaultDrainTimeout)
	answers, err := r.on(ctx, balancers, rotate(waitScript, replica, int(patience.Round(time.Second)/time.Second)))
	if err != nil {
		return r.failed("drained", replica.Name, "", err)
	}
	for _, balancer := range names(answers) {
		if left, _ := answer(answers[balancer]); left != "0" {
			problem.Progress(ctx, "replica %s keeps %s sessions on %s until its API server ends them", replica.Name, left, balancer)
		}
	}
	return nil
}
