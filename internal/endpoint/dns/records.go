package dns

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	miekg "github.com/miekg/dns"
)

// recordSet is the address records of a name.
type recordSet struct {
	Addresses []netip.Addr // sorted
	TTL       time.Duration
}

func (s recordSet) has(address string) bool {
	ip, err := netip.ParseAddr(address)
	return err == nil && slices.Contains(s.Addresses, ip)
}

// update is a change of a recordSet. An update without addresses changes nothing.
type update struct{ add, remove []netip.Addr }

// String describes the update.
func (u update) String() string {
	if len(u.remove) > 0 && len(u.add) > 0 {
		return "DNS update, add " + addressList(u.add) + ", delete " + addressList(u.remove)
	}
	if len(u.remove) > 0 {
		return "DNS update, delete " + addressList(u.remove)
	}
	return "DNS update, add " + addressList(u.add)
}

func (u update) empty() bool { return len(u.add) == 0 && len(u.remove) == 0 }

// join returns the update that adds an address.
func join(now recordSet, address netip.Addr) update {
	if slices.Contains(now.Addresses, address) {
		return update{}
	}
	return update{add: []netip.Addr{address}}
}

// leave returns the update that removes an address. It does not remove the last one of own (errLastRecord), the
// targets' addresses: those of others lead nowhere.
func leave(now recordSet, address netip.Addr, own map[netip.Addr]bool) (update, error) {
	another := func(a netip.Addr) bool { return a != address && own[a] }
	switch {
	case !slices.Contains(now.Addresses, address):
		return update{}, nil
	case !slices.ContainsFunc(now.Addresses, another):
		return update{}, fmt.Errorf("%w: %s", errLastRecord, address)
	}
	return update{remove: []netip.Addr{address}}, nil
}

// message returns the request for an update. Its prerequisite is that the records are still those
// that the update was decided on (RFC 2136, sections 2.4.2 and 2.4.3).
func (z zone) message(now recordSet, u update) *miekg.Msg {
	m := new(miekg.Msg)
	m.SetUpdate(miekg.Fqdn(z.Name))
	if len(now.Addresses) == 0 {
		m.RRsetNotUsed([]miekg.RR{z.record(netip.Addr{})})
	} else {
		m.Used(z.rrs(now.Addresses))
	}
	m.Remove(z.rrs(u.remove))
	m.Insert(z.rrs(u.add))
	return m
}

func (z zone) rrs(addresses []netip.Addr) []miekg.RR {
	var rrs []miekg.RR
	for _, address := range addresses {
		rrs = append(rrs, z.record(address))
	}
	return rrs
}

func (z zone) record(address netip.Addr) miekg.RR {
	header := miekg.RR_Header{
		Name: miekg.Fqdn(z.host), Rrtype: z.family, Class: miekg.ClassINET, Ttl: uint32(z.TTL / time.Second),
	}
	if z.family == miekg.TypeAAAA {
		return &miekg.AAAA{Hdr: header, AAAA: net.IP(address.AsSlice())}
	}
	return &miekg.A{Hdr: header, A: net.IP(address.AsSlice())}
}

// addressesIn returns the address records of a name in an answer, and the name that it is an alias
// for, if any.
func addressesIn(rrs []miekg.RR, name string) (set recordSet, alias string) {
	for _, rr := range rrs {
		if !strings.EqualFold(rr.Header().Name, miekg.Fqdn(name)) {
			continue
		}
		var raw net.IP
		switch rr := rr.(type) {
		case *miekg.A:
			raw = rr.A
		case *miekg.AAAA:
			raw = rr.AAAA
		case *miekg.CNAME:
			alias = rr.Target
		}
		if ip, ok := netip.AddrFromSlice(raw); ok {
			set.Addresses = append(set.Addresses, ip.Unmap())
			set.TTL = time.Duration(rr.Header().Ttl) * time.Second
		}
	}
	slices.SortFunc(set.Addresses, netip.Addr.Compare)
	return set, alias
}

// reached reports whether a zone's serial number is at least the wanted one (RFC 1982: they wrap
// around).
func reached(serial, wanted uint32) bool { return int32(serial-wanted) >= 0 } //nolint:gosec // wraps on purpose

func addressList(addresses []netip.Addr) string {
	var texts []string
	for _, address := range addresses {
		texts = append(texts, address.String())
	}
	return strings.Join(texts, ", ")
}
