package etcd

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// recorded returns an established member whose record says what was restored.
func recorded(name, restored, restoring string, data bool) machine.Observed {
	m := established(name)
	record := *m.Record
	record.MemberID, record.Restored, record.Restoring = "1", restored, restoring
	m.Record, m.Data = &record, data
	return m
}

// retired returns a machine whose member was archived for a restore.
func retired(name, restoring string) machine.Observed {
	m := recorded(name, "", restoring, false)
	m.Record.MemberID = ""
	return m
}

func withData(m machine.Observed) machine.Observed {
	m.Data = true
	return m
}

func away(name string, err error) machine.Observed {
	m := blank(name)
	m.Err = err
	return m
}

// volumeOnly returns a machine that has nothing of an established member but its volume.
func volumeOnly(t *testing.T, name string) machine.Observed {
	t.Helper()
	record, err := machine.ReadRecord(`{"cluster_id": "` + testCluster + `", "name": "` + name + `", "configured": ` +
		`{"volume": {"device": "/dev/sdb", "mount_path": "/srv/etcd"}}}`)
	if err != nil {
		t.Fatal(err)
	}
	m := established(name)
	m.Record = record
	return m
}

// ofCluster returns an established member of an etcd cluster.
func ofCluster(name, id string) machine.Observed {
	m := established(name)
	m.Record.EtcdCluster = id
	return m
}

// serving returns m with data of an etcd cluster.
func serving(m machine.Observed, cluster string) machine.Observed {
	m.Record.EtcdCluster = cluster
	return m
}

// listing returns a member list with voters of these names.
func listing(names ...string) membership.View {
	var v membership.View
	for i, name := range names {
		v.Members = append(v.Members, membership.Member{
			ID: uint64(i + 1), PeerURLs: []string{membership.PeerURL(blank(name).Address)},
		})
	}
	return v
}

// gaveUp returns m with a record that a restore has given up machines.
func gaveUp(m machine.Observed, names ...string) machine.Observed {
	m.Record.Silent = map[string]string{}
	for _, name := range names {
		m.Record.Silent[blank(name).Address] = name
	}
	return m
}

