package controlplane

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/client"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/kubelet"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// TestEvictions: Pods leave a node as "kubectl drain --ignore-daemonsets" evicts them.
func TestEvictions(t *testing.T) {
	pod := func(name string, alter func(*client.Pod)) client.Pod {
		p := client.Pod{Namespace: "default", Name: name, Controller: "ReplicaSet"}
		alter(&p)
		return p
	}
	leaving, stuck := evictions([]client.Pod{
		pod("web", func(*client.Pod) {}),
		pod("etcd-cp1", func(p *client.Pod) { p.Mirror, p.Controller = true, "Node" }),
		pod("proxy", func(p *client.Pod) { p.Controller, p.EmptyDir = "DaemonSet", true }),
		pod("job", func(p *client.Pod) { p.Controller, p.Ended, p.EmptyDir = "Job", true, true }),
		pod("going", func(p *client.Pod) { p.Controller, p.Leaves, p.EmptyDir = "", true, true }),
		pod("lone", func(p *client.Pod) { p.Controller = "" }),
		pod("cache\x1b[2J", func(p *client.Pod) { p.EmptyDir = true }),
	})
	var names []string
	for _, p := range leaving {
		names = append(names, p.Name)
	}
	if !slices.Equal(names, []string{"web", "going", "lone", "cache\x1b[2J"}) {
		t.Errorf("%q leave the node", names)
	}
	if len(stuck) != 2 || !strings.Contains(stuck[0], "emptyDir") || !strings.Contains(stuck[1], "default/lone") ||
		strings.Contains(stuck[0], "\x1b") {
		t.Errorf("%q cannot be evicted", stuck)
	}
}

// tolerated is a node whose Pods come back under another UID at once, because they tolerate a cordoned node.
type tolerated struct {
	pods    []client.Pod
	evicted []string
}

func (*tolerated) Name() string { return "cp1" }

func (n *tolerated) Pods(context.Context) ([]client.Pod, error) { return slices.Clone(n.pods), nil }

func (n *tolerated) Evict(_ context.Context, p client.Pod) (blocked bool, err error) {
	n.evicted = append(n.evicted, p.UID)
	for i := range n.pods {
		if n.pods[i].UID == p.UID {
			n.pods[i].UID += "+"
		}
	}
	return false, nil
}

// TestEvictAll: only the Pods that were on the node leave it, as with kubectl drain. What comes later may stay.
func TestEvictAll(t *testing.T) {
	pod := func(name string) client.Pod {
		return client.Pod{Namespace: "default", Name: name, UID: name, Controller: "ReplicaSet"}
	}
	listed := []client.Pod{pod("operator"), pod("web")}
	later := pod("later")
	later.EmptyDir = true
	node := &tolerated{pods: append(slices.Clone(listed), later)}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := evictAll(ctx, testSpec(t), node, listed); err != nil {
		t.Fatal(err)
	}
	if want := []string{"operator", "web"}; !slices.Equal(node.evicted, want) {
		t.Errorf("evicted %q, want %q", node.evicted, want)
	}
}

// budgeted is a node with a Pod whose eviction a PodDisruptionBudget does not allow.
type budgeted struct {
	tolerated
	lists, evictions int
	allowed          int // the eviction that is allowed; 0: none
}

func (n *budgeted) Pods(ctx context.Context) ([]client.Pod, error) {
	n.lists++
	return n.tolerated.Pods(ctx)
}

func (n *budgeted) Evict(context.Context, client.Pod) (blocked bool, err error) {
	n.evictions++
	if n.evictions == n.allowed {
		n.pods[0].Leaves = true
		return false, nil
	}
	return true, nil
}

// TestEvictBlockedPod: an eviction that is not allowed is tried again every five seconds, as kubectl drain does, and
// not after the Pod leaves. The Pod is named if it has not left in time.
func TestEvictBlockedPod(t *testing.T) {
	s, web := testSpec(t), client.Pod{Namespace: "default", Name: "web", UID: "web", Controller: "ReplicaSet"}
	for allowed, want := range map[int]struct {
		evictions int
		why       string
	}{
		0: {61, `"default/web" is needed by a PodDisruptionBudget`},
		2: {2, `"default/web" is terminating`},
	} {
		synctest.Test(t, func(t *testing.T) {
			node := &budgeted{tolerated: tolerated{pods: []client.Pod{web}}, allowed: allowed}
			err := evictAll(t.Context(), s, node, []client.Pod{web})
			var p *problem.Problem
			if !errors.As(err, &p) || p.Detail != want.why || !strings.Contains(p.Cause, "still there after 5m0s") {
				t.Errorf("allowed %d: %v", allowed, err)
			}
			if node.evictions != want.evictions || node.lists != 301 {
				t.Errorf("allowed %d: %d evictions, want %d; %d lists", allowed, node.evictions, want.evictions, node.lists)
			}
		})
	}
}

