package etcd

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/etcdtest"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/layout"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

const testCluster = "id-of-prod"

func blank(name string) machine.Observed {
	return machine.Observed{Name: name, Address: "10.0.0." + name[2:]}
}

// began returns a machine whose static bootstrap together with initial was interrupted.
func began(name string, initial ...string) machine.Observed {
	f := blank(name)
	f.Data, f.Pending, f.New, f.Initial = true, true, true, initial
	f.Record = &machine.Record{ClusterID: testCluster, Name: name}
	return f
}

// emptyLog returns a machine whose static bootstrap was interrupted before the first entry of the raft log.
func emptyLog(name string, initial ...string) machine.Observed {
	f := began(name, initial...)
	f.EmptyLog = true
	return f
}

func established(name string) machine.Observed {
	f := began(name)
	f.Pending, f.New, f.Initial = false, false, nil
	return f
}

func lost(name string) machine.Observed {
	f := blank(name)
	f.Err = fmt.Errorf("no route: %w", host.ErrUnreachable)
	return f
}

func TestDecideStart(t *testing.T) {
	all := []string{"cp1", "cp2", "cp3"}
	joining := began("cp1", "cp1", "cp2")
	joining.New = false
	emptied := established("cp1")
	emptied.Data = false
	stranger := established("cp1")
	stranger.Record = &machine.Record{ClusterID: "other", ClusterName: "staging"}
	unknown := blank("cp1")
	unknown.Data = true
	starting := began("cp1", all...)
	starting.Data, starting.Unit = false, host.UnitState{Active: "activating"}

	staged := blank("cp2")
	staged.Staged, staged.Leftovers = "/var/lib/etcd-archive/restoring", "/var/lib/etcd-archive/restoring"
	partly := blank("cp2") // nothing was archived for it yet
	partly.Leftovers = "/var/lib/etcd-archive/restoring.part"

	for _, c := range []struct {
		name              string
		machines          []machine.Observed
		answered, resumed bool
		want              startCase
		archive           []string
		reason            string
	}{
		{
			name: "any answer means join", machines: []machine.Observed{lost("cp1"), blank("cp2"), established("cp3")},
			answered: true, want: startJoin,
		},
		{
			name: "a restore was cut off", machines: []machine.Observed{blank("cp1"), staged, blank("cp3")}, want: startRefuse,
			reason: "/var/lib/etcd-archive/restoring on " + staged.Label(),
		},
		{
			name:     "a restore was cut off before its data was complete",
			machines: []machine.Observed{blank("cp1"), partly, blank("cp3")}, want: startBootstrap,
		},
		{
			name:     "a restore was cut off beside a bootstrap",
			machines: []machine.Observed{began("cp1", all...), staged, blank("cp3")}, want: startRefuse,
			reason: "a restore was begun",
		},
		{
			name:     "a restore was cut off, and the machine with its data is lost",
			machines: []machine.Observed{blank("cp1"), retired("cp2", "one"), retired("cp3", "one")}, want: startRefuse,
			reason: "a restore was begun and not completed: the data of the members on cp2 (10.0.0.2), cp3 (10.0.0.3)",
		},
		{
			name: "the same after a wait", machines: []machine.Observed{blank("cp1"), retired("cp2", "one")}, resumed: true,
			want: startRefuse, reason: "a restore was begun",
		},
		{
			name:     "a restore was cut off when not all members were retired",
			machines: []machine.Observed{established("cp1"), retired("cp2", "one"), blank("cp3")}, want: startResume,
		},
		{
			name:     "a restore was cut off between the archive and the record",
			machines: []machine.Observed{emptied, staged, blank("cp3")}, want: startRefuse, reason: "a restore was begun",
		},
		{name: "all blank", machines: []machine.Observed{blank("cp1"), blank("cp2"), blank("cp3")}, want: startBootstrap},
		{
			name: "one unreachable", machines: []machine.Observed{blank("cp1"), lost("cp2"), blank("cp3")}, want: startRefuse,
			reason: "cp2",
		},
		{
			name: "unreachable beside data", machines: []machine.Observed{established("cp1"), lost("cp2"), blank("cp3")},
			want: startRefuse, reason: "cp2",
		},
		{
			name: "another cluster's member", machines: []machine.Observed{stranger, blank("cp2")}, want: startRefuse,
			reason: "staging",
		},
		{
			name: "data of unknown origin", machines: []machine.Observed{unknown, blank("cp2")}, want: startRefuse,
			reason: "no " + layout.RecordPath,
		},
		{
			name:     "data of two etcd clusters",
			machines: []machine.Observed{ofCluster("cp1", "7"), ofCluster("cp2", "8"), blank("cp3")},
			want:     startRefuse, reason: "different etcd clusters",
		},
		{
			name: "established and stopped", machines: []machine.Observed{established("cp1"), established("cp2"), blank("cp3")},
			want: startResume,
		},
		{
			name: "established, still silent", machines: []machine.Observed{established("cp1"), blank("cp2")}, resumed: true,
			want: startRefuse, reason: "quorum lost",
		},
		{
			name: "established and emptied", machines: []machine.Observed{emptied, blank("cp2")}, resumed: true,
			want: startRefuse, reason: "no data",
		},
		{
			name: "cut off before quorum", machines: []machine.Observed{began("cp1", all...), blank("cp2"), blank("cp3")},
			want: startBootstrap, archive: []string{"cp1"},
		},
		{
			name: "cut off while the first started", machines: []machine.Observed{starting, blank("cp2"), blank("cp3")},
			want: startBootstrap, archive: []string{"cp1"},
		},
		{
			name: "cut off at quorum", machines: []machine.Observed{began("cp1", all...), began("cp2", all...), blank("cp3")},
			want: startResume,
		},
		{name: "at quorum, still silent", machines: []machine.Observed{
			began("cp1", all...), began("cp2", all...),
			blank("cp3"),
		}, resumed: true, want: startRefuse},
		{
			name: "an empty log, not started yet", machines: []machine.Observed{emptyLog("cp1", "cp1"), blank("cp2")},
			want: startResume,
		},
		{
			name: "a single member with an empty log", machines: []machine.Observed{emptyLog("cp1", "cp1"), blank("cp2")},
			resumed: true, want: startBootstrap, archive: []string{"cp1"},
		},
		{
			name: "a quorum that has one log with entries", machines: []machine.Observed{
				began("cp1", all...), emptyLog("cp2", all...), emptyLog("cp3", all...),
			},
			resumed: true, want: startBootstrap, archive: []string{"cp1", "cp2", "cp3"},
		},
		{
			name: "a quorum of logs with entries", machines: []machine.Observed{
				began("cp1", all...), emptyLog("cp2", all...), began("cp3", all...),
			},
			resumed: true, want: startRefuse, reason: "quorum lost",
		},
		{
			name: "an established member beside an empty log", machines: []machine.Observed{
				established("cp1"), emptyLog("cp2", all...), emptyLog("cp3", all...),
			},
			resumed: true, want: startRefuse, reason: "quorum lost",
		},
		{name: "two attempts, neither at quorum", machines: []machine.Observed{began("cp1", all...), began("cp2", "cp2",
			"cp3"), blank("cp3")}, want: startBootstrap, archive: []string{"cp1", "cp2"}},
		{
			name: "single member cut off has quorum", machines: []machine.Observed{began("cp1", "cp1"), blank("cp2")},
			want: startResume,
		},
		{
			name: "a cut-off join means a cluster was there", machines: []machine.Observed{joining, blank("cp2")}, resumed: true,
			want: startRefuse,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := decideStart(testCluster, layout.DefaultDataDir, c.machines, all, c.answered, c.resumed)
			if d.Case != c.want || !slices.Equal(d.Archive, c.archive) || !strings.Contains(d.Reason, c.reason) {
				t.Errorf("got %s, archive %v, reason %q", d.Case, d.Archive, d.Reason)
			}
			if d.Case == startRefuse && d.Next == "" {
				t.Error("a refusal without a next step")
			}
			lost := strings.HasPrefix(d.Reason, "quorum lost")
			if d.Lost != lost || lost != strings.Contains(d.Next, "set restore = {") {
				t.Errorf("lost = %t, next step: %s", d.Lost, d.Next)
			}
		})
	}
}

