package monitoring

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"
)

// The resources that write facts for node_exporter (metrics.textfile_directory).
const (
	memberResource   = "kube_etcd_member"
	replicaResource  = "kube_control_plane_replica"
	endpointResource = "kube_control_plane_endpoint"
)

// planAction is what repairs what a plan shows.
const planAction = "Run terraform plan: the drift of {{ $labels.resource }} on {{ $labels.machine }} says what is " +
	"wrong, and an apply repairs it."

// fact returns the series of a metric that resources write about their machine.
func (f Facts) fact(metric, more string) string { return metric + f.of(jobNode, more) }

// factAlerts are about what only the provider knows, and no component serves.
func (f Facts) factAlerts() []Rule {
	return slices.Concat(f.factsMissing(), f.certificateAlerts(), f.snapshotAlerts(), f.drillAlerts(),
		f.rotationAlerts(), f.addressAlerts(), f.announcementAlerts(), f.machineAlerts())
}

// factsMissing are alerts for each machine and resource by name: without facts, the others are silent.
func (f Facts) factsMissing() []Rule {
	var all []Rule
	for _, role := range []struct {
		resource string
		machines map[string]netip.Addr
	}{{memberResource, f.Members}, {replicaResource, f.Replicas}, {endpointResource, f.holders()}} {
		for _, name := range slices.Sorted(maps.Keys(role.machines)) {
			written := f.fact("kube_facts_written_timestamp_seconds",
				fmt.Sprintf(`machine="%s",resource="%s"`, name, role.resource))
			a := alert("KubeFactsMissing", warning, "5m", fmt.Sprintf(`absent(time() - %s < 600)`, written),
				fmt.Sprintf("%s on %s writes no facts: alerts about certificates, snapshots, rotations and addresses there are "+
					"silent.", role.resource, name),
				fmt.Sprintf(`Check node_exporter and its textfile directory on the machine, and run terraform plan: the drift of `+
					`%s "%s" says whether its timer runs.`, role.resource, name))
			a.Labels["machine"], a.Labels["resource"] = name, role.resource
			all = append(all, a)
		}
	}
	return all
}

func (f Facts) certificateAlerts() []Rule {
	onDisk := f.fact("kube_certificate_not_after_timestamp_seconds", "")
	summary := "{{ $labels.file }} on {{ $labels.machine }} ends in {{ $value | humanizeDuration }}."
	renew := "Run terraform apply: it renews certificates of {{ $labels.resource }} that are due. A CA is renewed by a " +
		"rotation of kube_pki_bundle."
	return []Rule{
		alert("KubeCertificateExpires", warning, "15m", f.endsWithin(7*24*time.Hour, 2), summary, renew),
		alert("KubeCertificateExpiresSoon", critical, "5m", f.endsWithin(24*time.Hour, 4), summary, renew),
		alert("KubeCertificateNotServed", warning, "15m",
			fmt.Sprintf(`%s - on (cluster, machine, resource, file) %s > 60`, onDisk,
				f.fact("kube_served_certificate_not_after_timestamp_seconds", "")),
			"{{ $labels.file }} on {{ $labels.machine }} was renewed, but an older certificate is served.",
			planAction+" If it shows nothing, restart what serves the file, one machine at a time: etcd.service, or "+
				"kube-apiserver.service."),
	}
}

// endsWithin is true of certificates on disk that end within a limit, or within a part of EarlyRenewal if that is less:
// before, an apply renews nothing. CAs are renewed by a rotation at any time.
func (f Facts) endsWithin(limit, part time.Duration) string {
	ends := func(files string, within time.Duration) string {
		return fmt.Sprintf(`%s - time() < %d`, f.fact("kube_certificate_not_after_timestamp_seconds", files),
			within/time.Second)
	}
	early := f.EarlyRenewal / part
	if early == 0 || early >= limit {
		return ends("", limit)
	}
	const ca = `".*/ca\\.crt"`
	return ends("file=~"+ca, limit) + " or " + ends("file!~"+ca, early)
}

