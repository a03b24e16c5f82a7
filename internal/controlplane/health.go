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
)

// healthy is what a component's health reads when it is ready.
const healthy = "ok"

// probeTimeout is for one question; /readyz has answers that wait for etcd.
const probeTimeout = 5 * time.Second

// checker asks one component over one connection.
type checker struct {
	client *http.Client
	url    string
}

func newChecker(s Spec, c component) (checker, error) {
	config := selfSignedTLS()
	if c.probe.verified {
		var err error
		if config, err = verifiedTLS(s.Bundle, c.probe.address); err != nil {
			return checker{}, fmt.Errorf("check %s of %s: %w", c.name, s.machine(), err)
		}
	}
	at := net.JoinHostPort(c.probe.address, strconv.Itoa(c.probe.port))
	return checker{client: tunnel(s.Host, config), url: "https://" + at + c.probe.path}, nil
}

func (c checker) close() { c.client.CloseIdleConnections() }

// ask returns healthy, or in words why the component is not ready. An answer
// that does not come is a reason like any other: the question has no failure.
func (c checker) ask(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url, nil)
	if err != nil {
		return "cannot be asked: " + err.Error()
	}
	response, err := c.client.Do(request)
	if err != nil {
		return "does not answer: " + innermost(err).Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if err != nil {
		return "does not answer: " + err.Error()
	}
	return readAnswer(response.StatusCode, string(body))
}

var failedCheck = regexp.MustCompile(`(?m)^\[-\](\S+)`)

// readAnswer turns a health endpoint's answer into words: which of its checks
// fail, where it lists them.
func readAnswer(status int, body string) string {
	if status == http.StatusOK {
		return healthy
	}
	var names []string
	for _, match := range failedCheck.FindAllStringSubmatch(body, -1) {
		names = append(names, match[1])
	}
	if len(names) > 0 {
		return "not ready: " + strings.Join(names, ", ")
	}
	first, _, _ := strings.Cut(strings.TrimSpace(body), "\n")
	return fmt.Sprintf("not ready: HTTP status %d %q", status, first)
}

// innermost unwraps the layers that net/http and net put around the reason.
func innermost(err error) error {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err
		}
		err = next
	}
}
