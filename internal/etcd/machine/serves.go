package machine

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

const (
	healthAddress = release.MetricsAddress
	healthTimeout = 5 * time.Second
	longestHealth = 4 << 10

	// healthPath leaves the alarms out: a member with an alarm that reads with a quorum serves
	// (server/etcdserver/api/etcdhttp/health.go).
	healthPath = "/health?exclude=NOSPACE&exclude=CORRUPT"
)

// Serves reports whether the member on a machine says on the machine itself, without TLS,
// that it is healthy: that it reads with a quorum. It is evidence that a cluster serves
// whose certificates do not fit, and no evidence of the opposite.
func Serves(ctx context.Context, m Machine) bool {
	text, err := getLocally(ctx, m, healthPath, longestHealth)
	var says struct {
		Health string `json:"health"`
	}
	return err == nil && json.Unmarshal(text, &says) == nil && says.Health == "true"
}

// getLocally returns a page of what the member listens to on its machine, without TLS, as soon as it runs. Only an
// answer with the status 200 is no error. A redirection is not followed.
func getLocally(ctx context.Context, m Machine, page string, most int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	through := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return m.Dial(ctx, network, healthAddress)
		},
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+healthAddress+page, nil)
	if err != nil {
		return nil, err
	}
	answer, err := through.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }() // it was only read
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: status %d", page, answer.StatusCode)
	}
	return io.ReadAll(io.LimitReader(answer.Body, most))
}

// FileQuestion is the script that reports whether $file is a regular file.
const FileQuestion host.Script = `[ ! -f "$file" ] || echo yes` + "\n"

// HasFile reports whether a machine has a regular file.
func HasFile(ctx context.Context, m Machine, path string) (bool, error) {
	facts, err := m.Observe(ctx, host.Query{Script: FileQuestion, Vars: map[string]string{"file": path}})
	return strings.TrimSpace(facts.Output) == "yes", err
}
