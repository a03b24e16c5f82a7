package machine

import (
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/release"
)

// MetricsPort is the port of etcd's listener for metrics over TLS. That without TLS, on the machine only, has 2381.
const MetricsPort = 2382

// metricsURL is etcd's listener for metrics on its machine.
const metricsURL = release.MetricsURL + "/metrics"

// listenMetricsURLs returns the value of listen-metrics-urls: the listener on the machine, and the one at
// MetricsAddress. etcd verifies the clients of an https URL as it does at its client port (createMetricsListener in
// server/embed/etcd.go).
func (s Spec) listenMetricsURLs() string {
	urls := release.MetricsURL
	if s.MetricsAddress != "" {
		urls += ",https://" + net.JoinHostPort(s.MetricsAddress, strconv.Itoa(MetricsPort))
	}
	return urls
}

// metricsAddressIn returns the MetricsAddress that results in the flags; "" if none does.
func metricsAddressIn(flags map[string]string) string {
	for _, address := range AllAddresses {
		if flags[release.MetricsURLsFlag] == (Spec{MetricsAddress: address}).listenMetricsURLs() {
			return address
		}
	}
	return ""
}

// AllAddresses are the values of MetricsAddress. Either stands for all addresses of a machine.
var AllAddresses = []string{"0.0.0.0", "::"}

// ports returns the ports that a member of s listens on.
func (s Spec) ports() []int {
	if strings.Contains(ServerFlags(s)[release.MetricsURLsFlag], ":"+strconv.Itoa(MetricsPort)) {
		return append(slices.Clone(ports), MetricsPort)
	}
	return ports
}
