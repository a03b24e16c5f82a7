package client

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
	"sync"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Healthy is the health of a component that is ready.
const Healthy = "ok"

// probeTimeout limits one request. Some checks of /readyz wait for etcd.
const probeTimeout = 5 * time.Second

// Prober probes one component over one connection.
type Prober struct {
	client *http.Client
	url    string
}

// Prober returns the prober of a component. The caller closes it.
func (c Client) Prober(part component.Component) (Prober, error) {
	config, scheme := selfSignedTLS(), "https://"
	if part.Probe.Plain {
		scheme = "http://"
	}
	if part.Probe.Verified {
		var err error
		if config, err = verifiedTLS(c.replica.Bundle, part.Probe.Address); err != nil {
			return Prober{}, fmt.Errorf("check %s of %s: %w", part.Name, c.replica.Machine(), err)
		}
	}
	at := net.JoinHostPort(part.Probe.Address, strconv.Itoa(part.Probe.Port))
	return Prober{client: tunnel(c.host, config), url: scheme + at + part.Probe.Path}, nil
}

// Close closes the connection.
func (p Prober) Close() { p.client.CloseIdleConnections() }

// Health returns Healthy, or why the component is not ready. A missing answer is a reason like any
// other: this health check never fails.
func (p Prober) Health(ctx context.Context) string {
	health, err := p.probe(ctx)
	if err != nil {
		return err.Error()
	}
	return health
}

// probe returns Healthy, or why the component is not ready. It returns an error if the
// component did not answer, so that its state is unknown: sshd forbids the connection, the
// connection was lost, or it timed out. A refused connection is an answer: no process listens.
func (p Prober) probe(ctx context.Context) (health string, err error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url, nil)
	if err != nil {
		return "", fmt.Errorf("cannot be asked: %w", err)
	}
	response, err := p.client.Do(request)
	switch {
	case errors.Is(err, host.ErrRefused):
		return "does not answer: " + Cause(err).Error(), nil
	case errors.Is(err, host.ErrForwarding):
		return "", fmt.Errorf("cannot be asked: %w", host.ErrForwarding)
	case err != nil:
		return "", fmt.Errorf("does not answer: %w", Cause(err))
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if err != nil {
		return "", fmt.Errorf("does not answer: %w", err)
	}
	return readAnswer(response.StatusCode, string(body)), nil
}

// Serves reports whether the API server is ready. It returns an error if that is unknown.
func (c Client) Serves(ctx context.Context) (bool, error) {
	prober, err := c.Prober(component.APIServer(c.replica))
	if err != nil {
		return false, err
	}
	defer prober.Close()
	health, err := prober.probe(ctx)
	if err != nil {
		return false, fmt.Errorf("%s of %s %w", release.APIServer, c.replica.Machine(), err)
	}
	return health == Healthy, nil
}

// HasAgents reports whether an agent is connected to the proxy server. One that does not answer has
// none.
func (c Client) HasAgents(ctx context.Context) bool {
	return c.health(ctx, component.AgentsProbe(c.replica)) == Healthy
}

// Health returns the health of the components, in the order of component.Of: Healthy, or why the
// component is not ready. It probes them in parallel and never fails.
func (c Client) Health(ctx context.Context) []string {
	parts := component.Of(c.replica)
	health := make([]string, len(parts))
	var probes sync.WaitGroup
	for i, part := range parts {
		probes.Go(func() { health[i] = c.health(ctx, part) })
	}
	probes.Wait()
	return health
}

func (c Client) health(ctx context.Context, part component.Component) string {
	prober, err := c.Prober(part)
	if err != nil {
		return err.Error()
	}
	defer prober.Close()
	return prober.Health(ctx)
}

// NotReady returns, for each component that is not ready, the reason.
func (c Client) NotReady(ctx context.Context) []string {
	var problems []string
	health := c.Health(ctx)
	for i, part := range component.Of(c.replica) {
		if health[i] != Healthy {
			problems = append(problems, part.Name+" "+health[i])
		}
	}
	return problems
}

// mostChecks is the maximum number of failed checks that are listed.
const mostChecks = 50

var checkForm = regexp.MustCompile(`^[A-Za-z0-9./_-]{1,100}$`)

var failedCheck = regexp.MustCompile(`(?m)^\[-\](\S+)`)

// readAnswer describes the answer of a health endpoint: the checks that fail, if it
// lists them.
func readAnswer(status int, body string) string {
	if status == http.StatusOK {
		return Healthy
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

// Cause removes the layers that net/http and net add to an error.
func Cause(err error) error {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err
		}
		err = next
	}
}
