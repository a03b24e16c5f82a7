package acceptance

import (
	"context"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// TestRefuse requests changes that would lose quorum, bootstrap a second cluster or leave the
// endpoint without a replica. Nothing is changed. When the cause is removed, the same change
// applies.
func TestRefuse(t *testing.T) {
	names := []string{"cp1", "cp2", "cp3"}
	w := newStory(t, append(names, "cp4")...)
	bare := fingerprints(t, "cp1", "cp2", "cp3", "cp4")
	choose(t, w, names...)
	apply(t, w)
	for _, s := range []struct {
		name string
		run  func(t *testing.T, w *workspace.Workspace)
	}{
		{"the last replica that serves", refuseLastReplica},
		{"while a member joins", refuseWithLearner},
		{"while a machine is cut off", refuseWithoutQuorum},
		{"a second cluster", refuseSecondCluster},
	} {
		t.Run(s.name, func(t *testing.T) { s.run(t, w) })
		if t.Failed() {
			t.FailNow()
		}
	}
	apply(t, w, "-destroy")
	expectBare(t, bare, "cp1", "cp2", "cp3", "cp4")
}

// table is the header of every member table.
const table = "NAME ID PEER URL ROLE VERSION HEALTH"

// untouched runs a change that must not begin on the named machines. may lists processes that
// can end on their own meanwhile.
func untouched(t *testing.T, w *workspace.Workspace, names, may []string, args ...string) string {
	t.Helper()
	files := func() string {
		all := ""
		for _, name := range names {
			all += onMachine(t, shared.lab.Machine(name),
				`sha256sum /etc/systemd/system/*.service /etc/haproxy/kube/* /etc/keepalived/kube.conf`)
		}
		return all
	}
	before, content := processes(t, names...), files()
	output := refused(t, w, args...)
	expectRestarted(t, before, nil, may...)
	if now := files(); now != content {
		t.Errorf("files were changed:\nbefore:\n%s\nafter:\n%s", content, now)
	}
	return output
}

func refuseLastReplica(t *testing.T, w *workspace.Workspace) {
	for _, name := range []string{"cp2", "cp3"} {
		onMachine(t, shared.lab.Machine(name), `systemctl stop kube-apiserver`)
	}
	output := untouched(t, w, []string{"cp1"}, nil, "-target="+replicaAddress("cp1"), `-var=apiserver_extra_args={v="3"}`)
	expectContains(t, output, "Replica cp1 not taken out of rotation", "it is the last replica that serves",
		"nothing was changed", "bring the other back", "cp2 10.97.0.12:6443 DOWN")
	for _, name := range []string{"cp2", "cp3"} {
		onMachine(t, shared.lab.Machine(name), `systemctl start kube-apiserver`)
	}
	awaitRotation(t, "cp1", "cp2", "cp3")
	expectEmptyPlan(t, w)
}

func refuseWithLearner(t *testing.T, w *workspace.Workspace) {
	cp1 := shared.lab.Machine("cp1")
	onMachine(t, cp1, ctl+`etcdctl member add cp9 --learner --peer-urls=https://10.97.0.99:2380`)
	choose(t, w, "cp1", "cp2", "cp3", "cp4")
	output := untouched(t, w, []string{"cp1", "cp2", "cp3"}, nil, "-target="+memberAddress("cp4"))
	expectContains(t, output, "etcd member not joined", "cp4 (10.97.0.14)", "another member is still joining as a learner",
		table, "https://10.97.0.99:2380 learner", "nothing was changed")
	onMachine(t, cp1, ctl+`etcdctl member remove $(etcdctl member list | awk -F', ' '$4 == "https://10.97.0.99:2380" { `+
		`print $1 }')`)
	choose(t, w, "cp1", "cp2", "cp3")
	apply(t, w) // the rejected apply has left an output that it had planned
}

// refuseWithoutQuorum requests several changes at once while cp3 is isolated: a flag for every
// member, the replacement of cp2, a fourth member.
func refuseWithoutQuorum(t *testing.T, w *workspace.Workspace) {
	cp3 := shared.lab.Machine("cp3")
	if err := cp3.Cut(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cp3.Heal(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	choose(t, w, "cp1", "cp2", "cp3", "cp4")
	flag := `-var=etcd_extra_args={max-wals="4"}`
	output := untouched(t, w, []string{"cp1", "cp2"}, nil, flag, "-target=kube_etcd_member.this",
		"-replace="+memberAddress("cp2"))
	expectContains(t, output, "etcd member not restarted", "etcd member not deleted", "etcd member not joined",
		"the cluster would lose quorum", "unhealthy: cp3", table, "does not answer", "nothing was changed")
	if err := cp3.Heal(t.Context()); err != nil {
		t.Fatal(err)
	}
	choose(t, w, "cp1", "cp2", "cp3")
	before := processes(t, "cp1", "cp2", "cp3")
	apply(t, w, flag)
	awaitRotation(t, "cp1", "cp2", "cp3")
	expectEmptyPlan(t, w, flag)
	var must []string
	for _, name := range []string{"cp1", "cp2", "cp3"} {
		// The replica is paused with its member.
		must = append(must, name+" etcd", name+" kube-apiserver", name+" kube-controller-manager", name+" kube-scheduler")
	}
	expectRestarted(t, before, must)
}

// refuseSecondCluster tries to create a member as new while the rest of its cluster is off.
// When the cluster is back, the existing member is adopted.
func refuseSecondCluster(t *testing.T, w *workspace.Workspace) {
	flag := `-var=etcd_extra_args={max-wals="4"}`
	if _, err := w.Run(t.Context(), "state", "rm", memberAddress("cp1")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"cp2", "cp3"} {
		if err := shared.lab.Machine(name).PowerOff(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	// Without quorum no lease can be renewed.
	leased := []string{"cp1 kube-controller-manager", "cp1 kube-scheduler"}
	output := untouched(t, w, []string{"cp1"}, leased, flag, "-target="+memberAddress("cp1"))
	expectContains(t, output, "etcd cluster not bootstrapped", "cp2 (10.97.0.12)", "cp3 (10.97.0.13)",
		"nothing was changed")
	for _, name := range []string{"cp2", "cp3"} {
		if err := shared.lab.Machine(name).Boot(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	awaitRotation(t, "cp1", "cp2", "cp3")
	before := processes(t, "cp1", "cp2", "cp3")
	apply(t, w, flag)
	expectRestarted(t, before, nil)
}
