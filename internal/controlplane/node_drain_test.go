package controlplane

import (
	"context"
	"encoding/base64"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/client"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/kubelet"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
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

func TestChangesMinor(t *testing.T) {
	for have, want := range map[string]bool{"1.35.4": true, "1.36.0": false, "": true, "1.37.0": true} {
		if changesMinor(have, "1.36.3") != want {
			t.Errorf("from %q to 1.36.3: %v, want %v", have, !want, want)
		}
	}
}

// TestNodeOfMachine: the node that is drained is that of the kubelet, and one that is not known is not passed over.
func TestNodeOfMachine(t *testing.T) {
	b := cptest.Bundle(t)
	s := Spec{Host: testHost(t, host.Config{}, "10.0.0.11"), Replica: component.Replica{Name: "cp1", Bundle: b}}
	encoded := base64.StdEncoding.EncodeToString
	pair, err := b.Issue(pki.User("system:node:ip-10-0-0-11.ec2.internal", "system:nodes"), cptest.Now, 0)
	if err != nil {
		t.Fatal(err)
	}
	joined := "kubelet\tserver\t" + encoded([]byte("https://10.0.0.11:6443")) + "\n"
	named := "credentials\tover\t" + encoded([]byte(b.Roots(pki.Kubernetes))) + "\t" +
		encoded([]byte(pair.Certificate)) + "\n"
	other := "credentials\tover\t" + encoded([]byte(b.Roots(pki.Etcd))) + "\t" + encoded([]byte(pair.Certificate)) + "\n"
	for name, c := range map[string]struct {
		output, want string
		missing      bool
	}{
		"a kubelet of the cluster":    {joined + named, "ip-10-0-0-11.ec2.internal", false},
		"one that runs alone":         {"kubelet\tactive\tactive\n", "cp1", false},
		"one of another form":         {joined, "cp1", true},
		"one that trusts another one": {joined + other, "cp1", true},
	} {
		f := machine.Observed{Facts: host.Facts{Output: c.output}}
		if got := nodeOf(s, f); got != c.want {
			t.Errorf("%s: its node is %q, want %q", name, got, c.want)
		}
		if err := missingNode(s, f); (err != nil) != c.missing {
			t.Errorf("%s: without its node: %v", name, err)
		}
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
	f.Facts.Output += "kubelet\tnode\tcordoned\n"
	uncordonToLeave(t.Context(), s, o, f)
	if len(warnings) != 1 || !strings.Contains(warnings[0], "kubectl uncordon "+s.Name) {
		t.Errorf("warnings %q", warnings)
	}
}
