package provider

import (
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/datasource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/haproxy"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/snapshot"
	"github.com/kubequorum/terraform-provider-kube/internal/health"
)

// controlPlaneModel is the model of kube_control_plane.
type controlPlaneModel struct {
	PKI             types.String   `tfsdk:"pki"`
	Signed          types.Object   `tfsdk:"signed"`
	Etcd            types.Set      `tfsdk:"etcd"`
	Endpoint        types.Object   `tfsdk:"endpoint"`
	FailOn          types.Set      `tfsdk:"fail_on"`
	CertificateDays types.Int64    `tfsdk:"certificate_days"`
	Timeouts        timeouts.Value `tfsdk:"timeouts"`

	Healthy     types.Bool                    `tfsdk:"healthy"`
	Issues      types.List                    `tfsdk:"issues"`
	Summary     types.String                  `tfsdk:"summary"`
	VirtualIP   *virtualIPModel               `tfsdk:"virtual_ip"`
	Balancers   map[string]balancerModel      `tfsdk:"balancers"`
	Replicas    map[string]replicaStatusModel `tfsdk:"replicas"`
	EtcdCluster *etcdClusterModel             `tfsdk:"etcd_cluster"`
	Authorities map[string]endModel           `tfsdk:"authorities"`
}

type virtualIPModel struct {
	Address types.String `tfsdk:"address"`
	Holder  types.String `tfsdk:"holder"`
	Holders types.List   `tfsdk:"holders"`

	AdditionalAddresses map[string][]string `tfsdk:"additional_addresses"`
}

type balancerModel struct {
	Address        types.String            `tfsdk:"address"`
	Reachable      types.Bool              `tfsdk:"reachable"`
	HAProxy        types.String            `tfsdk:"haproxy"`
	Keepalived     types.String            `tfsdk:"keepalived"`
	HoldsVirtualIP types.Bool              `tfsdk:"holds_virtual_ip"`
	Backends       map[string]backendModel `tfsdk:"backends"`
}

type backendModel struct {
	Address  types.String `tfsdk:"address"`
	Status   types.String `tfsdk:"status"`
	Check    types.String `tfsdk:"check"`
	Sessions types.Int64  `tfsdk:"sessions"`
}

type replicaStatusModel struct {
	Address              types.String                    `tfsdk:"address"`
	Reachable            types.Bool                      `tfsdk:"reachable"`
	Version              types.String                    `tfsdk:"version"`
	Healthy              types.Bool                      `tfsdk:"healthy"`
	Registered           types.Bool                      `tfsdk:"registered"`
	Components           map[string]componentStatusModel `tfsdk:"components"`
	CertificateExpiresAt types.String                    `tfsdk:"certificate_expires_at"`
	CertificateDays      types.Int64                     `tfsdk:"certificate_days"`
}

type componentStatusModel struct {
	Healthy              types.Bool   `tfsdk:"healthy"`
	Health               types.String `tfsdk:"health"`
	Version              types.String `tfsdk:"version"`
	CertificateExpiresAt types.String `tfsdk:"certificate_expires_at"`
}

type etcdClusterModel struct {
	Members        map[string]memberStatusModel `tfsdk:"members"`
	Leader         types.String                 `tfsdk:"leader"`
	ClusterVersion types.String                 `tfsdk:"cluster_version"`
	Voters         types.Int64                  `tfsdk:"voters"`
	Quorum         types.Int64                  `tfsdk:"quorum"`
	Tolerates      types.Int64                  `tfsdk:"tolerates"`
	Drill          *drillStatusModel            `tfsdk:"restore_drill"`
}

type drillStatusModel struct {
	Member      types.String  `tfsdk:"member"`
	CompletedAt types.String  `tfsdk:"completed_at"`
	Succeeded   types.Bool    `tfsdk:"succeeded"`
	Problem     types.String  `tfsdk:"problem"`
	SucceededAt types.String  `tfsdk:"last_success_at"`
	RTO         types.Float64 `tfsdk:"rto_seconds"`
	RPO         types.Int64   `tfsdk:"rpo_seconds"`
}

