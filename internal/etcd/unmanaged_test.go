package etcd

import (
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/etcd/membership"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/poll"
)

func TestUnmanaged(t *testing.T) {
	machines := func(addresses ...string) map[string]*host.Host {
		out := map[string]*host.Host{}
		for _, text := range addresses {
			name, address, _ := strings.Cut(text, "=")
			out[name] = (&host.Pool{}).Host(host.Target{Address: address})
		}
		return out
	}
	member := func(id uint64, name, address string, learner bool) membership.Member {
		return membership.Member{ID: id, Name: name, PeerURLs: []string{membership.PeerURL(address)}, Learner: learner}
	}
	three := []membership.Member{member(1, "cp1", "10.0.0.1", false), member(2, "cp2", "10.0.0.2", false), member(3, "cp3",
		"10.0.0.3", false)}
	all := []string{"cp1=10.0.0.1", "cp2=10.0.0.2", "cp3=10.0.0.3"}
	for _, c := range []struct {
		name     string
		members  []membership.Member
		peers    []string
		former   []string
		leaving  string // the member whose Delete is in progress
		creating string // the address at which a Create is in progress
		want     []string
		stays    bool // no apply asks to remove it
	}{
		{name: "all are named", members: three, peers: all},
		{name: "peers have one more", members: three[:2], peers: all},
		{name: "one that has not started", members: append(three[:2:2], member(3, "", "10.0.0.3", true)), peers: all},
		{
			name: "one more", members: append(three[:3:3], member(9, "cp9", "10.0.0.9", false)), peers: all,
			want: []string{`cp1: the cluster lists member "cp9" (9) at "https://10.0.0.9:2380", which is not in peers`},
		},
		{
			name: "one more, which has not started", members: append(three[:3:3], member(9, "", "10.0.0.9", true)), peers: all,
			want: []string{`lists a member that has never started (9) at "https://10.0.0.9:2380"`},
		},
		{
			name: "a learner", members: append(three[:3:3], member(9, "cp9", "10.0.0.9", true)), peers: all,
			want: []string{`lists learner "cp9" (9)`},
		},
		{
			name: "the name of one of them", members: append(three[:3:3], member(9, "cp2", "10.0.0.9", false)), peers: all,
			want: []string{`member "cp2" (9) at "https://10.0.0.9:2380"`},
		},
		{
			name:    "another name at the address of one of them",
			members: append(three[:2:2], member(9, "db3", "10.0.0.3", false)), peers: all, want: []string{`member "db3" (9)`},
		},
		{
			name: "words that a terminal would obey", members: append(three[:3:3], member(9, "\x1b[2Jcp9\n", "10.0.0.9", false)),
			peers: all, want: []string{`member "\x1b[2Jcp9\n" (9)`},
		},
		{
			name: "moved by an apply that was cut off", members: three,
			peers: []string{"cp1=10.0.0.1", "cp2=10.0.0.2", "cp3=10.0.0.4"}, stays: true,
			want: []string{
				`lists member "cp3" (3) at "https://10.0.0.3:2380", and peers have it at "https://10.0.0.4:2380"`,
			},
		},
		{
			name: "the name of one that has moved", members: append(three[:3:3], member(9, "cp3", "10.0.0.4", false)),
			peers: []string{"cp1=10.0.0.1", "cp2=10.0.0.2", "cp3=10.0.0.4"},
			want:  []string{`the cluster lists member "cp3" (3) at "https://10.0.0.3:2380", which is not in peers`},
		},
		{name: "two more", members: append(three[:1:1], three[1:]...), peers: all[:1], want: []string{`"cp2"`, `"cp3"`}},
		{name: "scaled down in this run", members: three, peers: all[:2], former: all},
		{
			name: "moved in this run", members: three, peers: []string{"cp1=10.0.0.1", "cp2=10.0.0.2", "cp3=10.0.0.4"},
			former: all,
		},
		{
			name: "renamed in this run", members: three, peers: []string{"cp1=10.0.0.1", "cp2=10.0.0.2", "db3=10.0.0.3"},
			former: all,
		},
		{name: "it leaves in this process", members: three, peers: all[:2], leaving: "cp3"},
		{
			name: "it joins in this process", members: append(three[:3:3], member(9, "", "10.0.0.9", true)), peers: all,
			creating: "10.0.0.9",
		},
		{
			name: "a voter is not joining", members: append(three[:3:3], member(9, "cp9", "10.0.0.9", false)), peers: all,
			creating: "10.0.0.9", want: []string{`"cp9"`},
		},
		{
			name:    "it is itself not listed: nothing else is worth a word",
			members: append(three[1:3:3], member(9, "cp9", "10.0.0.9", false)), peers: all,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			peers := machines(c.peers...)
			s := Spec{
				Spec: machine.Spec{Name: "cp1", Host: peers["cp1"], Version: "3.6.16"}, Peers: peers,
				FormerPeers: machines(c.former...),
			}
			cl := &cluster{leaving: map[string]int{c.leaving: 1}}
			cl.countJoining(membership.PeerURL(c.creating), +1)
			status, err := cl.withUnmanaged(s, Status{unmanaged: unmanaged(s, &membership.View{Members: c.members})}, nil)
			if err != nil || len(status.Drift) != len(c.want) {
				t.Fatalf("drift %q, %v; want %q", status.Drift, err, c.want)
			}
			for i, want := range c.want {
				if !strings.Contains(status.Drift[i], want) {
					t.Errorf("drift %q, want %q", status.Drift[i], want)
				}
			}
			removals := len(c.want)
			if c.stays {
				removals = 0
			}
			if (status.Remedy == "") != (removals == 0) || strings.Count(status.Remedy, "member remove ") != removals {
				t.Errorf("remedy %q", status.Remedy)
			}
		})
	}
	alone := Spec{Spec: machine.Spec{Name: "cp1", Host: machines("cp1=10.0.0.1")["cp1"]}}
	if got := unmanaged(alone, &membership.View{Members: three}); len(got) != 2 || got[0].Name != "cp2" {
		t.Errorf("without peers, all but the member itself are not managed: %v", got)
	}
	if got := unmanaged(Spec{Spec: machine.Spec{Host: machines("cp1=10.0.0.1")["cp1"]}}, nil); got != nil {
		t.Errorf("nobody answered, and %v is not managed", got)
	}
}

