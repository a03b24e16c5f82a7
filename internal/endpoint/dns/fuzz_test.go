package dns

import (
	"net/netip"
	"slices"
	"testing"

	miekg "github.com/miekg/dns"
)

// FuzzAnswer: of any answer, the addresses are sorted and of machines, and a refusal is never taken as a success.
func FuzzAnswer(f *testing.F) {
	for _, texts := range [][]string{
		{"api.example.com. 7 IN A 10.0.0.12", "api.example.com. 7 IN A 10.0.0.11"},
		{"API.example.com. 7 IN AAAA fd00::11", "api.example.com. 0 IN AAAA ::ffff:10.0.0.11"},
		{"api.example.com. 7 IN CNAME other.example.com."},
		{"example.com. 5 IN SOA ns.example.com. admin.example.com. 1 1 1 1 1"},
	} {
		for _, rcode := range []int{miekg.RcodeSuccess, miekg.RcodeNameError, miekg.RcodeRefused} {
			m := question("api.example.com", miekg.TypeA)
			m.Response, m.Rcode = true, rcode
			for _, text := range texts {
				rr, err := miekg.NewRR(text)
				if err != nil {
					f.Fatal(err)
				}
				m.Answer = append(m.Answer, rr)
			}
			wire, err := m.Pack()
			if err != nil {
				f.Fatal(err)
			}
			f.Add(wire)
		}
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		var m miekg.Msg
		if m.Unpack(wire) != nil {
			return
		}
		if refusal(&m) == nil && m.Rcode != miekg.RcodeSuccess && m.Rcode != miekg.RcodeNameError {
			t.Errorf("the answer %d is taken as a success", m.Rcode)
		}
		set, _ := addressesIn(m.Answer, "api.example.com")
		if !slices.IsSortedFunc(set.Addresses, netip.Addr.Compare) || set.TTL < 0 || len(set.Addresses) > len(m.Answer) {
			t.Errorf("%+v", set)
		}
		for _, a := range set.Addresses {
			if !a.IsValid() || a.Is4In6() || !set.has(a.String()) {
				t.Errorf("the address %v", a)
			}
			if u, err := leave(set, a, map[netip.Addr]bool{a: true}); err == nil || !u.empty() {
				t.Errorf("the last own address %v is removed: %v", a, u)
			}
		}
	})
}