func (f Facts) snapshotAlerts() []Rule {
	// The machine that has had the schedule for the longest time says since when there is one: what is older when it comes
	// back is of the former one, and a machine that was replaced changes nothing. What that had saved counts on.
	since := fmt.Sprintf(`min by (cluster) (%s)`, f.fact("kube_etcd_snapshots_scheduled_timestamp_seconds", ""))
	newest := fmt.Sprintf(`(max by (cluster) (last_over_time(%s[2d])) or %s)`,
		f.fact("kube_etcd_snapshot_saved_timestamp_seconds", ""), since)
	interval := f.fact("kube_etcd_snapshot_interval_seconds", "")
	return []Rule{
		alert("EtcdSnapshotTooOld", critical, "10m",
			fmt.Sprintf(`time() - %[1]s > 2 * max by (cluster) (%[3]s) and time() - %[2]s > 2 * max by (cluster) (%[3]s)`,
				newest, since, interval),
			"The last snapshot of etcd that was saved and verified is {{ $value | humanizeDuration }} old, more than two "+
				"intervals of its schedule.",
			"Run journalctl -u etcd-snapshot on the machine of the leader. An apply of kube_etcd_member repairs its timer."),
		alert("EtcdSnapshotFailed", warning, "5m", f.fact("kube_etcd_snapshot_last_run_success", "")+" == 0",
			"The last scheduled snapshot on {{ $labels.machine }} was not saved, not verified or not sent.",
			"Run journalctl -u etcd-snapshot on {{ $labels.machine }}: it says what failed. The next run tries again, as "+
				"snapshots.schedule of kube_etcd_member says."),
		alert("EtcdSnapshotNotSent", warning, "10m",
			fmt.Sprintf(`time() - %s > on (cluster, machine, resource) 2 * %s`,
				f.fact("kube_etcd_snapshot_unsent_since_timestamp_seconds", ""), interval),
			"A snapshot on {{ $labels.machine }} has waited {{ $value | humanizeDuration }} to be sent: it is on the machines "+
				"that it is to be restored without.",
			"Run journalctl -u etcd-snapshot on {{ $labels.machine }}: it has the output of the upload command in snapshots of "+
				"kube_etcd_member."),
	}
}

// drillAlerts are about restore drills. They are silent if there was none: kube_production_readiness says so.
func (f Facts) drillAlerts() []Rule {
	ended := f.fact("kube_etcd_restore_drill_timestamp_seconds", "")
	return []Rule{
		alert("EtcdRestoreDrillFailed", warning, "5m",
			fmt.Sprintf(`%s == 0 and on (cluster, machine) %[2]s == on (cluster) group_left max by (cluster) (%[2]s)`,
				f.fact("kube_etcd_restore_drill_success", ""), ended),
			"The last restore drill, on {{ $labels.machine }}, failed: the cluster may not be restorable.",
			"Read problem in /etc/etcd/restore-drill.json on {{ $labels.machine }}, correct it, and run terraform apply with "+
				"another value in triggers of kube_etcd_restore_drill."),
		alert("EtcdRestoreDrillTooOld", warning, "1h",
			fmt.Sprintf(`time() - max by (cluster) (%s) > 30 * 86400`,
				lately(f.fact("kube_etcd_restore_drill_last_success_timestamp_seconds", ""))),
			"No restore drill has succeeded for {{ $value | humanizeDuration }}.",
			"Run terraform apply with kube_etcd_restore_drill, whose argument every repeats it."),
	}
}

func (f Facts) rotationAlerts() []Rule {
	generation := lately(f.fact("kube_rotation_generation", ""))
	return []Rule{
		alert("KubeRotationStandsStill", warning, "1h",
			fmt.Sprintf(`time() - min by (cluster, part) (%s) > 7 * 86400`,
				lately(f.fact("kube_rotation_since_timestamp_seconds", ""))),
			"The rotation of {{ $labels.part }} has been at one stage for {{ $value | humanizeDuration }}.",
			`Raise rotation.{{ reReplaceAll "-" "_" $labels.part }} of kube_pki_bundle by one and run terraform apply, until `+
				"the rotation is complete (guide Rotation)."),
		alert("KubeRotationIncomplete", warning, "4h",
			fmt.Sprintf(`max by (cluster, part) (%[1]s) != min by (cluster, part) (%[1]s)`, generation),
			"Machines are at different stages of the rotation of {{ $labels.part }}.",
			"Run terraform apply: it takes the machines that are behind to the stage of kube_pki_bundle, or says why it does "+
				"not."),
	}
}

