package review

import (
	"slices"
	"strings"
	"testing"
)

func healthy(is bool) *bool { return &is }

// plane has members and replicas on the same machines. Each action is what happens to one
// member, with the suffix "-" for an unhealthy member and "*" for the leader.
func plane(actions ...string) Plane {
	p := Plane{Endpoints: []Endpoint{{Resource: Resource{Name: "10.0.0.100", Action: Keep}, Holder: "cp1"}}}
	for i, text := range actions {
		name := "cp" + string(rune('1'+i))
		r := Resource{Kind: "kube_etcd_member", Name: name, Action: Keep}
		switch strings.Trim(text, "-*") {
		case "restart":
			r.Action, r.Reasons = Update, []Reason{{"flags x", Restart}}
		case "repair":
			r.Action, r.Reasons, r.Drift = Update, []Reason{{"drift is repaired", Repair}}, []string{name + ": y"}
		case "peers":
			r.Action, r.Reasons = Update, []Reason{{"peers +z", None}}
		case "new":
			r.Action = Create
		case "leave":
			r.Action = Delete
		case "replace":
			r.Action = Replace
		case "new first":
			r.Action = CreateFirst
		}
		p.Members = append(p.Members, Member{
			Resource: r, URL: "https://" + name, Leader: strings.HasSuffix(text, "*"), Healthy: healthy(!strings.HasSuffix(text, "-")),
		})
		replica := Resource{Kind: "kube_control_plane_replica", Name: name, Action: Keep}
		if r.Action == Create || r.Action == Delete {
			replica.Action = r.Action
		}
		p.Replicas = append(p.Replicas, Replica{Resource: replica, Endpoint: "10.0.0.100", Etcd: []string{"https://" + name}, Registered: healthy(true)})
	}
	return p
}

func TestAvailable(t *testing.T) {
	for name, test := range map[string]struct {
		plane Plane
		want  []string
	}{
		"nothing": {plane("", "", ""), []string{"etcd: no member stops; 3 of 3 healthy.", "API: no server stops; 3 of 3 in rotation."}},
		"peers":   {plane("peers", "peers", "peers"), []string{"etcd: no member stops; 3 of 3 healthy.", "API: no server stops; 3 of 3 in rotation."}},
		"a flag of all": {plane("restart", "restart", "restart"), []string{
			"etcd: members restart one at a time: 2 of 3 stay, and quorum is 2.",
			"API: one server at a time leaves rotation, drained first: 2 of 3 keep serving.",
			"API: a server whose only etcd member is restarted or replaced leaves rotation meanwhile.",
		}},
		"a flag of all, one is down": {plane("restart", "restart-", "restart"), []string{
			"etcd: members restart one at a time. 2 of 3 are healthy, and 2 have to be: a healthy one is **not restarted** before the others are back.",
			"API: one server at a time leaves rotation, drained first: 2 of 3 keep serving.",
			"API: a server whose only etcd member is restarted or replaced leaves rotation meanwhile.",
		}},
		"five, one is down": {plane("restart", "restart-", "restart", "restart", "restart"), []string{
			"etcd: members restart one at a time: 3 of 5 stay, and quorum is 3.",
			"API: one server at a time leaves rotation, drained first: 4 of 5 keep serving.",
			"API: a server whose only etcd member is restarted or replaced leaves rotation meanwhile.",
		}},
		"the one that is down is repaired": {plane("", "repair-", ""), []string{
			"etcd: only unhealthy members are changed; 2 of 3 stay, and quorum is 2.",
			"API: no server stops; 3 of 3 in rotation.",
		}},
		"no quorum": {plane("repair-", "repair-", ""), []string{
			"etcd: **no quorum now**: 1 of 3 members were seen healthy, and 2 have to be. What would make it worse is refused.",
			"etcd: only unhealthy members are changed; 1 of 3 stay, and quorum is 2.",
			"API: no server stops; 3 of 3 in rotation.",
		}},
		"one of one": {plane("restart"), []string{
			"etcd: the only member restarts: **no reads and no writes meanwhile**.",
			"API: **its only server stops** for what needs a restart: no answer meanwhile.",
			"API: a server whose only etcd member is restarted or replaced leaves rotation meanwhile.",
		}},
		"two": {plane("repair", "repair"), []string{
			"etcd: members may restart one at a time. Of two **each is needed for quorum**: a short interruption each time.",
			"API: no server stops; 2 of 2 in rotation.",
		}},
		"one is replaced": {plane("", "replace", ""), []string{
			"etcd: 1 member is replaced: what remains keeps quorum, or it is refused.",
			"API: one server at a time leaves rotation, drained first: 2 of 3 keep serving.",
			"API: a server whose only etcd member is restarted or replaced leaves rotation meanwhile.",
		}},
		"it grows": {plane("", "new", "new"), []string{
			"etcd: from 1 to 3 members, one at a time; quorum goes from 1 to 2.",
			"API: from 1 to 3 servers; who leaves is drained first.",
		}},
		"all go": {plane("leave", "leave", "leave"), []string{
			"etcd: **goes away**, and the API with it. The last member saves a snapshot first, unless `on_destroy` wipes its data.",
			"API: **goes away**.",
		}},
		"nothing there": {Plane{}, nil},
	} {
		if got := test.plane.available(); !slices.Equal(got, test.want) {
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
	if got := p.available()[0]; !strings.Contains(got, "2 of 3 are healthy") {
		t.Errorf("a member that does not answer counts: %s", got)
	}
	if got := p.memberState(p.Members[0]); got != unseen {
		t.Errorf("a member that does not answer is drawn as %s", got)
	}
	if got := p.replicaState(p.Replicas[0]); got != unseen {
		t.Errorf("a replica that does not answer is drawn as %s", got)
	}
}

func TestOrder(t *testing.T) {
	for name, test := range map[string]struct {
		plane Plane
		want  []string
	}{
		"the leader is last":            {plane("restart*", "restart", "restart"), []string{"cp2 cp3 cp1"}},
		"it need not be, for its peers": {plane("peers*", "peers"), []string{"cp1 cp2"}},
		"who goes, then who stays":      {plane("peers", "leave"), []string{"cp2", "cp2", "cp1"}},
		"destroyed before made":         {plane("", "replace"), []string{"cp2", "cp2"}},
		"made before destroyed":         {plane("", "new first"), []string{"cp2", "cp2"}},
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
	if got := first("replace"); !strings.HasPrefix(got, "Members leave") {
		t.Errorf("a replacement begins with %q", got)
	}
	if got := first("new first"); !strings.HasPrefix(got, "Members join") {
		t.Errorf("a replacement that creates first begins with %q", got)
	}
}
