package controlplane

import (
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/client"
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

func TestChangesMinor(t *testing.T) {
	for have, want := range map[string]bool{"1.35.4": true, "1.36.0": false, "": true, "1.37.0": true} {
		if changesMinor(have, "1.36.3") != want {
			t.Errorf("from %q to 1.36.3: %v, want %v", have, !want, want)
		}
	}
}