// TestMemberAddedByHand verifies that a member that no configuration describes is drift on
// every member, until it is in peers or removed. A learner counts, because it receives all
// the data.
func TestMemberAddedByHand(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	specs := f.specs("cp1", "cp2", "cp3")
	more := f.specs("cp1", "cp2", "cp3", "cp9")
	f.create(specs, "cp1", "cp2", "cp3")
	f.calm(specs["cp1"])
	clients, err := f.clusters.of(specs["cp1"]).connect(specs["cp1"])
	if err != nil {
		t.Fatal(err)
	}
	defer clients.Close()
	var id uint64
	if _, err := poll.Until(f.context(), 100*time.Millisecond, 20*time.Second, func() (bool, error) {
		id, err = clients.AddLearner(f.context(), f.address("cp1"), more["cp9"].PeerURL())
		return err == nil, nil
	}); err != nil {
		t.Fatal(err)
	}
	starts := f.machine("cp1").starts
	for name, s := range specs {
		status, err := f.clusters.Read(f.context(), s)
		if err != nil || len(status.Drift) != 1 || !strings.Contains(status.Drift[0], "which is not in peers") {
			t.Errorf("read %s: %q, %v", name, status.Drift, err)
		}
		status, err = f.clusters.Update(f.context(), s) // it cannot repair this, and reports the next step
		if err != nil || len(status.Drift) != 1 || !strings.Contains(status.Remedy, "member remove") {
			t.Errorf("update %s: %q, %q, %v", name, status.Drift, status.Remedy, err)
		}
	}
	if f.machine("cp1").starts != starts {
		t.Error("it restarted a member")
	}
	if status, err := f.clusters.Update(f.context(), more["cp1"]); err != nil || len(status.Drift) > 0 {
		t.Errorf("named by peers: %q, %v", status.Drift, err)
	}
	if err := clients.Remove(f.context(), f.address("cp1"), id); err != nil {
		t.Fatal(err)
	}
	if status, err := f.clusters.Read(f.context(), specs["cp1"]); err != nil || len(status.Drift) > 0 {
		t.Errorf("gone again: %q, %v", status.Drift, err)
	}
}
