package readiness

import (
	"net/http"
	"strings"
)

// judgeProfiling judges what the processes answer: a configuration file may say something else than
// a flag.
func judgeProfiling(e Evidence) verdict {
	replicas := everyReplica(e, func(r Replica) verdict {
		out := verdict{status: Pass}
		words := map[Status][]string{}
		for _, p := range r.processes() {
			v := unknown("%s is not running", p.name)
			if p.Running {
				v = r.Profiling[p.name].judgeProfiles(p.name)
			}
			out.status = worse(out.status, v.status)
			words[v.status] = append(words[v.status], v.evidence)
		}
		out.evidence = strings.Join(words[out.status], ", ")
		if out.status == Pass {
			out.evidence = "disabled"
		}
		return out
	})
	members := everyMember(e, func(m Member) verdict {
		if !m.Process.Running {
			return unknown("etcd is not running")
		}
		if v := m.Profiling.judgeProfiles("etcd"); v.status != Pass {
			return v
		}
		return pass("disabled")
	})
	return worst(replicas, members)
}

// judgeProfiles judges the answer to a request of an administrator for the page of profiles.
func (a Answer) judgeProfiles(name string) verdict {
	switch {
	case a.Unread != "":
		return unknown("%s did not answer: %s", name, a.Unread)
	case a.Status == http.StatusNotFound:
		return pass("%s has no profiles", name)
	case a.Status == http.StatusOK:
		return fail("%s serves profiles", name)
	case a.Status == 0:
		return unknown("%s was not asked", name)
	}
	return notShown("%s answers with HTTP status %d", name, a.Status)
}
