package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

const (
	// queryTimeout limits a query.
	queryTimeout = 10 * time.Second
	nodesPage    = 500
)

// Nodes lists all nodes.
func (c Client) Nodes(ctx context.Context) ([]core.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	access, done, err := c.admin()
	if err != nil {
		return nil, err
	}
	defer done()
	api, err := typedcore.NewForConfigAndClient(access.rest, access.web)
	if err != nil {
		return nil, err
	}
	var all []core.Node
	for next := ""; ; {
		nodes, err := api.Nodes().List(ctx, meta.ListOptions{Limit: nodesPage, Continue: next})
		if err != nil {
			return nil, err
		}
		all = append(all, nodes.Items...)
		if next = nodes.Continue; next == "" {
			return all, nil
		}
	}
}

// RemovedAPIs returns the deprecated APIs that clients have requested and that the given minor no
// longer serves.
func (c Client) RemovedAPIs(ctx context.Context, minor int) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	access, done, err := c.admin()
	if err != nil {
		return nil, err
	}
	defer done()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.replica.LocalURL()+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := access.web.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("HTTP status %d", response.StatusCode)
	}
	return release.RemovedAPIs(response.Body, minor)
}

// Answer is the answer to a request for a page. Its status is 0 if there is none.
type Answer struct {
	Status int
	Err    error
}

// Ask requests a page of each component as an administrator, and returns the status of the answers
// by component. controller-manager and scheduler ask the API server who that is.
func (c Client) Ask(ctx context.Context, page string) map[string]Answer {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	all := map[string]Answer{}
	access, done, err := c.admin()
	if err == nil {
		defer done()
	}
	for _, part := range component.Of(c.replica) {
		if part.Probe.Plain {
			continue // it has no administrators
		}
		if err != nil {
			all[part.Name] = Answer{Err: err}
			continue
		}
		at := "https://" + net.JoinHostPort(part.Probe.Address, strconv.Itoa(part.Probe.Port))
		web, ended := access.web, func() {}
		if !part.Probe.Verified {
			web, ended = c.unverified(access)
		}
		all[part.Name] = ask(ctx, web, at+page)
		ended()
	}
	return all
}

// unverified is the client of an administrator for components whose certificate is made anew at
// each start: see selfSignedTLS. A client certificate does not tell its key to the server.
func (c Client) unverified(access adminAccess) (web *http.Client, done func()) {
	config := selfSignedTLS()
	config.Certificates = access.certificates
	web = tunnel(c.host, config)
	return web, web.CloseIdleConnections
}

func ask(ctx context.Context, web *http.Client, url string) Answer {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return Answer{Err: err}
	}
	response, err := web.Do(request)
	if err != nil {
		return Answer{Err: Cause(err)}
	}
	defer response.Body.Close()
	return Answer{Status: response.StatusCode}
}

// Alert is the rule of an alert in the cluster.
type Alert struct{ Name, Expr string }

// rulesPath lists the objects PrometheusRule of all namespaces.
const rulesPath = "/apis/monitoring.coreos.com/v1/prometheusrules"

// mostAlerts limits the alerts that are read.
const mostAlerts = 5000

// Alerts lists the alerts of all objects PrometheusRule. A cluster that does not know them has none.
func (c Client) Alerts(ctx context.Context) ([]Alert, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	access, done, err := c.admin()
	if err != nil {
		return nil, err
	}
	defer done()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.replica.LocalURL()+rulesPath, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := access.web.Do(request)
	if err != nil {
		return nil, Cause(err)
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusNotFound:
		return nil, nil
	case http.StatusOK:
		return parseAlerts(response.Body)
	}
	return nil, fmt.Errorf("HTTP status %d", response.StatusCode)
}

func parseAlerts(body io.Reader) ([]Alert, error) {
	var list struct {
		Items []struct {
			Spec struct {
				Groups []struct {
					Rules []struct {
						Alert string `json:"alert"`
						Expr  any    `json:"expr"` // a number is a query too
					} `json:"rules"`
				} `json:"groups"`
			} `json:"spec"`
		} `json:"items"`
	}
	if err := json.NewDecoder(body).Decode(&list); err != nil {
		return nil, fmt.Errorf("read the PrometheusRules: %w", err)
	}
	var all []Alert
	for _, item := range list.Items {
		for _, group := range item.Spec.Groups {
			for _, rule := range group.Rules {
				if rule.Alert != "" && len(all) < mostAlerts {
					all = append(all, Alert{problem.Line(rule.Alert), fmt.Sprint(rule.Expr)})
				}
			}
		}
	}
	return all, nil
}
