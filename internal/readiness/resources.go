package readiness

import (
	"strconv"
	"strings"
)

// usualWeight is what systemd gives to every unit (CPUWeight=, IOWeight=).
const usualWeight = 100

// hasReservation reports whether the machine keeps something for a process when there is too little
// for all: memory, or a greater share of processors or disks than others get.
func (p Process) hasReservation() bool {
	if p.MemoryMin != "" && !isZero(p.MemoryMin) || p.CPURequest {
		return true
	}
	for _, weight := range []string{p.CPUWeight, p.IOWeight} {
		if n, err := strconv.Atoi(weight); err == nil && n > usualWeight {
			return true
		}
	}
	return false
}

// judgeResources judges the limits and reservations of every process. Those that do not show count neither as set nor
// as missing.
func judgeResources(e Evidence) verdict {
	bare, all := 0, 0
	judge := func(processes []named) verdict {
		for _, p := range processes {
			if all++; p.Unseen == "" && !p.hasLimit() && !p.hasReservation() {
				bare++
			}
		}
		return judgeLimits(processes)
	}
	replicas := everyReplica(e, func(r Replica) verdict { return judge(r.processes()) })
	members := everyMember(e, func(m Member) verdict { return judge([]named{{"etcd", m.Process}}) })
	out := worst(replicas, members)
	if out.status == Warn && bare == all {
		return fail("no component has limits or reservations")
	}
	return out
}

func (p Process) hasLimit() bool { return p.MemoryMax != "" || p.CPUQuota != "" }

// judgeLimits judges the processes of one machine.
func judgeLimits(processes []named) verdict {
	var unlimited, unreserved, without, hidden []string
	for _, p := range processes {
		if p.Unseen != "" {
			hidden = append(hidden, p.name+" ("+p.Unseen+")")
			continue
		}
		if !p.hasLimit() {
			unlimited = append(unlimited, p.name)
		}
		if !p.hasReservation() {
			unreserved = append(unreserved, p.name)
		}
		if len(p.NotInEffect) > 0 {
			without = append(without, p.name+" ("+strings.Join(p.NotInEffect, ", ")+")")
		}
	}
	var words []string
	say := func(what string, names []string) {
		if len(names) > 0 {
			words = append(words, what+": "+strings.Join(names, ", "))
		}
	}
	say("without a limit", unlimited)
	say("without a reservation", unreserved)
	say("reserved, and not in effect until the next start", without)
	say("limits and reservations do not show", hidden)
	switch {
	case len(hidden) > 0:
		return notShown("%s", strings.Join(words, "; "))
	case len(words) > 0:
		return warn("%s", strings.Join(words, "; "))
	}
	return pass("all have limits and reservations")
}