func TestDecideRestore(t *testing.T) {
	gone := fmt.Errorf("no route to host: %w", host.ErrUnreachable)
	cases := []struct {
		name      string
		machines  []machine.Observed
		serves    string
		served    uint64
		unasked   string
		abandoned host.Abandoned
		resumed   bool
		lists     map[string]membership.View
		want      restoreCase
		seed      string
		reason    string
	}{
		{name: "new machines", machines: []machine.Observed{blank("cp1"), blank("cp2")}, want: restoreRun},
		{
			name: "the cluster serves", machines: []machine.Observed{established("cp1"), established("cp2")},
			serves: "cp1 is the leader", want: restoreRefuse, reason: "cp1 is the leader",
		},
		{
			name: "the cluster serves on machines that look empty", machines: []machine.Observed{blank("cp1")},
			serves: "cp9 is the leader", want: restoreRefuse, reason: "cp9 is the leader",
		},
		{
			name: "members may only be stopped", machines: []machine.Observed{established("cp1"), blank("cp2")},
			want: restoreResume,
		},
		{
			name: "started members have no quorum", machines: []machine.Observed{established("cp1"), blank("cp2")},
			resumed: true, want: restoreRun,
		},
		{
			name:     "a member on its volume may only be stopped",
			machines: []machine.Observed{blank("cp1"), volumeOnly(t, "cp2")}, want: restoreResume,
		},
		{
			name:     "a member on its volume was not started",
			machines: []machine.Observed{blank("cp1"), volumeOnly(t, "cp2")}, resumed: true, want: restoreRefuse, reason: "cp2",
		},
		{
			name:     "emptied members",
			machines: []machine.Observed{recorded("cp1", "", "", false), recorded("cp2", "", "", false)}, want: restoreRun,
		},
		{
			name:     "members were retired for it",
			machines: []machine.Observed{blank("cp1"), retired("cp2", "one")}, want: restoreRun,
		},
		{
			name:     "members were retired for it, after another one",
			machines: []machine.Observed{blank("cp1"), recorded("cp2", "zero", "one", false)}, want: restoreRun,
		},
		{
			name:     "done before, and members were retired for a later one",
			machines: []machine.Observed{blank("cp1"), recorded("cp2", "one", "two", false)}, want: restoreDone,
		},
		{
			name: "former data is back on a machine whose member was retired for it", machines: []machine.Observed{
				blank("cp1"), withData(retired("cp2", "one")),
			}, want: restoreResume,
		},
		{
			name: "a machine does not answer", machines: []machine.Observed{blank("cp1"), away("cp2", gone)},
			resumed: true, want: restoreRefuse, reason: "could not be reached",
		},
		{
			name: "a lost machine is abandoned", machines: []machine.Observed{blank("cp1"), away("cp2", gone)},
			abandoned: host.AbandonedAt(blank("cp2").Address), want: restoreRun,
		},
		{
			name: "an abandoned machine answers", abandoned: host.AbandonedAt(blank("cp2").Address),
			machines: []machine.Observed{blank("cp1"), away("cp2", fmt.Errorf("key: %w", host.ErrHostKey))},
			want:     restoreRefuse, reason: "could not be reached",
		},
		{
			name: "data of another cluster", resumed: true,
			machines: []machine.Observed{ofCluster("cp1", "7"), ofCluster("cp2", "8"), blank("cp3")},
			want:     restoreRefuse, reason: "different etcd clusters",
		},
		{
			name: "done before", machines: []machine.Observed{recorded("cp1", "one", "", true), blank("cp2")},
			serves: "cp1 is the leader", want: restoreDone,
		},
		{
			name:     "done before, and without quorum now",
			machines: []machine.Observed{recorded("cp1", "one", "", true), blank("cp2")}, want: restoreDone,
		},
		{
			name:     "another one was done before",
			machines: []machine.Observed{recorded("cp1", "zero", "", true), blank("cp2")}, resumed: true, want: restoreRun,
		},
		{
			name:     "interrupted before the data was in place",
			machines: []machine.Observed{recorded("cp1", "", "one", false), blank("cp2")}, want: restoreRun,
		},
		{
			name:     "interrupted before it was complete",
			machines: []machine.Observed{recorded("cp2", "", "one", true), blank("cp1")}, want: restoreContinue, seed: "cp2",
		},
		{
			name:     "interrupted while it serves",
			machines: []machine.Observed{serving(recorded("cp2", "", "one", true), "8"), blank("cp1")},
			serves:   "cp2 is the leader", served: 8, want: restoreContinue, seed: "cp2",
		},
		{
			name: "interrupted, and the former cluster serves", machines: []machine.Observed{
				serving(recorded("cp2", "", "one", true), "8"), ofCluster("cp1", "7"),
			},
			serves: "cp1 is the leader", served: 7, want: restoreRefuse, reason: "another etcd cluster serves",
		},
		{
			name: "interrupted, and a cluster serves whose ID is not known", machines: []machine.Observed{
				serving(recorded("cp2", "", "one", true), "8"), blank("cp1"),
			},
			serves: "the member on cp1 serves", want: restoreRefuse, reason: "another etcd cluster serves",
		},
		{
			name: "interrupted, and the ID of neither cluster is known", machines: []machine.Observed{
				recorded("cp2", "", "one", true), blank("cp1"),
			},
			serves: "the member on cp1 serves", want: restoreRefuse, reason: "another etcd cluster serves",
		},
		{
			name: "interrupted, and a running member cannot be asked", machines: []machine.Observed{
				serving(recorded("cp2", "", "one", true), "8"), ofCluster("cp1", "7"),
			},
			unasked: "cp1", want: restoreRefuse, reason: "cannot be asked on cp1",
		},
		{
			name: "interrupted, and a former member runs", machines: []machine.Observed{
				serving(recorded("cp2", "", "one", true), "8"), runs(ofCluster("cp1", "7")),
			},
			want: restoreAwait,
		},
		{
			name: "interrupted, and a former member is stopped", machines: []machine.Observed{
				serving(recorded("cp2", "", "one", true), "8"), ofCluster("cp1", "7"),
			},
			want: restoreContinue, seed: "cp2",
		},
		{
			name: "interrupted while it serves, and a former member runs", machines: []machine.Observed{
				serving(recorded("cp2", "", "one", true), "8"), runs(ofCluster("cp1", "7")),
			},
			serves: "cp2 is the leader", served: 8, want: restoreContinue, seed: "cp2",
		},
		{
			name: "interrupted, and a former member has a quorum and still no leader", machines: []machine.Observed{
				serving(recorded("cp2", "", "one", true), "8"), runs(ofCluster("cp1", "7")),
			},
			lists: map[string]membership.View{blank("cp1").Address: listing("cp1")},
			want:  restoreRefuse, reason: "another etcd cluster may serve: the member on cp1 (10.0.0.1) knows 1 voters",
		},
		{
			name: "interrupted, and a former member has no quorum", machines: []machine.Observed{
				serving(recorded("cp2", "", "one", true), "8"), runs(ofCluster("cp1", "7")), away("cp3", gone),
			},
			lists: map[string]membership.View{blank("cp1").Address: listing("cp1", "cp2", "cp3")},
			want:  restoreContinue, seed: "cp2",
		},
		{
			name: "done, and the former cluster serves", machines: []machine.Observed{
				gaveUp(serving(recorded("cp3", "one", "", true), "8"), "cp1", "cp2"),
				ofCluster("cp1", "7"), ofCluster("cp2", "7"),
			},
			serves: "cp1 is the leader", served: 7, want: restoreRefuse, reason: "is the former cluster",
		},
		{
			name: "done, and the restored cluster serves, also on a machine that was given up", machines: []machine.Observed{
				gaveUp(serving(recorded("cp3", "one", "", true), "8"), "cp1", "cp2"),
				serving(recorded("cp1", "one", "", true), "8"), ofCluster("cp2", "7"),
			},
			serves: "cp1 is the leader", served: 8, want: restoreDone,
		},
		{
			name: "done again since", machines: []machine.Observed{
				gaveUp(serving(recorded("cp3", "one", "", true), "8"), "cp1", "cp2"),
				serving(recorded("cp1", "one", "", true), "9"), serving(recorded("cp2", "one", "", true), "9"),
			},
			serves: "cp1 is the leader", served: 9, want: restoreDone,
		},
		{
			name: "done, and another cluster serves on a machine that was not given up", machines: []machine.Observed{
				gaveUp(serving(recorded("cp3", "one", "", true), "8"), "cp1"), ofCluster("cp1", "7"), ofCluster("cp2", "7"),
			},
			serves: "cp1 is the leader", served: 7, want: restoreDone,
		},
		{
			name:     "complete, and a record of the beginning is left",
			machines: []machine.Observed{recorded("cp1", "", "one", true), recorded("cp2", "one", "", true)}, want: restoreDone,
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := decideRestore(restoreInput{
				ID: "one", Cluster: testCluster, Machines: c.machines, Serves: c.serves, Served: c.served, Unasked: c.unasked,
				Abandoned: c.abandoned, Resumed: c.resumed, Lists: c.lists,
			})
			if d.Case != c.want || d.Seed != c.seed || !strings.Contains(d.Reason, c.reason) {
				t.Errorf("decided %s, seed %q, reason %q; want %s, seed %q, reason with %q", d.Case, d.Seed, d.Reason, c.want,
					c.seed, c.reason)
			}
			if d.Case == restoreRefuse && d.Next == "" {
				t.Error("the refusal has no next step")
			}
		})
	}
}

