package barrier

import (
	"cmp"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// What firewalld and SELinux say is data: names and addresses of another form are dropped.

// access is what a zone or a service lets in.
type access struct {
	ports     []ports
	protocols []string
}

// ports is a range of ports.
type ports struct {
	protocol    string
	first, last int
}

func (p ports) contain(o Opening) bool {
	return p.protocol == o.Protocol && p.first <= o.Port && o.Port <= p.last
}

func (a access) admits(o Opening) bool {
	return slices.ContainsFunc(a.ports, func(p ports) bool { return p.contain(o) }) ||
		slices.ContainsFunc(a.protocols, func(name string) bool { return sameProtocol(name, o.Protocol) })
}

// zone is one active zone of firewalld, the default one, or a policy between zones.
type zone struct {
	access
	target     string
	interfaces []string
	sources    []netip.Prefix
	services   []string
	rules      []string // rich rules that accept
	egress     []string // of a policy: where its packets go
}

// admits reports whether a packet that reaches the zone is let in. A rich rule that accepts counts
// whatever its source is: the rule is the administrator's decision about who.
func (z zone) admits(o Opening, services map[string]*access) bool {
	if z.target == "ACCEPT" || z.access.admits(o) {
		return true
	}
	for _, name := range z.services {
		if a := services[name]; a != nil && a.admits(o) {
			return true
		}
	}
	return slices.ContainsFunc(z.rules, func(rule string) bool { return ruleAdmits(rule, o, services) })
}

var (
	rulePort     = regexp.MustCompile(`(?:^| )port port="([0-9-]+)" protocol="([a-z]+)"`)
	ruleService  = regexp.MustCompile(`(?:^| )service name="([A-Za-z0-9_.-]+)"`)
	ruleProtocol = regexp.MustCompile(`(?:^| )protocol value="([A-Za-z0-9.-]+)"`)
	ruleElement  = regexp.MustCompile(
		`(?:^| )(?:port|service|protocol|icmp-type|icmp-block|source-port|forward-port|masquerade|tcp-mss-clamp)\b`)
)

func ruleAdmits(rule string, o Opening, services map[string]*access) bool {
	if m := rulePort.FindStringSubmatch(rule); m != nil {
		p, ok := parsePorts(m[1] + "/" + m[2])
		return ok && p.contain(o)
	}
	if m := ruleService.FindStringSubmatch(rule); m != nil {
		a := services[m[1]]
		return a == nil || a.admits(o) // what the service is was not asked
	}
	if m := ruleProtocol.FindStringSubmatch(rule); m != nil {
		return access{protocols: m[1:]}.admits(o)
	}
	return !ruleElement.MatchString(rule)
}

// sameProtocol compares names of IP protocols, or their numbers.
func sameProtocol(a, b string) bool {
	numbers := map[string]string{"tcp": "6", "udp": "17", VRRP: "112"}
	return cmp.Or(numbers[a], a) == cmp.Or(numbers[b], b)
}

var (
	zoneName   = regexp.MustCompile(`^[A-Za-z0-9_/-]{1,64}$`)
	deviceName = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,15}$`)
	boolName   = regexp.MustCompile(`^[a-z0-9_]{1,64}$`)
	portLabel  = regexp.MustCompile(`^portcon (tcp|udp) ([0-9]{1,5})(?:-([0-9]{1,5}))? \S+$`)
)

// parse parses the output of observe.sh.
func parse(output string) state {
	s := state{booleans: map[string]bool{}, zones: map[string]*zone{}, services: map[string]*access{}}
	var ofZone *zone
	var ofService *access
	for line := range strings.Lines(output) {
		key, value, _ := strings.Cut(strings.TrimRight(line, "\n"), "\t")
		if key != "" {
			ofZone, ofService = nil, nil
		}
		switch key {
		case "selinux":
			s.enforcing = value == "enforcing"
		case "boolean":
			name, current, _ := strings.Cut(value, "\t")
			if boolName.MatchString(name) && (current == "0" || current == "1") {
				s.booleans[name] = current == "1"
			}
		case "portcon":
			if m := portLabel.FindStringSubmatch(value); m != nil {
				if p, ok := parsePorts(strings.TrimSuffix(m[2]+"-"+m[3], "-") + "/" + m[1]); ok {
					s.labelled = append(s.labelled, p)
				}
			}
		case "default":
			if zoneName.MatchString(value) {
				s.firewalld, s.zone = true, value
			}
		case "device":
			if name, _, _ := strings.Cut(value, "@"); deviceName.MatchString(name) {
				s.device = name
			}
		case "zone":
			if zoneName.MatchString(value) {
				ofZone = &zone{}
				s.zones[value] = ofZone
			}
		case "policy":
			ofZone = &zone{}
			s.policies = append(s.policies, ofZone)
		case "service":
			if zoneName.MatchString(strings.ReplaceAll(value, ".", "_")) {
				ofService = &access{}
				s.services[value] = ofService
			}
		case "":
			if ofZone != nil {
				ofZone.read(value)
			} else if ofService != nil {
				ofService.read(value)
			}
		}
	}
	return s
}

// read reads a line of firewall-cmd --info-zone. Rich rules are on lines of their own.
func (z *zone) read(line string) {
	if rule := strings.TrimSpace(line); strings.HasPrefix(rule, "rule ") {
		if slices.Contains(strings.Fields(rule), "accept") {
			z.rules = append(z.rules, rule)
		}
		return
	}
	key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
	words := strings.Fields(value)
	switch key {
	case "target":
		z.target = strings.TrimSpace(value)
	case "interfaces":
		z.interfaces = words
	case "sources":
		for _, word := range words { // not sets of addresses, nor hardware addresses
			if prefix, err := netip.ParsePrefix(word); err == nil {
				z.sources = append(z.sources, prefix.Masked())
			} else if address, err := netip.ParseAddr(word); err == nil {
				z.sources = append(z.sources, netip.PrefixFrom(address, address.BitLen()))
			}
		}
	case "services":
		z.services = words
	case "egress-zones":
		z.egress = words
	default:
		z.access.read(line)
	}
}

// read reads a line of firewall-cmd --info-service or --info-zone.
func (a *access) read(line string) {
	key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
	switch key {
	case "ports":
		for _, word := range strings.Fields(value) {
			if p, ok := parsePorts(word); ok {
				a.ports = append(a.ports, p)
			}
		}
	case "protocols":
		a.protocols = strings.Fields(value)
	}
}

// parsePorts parses "6443/tcp" or "30000-32767/tcp".
func parsePorts(text string) (ports, bool) {
	numbers, protocol, _ := strings.Cut(text, "/")
	from, to, isRange := strings.Cut(numbers, "-")
	if !isRange {
		to = from
	}
	first, err1 := strconv.ParseUint(from, 10, 16)
	last, err2 := strconv.ParseUint(to, 10, 16)
	return ports{protocol, int(first), int(last)}, err1 == nil && err2 == nil && first <= last
}
