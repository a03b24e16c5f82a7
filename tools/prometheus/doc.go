// Package prometheus tests the rules and scrape configurations of internal/monitoring with
// Prometheus' own modules. It is a module of its own, so that the provider does not depend on them.
package prometheus
