package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"al.essio.dev/pkg/shellescape"
	"golang.org/x/crypto/ssh"

	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

const (
	// maxScript is below Linux's MAX_ARG_STRLEN (128 KiB for one argument), with
	// room for the quoting on the way through the login shell.
	maxScript = 96 << 10
	// maxAttempts allows a read to lose its connection, and then to get another one that is
	// dead but not yet detected as such.
	maxAttempts = 3
	// killTimeout limits how long a cancelled call waits for the machine.
	killTimeout = 3 * time.Second

	remotePath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// job is one remote command of this package.
type job struct {
	summary string // one line for hooks and messages, without secrets
	script  string
	stdin   io.Reader
	// readOnly means that running it twice does no harm, so it is repeated if the connection is
	// lost while it runs.
	readOnly bool
	running  func() // called each time that the machine has started it
}

// outcome is the result of a successful job.
type outcome struct {
	stdout        string
	sent, arrived time.Time // the times of the request and of the first byte of its answer
}

// Run runs one command and returns its standard output. A non-zero exit status is an
// *ExitError. When ctx ends, Run ends the remote process group and promptly returns ctx's
// error.
func (h *Host) Run(ctx context.Context, c Command) (string, error) {
	script, err := withVars(c.Script, c.Vars)
	if err != nil {
		return "", fmt.Errorf("run on %s: %w", h.Address(), err)
	}
	out, err := h.execute(ctx, job{summary: c.summary(), script: string(script), stdin: c.Stdin})
	return out.stdout, err
}

// AroundRequest announces a request that changes etcd, an API server, a DNS zone or somebody else's balancer, for
// Config.Around. address is that of the machine that receives it, or that it is about. ended is called when the request
// was answered. The zero Host announces nothing.
func (h *Host) AroundRequest(address, summary string) (ended func()) {
	if h.pool == nil {
		return func() {}
	}
	_, ended = h.pool.settings.around(address, summary)
	return ended
}

// execute runs every remote command. If the connection turns out to be dead before the command
// can have begun, a new one is opened; after that only a read-only job is repeated.
func (h *Host) execute(ctx context.Context, j job) (outcome, error) {
	if len(j.script) > maxScript {
		return outcome{}, fmt.Errorf("%s on %s: the script has %d bytes, more than the %d that fit on a command line",
			j.summary, h.Address(), len(j.script), maxScript)
	}
	running, ended := h.pool.settings.around(h.Address(), j.summary)
	defer ended()
	j.running = running
	begun := time.Now()
	defer func() {
		problem.Detail(ctx, "%s: %s (%d ms)", h.Address(), j.summary, time.Since(begun).Milliseconds())
	}()
	m, err := h.pool.machine(h.Address())
	if err != nil {
		return outcome{}, fmt.Errorf("%s: %w", j.summary, err)
	}
	out, err := h.attempt(ctx, m, j)
	for again := 1; again < maxAttempts && retryable(ctx, err, j); again++ {
		out, err = h.attempt(ctx, m, j)
	}
	var exit *ExitError
	if err != nil && !errors.As(err, &exit) {
		err = fmt.Errorf("%s on %s: %w", j.summary, h.Address(), err)
	}
	return out, err
}

func retryable(ctx context.Context, err error, j job) bool {
	if ctx.Err() != nil {
		return false
	}
	var early *errNotStarted
	var lost *lostError
	return errors.As(err, &early) || j.readOnly && errors.As(err, &lost)
}

func (h *Host) attempt(ctx context.Context, m *machine, j job) (outcome, error) {
	conn, err := h.pool.connect(ctx, m)
	if err != nil {
		return outcome{}, err
	}
	if !j.readOnly {
		conn.killStaleCommands(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stdout := &output{overflow: func() { cancel(errOutputTooLong) }}
	stderr := &tail{overflow: func() { cancel(errErrorsTooLong) }}
	token := newToken()
	var leases []*Lease
	if !j.readOnly {
		if leases, err = LeasesOn(ctx, h.Address()); err != nil {
			return outcome{}, err
		}
	}
	var sent time.Time
	err = conn.run(ctx, invocation{
		line:    conn.rootLine(token, fenced(leases, j.script), leases),
		token:   token,
		stdin:   j.stdin,
		stdout:  stdout,
		stderr:  stderr,
		started: func() { sent = time.Now() },
		running: j.running,
	})
	if cause := context.Cause(ctx); errors.Is(cause, errOutputTooLong) || errors.Is(cause, errErrorsTooLong) {
		err = cause
	}
	var exit *ssh.ExitError
	if errors.As(err, &exit) {
		failed := &ExitError{Address: h.Address(), Code: exit.ExitStatus(), Stderr: strings.TrimSpace(stderr.String())}
		if failed.Code == leaseLostCode && len(leases) > 0 || killedWith(leases, failed) {
			return outcome{}, fmt.Errorf("%w: %w", ErrLeaseLost, failed)
		}
		return outcome{}, failed
	}
	if err != nil {
		return outcome{}, err
	}
	return outcome{stdout: stdout.String(), sent: sent, arrived: stdout.firstByte()}, nil
}

// rootLine returns the command line that runs script as root under leases, whatever the login shell of the
// user is. It does not use standard input.
func (c *connection) rootLine(token, script string, leases []*Lease) string {
	words := []string{"exec"}
	if c.sudo {
		words = append(words, "sudo", "-n")
	}
	words = append(words, "env", "LC_ALL=C", "PATH="+remotePath)
	if len(leases) > 0 {
		tokens := make([]string, len(leases))
		for i, lease := range leases {
			tokens[i] = lease.token
		}
		words = append(words, leasesVariable+"="+strings.Join(tokens, ","))
	}
	if token != "" {
		words = append(words, tokenVariable+"="+token)
	}
	return strings.Join(words, " ") + " sh -euc " + shellescape.Quote(script) + " kube"
}