// TestArchivesOnlyItsBatch: the leftovers of a peer that is not in the batch stay.
func TestArchivesOnlyItsBatch(t *testing.T) {
	machines := []machine.Observed{began("cp1", "cp1", "cp2", "cp3"), began("cp2", "cp2", "cp3", "cp4"), blank("cp3")}
	d := decideStart(testCluster, layout.DefaultDataDir, machines, []string{"cp1", "cp3"}, false, false)
	if d.Case != startBootstrap || !slices.Equal(d.Archive, []string{"cp1"}) {
		t.Errorf("got %s, archive %v", d.Case, d.Archive)
	}
}

// TestCheckMachine verifies that a machine that has something else is refused, and that every
// failed check of a machine is listed at once.
func TestCheckMachine(t *testing.T) {
	host1 := (&host.Pool{}).Host(host.Target{Address: "10.0.0.11"})
	s := Spec{Spec: machine.Spec{Name: "cp1", Host: host1, Bundle: &pki.Bundle{ClusterID: testCluster}}}
	stranger := established("cp1")
	stranger.Record = &machine.Record{ClusterID: "other", ClusterName: "staging"}
	renamed := established("cp1")
	renamed.Record.Name = "db1"
	emptied := renamed
	emptied.Data = false
	kubeadms := machine.Interpret("cp1", "10.0.0.11", layout.DefaultDataDir, host.Facts{
		Files: map[string]host.FileState{"/etc/kubernetes/manifests/etcd.yaml": {Content: "kind: Pod\n"}},
	}, nil)
	const preflight = "Machine is not suitable"
	for _, c := range []struct {
		name    string
		machine machine.Observed
		want    []string
	}{
		{"blank", blank("cp1"), []string{preflight, "systemd", "architecture", "peers does not contain this member"}},
		{"its own data", established("cp1"), []string{preflight}},
		{"unreachable", lost("cp1"), []string{"etcd member not created", "no route"}},
		{"another cluster's", stranger, []string{"belongs to another etcd cluster", "staging"}},
		{"another member's data", renamed, []string{"has another etcd member", "db1"}},
		{"the record of another member, without its data", emptied, []string{preflight}},
		{"a member of kubeadm", kubeadms, []string{"kubeadm has created the member"}},
	} {
		err := checkMachine(s, c.machine)
		for _, want := range c.want {
			etcdtest.WantError(t, c.name, err, want)
		}
	}
	s.Peers = map[string]*host.Host{"cp1": host1}
	if got := unlisted(s); got != nil {
		t.Errorf("the member is in peers: %q", got)
	}
}

// TestOpenings: the other members reach a member's peer port; a cluster of one has no others.
func TestOpenings(t *testing.T) {
	pool := &host.Pool{}
	s := Spec{Spec: machine.Spec{Name: "cp1"}, Peers: map[string]*host.Host{
		"cp1": pool.Host(host.Target{Address: "10.0.0.11"}), "cp2": pool.Host(host.Target{Address: "10.0.0.12"}),
	}}
	got := openings(s)
	if len(got) != 1 || got[0].String() != "2380/tcp" || len(got[0].From) != 1 || got[0].From[0].String() != "10.0.0.12" {
		t.Errorf("openings are %+v", got)
	}
	delete(s.Peers, "cp2")
	if got := openings(s); got != nil {
		t.Errorf("alone: %+v", got)
	}
}
