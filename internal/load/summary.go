package load

import "time"

// Summary contains the figures of a report that are kept in a file.
type Summary struct {
	Late          time.Duration   `json:"late"`    // the maximum delay of sending on the computer of the clients
	Clients       []ClientSummary `json:"clients"` // of the API
	EtcdWrites    *Requests       `json:"etcd_writes,omitempty"`
	WatchOpenings Requests        `json:"watch_openings"`
	WatchErrors   int             `json:"watch_errors"` // in the streams of watches
	WatchGap      Gap             `json:"watch_gap"`    // the longest of all watches
	Events        int             `json:"events"`
	WrongEvents   int             `json:"wrong_events"` // missed, repeated or out of order
	Acknowledged  int             `json:"acknowledged"` // writes
	Lost          int             `json:"lost"`         // of the acknowledged writes
	MembersAgree  bool            `json:"members_agree"`
	// Pressure is that of the processors that clients and machines share; nil where it was not measured.
	Pressure *Pressure `json:"pressure,omitempty"`
}

// ClientSummary contains the figures of one client of the API.
type ClientSummary struct {
	Name   string   `json:"name"`
	All    Requests `json:"all"`
	Reads  Requests `json:"reads"`
	Writes Requests `json:"writes"`
}

// Summary returns the figures that are kept in a file.
func (r Report) Summary() Summary {
	s := Summary{
		Late: r.Late, WatchOpenings: r.Openings(), Acknowledged: r.Acknowledged(),
		Lost: len(r.Lost()), MembersAgree: r.HashesAgree(), Pressure: r.Pressure,
	}
	for _, c := range r.Clients {
		s.Clients = append(s.Clients, ClientSummary{Name: c.Name, All: c.All, Reads: c.Reads, Writes: c.Writes})
	}
	if r.Etcd != nil {
		s.EtcdWrites = &r.Etcd.Writes
	}
	for _, w := range r.Watches {
		s.WatchErrors += w.Failed
		s.Events += w.Events
		s.WrongEvents += len(w.Missed) + w.Repeated + w.Disordered
		if w.Gap.Length > s.WatchGap.Length {
			s.WatchGap = w.Gap
		}
	}
	return s
}

// Requests returns the sum of the requests of the clients of the API.
func (s Summary) Requests() Requests {
	var sum Requests
	for _, c := range s.Clients {
		sum = sum.Plus(c.All)
	}
	return sum
}
