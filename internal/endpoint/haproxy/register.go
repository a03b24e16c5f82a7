package haproxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// checkTimeout limits the wait for a replica's first check on a balancer. Checks are a second
// apart and may take five seconds.
const checkTimeout = 15 * time.Second

// Register puts the replica into rotation on every balancer and returns when its health check has
// passed on each. address is IP:port. If a balancer hangs, the replica is registered on the others, which may need it,
// and Register fails.
func (r *Registrar) Register(ctx context.Context, name, address string) error {
	replica, err := parseServer(name, address)
	if err != nil {
		return r.operationError("registered", name, "", err)
	}
	now := r.askAll(ctx, host.Query{})
	answers, err := r.runOnAnswering(ctx, now, registerCommand(replica, r.registration.Address))
	if err != nil {
		return r.operationError("registered", name, "", err)
	}
	var reasons []string
	for _, balancer := range names(answers) {
		word, rest := answer(answers[balancer])
		switch word {
		case answerUp:
			problem.Progress(ctx, "replica %s is in rotation on %s", name, balancer)
		case answerStopped: // keepalived does not give it the address
			problem.Progress(ctx, "HAProxy does not run on %s: replica %s enters its rotation when it starts", balancer, name)
		case answerAbsent:
			reasons = append(reasons, balancer+": the endpoint is not set up there")
		case answerDown:
			reasons = append(reasons, balancer+": "+failedCheck(parseStats(rest), name))
		default:
			reasons = append(reasons, balancer+": unexpected answer "+strconv.Quote(shortened(answers[balancer])))
		}
	}
	if len(reasons) > 0 {
		return r.operationError("in rotation", name, strings.Join(reasons, "\n  "),
			errors.New("not every balancer sends it traffic, see below"))
	}
	if now.hang != nil {
		if len(answers) > 0 {
			now.hang.unchanged = "these balancers; the replica is registered on the others."
		}
		return r.operationError("registered", name, "", now.hang)
	}
	return nil
}

func failedCheck(stats []stat, name string) string {
	at := slices.IndexFunc(stats, func(s stat) bool { return s.Name == name })
	if at < 0 {
		return "HAProxy did not take it in"
	}
	backend := stats[at]
	return fmt.Sprintf("HAProxy's check of %s says %s %s (%s)", backend.Address, backend.Status, backend.Check,
		orDefault(backend.Last, "no details"))
}

// Deregister removes the replica from every balancer.
func (r *Registrar) Deregister(ctx context.Context, name string) error {
	if err := validateName("replica name", name); err != nil {
		return r.operationError("deregistered", name, "", err)
	}
	answers, err := r.runOnAll(ctx, backendCommand("deregister", deregisterScript, server{Name: name}, 0))
	if err != nil {
		return r.operationError("deregistered", name, "", err)
	}
	for _, balancer := range names(answers) {
		switch word, _ := answer(answers[balancer]); word {
		case answerGone, answerAbsent, answerStopped:
		default:
			return r.operationError("deregistered", name, "", fmt.Errorf("unexpected answer %q from %s", word, balancer))
		}
	}
	return nil
}

// registerCommand returns the command that puts a server into rotation.
func registerCommand(at server, vip string) host.Command {
	c := backendCommand("register", registerScript, at, int(checkTimeout.Seconds()))
	c.Vars["line"] = at.line(vip)
	return c
}
