package membership

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/release"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// Sizes describes how full the member's database is.
func (m Member) Sizes() string {
	text := "the database size is " + Bytes(m.DBSize)
	if m.DBQuota > 0 {
		text += " of a quota of " + Bytes(m.DBQuota)
	}
	if m.DBInUse > 0 {
		text += fmt.Sprintf(" (%s in use)", Bytes(m.DBInUse))
	}
	return text
}

// Bytes formats a size in the largest binary unit that fits.
func Bytes(n int64) string {
	for _, unit := range []struct {
		name string
		size int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= unit.size {
			text := strconv.FormatFloat(float64(n)/float64(unit.size), 'f', 1, 64)
			return strings.TrimSuffix(text, ".0") + " " + unit.name
		}
	}
	return fmt.Sprintf("%d bytes", n)
}

// Label returns the name of a member for messages.
func Label(name, address string) string {
	if name == "" {
		return address
	}
	return fmt.Sprintf("%s (%s)", name, address)
}

const (
	longestName    = 253
	longestVersion = 64
)

var (
	listedForm  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	urlHostForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.-]*$`)
)

// HostInURL returns the host of a member's URL, or "" if the URL is invalid. An IP address is in
// canonical form.
func HostInURL(text string) string {
	u, err := url.Parse(text)
	if err != nil || len(text) > 512 || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || u.Path != "" ||
		u.RawQuery != "" || u.Fragment != "" {
		return ""
	}
	if port, err := strconv.ParseUint(u.Port(), 10, 16); err != nil || port == 0 {
		return ""
	}
	address := u.Hostname()
	if ip, err := netip.ParseAddr(address); err == nil {
		return ip.Unmap().String()
	}
	if len(address) > longestName || !urlHostForm.MatchString(address) {
		return ""
	}
	return address
}

// URLsReported returns the valid ones of the URLs that the member list contains of a
// member. IP addresses in them are in canonical form, in which addresses are compared: etcd keeps
// the text that it was configured with.
func URLsReported(urls []string) []string {
	var out []string
	for _, text := range urls {
		address := HostInURL(text)
		u, err := url.Parse(text)
		if address == "" || err != nil {
			continue
		}
		if _, err := netip.ParseAddr(address); err == nil {
			u.Host = net.JoinHostPort(address, u.Port())
			text = u.String()
		}
		out = append(out, text)
	}
	return out
}

// NameReported returns a member's name as the member list contains it. A name in a form
// that the provider does not use is quoted: another party added that member.
func NameReported(name string) string {
	if len(name) <= longestName && listedForm.MatchString(name) || name == "" {
		return name
	}
	return problem.Quote(name)
}

// VersionReported returns the version that a member reports, quoted if it has an
// unexpected form.
func VersionReported(version string) string {
	if len(version) > longestVersion || version != "" && !listedForm.MatchString(version) {
		return problem.Quote(version)
	}
	return version
}

// MinorReported returns the minor version of a release that a member reports ("3.6.0"): "3.6",
// or "" if it reports none.
func MinorReported(version string) string {
	minor, _, err := release.Parse(version)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("3.%d", minor)
}

// Member is one entry of the cluster's own member list, with what the member itself
// reported.
type Member struct {
	ID         uint64
	Name       string // "" for a member that was added and has not started yet
	PeerURLs   []string
	ClientURLs []string // published by the member itself: empty means that it has never served
	Learner    bool
	Healthy    bool   // a voter: a linearizable read through it succeeds; a learner: it answers and knows the leader
	Trouble    string // why it is unhealthy
	Dead       bool   // unhealthy, and silent for long enough (see cluster.examine): never after a single observation
	Version    string // of the running server; "" if it does not answer
	Index      uint64 // raft index
	Applied    uint64 // raft applied index
	DBSize     int64  // bytes
	DBInUse    int64  // bytes: the size after a defragmentation
	DBQuota    int64  // bytes; negative: none; 0: unknown (etcd 3.5 does not report it)
	Storage    string // minor version of its data: "3.6"; "" if it does not answer, or before 3.6
	Alarms     []string
}

// Started reports whether the member has ever served: only then can it have acknowledged
// anything that depends on its data directory.
func (m Member) Started() bool { return len(m.ClientURLs) > 0 }

// PeerAddress returns the address at which the other members reach it, or "".
func (m Member) PeerAddress() string {
	for _, text := range m.PeerURLs {
		if u, err := url.Parse(text); err == nil && u.Hostname() != "" {
			return u.Hostname()
		}
	}
	return ""
}

// Label returns the name of the member for messages.
func (m Member) Label() string {
	if m.Name != "" {
		return m.Name
	}
	return fmt.Sprintf("%x (%s)", m.ID, strings.Join(m.PeerURLs, ","))
}

// Addresses returns the addresses at which a member may answer: those of its client URLs
// and of its peer URLs.
func (m Member) Addresses() []string {
	seen := map[string]bool{}
	var all []string
	for _, text := range slices.Concat(m.ClientURLs, m.PeerURLs) {
		u, err := url.Parse(text)
		if err != nil || u.Hostname() == "" || seen[u.Hostname()] {
			continue
		}
		seen[u.Hostname()] = true
		all = append(all, u.Hostname())
	}
	return all
}

// Address returns the address of the member's client URL, or "" if it has not published
// one.
func (m Member) Address() string {
	for _, text := range m.ClientURLs {
		if address := HostInURL(text); address != "" {
			return address
		}
	}
	return ""
}

// ClientURL returns the URL at which API servers reach the member at an address.
func ClientURL(address string) string { return "https://" + net.JoinHostPort(address, "2379") }

// PeerURL returns the URL at which the other members reach the member at an address.
func PeerURL(address string) string { return "https://" + net.JoinHostPort(address, "2380") }
