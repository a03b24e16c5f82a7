package load

// Rerouted excuses requests behind a router that spreads connections. When a route is withdrawn, it sends the
// packets of existing connections to another machine, which resets them.
func Rerouted(most int) Excuse {
	return Excuse{
		Operation: APIRequest, Texts: ended, Most: most,
		Reason: "a router sends the packets of a connection to another machine when the set of routes changes",
	}
}

// Moved excuses requests and openings of watches at an address that moves between machines. New connections
// always find a machine that has it.
func Moved(most int) []Excuse {
	const reason = "the connections to a machine end when another one gets the address"
	return []Excuse{
		{Operation: APIRequest, Texts: ended, Most: most, Reason: reason},
		{
			Operation: WatchOpening, Texts: []string{"connection reset by peer", "EOF", "force closed"}, Most: 8,
			Reason: reason,
		},
	}
}

// ended are the errors of connections that another machine does not know.
var ended = []string{"connection reset by peer", "EOF", "connection refused", "force closed"}
