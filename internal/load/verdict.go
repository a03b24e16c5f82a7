package load

import (
	"fmt"
	"time"
)

// Verdict returns the criteria that a report violates, each in words. It is empty if the report
// meets all of them. c are the criteria that the load was started with.
func Verdict(r Report, c Criteria) []string {
	var v verdict
	for _, client := range r.Clients {
		v.client(client, c)
	}
	if r.Etcd != nil && r.Etcd.Writes.Unexcused() > 0 {
		v.violate("%s: %s: %s", r.Etcd.Name, r.Etcd.Writes, join(r.Etcd.Errors))
	}
	for _, w := range r.Watches {
		v.watch(w, c)
	}
	v.writes(r)
	return v.violations
}

type verdict struct{ violations []string }

func (v *verdict) violate(format string, args ...any) {
	v.violations = append(v.violations, fmt.Sprintf(format, args...))
}

// gap checks a limit; 0 means no limit.
func (v *verdict) gap(who, of string, g Gap, limit time.Duration) {
	if limit > 0 && g.Length > limit {
		v.violate("%s: no %s for %s", who, of, g)
	}
}

func (v *verdict) client(client Client, c Criteria) {
	if client.All.Unexcused() > c.MostFailed {
		v.violate("%s: %s: %s", client.Name, client.All, join(client.Errors))
	}
	v.gap(client.Name, "success", client.All.Gap, c.Longest.Any)
	v.gap(client.Name, "successful read", client.Reads.Gap, c.Longest.Reads)
	v.gap(client.Name, "successful write", client.Writes.Gap, c.Longest.Writes)
}

func (v *verdict) watch(w Watch, c Criteria) {
	who := "watch " + w.Name
	v.gap(who, "event", w.Gap, c.Longest.Events)
	if w.Openings.Unexcused() > 0 {
		v.violate("%s: openings: %s: %s", who, w.Openings, join(w.Errors))
	}
	if w.Failed > 0 {
		v.violate("%s: %d errors in its streams: %s", who, w.Failed, join(w.Errors))
	}
	if len(w.Missed)+w.Repeated+w.Disordered > 0 {
		v.violate("%s: of %d events %d missed, %d repeated, %d out of order", who, w.Events, len(w.Missed), w.Repeated,
			w.Disordered)
	}
}

func (v *verdict) writes(r Report) {
	for _, c := range r.writers() {
		if len(c.Lost) > 0 {
			v.violate("%s: %d of %d acknowledged writes lost: %v", c.Name, len(c.Lost), c.Acknowledged, c.Lost)
		}
	}
	switch {
	case r.Hashes != nil && !r.Hashes.Agree():
		v.violate("%s", r.Hashes)
	case r.Hashes == nil && r.Etcd != nil:
		v.violate("%s: neither its writes nor the hashes of the members were read", r.Etcd.Name)
	}
}
