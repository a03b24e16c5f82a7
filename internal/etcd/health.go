package etcd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/release"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/timer"
)

// Health is everything known about a cluster at one moment. A part that does not answer
// has an error in its place and does not affect the rest.
type Health struct {
	membership.Survey
	Silence  error     // why no member gave an answer backed by a quorum; nil: one did
	Orphans  []string  // alarms of members that are not in the list, as text
	Machines []Machine // the requested ones, sorted by address
}

// Machine is the observed state of one machine that is to have a member.
type Machine struct {
	Address           string
	Err               error  // why it could not be observed; nothing below is known then
	Member            string // the member of this cluster on the machine; "" if there is none
	Foreign           string // what it has instead of a member of this cluster; "" if nothing
	Unit              string // systemd's ActiveState; "" if there is no unit
	Quota             int64  // bytes, by its flags; negative: none
	CertificateExpiry time.Time
	// CertificatesUnread are the paths of the member's certificates that are missing, or are no certificates.
	CertificatesUnread []string
	// SnapshotFailed is systemd's result of the last run of the service for scheduled
	// snapshots ("exit-code", "timeout"); "" if the run succeeded.
	SnapshotFailed string
	Volume         string          // where the volume that moves with the member is mounted, by its record; "": none
	Drill          *snapshot.Drill // the last restore drill of this cluster on the machine; nil: none is recorded

	output string // of the query's script
}

// Health queries the cluster and its machines in parallel. It never fails: it returns what
// is known within ctx's deadline.
func (c *Clusters) Health(ctx context.Context, hosts map[string]*host.Host, b *pki.Bundle) Health {
	return c.named(b.ClusterID).health(ctx, hosts, b, healthQuery())
}

func (cl *cluster) health(ctx context.Context, hosts map[string]*host.Host, b *pki.Bundle, q host.Query) Health {
	var out Health
	var asking sync.WaitGroup
	asking.Go(func() { out.Survey, out.Orphans, out.Silence = cl.survivors(ctx, hosts, b) })
	out.Machines = cl.observeMachines(ctx, hosts, b.ClusterID, q)
	asking.Wait()
	return out
}

// survivors queries the members that answer. Each request is limited to a sixth of ctx's
// time, because up to five follow each other: the member list, the list of members found
// on it, their status, the list of those that were late, and the cluster version.
func (cl *cluster) survivors(
	ctx context.Context, hosts map[string]*host.Host, b *pki.Bundle,
) (membership.Survey, []string, error) {
	clients, err := cl.connectThrough(b, slices.Collect(maps.Values(hosts)))
	if err != nil {
		return membership.Survey{}, nil, err
	}
	defer clients.Close()
	if end, bounded := ctx.Deadline(); bounded {
		clients.Limit = min(client.RequestTimeout, time.Until(end)/6)
	}
	v, err := clients.View(ctx, hostAddresses(hosts))
	if err != nil {
		return membership.Survey{}, nil, err
	}
	var orphans []string
	for _, a := range v.Orphans {
		orphans = append(orphans, a.String())
	}
	return clients.Survey(ctx, v), orphans, nil
}

// observeMachines observes all machines in parallel.
func (cl *cluster) observeMachines(
	ctx context.Context, hosts map[string]*host.Host, clusterID string, q host.Query,
) []Machine {
	addresses := hostAddresses(hosts)
	slices.Sort(addresses)
	machines := make([]Machine, len(addresses))
	byAddress := map[string]*host.Host{}
	for _, h := range hosts {
		byAddress[h.Address()] = h
	}
	var looking sync.WaitGroup
	for i, address := range addresses {
		looking.Go(func() {
			facts, err := cl.machine(byAddress[address]).Observe(ctx, q)
			machines[i] = machineOf(address, clusterID, facts, err)
		})
	}
	looking.Wait()
	return machines
}

// healthQuery returns the query for everything that can be read without knowing the
// member's spec.
func healthQuery() host.Query {
	q := host.Query{
		Contents: append([]string{layout.RecordPath, layout.UnitPath, snapshot.ServicePath, layout.DrillPath},
			machine.RuntimePaths...),
		Units:  []string{layout.Unit, snapshot.Service},
		Script: machine.RuntimeQuestion(),
	}
	for _, leaf := range machine.Leaves("", "") {
		q.Contents = append(q.Contents, machine.CertificatePath(leaf))
	}
	return q
}

// machineOf interprets the answer to healthQuery.
func machineOf(address, clusterID string, facts host.Facts, err error) Machine {
	m := Machine{Address: address, Err: err, output: facts.Output}
	if err != nil {
		return m
	}
	if unit := machine.UnitIn(facts); unit.Load != "not-found" {
		m.Unit = unit.Active
	}
	if record, ok := facts.Files[layout.RecordPath]; ok {
		m.Member, m.Volume, m.Foreign = heldBy(record.Content, clusterID)
	}
	drill, err := snapshot.ReadDrill(facts.Files[layout.DrillPath].Content)
	if err == nil && drill.ClusterID == clusterID {
		m.Drill = &drill
	}
	command := machine.CommandIn(machine.DefinitionIn(facts.Files))
	m.Quota = release.Quota(command.Flags["quota-backend-bytes"])
	m.CertificateExpiry = machine.Expiry(facts.Files)
	if m.Member != "" {
		m.CertificatesUnread = machine.UnreadCertificates(facts.Files)
	}
	if service := facts.Units[snapshot.Service]; service.Active == "failed" &&
		timer.Managed(facts.Files[snapshot.ServicePath]) {
		m.SnapshotFailed = service.Result
	}
	return m
}

// LastDrill returns the last restore drill that is recorded on a machine; nil if there is none.
func (h Health) LastDrill() *snapshot.Drill {
	var last *snapshot.Drill
	for _, m := range h.Machines {
		if m.Drill != nil && (last == nil || m.Drill.Finished > last.Finished) {
			last = m.Drill
		}
	}
	return last
}

// heldBy interprets the record of a machine.
func heldBy(record, clusterID string) (member, volume, foreign string) {
	switch held, err := machine.ReadRecord(record); {
	case err != nil:
		return "", "", "an invalid " + layout.RecordPath + ": " + err.Error()
	case held.ClusterID != clusterID:
		return "", "", fmt.Sprintf("an etcd member of another cluster, %q", held.ClusterName)
	default:
		if held.Configured != nil && held.Configured.Volume != nil {
			volume = held.Configured.Volume.MountPath
		}
		return held.Name, volume, ""
	}
}

// QuotaOf returns the quota of a member in bytes: what the member itself reports, and if
// it does not (etcd 3.5), the value of its flags. 0 means unknown, negative means no
// quota.
func (h Health) QuotaOf(m membership.MemberStatus) int64 {
	if m.DBQuota != 0 {
		return m.DBQuota
	}
	for _, machine := range h.Machines {
		if machine.Address == m.Address && machine.Err == nil {
			return machine.Quota
		}
	}
	return 0
}