func (f Facts) addressAlerts() []Rule {
	holders := f.holders()
	if len(holders) == 0 { // with kube-vip
		holders = f.Replicas
	}
	fresh := f.fresh("kube_virtual_ip_held")
	held := fmt.Sprintf(`sum by (cluster, address) (%s)`, fresh)
	return []Rule{
		alert("KubeVirtualIPOnTwoMachines", critical, "2m", held+" > 1",
			"{{ $value }} machines have the virtual IP {{ $labels.address }}.",
			"Check that the balancers reach each other by VRRP (IP protocol 112), and run terraform plan: the drift of "+
				"kube_control_plane_endpoint says what is wrong."),
		alert("KubeVirtualIPOnNoMachine", critical, "2m",
			fmt.Sprintf(`%s == 0 unless %s`, held, f.someUnknown(fresh, holders)),
			"No machine has the virtual IP {{ $labels.address }}: clients do not reach the API.",
			"Run systemctl status kube-endpoint-keepalived kube-endpoint-haproxy on the balancers. An apply of "+
				"kube_control_plane_endpoint repairs them."),
		alert("KubeVirtualIPMoves", warning, "0s",
			fmt.Sprintf(`sum by (cluster, address) (increase(%s[1h])) > 2.5`, f.fact("kube_virtual_ip_moves_total", "")),
			`The virtual IP {{ $labels.address }} has moved {{ printf "%.0f" $value }} times within an hour.`,
			"Run journalctl -u kube-endpoint-keepalived on the balancers of kube_control_plane_endpoint: a busy machine or a "+
				"lossy network between them is the usual cause."),
	}
}

// fresh returns the series of a fact without those that a machine has written last that writes no facts any more: they
// say nothing about now.
func (f Facts) fresh(metric string) string {
	return fmt.Sprintf(`(%s and on (cluster, machine, resource) time() - %s < 120)`, f.fact(metric, ""),
		f.fact("kube_facts_written_timestamp_seconds", ""))
}

// someUnknown is true of an address if a machine that answers a scrape of any job has no fresh fact about it: it may
// have the address. One that answers none does not serve it.
func (f Facts) someUnknown(fresh string, machines map[string]netip.Addr) string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(machines)) {
		names = append(names, regexp.QuoteMeta(name))
	}
	return fmt.Sprintf(`count by (cluster, address) (%s) < on (cluster) group_left () `+
		`count by (cluster) (count by (cluster, machine) (up{cluster="%s",machine=~%q} == 1))`,
		fresh, f.Cluster, strings.Join(names, "|"))
}

// announcementAlerts are about addresses that the replicas' machines announce to routers.
func (f Facts) announcementAlerts() []Rule {
	fresh := f.fresh("kube_endpoint_announced")
	some := fmt.Sprintf(`max by (cluster, address) (%s)`, fresh)
	action := "Run systemctl list-units --all 'kube-endpoint-*', and journalctl -u kube-endpoint-bgp " +
		"-u kube-endpoint-kube-vip there. If terraform plan shows no drift of kube_control_plane_replica, check its " +
		"sessions on the routers."
	return []Rule{
		alert("KubeEndpointNotAnnounced", warning, "10m",
			fmt.Sprintf(`%s == 0 and on (cluster, address) %s == 1`, fresh, some),
			"{{ $labels.machine }} does not announce {{ $labels.address }}, which other machines do.", action),
		alert("KubeEndpointAnnouncedByNone", critical, "2m",
			fmt.Sprintf(`%s == 0 unless %s`, some, f.someUnknown(fresh, f.Replicas)),
			"No machine announces {{ $labels.address }} to a router: clients do not reach the API.", action),
	}
}

func (f Facts) machineAlerts() []Rule {
	return []Rule{
		alert("KubeComponentVersionsMixed", warning, "4h",
			fmt.Sprintf(`count by (cluster, component) (count by (cluster, component, version) (%s)) > 1`,
				lately(f.fact("kube_component_version_info", ""))),
			"{{ $value }} versions of {{ $labels.component }} run for more than four hours.",
			"Run terraform apply: it goes on with the upgrade of kube_etcd_member or kube_control_plane_replica, or says why "+
				"it does not."),
		alert("EtcdLearnerSince", warning, "5m",
			fmt.Sprintf(`time() - %s > 3600`, f.fact("kube_etcd_learner_since_timestamp_seconds", "")),
			"The member on {{ $labels.machine }} has been a learner for {{ $value | humanizeDuration }}: it has no vote.",
			"Run terraform apply: it goes on with the join of kube_etcd_member, and says why it waits."),
		alert("KubeClockOffset", warning, "10m", fmt.Sprintf(`abs(%s) > 0.5`, f.fact("kube_clock_offset_seconds", "")),
			"The clock of {{ $labels.machine }} is {{ $value }} s off.",
			"Run chronyc sources or timedatectl timesync-status there. What kube_etcd_member and kube_control_plane_replica "+
				"do with leases, certificates and the ages of snapshots depends on the time."),
	}
}
