package haproxy

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// server is one replica as HAProxy names it.
type server struct {
	Name    string // valid by validateName
	Address netip.AddrPort
}

// parseServer checks a replica's name and IP:port.
func parseServer(name, address string) (server, error) {
	if err := validateName("replica name", name); err != nil {
		return server{}, err
	}
	at, err := netip.ParseAddrPort(address)
	if err != nil || at.Port() == 0 || at.Addr().Zone() != "" {
		return server{}, fmt.Errorf("replica %s: %q is not IP:port", name, address)
	}
	return server{Name: name, Address: at}, nil
}

func (s server) String() string { return s.Name + " (" + s.Address.String() + ")" }

// userTimeout ends a connection to a server that does not acknowledge what was sent. HAProxy ignores it in a
// default-server line: it keeps it only for a server whose address it knows (srv_parse_tcp_ut).
const userTimeout = " tcp-ut 5s"

// bare returns the server's line in HAProxy's configuration, without the registration's mark.
func (s server) bare() string { return "    server " + s.Name + " " + s.Address.String() + userTimeout }

// line returns the line that a registration at the endpoint with this virtual IP writes. Its
// mark is derived from the virtual IP, the name and the address, so a line that was written or
// changed by hand has no valid mark.
func (s server) line(vip string) string {
	sum := sha256.Sum256([]byte(vip + "\n" + s.Name + "\n" + s.Address.String() + "\n"))
	return s.bare() + " # registered " + hex.EncodeToString(sum[:6])
}

// backendsHeader is the content of 20-backends.cfg without servers. It is a valid file.
const backendsHeader = "# Managed by terraform-provider-kube: the replicas in rotation, one line each.\nbackend " +
	proxyName + "\n"

// renderBackends renders 20-backends.cfg: the servers that are registered at the endpoint with
// this virtual IP, and others without a mark, sorted by line.
func renderBackends(vip string, registered, others []server) string {
	var lines []string
	for _, s := range registered {
		lines = append(lines, s.line(vip)+"\n")
	}
	for _, s := range others {
		lines = append(lines, s.bare()+"\n")
	}
	slices.Sort(lines)
	return backendsHeader + strings.Join(lines, "")
}

// backends is the content of a balancer's 20-backends.cfg.
type backends struct {
	servers  []server // without duplicates of name and address
	unmarked []server // those of servers without a registration's mark
	foreign  []string // lines that are not a server, or have more fields than a registration writes
	repeated []server // those of servers that occur more than once
}

// parseBackends parses 20-backends.cfg. Lines that cannot be parsed are only reported as
// foreign.
func parseBackends(vip, text string) backends {
	var b backends
	own := map[string]bool{}
	for line := range strings.Lines(backendsHeader) {
		own[strings.TrimSpace(line)] = true
	}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !own[line] {
			b.add(vip, line)
		}
	}
	return b
}

func (b *backends) add(vip, line string) {
	fields := strings.Fields(line)
	if len(fields) < 3 || fields[0] != "server" {
		b.foreign = append(b.foreign, line)
		return
	}
	parsed, err := parseServer(fields[1], fields[2])
	if err != nil {
		b.foreign = append(b.foreign, line)
		return
	}
	if slices.Contains(b.servers, parsed) {
		b.repeated = append(b.repeated, parsed)
		return
	}
	b.servers = append(b.servers, parsed)
	switch marked := line == strings.TrimSpace(parsed.line(vip)); {
	case !marked && len(fields) > 3 && line != strings.TrimSpace(parsed.bare()):
		b.foreign = append(b.foreign, line) // HAProxy accepts it as a server nevertheless
		b.unmarked = append(b.unmarked, parsed)
	case !marked:
		b.unmarked = append(b.unmarked, parsed)
	}
}

// has reports whether the server is listed with a registration's mark.
func (b backends) has(s server) bool {
	return slices.Contains(b.servers, s) && !slices.Contains(b.unmarked, s)
}

func byName(a, b server) int {
	return cmp.Or(strings.Compare(a.Name, b.Name), a.Address.Compare(b.Address))
}
