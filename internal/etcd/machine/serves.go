package machine

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

const (
	healthAddress = "127.0.0.1:2381" // listen-metrics-urls
	healthTimeout = 5 * time.Second
	longestHealth = 4 << 10
)

// Serves reports whether the member on a machine says on the machine itself, without TLS,
// that it is healthy: that it reads with a quorum. It is evidence that a cluster serves
// whose certificates do not fit, and no evidence of the opposite.
func Serves(ctx context.Context, m Machine) bool {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	through := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return m.Dial(ctx, network, healthAddress)
		},
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+healthAddress+"/health", nil)
	if err != nil {
		return false
	}
	answer, err := through.Do(request)
	if err != nil {
		return false
	}
	defer func() { _ = answer.Body.Close() }() // it was only read
	var says struct {
		Health string `json:"health"`
	}
	err = json.NewDecoder(io.LimitReader(answer.Body, longestHealth)).Decode(&says)
	return err == nil && answer.StatusCode == http.StatusOK && says.Health == "true"
}

// FileQuestion is the script that reports whether $file is a regular file.
const FileQuestion host.Script = `[ ! -f "$file" ] || echo yes` + "\n"

// HasFile reports whether a machine has a regular file.
func HasFile(ctx context.Context, m Machine, path string) (bool, error) {
	facts, err := m.Observe(ctx, host.Query{Script: FileQuestion, Vars: map[string]string{"file": path}})
	return strings.TrimSpace(facts.Output) == "yes", err
}
