package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// healthy is the health of a component that is ready.
const healthy = "ok"

// probeTimeout limits one request. Some checks of /readyz wait for etcd.
const probeTimeout = 5 * time.Second

// checker probes one component over one connection.
type checker struct {
	client *http.Client
	url    string
}

func newChecker(s Spec, c component.Component) (checker, error) {
	config := selfSignedTLS()
	if c.Probe.Verified {
		var err error
		if config, err = verifiedTLS(s.Bundle, c.Probe.Address); err != nil {
			return checker{}, fmt.Errorf("check %s of %s: %w", c.Name, s.Machine(), err)
		}
	}
	at := net.JoinHostPort(c.Probe.Address, strconv.Itoa(c.Probe.Port))
	return checker{client: tunnel(s.Host, config), url: "https://" + at + c.Probe.Path}, nil
}

func (c checker) close() { c.client.CloseIdleConnections() }

// ask returns healthy, or why the component is not ready. A missing answer is a reason like any
// other: this health check never fails.
func (c checker) ask(ctx context.Context) string {
	health, err := c.probe(ctx)
	if err != nil {
		return err.Error()
	}
	return health
}

// probe returns healthy, or why the component is not ready. It returns an error if the
// component did not answer, so that its state is unknown: sshd forbids the connection, the
// connection was lost, or it timed out. A refused connection is an answer: no process listens.
func (c checker) probe(ctx context.Context) (health string, err error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url, nil)
	if err != nil {
		return "", fmt.Errorf("cannot be asked: %w", err)
	}
	response, err := c.client.Do(request)
	switch {
	case errors.Is(err, host.ErrRefused):
		return "does not answer: " + innermost(err).Error(), nil
	case errors.Is(err, host.ErrForwarding):
		return "", fmt.Errorf("cannot be asked: %w", host.ErrForwarding)
	case err != nil:
		return "", fmt.Errorf("does not answer: %w", innermost(err))
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if err != nil {
		return "", fmt.Errorf("does not answer: %w", err)
	}
	return readAnswer(response.StatusCode, string(body)), nil
}

// serves reports whether the API server of the replica is ready. It returns an error if that is
// unknown.
func serves(ctx context.Context, s Spec) (bool, error) {
	check, err := newChecker(s, component.APIServer(s.Replica))
	if err != nil {
		return false, err
	}
	defer check.close()
	health, err := check.probe(ctx)
	if err != nil {
		return false, fmt.Errorf("%s of %s %w", release.APIServer, s.Machine(), err)
	}
	return health == healthy, nil
}

// mostChecks is the maximum number of failed checks that are listed.
const mostChecks = 50

var checkForm = regexp.MustCompile(`^[A-Za-z0-9./_-]{1,100}$`)

var failedCheck = regexp.MustCompile(`(?m)^\[-\](\S+)`)

// readAnswer describes the answer of a health endpoint: the checks that fail, if it
// lists them.
func readAnswer(status int, body string) string {
	if status == http.StatusOK {
		return healthy
	}
	var names []string
	for _, match := range failedCheck.FindAllStringSubmatch(body, mostChecks) {
		if checkForm.MatchString(match[1]) {
			names = append(names, match[1])
		}
	}
	if len(names) > 0 {
		return "not ready: " + strings.Join(names, ", ")
	}
	first, _, _ := strings.Cut(strings.TrimSpace(body), "\n")
	return fmt.Sprintf("not ready: HTTP status %d %s", status, problem.Quote(first))
}

// innermost removes the layers that net/http and net add to an error.
func innermost(err error) error {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err
		}
		err = next
	}
}
