package haproxy

import (
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/textfile"
	"github.com/kubequorum/terraform-provider-kube/internal/timer"
)

// noFacts is the writer of facts of a machine that has none. clean.sh removes what it has.
var noFacts = textfile.Writer{
	Resource: "kube_control_plane_endpoint", Name: "kube-endpoint-facts", Script: programDir + "/facts.sh",
	Period: 10 * time.Second,
}

// facts returns the writer of the endpoint's facts. Which host has an address is one while one of them is to have it.
func (s Spec) facts() textfile.Writer {
	w := noFacts
	if w.Directory = s.TextfileDirectory; w.Directory == "" {
		return w
	}
	if s.CACertificate != "" {
		w.Certificates = []textfile.Certificate{{File: caPath}}
	}
	if s.serves() {
		w.Addresses = s.vips()
	}
	return w
}

// addTimers adds what brings the timers on a host to s. What it removes, and the commands, come after
// everything else.
func (s Spec) addTimers(c *host.Change, b balancer) {
	jobs := s.jobs(b.device)
	files, remove, commands := timer.Repair(jobs, b.facts)
	links, dirs := timer.Links(jobs)
	c.Files, c.Dirs, c.Links = append(c.Files, files...), append(c.Dirs, dirs...), append(c.Links, links...)
	stale, forget := s.facts().Forget(b.facts.Files)
	c.Remove = append(append(c.Remove, remove...), stale...)
	c.Script += "\n" + commands + forget
}
