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
	if p.MemoryMin != "" && !isZero(p.MemoryMin) {
		return true
	}
	for _, weight := range []string{p.CPUWeight, p.IOWeight} {
		if n, err := strconv.Atoi(weight); err == nil && n > usualWeight {
			return true
		}
	}
	return false
}

func judgeResources(e Evidence) verdict {
	bare, all := 0, 0
	judge := func(processes []named) verdict {
		var unlimited, unreserved []string
		for _, p := range processes {
			limited := p.MemoryMax != "" || p.CPUQuota != ""
			if !limited {
				unlimited = append(unlimited, p.name)
			}
			if !p.hasReservation() {
				unreserved = append(unreserved, p.name)
			}
			if all++; !limited && !p.hasReservation() {
				bare++
			}
		}
		var words []string
		if len(unlimited) > 0 {
			words = append(words, "without a limit: "+strings.Join(unlimited, ", "))
		}
		if len(unreserved) > 0 {
			words = append(words, "without a reservation: "+strings.Join(unreserved, ", "))
		}
		if len(words) == 0 {
			return pass("all have limits and reservations")
		}
		return warn("%s", strings.Join(words, "; "))
	}
	replicas := everyReplica(e, func(r Replica) verdict { return judge(r.processes()) })
	members := everyMember(e, func(m Member) verdict { return judge([]named{{"etcd", m.Process}}) })
	out := worst(replicas, members)
	if out.status == Warn && bare == all {
		return fail("no component has limits or reservations")
	}
	return out
}