// silentAPI is a node whose API server hangs from some list of the Pods on.
type silentAPI struct {
	tolerated
	answers int
}

func (n *silentAPI) Pods(ctx context.Context) ([]client.Pod, error) {
	if n.answers--; n.answers < 0 {
		return nil, fmt.Errorf("list the Pods of the node cp1: %w", context.DeadlineExceeded)
	}
	return n.tolerated.Pods(ctx)
}

func (*silentAPI) Evict(context.Context, client.Pod) (blocked bool, err error) { return true, nil }

// TestEvictWithoutAnswer: a request that the API server does not answer in time says nothing about Pods.
func TestEvictWithoutAnswer(t *testing.T) {
	s, web := testSpec(t), client.Pod{Namespace: "default", Name: "web", UID: "web", Controller: "ReplicaSet"}
	for _, answers := range []int{0, 3} {
		synctest.Test(t, func(t *testing.T) {
			node := &silentAPI{tolerated: tolerated{pods: []client.Pod{web}}, answers: answers}
			err := evictAll(t.Context(), s, node, []client.Pod{web})
			if err == nil || !strings.HasPrefix(err.Error(), "list the Pods of the node cp1") {
				t.Errorf("after %d answers: %v", answers, err)
			}
		})
	}
}

func TestChangesMinor(t *testing.T) {
	for have, want := range map[string]bool{"1.35.4": true, "1.36.0": false, "": true, "1.37.0": true} {
		if changesMinor(have, "1.36.3") != want {
			t.Errorf("from %q to 1.36.3: %v, want %v", have, !want, want)
		}
	}
}

// recordedNode is a node of the API server that records what is changed.
type recordedNode struct {
	tolerated
	state   client.NodeState
	patched []bool
}

func (n *recordedNode) State(context.Context) (client.NodeState, error) { return n.state, nil }

func (n *recordedNode) SetSchedulable(_ context.Context, schedulable bool) error {
	n.patched = append(n.patched, schedulable)
	return nil
}

// TestNodeOfMachine: the node that is drained is that of the kubelet. One that is not known is not passed over, and one
// of another machine, which has the replica's name, is not changed.
func TestNodeOfMachine(t *testing.T) {
	b := cptest.Bundle(t)
	s := Spec{Host: testHost(t, host.Config{}, "10.0.0.11"), Replica: component.Replica{
		Name: "cp1", Address: "10.0.0.11", Bundle: b,
	}}
	encoded := base64.StdEncoding.EncodeToString
	pair, err := b.Issue(pki.User("system:node:ip-10-0-0-11.ec2.internal", "system:nodes"), cptest.Now, 0)
	if err != nil {
		t.Fatal(err)
	}
	joined := "kubelet\tserver\t" + encoded([]byte("https://10.0.0.11:6443")) + "\n"
	named := "credentials\tover\t" + encoded([]byte(b.Roots(pki.Kubernetes))) + "\t" +
		encoded([]byte(pair.Certificate)) + "\n"
	other := "credentials\tover\t" + encoded([]byte(b.Roots(pki.Etcd))) + "\t" + encoded([]byte(pair.Certificate)) + "\n"
	none := client.NodeState{}
	at := func(addresses ...string) client.NodeState {
		return client.NodeState{Exists: true, Addresses: addresses} // cordoned by an administrator
	}
	for name, c := range map[string]struct {
		output, want string
		state        client.NodeState
		refused      string
		drained      bool
	}{
		"a kubelet of the cluster":       {joined + named, "ip-10-0-0-11.ec2.internal", at("10.0.0.99"), "", true},
		"one whose node was deleted":     {joined + named, "ip-10-0-0-11.ec2.internal", none, "", false},
		"one of another form":            {joined, "cp1", at("cp1", "::ffff:10.0.0.11"), "", true},
		"another form, and no node":      {joined, "cp1", none, "no node has the name", false},
		"trust in others":                {joined + other, "cp1", none, "no node has the name", false},
		"another form, another machine":  {joined, "cp1", at("10.0.0.99", "cp1"), "is not this machine", false},
		"trust in others, a worker":      {joined + other, "cp1", at("10.0.0.99"), "10.0.0.99", false},
		"another form, other address":    {joined, "cp1", client.NodeState{Exists: true, MachineID: "4711"}, "", true},
		"another form, without address":  {joined, "cp1", at(), "is not this machine", false},
		"another form, a longer address": {joined, "cp1", at("10.0.0.110"), "is not this machine", false},
	} {
		f := machine.Observed{Facts: host.Facts{Output: c.output, MachineID: "4711"}}
		if got := nodeOf(s, f); got != c.want {
			t.Errorf("%s: its node is %q, want %q", name, got, c.want)
		}
		node := &recordedNode{state: c.state}
		node.pods = []client.Pod{{Namespace: "default", Name: "web", UID: "web", Controller: "ReplicaSet"}}
		err := emptyNode(t.Context(), s, f, node)
		if (err != nil) != (c.refused != "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%s: %v, want %q", name, err, c.refused)
		}
		if len(node.patched) > 0 || (len(node.evicted) > 0) != c.drained {
			t.Errorf("%s: schedulable was set to %v, and %q evicted", name, node.patched, node.evicted)
		}
	}
}

