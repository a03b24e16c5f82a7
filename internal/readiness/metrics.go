package readiness

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// longestScrape is how long ago a scraper may have read metrics. Prometheus reads them every minute
// by default.
const longestScrape = 10 * time.Minute

// judgeMetrics checks that somebody reads the metrics of every component.
func judgeMetrics(e Evidence) verdict {
	replicas := everyReplica(e, func(r Replica) verdict {
		out := verdict{status: Pass}
		var words []string
		for _, p := range r.processes() {
			if p.name == "kube-apiserver" && p.Scrapes.Unseen == "" && !logsMetrics(r) {
				p.Scrapes.Unseen = "the audit policy leaves it out"
			}
			v := p.judgeScrapes()
			out.status = worse(out.status, v.status)
			words = append(words, p.name+" "+v.evidence)
		}
		out.evidence = strings.Join(words, ", ")
		return out
	})
	members := everyMember(e, func(m Member) verdict {
		if m.FsyncUnread != "" {
			return unknown("not served: %s", m.FsyncUnread)
		}
		return named{"etcd", m.Process}.judgeScrapes()
	})
	return worst(replicas, members)
}

// scrapersGroup is the group that may read metrics (the ClusterRole system:monitoring).
const scrapersGroup = "system:monitoring"

// logsMetrics reports whether a replica's audit log has every read of its API server's metrics, whoever reads them.
func logsMetrics(r Replica) bool {
	p, why := readPolicy(r.APIServer.Flags, r.Files)
	readers := append(p.identities(), identity{user: someone, groups: []string{scrapersGroup}})
	return why.status == Pass && !slices.ContainsFunc(readers, func(by identity) bool {
		return p.level(request{verb: "get", path: "/metrics"}, by, "") == "None"
	})
}

// judgeScrapes judges who reads the metrics of a process. It names those who read them last.
func (p named) judgeScrapes() verdict {
	var fresh, stale []string
	for _, s := range p.Scrapes.Last {
		if s.Ago >= 0 && s.Ago <= longestScrape {
			fresh = append(fresh, s.words())
		} else {
			stale = append(stale, s.words())
		}
	}
	slices.Sort(fresh)
	slices.Sort(stale)
	switch {
	case !p.Running:
		return unknown("is not running")
	case metricsDisabled(p.Flags):
		return fail("has no port")
	case len(fresh) > 0 && p.Scrapes.Connections:
		return pass("serves metrics to connections of %s", listed(fresh))
	case len(fresh) > 0:
		return pass("is scraped by %s", listed(fresh))
	case len(stale) > 0 && p.Scrapes.Connections:
		return warn("serves metrics, last to connections of %s", listed(stale))
	case len(stale) > 0:
		return warn("was last scraped by %s", listed(stale))
	case p.Scrapes.Unseen != "":
		return notShown("serves metrics, and who reads them does not show: %s", p.Scrapes.Unseen)
	}
	return warn("serves metrics, and nobody reads them")
}

// words has the time in minutes, so that machines that are scraped alike have the same words.
func (s Scrape) words() string {
	if s.Ago < time.Minute {
		return s.By + " within the last minute"
	}
	return fmt.Sprintf("%s %d min ago", s.By, s.Ago/time.Minute)
}

// mostListed is how many names a line has.
const mostListed = 5

// listed joins names without duplicates. The names are sorted.
func listed(names []string) string {
	names = slices.Compact(names)
	if len(names) > mostListed {
		names = append(slices.Clone(names[:mostListed]), "others")
	}
	return strings.Join(names, ", ")
}

func metricsDisabled(flags map[string]string) bool {
	port, set := flags["secure-port"]
	return set && isZero(port)
}
