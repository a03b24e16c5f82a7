package provider

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/health"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
	"github.com/kubequorum/terraform-provider-kube/internal/readiness"
)

// memberEvidence returns the members that the cluster lists. If no member list is available, it
// returns the members observed on the machines.
func (r reviewData) memberEvidence() []readiness.Member {
	var out []readiness.Member
	listed := r.Etcd.Members
	if r.Etcd.Silence != nil {
		for _, machine := range r.Etcd.Machines {
			listed = append(listed, membership.MemberStatus{
				Member:  membership.Member{Name: machine.Member},
				Address: machine.Address,
			})
		}
	}
	for _, m := range listed {
		member := readiness.Member{
			Name: nameOr(m.Name, m.Address), Address: m.Address, DBSize: m.DBSize,
			Quota: r.Etcd.QuotaOf(m),
		}
		member.Unread = r.unreadMember(m.Address)
		for _, machine := range r.Etcd.Machines {
			if machine.Address == m.Address && machine.Member == m.Name {
				member.Volume = machine.Volume
			}
		}
		for _, review := range r.members {
			if review.Address == m.Address {
				addReview(&member, review)
			}
		}
		out = append(out, member)
	}
	return out
}

// addReview adds what was read on the member's machine.
func addReview(m *readiness.Member, review etcd.ObservedMember) {
	m.Process, m.OwnDisk, m.Disk, m.Memory = processOf(review.Process), review.OwnDisk, review.Disk, review.Memory
	m.Devices, m.Sharing = review.Devices, review.Sharing
	m.Process.Scrapes = connected(review.Scrapers, review.ScrapersErr)
	m.Profiling = answerOf(review.Profiles.Status, review.Profiles.Err)
	m.Compaction = readiness.Compaction{
		Unread: unreadBecause(review.Compaction.Err), Revision: review.Compaction.Revision, Last: review.Compaction.Last,
		Uptime: review.Compaction.Uptime,
	}
	m.TLS = readiness.TLS{
		Unread:  unreadBecause(review.TLS.Err),
		Clients: readiness.Side(review.TLS.Clients), Peers: readiness.Side(review.TLS.Peers),
	}
	m.Fsync, m.Fsyncs = review.Fsync, review.Fsyncs
	m.FsyncUnread = unreadBecause(review.FsyncErr)
	for _, timer := range review.Timers {
		m.Schedules = append(m.Schedules, readiness.Schedule(timer))
	}
	m.Scheduled = (*readiness.Scheduled)(review.Scheduled)
}

// unreadMember returns why the machine of a member could not be observed, or "" if it was.
func (r reviewData) unreadMember(address string) string {
	for _, machine := range r.Etcd.Machines {
		switch {
		case machine.Address != address:
		case machine.Err != nil:
			return "its machine could not be observed: " + health.UnreachedBecause(machine.Err, address)
		default:
			return ""
		}
	}
	return "its machine is not in the argument etcd"
}

func (r reviewData) replicaEvidence(now time.Time) []readiness.Replica {
	var out []readiness.Replica
	for _, name := range slices.Sorted(maps.Keys(r.Replicas)) {
		seen := r.Replicas[name]
		replica := readiness.Replica{Name: name, Address: seen.Address}
		switch {
		case seen.Err != nil:
			replica.Unread = "its machine could not be observed: " + health.UnreachedBecause(seen.Err, seen.Address)
		case seen.Name != name:
			replica.Unread = "its machine has no such replica"
		}
		for _, review := range r.replicas {
			if review.Address == seen.Address && replica.Unread == "" {
				addReplicaReview(&replica, review, now)
			}
		}
		out = append(out, replica)
	}
	return out
}

// certificateEvidence returns when certificates end, and those that cannot be read.
func (r reviewData) certificateEvidence() (out []readiness.Certificate, unread []string) {
	add := func(of string, end time.Time, paths ...string) {
		if !end.IsZero() {
			out = append(out, readiness.Certificate{Of: of, End: end})
		}
		if len(paths) > 0 {
			unread = append(unread, of+": "+strings.Join(paths, ", "))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Authorities)) {
		add("CA "+name, r.Authorities[name])
	}
	for _, m := range r.Etcd.Machines {
		add(health.Labelled("etcd member", m.Member, m.Address), m.CertificateExpiry, m.CertificatesUnread...)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Replicas)) {
		seen := r.Replicas[name]
		add(health.Labelled("replica", name, seen.Address), seen.CertificateExpiry, seen.CertificatesUnread...)
	}
	return out, unread
}

// addReplicaReview adds what was read on a replica's machine.
func addReplicaReview(r *readiness.Replica, review controlplane.MachineReview, now time.Time) {
	r.APIServer = processOf(review.Processes[release.APIServer])
	r.ControllerManager = processOf(review.Processes[release.ControllerManager])
	r.Scheduler = processOf(review.Processes[release.Scheduler])
	r.Files, r.Kubelet = review.Files, review.Kubelet
	r.Profiling = map[string]readiness.Answer{}
	for name, answer := range review.Profiles {
		r.Profiling[name] = answerOf(answer.Status, answer.Err)
	}
	r.ControllerManager.Scrapes = connected(review.Scrapers[release.ControllerManager], review.ScrapersErr)
	r.Scheduler.Scrapes = connected(review.Scrapers[release.Scheduler], review.ScrapersErr)
	r.APIServer.Scrapes.Unseen = unreadBecause(review.ScrapedErr)
	if s := review.Scraped; s != nil {
		by := s.User
		if s.Address != "" {
			by += " (" + s.Address + ")"
		}
		r.APIServer.Scrapes.Last = []readiness.Scrape{{By: by, Ago: max(0, now.Sub(s.At))}}
	}
}

// connected describes who is connected to a port that serves metrics.
func connected(clients []host.Client, err error) readiness.Scrapes {
	out := readiness.Scrapes{Unseen: unreadBecause(err), Connections: true}
	for _, c := range clients {
		by := c.Address
		if c.Process != "" {
			by = c.Process + " on the machine"
		}
		out.Last = append(out.Last, readiness.Scrape{By: by, Ago: c.Ago})
	}
	return out
}

func answerOf(status int, err error) readiness.Answer {
	return readiness.Answer{Status: status, Unread: unreadBecause(err)}
}

// unreadBecause returns why something is not known; "" without an error.
func unreadBecause(err error) string {
	if err == nil {
		return ""
	}
	return problem.Indented(err.Error())
}

// processOf leaves out who scrapes the process, which is observed elsewhere.
func processOf(p host.Process) readiness.Process {
	return readiness.Process{
		Running: p.Running, Flags: p.Flags, MemoryMax: p.MemoryMax, CPUQuota: p.CPUQuota, MemoryMin: p.MemoryMin,
		CPUWeight: p.CPUWeight, IOWeight: p.IOWeight, CPURequest: p.CPURequest, NotInEffect: p.NotInEffect,
		Unseen: p.Unseen,
	}
}

func nameOr(name, otherwise string) string {
	if strings.TrimSpace(name) == "" {
		return otherwise
	}
	return name
}