// TestRestoreWithoutMachines: the next step names the machines that are neither reached nor abandoned, and abandoned
// ones are listed.
func TestRestoreWithoutMachines(t *testing.T) {
	gone := fmt.Errorf("no route to host: %w", host.ErrUnreachable)
	in := restoreInput{
		ID: "one", Cluster: testCluster, Resumed: true,
		Machines:  []machine.Observed{blank("cp1"), away("cp2", gone), away("cp3", gone)},
		Abandoned: host.AbandonedAt(blank("cp1").Address, blank("cp3").Address),
	}
	remedy := host.AbandonRemedy(blank("cp2").Address)
	if d := decideRestore(in); d.Case != restoreRefuse || !strings.HasSuffix(d.Next, remedy) {
		t.Errorf("decided %s, next step: %s", d.Case, d.Next)
	}
	if got := abandoned(in); !slices.Equal(got, []string{in.Machines[2].Label()}) {
		t.Errorf("abandoned: %q", got)
	}
}

// TestRestoreWithRefusedLogin: a machine that answers cannot be abandoned, so the next step is access to it.
func TestRestoreWithRefusedLogin(t *testing.T) {
	gone := fmt.Errorf("no route to host: %w", host.ErrUnreachable)
	key := &host.HostKeyError{Address: "10.0.0.2", Seen: "ssh-ed25519 AAAA"}
	in := restoreInput{
		ID: "one", Cluster: testCluster, Machines: []machine.Observed{blank("cp1"), away("cp2", key)},
		Abandoned: host.AbandonedAt(blank("cp2").Address),
	}
	d := decideRestore(in)
	if d.Case != restoreRefuse || !strings.Contains(d.Next, "pin it on the provider") ||
		strings.Contains(d.Next, "abandon") {
		t.Errorf("decided %s, next step: %s", d.Case, d.Next)
	}
	in.Machines = append(in.Machines, away("cp3", gone), away("cp4", fmt.Errorf("login: %w", host.ErrAuth)),
		away("cp5", fmt.Errorf("sudo: %w: %w", host.ErrUnreachable, host.ErrNoAnswer)))
	d = decideRestore(in)
	for _, want := range []string{
		"pin it on the provider", "check ssh on the provider", host.AbandonRemedy(blank("cp3").Address), host.HangRemedy,
	} {
		if strings.Count(d.Next, want) != 1 {
			t.Errorf("the next step lacks %q: %s", want, d.Next)
		}
	}
}

