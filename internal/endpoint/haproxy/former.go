package haproxy

import (
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// The services that had the address before, on the endpoint's own hosts: HAProxy and keepalived as kubeadm's guide
// sets them up (https://github.com/kubernetes/kubeadm/blob/main/docs/ha-considerations.md).
const (
	formerKeepalivedUnit = "keepalived.service"
	formerKeepalivedPath = keepalivedDir + "/keepalived.conf"
	formerHAProxyUnit    = "haproxy.service"
	formerHAProxyPath    = "/etc/haproxy/haproxy.cfg"
	// retiredPath is there while the former HAProxy serves only the connections that it has.
	retiredPath = "/run/systemd/system/" + formerHAProxyUnit + ".d/kube-endpoint.conf"
)

// addFormer adds the former services to a query.
func addFormer(q *host.Query) {
	q.Files = append(q.Files, retiredPath)
	q.Contents = append(q.Contents, formerKeepalivedPath, formerHAProxyPath)
	q.Units = append(q.Units, formerKeepalivedUnit, formerHAProxyUnit)
}

// former is what a machine's configuration of keepalived says.
type former struct {
	addresses []netip.Addr // that it may have
	routerIDs []int
	includes  bool // other files, which were not read
}

var (
	formerBlock = regexp.MustCompile(`(?s)virtual_ipaddress(?:_excluded)?\s*\{(.*?)\}`)
	formerID    = regexp.MustCompile(`(?m)^\s*virtual_router_id\s+(\d{1,3})\b`)
	includeLine = regexp.MustCompile(`(?m)^\s*include[a-z]?\s`)
	proxyLine   = regexp.MustCompile(`(?m)^\s*(?:frontend|listen)\s+(\S+)`)
	commentText = regexp.MustCompile(`[!#].*`)
)

// parseFormer parses keepalived.conf(5) as far as an endpoint must know it.
func parseFormer(text string) former {
	text = commentText.ReplaceAllString(text, "")
	f := former{includes: includeLine.MatchString(text)}
	for _, block := range formerBlock.FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(block[1]) {
			word := append(strings.Fields(line), "")[0]
			address, _, _ := strings.Cut(word, "/")
			if ip, err := netip.ParseAddr(address); err == nil {
				f.addresses = append(f.addresses, ip)
			}
		}
	}
	for _, id := range formerID.FindAllStringSubmatch(text, -1) {
		if n, err := strconv.Atoi(id[1]); err == nil {
			f.routerIDs = append(f.routerIDs, n)
		}
	}
	return f
}

// formerGives reports whether the machine's keepalived.service runs or starts with the machine, and may have the
// address.
func (b balancer) formerGives(s Spec) bool {
	unit := b.facts.Units[formerKeepalivedUnit]
	if !b.unitActive(formerKeepalivedUnit) && unit.Enabled != "enabled" {
		return false
	}
	f := parseFormer(b.facts.Files[formerKeepalivedPath].Content)
	return slices.ContainsFunc(f.addresses, func(ip netip.Addr) bool { return slices.Contains(s.vips(), ip.String()) })
}

// formerBalances reports whether the machine's haproxy.service takes new connections, or starts with the machine.
func (b balancer) formerBalances(s Spec) bool {
	_, retired := b.facts.Files[retiredPath]
	unit := b.facts.Units[formerHAProxyUnit]
	if unit.Enabled != "enabled" && (retired || !b.unitActive(formerHAProxyUnit)) {
		return false
	}
	return b.formerNames(s.port())
}

// formerNames reports whether the configuration of the machine's haproxy.service names a port.
func (b balancer) formerNames(port int) bool {
	return regexp.MustCompile(`:` + strconv.Itoa(port) + `\b`).MatchString(b.facts.Files[formerHAProxyPath].Content)
}

// formerListener reports whether a HAProxy that is not the endpoint's listens on the endpoint's port.
func (b balancer) formerListener(s Spec) bool {
	return s.Inherit && b.facts.Listeners[s.port()].Process == "haproxy" &&
		(s.prepares() || !b.unitActive(haproxyUnit) || b.formerBalances(s))
}

// formerProxies returns the names of what the machine's haproxy.service serves, but for statistics.
func (b balancer) formerProxies() []string {
	text := commentText.ReplaceAllString(b.facts.Files[formerHAProxyPath].Content, "")
	var served []string
	at := proxyLine.FindAllStringSubmatchIndex(text, -1)
	for i, match := range at {
		end := len(text)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		if !strings.Contains(text[match[0]:end], "stats enable") {
			served = append(served, printable(text[match[2]:match[3]]))
		}
	}
	return served
}
