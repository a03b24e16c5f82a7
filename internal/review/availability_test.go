package review

import (
	"slices"
	"strings"
	"testing"
)

func known(value bool) *bool { return &value }

// plane has members and replicas on the same machines. Each action is what happens to one
// member, with the suffix "-" for an unhealthy member and "*" for the leader.
func plane(actions ...string) ControlPlane {
	p := ControlPlane{Endpoints: []Endpoint{{Resource: Resource{Name: "10.0.0.100", Action: Keep}, Holder: "cp1"}}}
	for i, text := range actions {
		name := "cp" + string(rune('1'+i))
		r := Resource{Kind: "kube_etcd_member", Name: name, Action: Keep}
		switch strings.Trim(text, "-*") {
		case "restart":
			r.Action, r.Reasons = Update, []Reason{{Text: "flags x", Effect: Restart}}
		case "repair":
			r.Action, r.Reasons, r.Drift = Update, []Reason{{Text: "drift is repaired", Effect: Repair}}, []string{name + ": y"}
		case "peers":
			r.Action, r.Reasons = Update, []Reason{{Text: "peers +z", Effect: None}}
		case "new":
			r.Action = Create
		case "leave":
			r.Action = Delete
		case "replace":
			r.Action = Replace
		case "new first":
			r.Action = CreateFirst
		}
		status := MemberStatus{Leader: strings.HasSuffix(text, "*"), Healthy: known(!strings.HasSuffix(text, "-"))}
		p.Members = append(p.Members, Member{Resource: r, URL: "https://" + name, MemberStatus: status})
		replica := Resource{Kind: "kube_control_plane_replica", Name: name, Action: Keep}
		if r.Action == Create || r.Action == Delete {
			replica.Action = r.Action
		}
		p.Replicas = append(p.Replicas, Replica{
			Resource: replica, Endpoint: "10.0.0.100", Etcd: []string{"https://" + name}, Registered: known(true),
		})
	}
	return p
}

func TestAvailability(t *testing.T) {
	for name, test := range map[string]struct {
		plane ControlPlane
		want  []string
	}{
		"nothing": {plane("", "", ""), []string{
			"etcd: no member stops; 3 of 3 are healthy.",
			"API: no server stops; 3 of 3 are in rotation.",
		}},
		"peers": {plane("peers", "peers", "peers"), []string{
			"etcd: no member stops; 3 of 3 are healthy.",
			"API: no server stops; 3 of 3 are in rotation.",
		}},
		"a flag of all": {plane("restart", "restart", "restart"), []string{
			"etcd: members restart one at a time. 2 of 3 keep serving; quorum is 2.",
			"API: one server at a time leaves rotation, drained first. 2 of 3 keep serving.",
			"API: a server is out of rotation while its only etcd member restarts or is replaced.",
		}},
		"a flag of all, one is down": {plane("restart", "restart-", "restart"), []string{
			"etcd: members restart one at a time. 2 of 3 are healthy, and quorum is 2: " +
				"healthy members **do not restart** until the others are healthy.",
			"API: one server at a time leaves rotation, drained first. 2 of 3 keep serving.",
			"API: a server is out of rotation while its only etcd member restarts or is replaced.",
		}},
		"five, one is down": {plane("restart", "restart-", "restart", "restart", "restart"), []string{
			"etcd: members restart one at a time. 3 of 5 keep serving; quorum is 3.",
			"API: one server at a time leaves rotation, drained first. 4 of 5 keep serving.",
			"API: a server is out of rotation while its only etcd member restarts or is replaced.",
		}},
		"the one that is down is repaired": {plane("", "repair-", ""), []string{
			"etcd: only unhealthy members change. 2 of 3 keep serving; quorum is 2.",
			"API: no server stops; 3 of 3 are in rotation.",
		}},
		"no quorum": {plane("repair-", "repair-", ""), []string{
			"etcd: **no quorum now**: 1 of 3 members are healthy, and quorum is 2. " +
				"The provider refuses what would make it worse.",
			"etcd: only unhealthy members change. 1 of 3 keep serving; quorum is 2.",
			"API: no server stops; 3 of 3 are in rotation.",
		}},
		"one of one": {plane("restart"), []string{
			"etcd: the only member restarts: **no reads and no writes meanwhile**.",
			"API: **the only server stops** during a restart, and requests fail meanwhile.",
			"API: a server is out of rotation while its only etcd member restarts or is replaced.",
		}},
		"two": {plane("repair", "repair"), []string{
			"etcd: members may restart one at a time. With two members, **quorum needs both**: a short interruption for each.",
			"API: no server stops; 2 of 2 are in rotation.",
		}},
		"one is replaced": {plane("", "replace", ""), []string{
			"etcd: 1 member is replaced. The provider refuses a replacement that would lose quorum.",
			"API: one server at a time leaves rotation, drained first. 2 of 3 keep serving.",
			"API: a server is out of rotation while its only etcd member restarts or is replaced.",
		}},
		"it grows": {plane("", "new", "new"), []string{
			"etcd: from 1 to 3 members, one at a time. Quorum changes from 1 to 2.",
			"API: from 1 to 3 servers. A server that leaves is drained first.",
		}},
		"all go": {plane("leave", "leave", "leave"), []string{
			"etcd: **the cluster is destroyed**, and the API with it. " +
				"The last member saves a snapshot first, unless `on_destroy` wipes its data.",
			"API: **all servers are destroyed**.",
		}},
		"nothing there": {ControlPlane{}, nil},
	} {
		whole := Plan{ControlPlanes: []ControlPlane{test.plane}}.whole()
		if got := test.plane.availability(whole); !slices.Equal(got, test.want) {
			t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(test.want, "\n"))
		}
	}
}