// TestNoNode: a kubelet that runs alone has no node, so no API server is asked for one of the replica's name.
func TestNoNode(t *testing.T) {
	s := unreachable(t)
	f := machine.Observed{Facts: host.Facts{Output: "kubelet\tactive\tactive\n"}}
	if err := drainNode(t.Context(), s, f); err != nil {
		t.Error(err)
	}
}

// TestLeftCordoned: a node that a change has left cordoned is drift, also if the kubelet does not follow its replica
// any more, and a Delete knows of it on a machine of its own replica only.
func TestLeftCordoned(t *testing.T) {
	s := testSpec(t)
	s.Runtime = component.StaticPod
	for _, manages := range []bool{true, false} {
		s.ManageKubelet = manages
		if script := machine.Query(s.Replica).Script; !strings.Contains(string(script), string(kubelet.IsCordoned())) {
			t.Errorf("manage_kubelet %t: the machine is not asked", manages)
		}
		f := converged(t, s)
		file := kubelet.File(s.Version)
		f.Facts.Files[kubelet.DropIn] = host.FileState{
			Mode: file.Mode, Owner: file.Owner, Group: file.Group, SHA256: machine.Digest(file.Content),
		}
		if len(kubeletDrift(s, f)) > 0 || leftCordoned(s, f) {
			t.Errorf("manage_kubelet %t: %q", manages, kubeletDrift(s, f))
		}
		f.Facts.Output += "kubelet\tnode\tcordoned\n"
		if drift := kubeletDrift(s, f); len(drift) != 1 || !strings.Contains(drift[0], "its node accepts no Pods") {
			t.Errorf("manage_kubelet %t: %q", manages, drift)
		}
		if !leftCordoned(s, f) {
			t.Errorf("manage_kubelet %t: a Delete leaves it cordoned", manages)
		}
		other := s
		other.Name = "cp9"
		if leftCordoned(other, f) {
			t.Error("the node of another replica")
		}
	}
}

// TestUncordonToLeave: a Delete goes on if the node cannot be asked, and says what to run.
func TestUncordonToLeave(t *testing.T) {
	s := unreachable(t)
	f := bare()
	var warnings []string
	o := DeleteOptions{Cordoned: func(why string) { warnings = append(warnings, why) }}
	uncordonToLeave(t.Context(), s, o, f)
	if warnings != nil {
		t.Errorf("without a mark: %q", warnings)
	}
	f.Facts.Output += "kubelet\tnode\tcordoned\t" + base64.StdEncoding.EncodeToString([]byte("ip-10-0-0-11")) + "\n"
	uncordonToLeave(t.Context(), s, o, f)
	if len(warnings) != 1 || !strings.Contains(warnings[0], "kubectl uncordon ip-10-0-0-11 ") {
		t.Errorf("warnings %q", warnings)
	}
}
