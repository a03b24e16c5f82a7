package etcd

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/staticpod"
)

// stopFormer is how a former cluster is stopped on its machines. Without a kubelet, static pods would run on.
const stopFormer = "stop etcd and the API servers there (systemctl disable --now " + layout.Unit +
	" kube-apiserver.service; of static pods, move etcd.yaml and kube-apiserver.yaml out of " + staticpod.Directory +
	", and leave the kubelet running)"

// abandonedText says what a restore gives up. peers is the number of members that the configuration has.
func abandonedText(silent []string, peers int) string {
	text := "Given up, because they do not answer and are in abandon_unreachable_hosts: " + strings.Join(silent, ", ") +
		". Their members never vote in the restored cluster, also if these machines come back: it has another ID. " +
		layout.RecordPath + " on the restored member's machine names them."
	if len(silent) >= membership.Quorum(peers) {
		text += " They are a majority: if they come back together, they serve the former cluster, with its API servers, " +
			"beside the restored one. Before they are connected again, " + stopFormer + "."
	}
	return text
}

// runningFormer returns the machines on which a member of another etcd cluster runs than that of the data on seed. A
// member of another bundle's cluster is none.
func runningFormer(in restoreInput, seed machine.Observed) []machine.Observed {
	restored := membership.ParseID(seed.Record.EtcdCluster)
	return slices.DeleteFunc(slices.Clone(in.Machines), func(m machine.Observed) bool {
		if !m.Reached() || !m.Running() || m.Address == seed.Address {
			return true
		}
		return m.Record != nil && (m.Record.ClusterID != in.Cluster ||
			restored != 0 && membership.ParseID(m.Record.EtcdCluster) == restored)
	})
}

// runningQuorum describes why the members that run on machines may serve, although they had time to elect a leader; ""
// if no list that they have in memory has a quorum of them. A voter that does not run there would have to be reached by
// one that does, and they would have elected a leader.
func runningQuorum(running []machine.Observed, lists map[string]membership.View) string {
	urls, ids := map[string]bool{}, map[uint64]bool{}
	for _, m := range running {
		urls[membership.PeerURL(m.Address)] = true
		ids[m.MemberID()] = true
	}
	for _, m := range running {
		voters := lists[m.Address].Voters()
		if len(voters) == 0 {
			return "the member on " + m.Label() + " runs, and does not say whom it knows"
		}
		run := slices.DeleteFunc(slices.Clone(voters), func(v membership.Member) bool {
			return !ids[v.ID] && !slices.ContainsFunc(v.PeerURLs, func(url string) bool { return urls[url] })
		})
		if len(run) >= membership.Quorum(len(voters)) {
			return fmt.Sprintf("the member on %s knows %d voters, of which %d run", m.Label(), len(voters), len(run))
		}
	}
	return ""
}

// formerNext is the next step if members serve different clusters, and one of them is what a restore has made: the
// other one is served by machines that it has given up, by the record of the restored member. "" means that the records
// do not say which one is the former. ids are the served clusters by address.
func formerNext(clusterID string, machines []machine.Observed, ids map[string]uint64) string {
	for _, m := range machines {
		if !m.Reached() || m.Record == nil || m.Record.ClusterID != clusterID || ids[m.Address] == 0 ||
			ids[m.Address] != membership.ParseID(m.Record.EtcdCluster) {
			continue
		}
		former := maps.Clone(ids)
		maps.DeleteFunc(former, func(_ string, id uint64) bool { return id == ids[m.Address] })
		at := slices.Sorted(maps.Keys(former))
		if len(at) == 0 || slices.ContainsFunc(at, func(a string) bool { _, silent := m.Record.Silent[a]; return !silent }) {
			continue
		}
		return fmt.Sprintf("cluster %x on %s is the former one, which the restore %s has given up: %s, then apply again, "+
			"which archives its data", former[at[0]], strings.Join(at, ", "),
			m.Record.Restored+m.Record.Restoring, stopFormer)
	}
	return ""
}