// TestUnreachable checks that the last observed state of an unreachable machine does not count.
func TestUnreachable(t *testing.T) {
	p := plane("restart*", "restart", "restart")
	for i, address := range []string{"10.0.0.11", "10.0.0.12", "10.0.0.13"} {
		p.Members[i].Machine, p.Replicas[i].Machine = address, address
	}
	p.Endpoints[0].Hosts = map[string]string{"a": "10.0.0.11", "b": "10.0.0.12"}
	p.Unreached = map[string]string{"10.0.0.11": "connect to 10.0.0.11: unreachable over SSH: no answer in time"}
	if leader := p.leader(); leader != "" {
		t.Errorf("the leader is %q, which does not answer", leader)
	}
	if got := p.etcdAvailability()[0]; !strings.Contains(got, "2 of 3 are healthy") {
		t.Errorf("a member that does not answer counts: %s", got)
	}
	if got := p.memberState(p.Members[0]); got != unknown {
		t.Errorf("a member that does not answer is drawn as %s", got)
	}
	if got := p.replicaState(p.Replicas[0]); got != unknown {
		t.Errorf("a replica that does not answer is drawn as %s", got)
	}
}

func TestOrder(t *testing.T) {
	for name, test := range map[string]struct {
		plane ControlPlane
		want  []string
	}{
		"the leader is last":            {plane("restart*", "restart", "restart"), []string{"cp2 cp3 cp1"}},
		"not for a change of its peers": {plane("peers*", "peers"), []string{"cp1 cp2"}},
		"removals, then updates":        {plane("peers", "leave"), []string{"cp2", "cp2", "cp1"}},
		"destroyed before created":      {plane("", "replace"), []string{"cp2", "cp2"}},
		"created before destroyed":      {plane("", "new first"), []string{"cp2", "cp2"}},
	} {
		var got []string
		for _, s := range test.plane.steps() {
			var names []string
			for _, i := range s.items {
				names = append(names, i.name)
			}
			got = append(got, strings.Join(names, " "))
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
	first := func(action string) string { return plane("", action).steps()[0].title }
	if got := first("replace"); !strings.HasPrefix(got, "Members are removed") {
		t.Errorf("a replacement begins with %q", got)
	}
	if got := first("new first"); !strings.HasPrefix(got, "Members join") {
		t.Errorf("a replacement that creates first begins with %q", got)
	}
}