type memberStatusModel struct {
	ID                   types.String  `tfsdk:"id"`
	Address              types.String  `tfsdk:"address"`
	Reachable            types.Bool    `tfsdk:"reachable"`
	Version              types.String  `tfsdk:"version"`
	Healthy              types.Bool    `tfsdk:"healthy"`
	Leader               types.Bool    `tfsdk:"leader"`
	Learner              types.Bool    `tfsdk:"learner"`
	Trouble              types.String  `tfsdk:"trouble"`
	Unit                 types.String  `tfsdk:"unit_state"`
	Volume               types.String  `tfsdk:"volume"`
	Alarms               types.List    `tfsdk:"alarms"`
	DBSize               types.Int64   `tfsdk:"db_size_bytes"`
	DBInUse              types.Int64   `tfsdk:"db_in_use_bytes"`
	Quota                types.Int64   `tfsdk:"quota_bytes"`
	QuotaUsed            types.Float64 `tfsdk:"quota_used"`
	CertificateExpiresAt types.String  `tfsdk:"certificate_expires_at"`
	CertificateDays      types.Int64   `tfsdk:"certificate_days"`
}

type endModel struct {
	ExpiresAt types.String `tfsdk:"expires_at"`
	Days      types.Int64  `tfsdk:"days"`
}

// fill sets the computed attributes from observed values only.
func (m *controlPlaneModel) fill(seen health.ControlPlane, issues []health.Issue, now time.Time) {
	words := make([]string, len(issues))
	for i, detected := range issues {
		words[i] = detected.Text
	}
	m.Healthy, m.Issues = types.BoolValue(len(issues) == 0), stringList(words)
	m.Summary = lineValue(health.Summary(seen, len(issues), now))
	m.VirtualIP = virtualIPOf(seen.Endpoint)
	m.Balancers = map[string]balancerModel{}
	for name, b := range seen.Endpoint.Balancers {
		m.Balancers[name] = balancerOf(b)
	}
	m.Replicas = map[string]replicaStatusModel{}
	for name, r := range seen.Replicas {
		m.Replicas[name] = replicaOf(seen.Endpoint, name, r, now)
	}
	m.EtcdCluster = etcdOf(seen.Etcd, now)
	m.Authorities = map[string]endModel{}
	for name, end := range seen.Authorities {
		m.Authorities[name] = endModel{ExpiresAt: timeString(end), Days: daysLeft(end, now)}
	}
}

func virtualIPOf(h health.Endpoint) *virtualIPModel {
	holders := h.Holders()
	out := &virtualIPModel{
		Address: lineOrNull(h.Address), Holder: types.StringNull(), Holders: stringList(holders),
		AdditionalAddresses: map[string][]string{},
	}
	for _, address := range h.Others {
		out.AdditionalAddresses[address] = h.HoldersOf(address)
	}
	if len(holders) == 1 {
		out.Holder = lineValue(holders[0])
	}
	return out
}

func balancerOf(b haproxy.Balancer) balancerModel {
	out := balancerModel{
		Address: types.StringValue(b.Address), Reachable: types.BoolValue(b.Err == nil),
		HoldsVirtualIP: types.BoolValue(len(b.Holds) > 0),
		HAProxy:        lineOrNull(b.HAProxy), Keepalived: lineOrNull(b.Keepalived), Backends: map[string]backendModel{},
	}
	for name, seen := range b.Backends {
		out.Backends[name] = backendModel{
			Address: lineOrNull(seen.Address), Status: lineOrNull(seen.Status), Check: lineOrNull(seen.Check),
			Sessions: types.Int64Value(int64(seen.Sessions)),
		}
	}
	return out
}

func replicaOf(h health.Endpoint, name string, r health.Replica, now time.Time) replicaStatusModel {
	own := r.Err == nil && r.Name == name
	if !own { // the machine runs another replica: ignore its details
		r.Health = controlplane.Health{Address: r.Address, Err: r.Err}
	}
	out := replicaStatusModel{
		Address: types.StringValue(r.Address), Reachable: types.BoolValue(r.Err == nil), Version: lineOrNull(r.Version),
		Healthy: types.BoolValue(r.Healthy()), Registered: types.BoolValue(h.Registered(name)),
		Components:           map[string]componentStatusModel{},
		CertificateExpiresAt: timeString(r.CertificateExpiry), CertificateDays: daysLeft(r.CertificateExpiry, now),
	}
	for _, c := range r.Components {
		out.Components[c.Name] = componentStatusModel{
			Healthy: types.BoolValue(c.Healthy), Health: lineValue(c.Health), Version: lineOrNull(c.Version),
			CertificateExpiresAt: timeString(c.CertificateExpiry),
		}
	}
	return out
}

