package release

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// MetricsAddress is where probes on the machine of a member, and the provider, reach its listener for metrics, without
// TLS.
const MetricsAddress = "127.0.0.1:2381"

// MetricsURL is that listener.
const MetricsURL = "http://" + MetricsAddress

// WithMetricsURL returns a value of listen-metrics-urls with a listener at MetricsAddress. Without one, the startup
// probe of a static pod never succeeds, and the kubelet kills the member each time that the probe gives up.
func WithMetricsURL(urls string) string {
	switch {
	case strings.TrimSpace(urls) == "":
		return MetricsURL
	case takesMetricsAddress("http", urls):
		return urls
	}
	return urls + "," + MetricsURL
}

// takesMetricsAddress reports whether one of urls, with the scheme, is a listener at MetricsAddress. The server
// listens on IPv4 too if the host is [::] (net.Listen).
func takesMetricsAddress(scheme, urls string) bool {
	return slices.ContainsFunc(strings.Split(urls, ","), func(text string) bool {
		u, err := url.Parse(strings.TrimSpace(text))
		if err != nil || u.Scheme != scheme || u.Port() != "2381" {
			return false
		}
		at, err := netip.ParseAddr(u.Hostname())
		at = at.Unmap()
		return u.Hostname() == "localhost" || err == nil && (at.IsUnspecified() || at.String() == "127.0.0.1")
	})
}