// TestRestoreRefusesOtherData also holds when the cluster is lost otherwise.
func TestRestoreRefusesOtherData(t *testing.T) {
	other := established("cp1")
	record := *other.Record
	record.ClusterID = "another"
	other.Record = &record
	d := decideRestore(restoreInput{
		ID: "one", Cluster: testCluster, Machines: []machine.Observed{other}, Resumed: true,
	})
	if d.Case != restoreRefuse || !strings.Contains(d.Reason, "another cluster") {
		t.Errorf("decided %+v", d)
	}
}

func TestFreshest(t *testing.T) {
	silent := errors.New("silent")
	all := []survivor{
		{Name: "cp1", Term: 9, Index: 100, Revision: 50},
		{Name: "cp2", Term: 3, Index: 120, Revision: 60},
		{Name: "cp3", Err: silent},
	}
	if got := freshest(all); got != "cp2" {
		t.Errorf("freshest is %q", got)
	}
	if got := freshest(all[2:]); got != "" {
		t.Errorf("freshest of the silent ones is %q", got)
	}
	if next := lostNext(all, machine.Spec{}); !strings.Contains(next, `member = "cp2"`) ||
		!strings.Contains(next, "or name a snapshot") {
		t.Errorf("quorum lost, next step: %s", next)
	}
	if next := lostNext(all[2:], machine.Spec{}); !strings.Contains(next, "a member that has its data") {
		t.Errorf("quorum lost, nobody answers, next step: %s", next)
	}
	if next := lostNext(all, machine.Spec{Runtime: machine.StaticPod}); !strings.Contains(next, `member = "cp2"`) ||
		!strings.Contains(next, "systemctl start kubelet, tail /var/log/pods") {
		t.Errorf("quorum lost, static pods, next step: %s", next)
	}
	for name, want := range map[string][]string{"cp1": {"cp2"}, "cp2": nil, "cp3": {"cp1", "cp2"}, "cp4": nil} {
		var got []string
		for _, s := range fresher(all, name) {
			got = append(got, s.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("fresher than %s: %v, want %v", name, got, want)
		}
	}
	all = append(all, survivor{Name: "cp4", Err: silent}, survivor{Name: "cp5", Term: 9, Index: 100})
	if got := fresher(all, "cp1"); len(got) != 1 || got[0].Name != "cp2" {
		t.Errorf("fresher than one that knows as much as another: %v", got)
	}
	if got := fresher(all, "cp3"); len(got) != 3 {
		t.Errorf("fresher than a silent one: %v", got)
	}
	table := survivorTable(all)
	for _, want := range []string{"120", "does not answer", "REVISION"} {
		if !strings.Contains(table, want) {
			t.Errorf("the table lacks %q:\n%s", want, table)
		}
	}
}

// TestQuiet: a survivor that does not answer may know more than the one that is named.
func TestQuiet(t *testing.T) {
	silent := errors.New("no answer")
	all := []survivor{{Name: "cp1"}, {Name: "cp2", Err: silent}, {Name: "cp3", Err: silent}}
	if got := quiet(all, "cp3"); len(got) != 1 || got[0].Name != "cp2" {
		t.Errorf("quiet are %v", got)
	}
	if got := quiet(all[:1], "cp1"); len(got) != 0 {
		t.Errorf("quiet are %v", got)
	}
}

// TestLearnerIsNoSurvivor: etcd does not start alone with the data of a learner, so none is offered, and one that is
// named is refused. What it knows counts: it is committed.
func TestLearnerIsNoSurvivor(t *testing.T) {
	all := []survivor{
		{Name: "cp1", Index: 100, Revision: 50},
		{Name: "cp2", Index: 120, Revision: 60},
		{Name: "cp3", Index: 140, Revision: 70, Learner: true},
	}
	if got := freshest(all); got != "cp2" {
		t.Errorf("freshest is %q", got)
	}
	if got := freshest(all[2:]); got != "" {
		t.Errorf("freshest of a learner is %q", got)
	}
	if next := lostNext(all[2:], machine.Spec{}); !strings.Contains(next, "a member that has its data") {
		t.Errorf("only a learner has data, next step: %s", next)
	}
	if more := fresher(all, "cp2"); len(more) != 1 || more[0].Name != "cp3" {
		t.Errorf("fresher than cp2 are %v", more)
	}
	for name, want := range map[string]string{"cp1": `member = "cp2"`, "cp2": "save a snapshot with etcdctl"} {
		if next := fresherNext(all, name); !strings.Contains(next, want) || !strings.Contains(next, "accept_older = true") {
			t.Errorf("next step for %s: %s", name, next)
		}
	}
	if learnerProblem(all, "cp2") != "" || !strings.Contains(learnerProblem(all, "cp3"), "cp3 is a learner") {
		t.Errorf("named are %q and %q", learnerProblem(all, "cp2"), learnerProblem(all, "cp3"))
	}
	if table := survivorTable(all); !strings.Contains(table, "cp3 (learner)") || strings.Contains(table, "cp2 (learner)") {
		t.Errorf("the table is\n%s", table)
	}
}