// etcdOf returns the cluster as its members report it. If no member answers, it contains the
// members observed on the machines.
func etcdOf(h etcd.Health, now time.Time) *etcdClusterModel {
	out := &etcdClusterModel{
		Members: map[string]memberStatusModel{}, Leader: lineOrNull(h.Leader()), ClusterVersion: lineOrNull(h.ClusterVersion),
		Voters: types.Int64Null(), Quorum: types.Int64Null(), Tolerates: types.Int64Null(),
		Drill: drillStatusOf(h.LastDrill()),
	}
	byAddress := map[string]etcd.Machine{}
	for _, machine := range h.Machines {
		byAddress[machine.Address] = machine
	}
	if h.Silence != nil {
		for _, machine := range h.Machines {
			if machine.Member != "" {
				lone := membership.MemberStatus{
					Member:  membership.Member{Name: machine.Member, Trouble: "no quorum answers"},
					Address: machine.Address,
				}
				out.Members[machine.Member] = memberOf(h, lone, machine, now)
			}
		}
		return out
	}
	voters, healthy, needed := h.Voting()
	out.Voters, out.Quorum, out.Tolerates = types.Int64Value(int64(voters)), types.Int64Value(int64(needed)),
		types.Int64Value(int64(max(0, healthy-needed)))
	for _, m := range h.Members {
		name := m.Name
		if name == "" {
			name = "(never started, " + m.ID + ")"
		}
		out.Members[name] = memberOf(h, m, byAddress[m.Address], now)
	}
	return out
}

// drillStatusOf returns the last restore drill.
func drillStatusOf(d *snapshot.Drill) *drillStatusModel {
	if d == nil {
		return nil
	}
	out := &drillStatusModel{
		Member: lineValue(d.Member), CompletedAt: timeString(time.Unix(d.Finished, 0)),
		Succeeded: types.BoolValue(d.Succeeded), Problem: lineOrNull(d.Problem), SucceededAt: types.StringNull(),
		RTO: types.Float64Null(), RPO: types.Int64Null(),
	}
	if d.LastSuccess > 0 {
		out.SucceededAt = timeString(time.Unix(d.LastSuccess, 0))
	}
	if d.Succeeded {
		out.RTO = types.Float64Value(d.RTO)
	}
	if d.Saved > 0 {
		out.RPO = types.Int64Value(d.RPO)
	}
	return out
}

// memberOf returns one member. The zero machine stands for a member whose machine the arguments
// do not name.
func memberOf(h etcd.Health, m membership.MemberStatus, machine etcd.Machine, now time.Time) memberStatusModel {
	out := memberStatusModel{
		ID: lineOrNull(m.ID), Address: lineOrNull(m.Address), Reachable: types.BoolNull(), Version: lineOrNull(m.Version),
		Healthy: types.BoolValue(m.Healthy), Leader: types.BoolValue(m.Leader), Learner: types.BoolValue(m.Learner),
		Trouble: lineOrNull(m.Trouble), Unit: lineOrNull(machine.Unit), Alarms: stringList(m.Alarms),
		Volume: lineOrNull(machine.Volume),
		DBSize: positive(m.DBSize), DBInUse: positive(m.DBInUse), Quota: positive(h.QuotaOf(m)),
		QuotaUsed:            types.Float64Null(),
		CertificateExpiresAt: timeString(machine.CertificateExpiry), CertificateDays: daysLeft(machine.CertificateExpiry,
			now),
	}
	if machine.Address != "" {
		out.Reachable = types.BoolValue(machine.Err == nil)
	}
	if share, known := health.QuotaUsed(h, m); known {
		out.QuotaUsed = types.Float64Value(share)
	}
	return out
}

// positive returns a size, or null if there is none.
func positive(bytes int64) types.Int64 {
	if bytes <= 0 {
		return types.Int64Null()
	}
	return types.Int64Value(bytes)
}

// daysLeft is health.DaysUntil, but returns null if the expiry is not known.
func daysLeft(end, now time.Time) types.Int64 {
	if end.IsZero() {
		return types.Int64Null()
	}
	return types.Int64Value(health.DaysUntil(end, now))
}
