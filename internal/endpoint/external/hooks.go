package external

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/targets"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

const (
	// hookTimeout limits one run of a hook, in addition to the drain timeout.
	hookTimeout = 30 * time.Second
	// hookAttempts is how often a hook runs that fails. Hooks can be repeated.
	hookAttempts = 3
	hookPause    = time.Second
	// maxHookOutput is in bytes.
	maxHookOutput = 64 << 10
)

// hookInput is what a hook reads from its standard input, as one line of JSON.
type hookInput struct {
	Action    string       `json:"action"` // "register", "drain", "deregister" or "status"
	ClusterID string       `json:"cluster_id"`
	Endpoint  hookEndpoint `json:"endpoint"`
	Replica   hookReplica  `json:"replica"`
}

type hookEndpoint struct {
	Address string `json:"address"`
	Port    int    `json:"port"`
}

type hookReplica struct {
	Name    string `json:"name"`
	Address string `json:"address"` // IP address of the target
	Port    int    `json:"port"`
}

// hookStatus is what the hook status writes to its standard output.
type hookStatus struct {
	InRotation *bool  `json:"in_rotation"`
	Reason     string `json:"reason"` // why it is not
}

// runHook runs one of the hooks for a replica and returns its standard output. There is none if
// the endpoint does not have the hook. The command is executed without a shell.
func (r *Registrar) runHook(ctx context.Context, action string, command []string, t targets.Target) ([]byte, error) {
	if len(command) == 0 {
		return nil, nil
	}
	input, err := json.Marshal(hookInput{
		Action: action, ClusterID: r.ClusterID,
		Endpoint: hookEndpoint{r.Address, r.Port},
		Replica:  hookReplica{t.Name, t.Address, t.Port},
	})
	if err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		output, failed := r.announcedHook(ctx, action, t, command, input)
		if failed == nil {
			return output, nil
		}
		err = failed
		err = fmt.Errorf("hook %s (%s) failed: %w", action, problem.Line(command[0]), err)
		if attempt == hookAttempts || ctx.Err() != nil {
			return nil, err
		}
		problem.Progress(ctx, "%v; running it again", err)
		select {
		case <-ctx.Done():
		case <-time.After(hookPause):
		}
	}
}

// announcedHook runs a hook once. One that may change the balancer is announced, see host.AroundRequest.
func (r *Registrar) announcedHook(
	ctx context.Context, action string, t targets.Target, command []string, input []byte,
) ([]byte, error) {
	if action != "status" {
		defer r.Machine(t.Address).AroundRequest(t.Address, "hook "+action)()
	}
	return r.attemptHook(ctx, command, input)
}

func (r *Registrar) attemptHook(ctx context.Context, command []string, input []byte) ([]byte, error) {
	late := fmt.Errorf("it did not end within %s", r.DrainTimeout+hookTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, r.DrainTimeout+hookTimeout, late)
	defer cancel()
	hook := exec.CommandContext(ctx, command[0], command[1:]...)
	endWithChildren(hook)
	hook.Stdin = bytes.NewReader(append(input, '\n'))
	output, complaint := &limited{}, &limited{}
	hook.Stdout, hook.Stderr = output, complaint
	hook.WaitDelay = time.Second
	err := hook.Run()
	if errors.Is(err, exec.ErrWaitDelay) { // it has succeeded, and a program that goes on has its output
		err = nil
	}
	switch {
	case errors.Is(context.Cause(ctx), late):
		return nil, late
	case ctx.Err() != nil:
		return nil, fmt.Errorf("it was interrupted: %w", context.Cause(ctx))
	case err != nil && complaint.Len() > 0:
		return nil, fmt.Errorf("%w: %s", err, problem.Line(complaint.String()))
	}
	return output.Bytes(), err
}

// limited keeps the first maxHookOutput bytes.
type limited struct{ bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	if left := maxHookOutput - l.Len(); left > 0 {
		l.Buffer.Write(p[:min(left, len(p))])
	}
	return len(p), nil
}

// status runs the hook status. known is false if the endpoint does not have it.
func (r *Registrar) status(ctx context.Context, t targets.Target) (status hookStatus, known bool, err error) {
	if len(r.Hooks.Status) == 0 {
		return hookStatus{}, false, nil
	}
	output, err := r.runHook(ctx, "status", r.Hooks.Status, t)
	if err != nil {
		return hookStatus{}, true, err
	}
	if err := json.Unmarshal(output, &status); err != nil || status.InRotation == nil {
		return hookStatus{}, true, fmt.Errorf("hook status: %s is not JSON with in_rotation",
			problem.Quote(string(output[:min(len(output), 200)])))
	}
	return status, true, nil
}

// errOut is why a replica that is ready gets no requests.
var errOut = errors.New("the balancer has it out of rotation")

// outAtBalancer returns why a replica that is ready gets no requests, by the result of status, or nil.
func outAtBalancer(status hookStatus, known bool, err error) error {
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", targets.ErrUnknown, err)
	case known && !*status.InRotation:
		return fmt.Errorf("%w (%s)", errOut, problem.Line(status.Reason))
	}
	return nil
}

var errRotation = errors.New("the hook status reports another state than wanted")

// waitForRotation returns when the balancer has taken the replica in or out: when the hook status
// says so or, without it, when the balancer had the time to notice.
func (r *Registrar) waitForRotation(ctx context.Context, t targets.Target, in bool) error {
	notices := r.DetectionTime
	if in {
		notices = r.EntryTime()
	}
	if len(r.Hooks.Status) == 0 {
		select {
		case <-time.After(notices):
		case <-ctx.Done():
		}
		return ctx.Err()
	}
	return targets.WaitUntil(ctx, notices+hookTimeout, func(ctx context.Context) error {
		status, _, err := r.status(ctx, t)
		if err == nil && *status.InRotation != in {
			err = fmt.Errorf("%w: in_rotation is %t (%s)", errRotation, *status.InRotation, problem.Line(status.Reason))
		}
		return err
	})
}
