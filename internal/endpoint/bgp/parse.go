package bgp

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// report is what a machine says about its announcement (state.sh). Each value has one of the forms
// below; everything else is dropped.
type report struct {
	Own        bool               // the machine has the address at which the provider reaches it
	Registered bool               // the replica is in rotation
	Address    bool               // the machine has the address
	Protocol   string             // state of the protocol that has the route; "" if bird does not answer
	Sessions   map[string]session // by the name of the protocol
	Foreign    []netip.Prefix     // announced to a peer, and not the endpoint's
}

// session is the state of one session as bird reports it.
type session struct {
	State    string // "Established", "Active", …
	Reason   string // why it is not established; may be ""
	Exported bool   // the endpoint's address is announced there
}

var (
	protocolStates = []string{"up", "start", "stop", "down", "flush"}
	sessionStates  = []string{
		"Idle", "Connect", "Active", "OpenSent", "OpenConfirm", "Established", "Close", "Down", "Passive",
	}
	peerForm   = regexp.MustCompile(`^peer_[0-9a-f_]{2,45}$`)
	reasonForm = regexp.MustCompile(`^[A-Za-z0-9 :/.,()-]{1,120}$`)
)

// established reports whether routes can be announced in the session.
func (s session) established() bool { return s.State == "Established" }

// parseReport parses the output of state.sh. wanted is the endpoint's prefix.
func parseReport(text string, wanted netip.Prefix) report {
	r := report{Sessions: map[string]session{}}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		switch rest := words[1:]; words[0] {
		case "own":
			r.Own = r.Own || len(rest) == 0
		case "registered":
			r.Registered = r.Registered || len(rest) == 0
		case "address":
			r.Address = r.Address || len(rest) == 0
		case "protocol":
			r.addProtocol(rest)
		case "exported":
			r.addExported(rest, wanted)
		}
	}
	return r
}

// addProtocol parses a line of "show protocols": name, type, table, state, time, and for a session
// its own state and more.
func (r *report) addProtocol(words []string) {
	if len(words) < 5 || !slices.Contains(protocolStates, words[3]) {
		return
	}
	name, kind := words[0], words[1]
	switch {
	case name == protocolName && kind == "Direct":
		r.Protocol = words[3]
	case peerForm.MatchString(name) && kind == "BGP":
		s := r.Sessions[name]
		s.State = "Down"
		if len(words) > 5 && slices.Contains(sessionStates, words[5]) {
			s.State = words[5]
			if reason := strings.Join(words[6:], " "); reasonForm.MatchString(reason) {
				s.Reason = reason
			}
		}
		r.Sessions[name] = s
	}
}

// addExported parses a line of "show route exported": the name of the peer's protocol, the prefix, and
// more. Lines that do not begin with a prefix describe the route above.
func (r *report) addExported(words []string, wanted netip.Prefix) {
	if len(words) < 2 || !peerForm.MatchString(words[0]) {
		return
	}
	prefix, err := netip.ParsePrefix(words[1])
	switch {
	case err != nil:
	case prefix == wanted:
		s := r.Sessions[words[0]]
		s.Exported = true
		r.Sessions[words[0]] = s
	case !slices.Contains(r.Foreign, prefix):
		r.Foreign = append(r.Foreign, prefix)
	}
}
