package haproxy

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// Metrics is where the balancers serve the metrics of HAProxy's own exporter, without TLS and
// login: it has neither, and shows names, states and numbers of connections.
type Metrics struct {
	Address string // "0.0.0.0", or "::" for IPv6 and IPv4
	Port    int
}

// DefaultMetricsPort is the port in HAProxy's documentation.
const DefaultMetricsPort = 8405

// metricsHeading separates the frontend of metrics from the other sections in 10-endpoint.cfg.
const metricsHeading = "\nfrontend metrics\n"

// renderMetrics renders the frontend of metrics, or nothing. Scrapes are short and few, whatever
// the settings of the API's connections are, and are not logged as connections of clients.
func renderMetrics(m *Metrics) string {
	if m == nil {
		return ""
	}
	both := ""
	if m.Address == "::" {
		both = " v4v6"
	}
	return metricsHeading + fmt.Sprintf(`    bind %s:%d%s
    mode http
    maxconn 20
    timeout client 10s
    timeout http-request 10s
    http-request set-log-level silent
    http-request use-service prometheus-exporter if { path /metrics }
    http-request return status 404
`, m.Address, m.Port, both)
}

// ValidateMetrics checks where the metrics of an endpoint are served that has the API at port.
func ValidateMetrics(m *Metrics, port int, k *Konnectivity) error {
	switch {
	case m == nil:
		return nil
	case m.Address != "0.0.0.0" && m.Address != "::":
		return fmt.Errorf("metrics address %q is not one of 0.0.0.0 and :: (all addresses)", m.Address)
	case m.Port < 1024 || m.Port > 65535:
		return fmt.Errorf("metrics port %d is not between 1024 and 65535", m.Port)
	case m.Port == port:
		return fmt.Errorf("metrics port %d is that of the API", m.Port)
	case k != nil && m.Port == k.Port:
		return fmt.Errorf("metrics port %d is that of konnectivity", m.Port)
	}
	return nil
}

// metricsIn parses the frontend of metrics in 10-endpoint.cfg, which text contains from its heading on.
func metricsIn(text string) (*Metrics, error) {
	if text == "" {
		return nil, nil
	}
	bind := append(bindLine.FindStringSubmatch(text), "", "")[1]
	address, rest, ok := cutLast(bind, ":")
	if !ok {
		return nil, errors.New("the port of metrics is not there")
	}
	// HAProxy writes the address of IPv6 without brackets.
	at, err := netip.ParseAddrPort("[::]:" + rest)
	if err != nil {
		return nil, fmt.Errorf("the port of metrics: %w", err)
	}
	m := Metrics{Address: address, Port: int(at.Port())}
	return &m, ValidateMetrics(&m, 0, nil)
}

// cutLast cuts text around the last separator.
func cutLast(text, separator string) (before, after string, ok bool) {
	at := strings.LastIndex(text, separator)
	if at < 0 {
		return text, "", false
	}
	return text[:at], text[at+len(separator):], true
}

// ports returns the ports of which it matters who listens there.
func (s Spec) ports() []int {
	ports := []int{s.port()}
	if s.Konnectivity != nil {
		ports = append(ports, s.Konnectivity.Port)
	}
	if s.Metrics != nil {
		ports = append(ports, s.Metrics.Port)
	}
	return ports
}

// metricsPortProblem returns why HAProxy cannot serve its metrics on a host, or "". What it has
// opened itself is no reason.
func metricsPortProblem(s Spec, b balancer) string {
	if s.Metrics == nil {
		return ""
	}
	listener, busy := b.facts.Listeners[s.Metrics.Port]
	if !busy || len(listener.Addresses) == 0 || b.unitActive(haproxyUnit) && listener.Process == "haproxy" {
		return ""
	}
	return fmt.Sprintf("%s listens on port %d, so HAProxy cannot serve its metrics there",
		cmp.Or(printable(listener.Process), "another program"), s.Metrics.Port)
}
