package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/release"
)

// Survey returns v with the cluster version.
func (c *Clients) Survey(ctx context.Context, v membership.View) membership.Survey {
	out := membership.Survey{ClusterVersion: c.ClusterVersion(ctx, v, 0), Downgrade: v.Downgrade}
	for _, m := range v.Members {
		out.Members = append(out.Members, membership.MemberStatus{
			Member: m, ID: fmt.Sprintf("%x", m.ID),
			Address: m.Address(), Leader: m.ID == v.Leader,
		})
	}
	return out
}

// ClusterVersion returns the cluster version, as reported by the members other than the
// one with the given ID; "" if none reports it. A member that lags behind reports the one before.
// The highest is returned: a downgrade that one member does not know yet has not arrived
// everywhere.
func (c *Clients) ClusterVersion(ctx context.Context, v membership.View, not uint64) string {
	versions := make([]string, len(v.Members))
	_ = forEach(v.Members, func(i int, m membership.Member) (err error) { // a member that does not report it is skipped
		if m.ID != not && m.Version != "" {
			versions[i], err = c.agreedVersion(ctx, m.Address())
		}
		return err
	})
	highest, newest := "", -1
	for _, version := range versions {
		if minor, ok := release.AgreedMinor(version); ok && minor > newest {
			highest, newest = version, minor
		}
	}
	return highest
}

// agreedVersion queries one member for the cluster version.
func (c *Clients) agreedVersion(ctx context.Context, address string) (string, error) {
	text, err := c.GetHTTP(ctx, address, "/version", 1<<12)
	if err != nil {
		return "", fmt.Errorf("get the version of %s: %w", address, err)
	}
	var versions struct {
		Cluster string `json:"etcdcluster"` // "3.6.0", or "not_decided"
	}
	if err := json.Unmarshal(text, &versions); err != nil {
		return "", fmt.Errorf("read the version of %s: %w", address, err)
	}
	minor, _, err := release.Parse(versions.Cluster)
	if err != nil {
		return "", fmt.Errorf("read the version of %s: %w", address, err)
	}
	return fmt.Sprintf("3.%d", minor), nil
}

// Answer is the answer to a request for a page. Its status is 0 if there is none.
type Answer struct {
	Status int
	Err    error
}

// Ask requests a page, and returns the status of the answer.
func (c *Clients) Ask(ctx context.Context, address, page string) Answer {
	ctx, cancel := context.WithTimeout(ctx, c.limitOr(RequestTimeout))
	defer cancel()
	response, err := c.request(ctx, address, membership.ClientURL(address)+page)
	if err != nil {
		return Answer{Err: err}
	}
	defer func() { _ = response.Body.Close() }()
	return Answer{Status: response.StatusCode}
}

// GetHTTP reads a page that one member serves next to its API. The page is limited to most
// bytes.
func (c *Clients) GetHTTP(ctx context.Context, address, page string, most int64) ([]byte, error) {
	return c.get(ctx, address, membership.ClientURL(address)+page, most)
}

// get reads what the member at an address serves at a URL.
func (c *Clients) get(ctx context.Context, address, url string, most int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.limitOr(RequestTimeout))
	defer cancel()
	response, err := c.request(ctx, address, url)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the response status is %s", response.Status)
	}
	return io.ReadAll(io.LimitReader(response.Body, most))
}

// request sends a request to the member at an address. The caller closes the body of the response. A redirection is not
// followed.
func (c *Clients) request(ctx context.Context, address, url string) (*http.Response, error) {
	config := c.TLS.Clone()
	config.ServerName = address
	transport := &http.Transport{
		TLSClientConfig:   config,
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, addr string) (net.Conn, error) { return c.Dial(ctx, addr) },
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	return transport.RoundTrip(request)
}
