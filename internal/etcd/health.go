package etcd

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/client"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/systemd"
)

// Health is all that can be told of a cluster at one moment. What does not
// answer says why in its place, and keeps nothing else from being told.
type Health struct {
	membership.Survey
	Silence  error     // why no member gave an answer that a quorum stands behind; nil: one did
	Orphans  []string  // alarms that belong to no member of the list, in words
	Machines []Machine // those that were asked for, sorted by address
}

// Machine is what was found on one machine that is to hold a member.
type Machine struct {
	Address           string
	Err               error  // why it could not be looked at; nothing below is known then
	Member            string // the member of this cluster that it holds; "" where it holds none
	Foreign           string // another cluster whose member it holds
	Unit              string // systemd's ActiveState; "" where there is no unit
	Quota             int64  // bytes, by its flags; negative: none
	CertificateExpiry time.Time
	// SnapshotFailed is how the last run of the service for scheduled snapshots
	// failed, in systemd's word ("exit-code", "timeout"); "" where it did not.
	SnapshotFailed string

	output string // of the query's script
}

// Health asks the cluster and looks at its machines, all at once. It has no
// failure: within ctx's time it tells what there is to tell.
func (c *Clusters) Health(ctx context.Context, hosts map[string]*host.Host, b *pki.Bundle) Health {
	return c.named(b.ClusterID).health(ctx, hosts, b, healthQuery())
}

func (cl *cluster) health(ctx context.Context, hosts map[string]*host.Host, b *pki.Bundle, q host.Query) Health {
	var out Health
	var asking sync.WaitGroup
	asking.Go(func() { out.Survey, out.Orphans, out.Silence = cl.survivors(ctx, hosts, b) })
	out.Machines = cl.lookAt(ctx, hosts, b.ClusterID, q)
	asking.Wait()
	return out
}

// survivors asks whoever answers. One question takes no more than a fifth of
// ctx's time, of which four may follow each other: the member list, that of
// members found on it, their status, the agreed version.
func (cl *cluster) survivors(ctx context.Context, hosts map[string]*host.Host, b *pki.Bundle) (membership.Survey, []string, error) {
	clients, err := cl.connectThrough(b, slices.Collect(maps.Values(hosts)))
	if err != nil {
		return membership.Survey{}, nil, err
	}
	defer clients.Close()
	if end, bounded := ctx.Deadline(); bounded {
		clients.Limit = min(client.RequestTimeout, time.Until(end)/5)
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

// lookAt observes every machine at once.
func (cl *cluster) lookAt(ctx context.Context, hosts map[string]*host.Host, clusterID string, q host.Query) []Machine {
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

// healthQuery asks for what needs no knowledge of how the member is wanted.
func healthQuery() host.Query {
	q := host.Query{Contents: []string{recordPath, unitPath, snapshotServicePath}, Units: []string{unitName, snapshotService}}
	for _, leaf := range Leaves("", "") {
		q.Contents = append(q.Contents, certificatePath(leaf))
	}
	return q
}

// machineOf reads the answer to healthQuery.
func machineOf(address, clusterID string, facts host.Facts, err error) Machine {
	m := Machine{Address: address, Err: err, output: facts.Output}
	if err != nil {
		return m
	}
	if unit := facts.Units[unitName]; unit.Load != "not-found" {
		m.Unit = unit.Active
	}
	var held record
	if json.Unmarshal([]byte(facts.Files[recordPath].Content), &held) == nil {
		switch held.ClusterID {
		case clusterID:
			m.Member = held.Name
		default:
			m.Foreign = held.ClusterName
		}
	}
	command, _, _ := systemd.ParseUnit(facts.Files[unitPath].Content)
	m.Quota = release.Quota(command.Flags["quota-backend-bytes"])
	m.CertificateExpiry = expiry(facts.Files)
	if service := facts.Units[snapshotService]; service.Active == "failed" && hasProviderHeader(facts.Files[snapshotServicePath]) {
		m.SnapshotFailed = service.Result
	}
	return m
}

// QuotaOf is the quota of a member in bytes: what it tells itself, and where it
// does not (etcd 3.5), what its machine's flags say. 0 is not known, and
// negative none.
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
