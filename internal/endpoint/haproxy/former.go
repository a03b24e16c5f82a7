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
	// givesPath is there when the former keepalived has begun to give the address to the endpoint.
	givesPath = "/run/systemd/system/" + formerKeepalivedUnit + ".d/kube-endpoint.conf"
	// formerHAProxyDir has more of the configuration in some distributions.
	formerHAProxyDir = "/etc/haproxy/conf.d"
)

// addFormer adds the former services to a query.
func addFormer(q *host.Query) {
	q.Files = append(q.Files, retiredPath, givesPath)
	q.Dirs = append(q.Dirs, formerHAProxyDir)
	q.Contents = append(q.Contents, formerKeepalivedPath, formerHAProxyPath)
	q.Units = append(q.Units, formerKeepalivedUnit, formerHAProxyUnit)
}

// formerQuery returns the query for the former services alone.
func formerQuery() host.Query {
	var q host.Query
	addFormer(&q)
	return q
}

// former is what a machine's configuration of keepalived says.
type former struct {
	addresses []netip.Addr // that it may have
	routerIDs []int
	more      []string // that it does besides
	includes  bool     // other files, which were not read
}

var (
	formerBlock = regexp.MustCompile(`(?s)virtual_ipaddress(?:_excluded)?\s*\{(.*?)\}`)
	formerID    = regexp.MustCompile(`(?m)^\s*virtual_router_id\s+(\d{1,3})\b`)
	includeLine = regexp.MustCompile(`(?m)^\s*include[a-z]?\s`)
	moreLine    = regexp.MustCompile(`(?m)^\s*(virtual_server|virtual_server_group|virtual_routes|virtual_rules)\b`)
	formerBind  = regexp.MustCompile(`(?m)^\s*bind\s+(\S+)`)
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
	for _, word := range moreLine.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(f.more, word[1]) {
			f.more = append(f.more, word[1])
		}
	}
	for _, id := range formerID.FindAllStringSubmatch(text, -1) {
		if n, err := strconv.Atoi(id[1]); err == nil {
			f.routerIDs = append(f.routerIDs, n)
		}
	}
	return f
}

// formerRuns reports whether the machine's keepalived.service runs or starts with the machine.
func (b balancer) formerRuns() bool {
	return b.unitActive(formerKeepalivedUnit) || b.facts.Units[formerKeepalivedUnit].Enabled == "enabled"
}

// formerGives reports whether the machine's keepalived.service does, and may have the address.
func (b balancer) formerGives(s Spec) bool {
	f := parseFormer(b.facts.Files[formerKeepalivedPath].Content)
	return b.formerRuns() &&
		slices.ContainsFunc(f.addresses, func(ip netip.Addr) bool { return slices.Contains(s.vips(), ip.String()) })
}

// waits reports whether the endpoint's keepalived may not have the address.
func (b balancer) waits() bool {
	return b.facts.Files[waitingPath].SHA256 == sha256Hex([]byte(waitingText))
}

// elects reports whether the endpoint's keepalived runs and takes part in the election.
func (b balancer) elects() bool { return b.unitActive(keepalivedUnit) && !b.waits() }

// handsOver reports whether the former services have begun to give the address to the endpoint's.
func (b balancer) handsOver() bool {
	_, gives := b.facts.Files[givesPath]
	_, retired := b.facts.Files[retiredPath]
	return gives || retired || b.elects()
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

// formerServesMore returns what the machine's haproxy.service serves besides one port, but for statistics.
func (b balancer) formerServesMore(s Spec) []string {
	text := commentText.ReplaceAllString(b.facts.Files[formerHAProxyPath].Content, "")
	var proxies, more []string // of one proxy, its other ports say more than its name
	at := proxyLine.FindAllStringSubmatchIndex(text, -1)
	for i, match := range at {
		end := len(text)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		proxy := text[match[0]:end]
		if strings.Contains(proxy, "stats enable") {
			continue
		}
		proxies = append(proxies, printable(text[match[2]:match[3]]))
		for _, bind := range formerBind.FindAllStringSubmatch(proxy, -1) {
			for address := range strings.SplitSeq(bind[1], ",") {
				if !strings.HasSuffix(address, ":"+strconv.Itoa(s.port())) {
					more = append(more, printable(address))
				}
			}
		}
	}
	if len(proxies) > 1 {
		more = proxies
	}
	for _, name := range b.facts.Dirs[formerHAProxyDir] {
		if strings.HasSuffix(name, ".cfg") {
			more = append(more, formerHAProxyDir+"/"+printable(name))
		}
	}
	return more
}
