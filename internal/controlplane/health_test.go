package controlplane

import (
	"encoding/base64"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/unit"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// TestHealthOf: the health of a replica is derived without its desired state.
func TestHealthOf(t *testing.T) {
	wanted := testSpec(t)
	for name, c := range map[string]struct {
		change  func(f *host.Facts)
		asked   []string
		name    string
		foreign string
		health  []string
	}{
		"all well": {asked: []string{healthy, healthy, healthy}, name: "cp1", health: []string{healthy, healthy, healthy}},
		"one is not ready": {
			asked: []string{"not ready: etcd", healthy, healthy}, name: "cp1",
			health: []string{"not ready: etcd", healthy, healthy},
		},
		"a stopped scheduler": {
			change: func(f *host.Facts) {
				f.Units[unit.Name(release.Scheduler)] = host.UnitState{Load: "loaded", Active: "inactive", Sub: "dead"}
			},
			asked: []string{healthy, healthy, "does not answer: connection refused"}, name: "cp1",
			health: []string{healthy, healthy, "kube-scheduler.service is inactive"},
		},
		"one that fails again and again answers no more": {
			change: func(f *host.Facts) {
				f.Units[unit.Name(release.Scheduler)] = host.UnitState{
					Load: "loaded", Active: "activating", Sub: "auto-restart", Result: "exit-code",
				}
			},
			asked: []string{healthy, healthy, healthy}, name: "cp1",
			health: []string{healthy, healthy, "kube-scheduler.service fails (exit-code)"},
		},
		"another cluster's": {
			change: func(f *host.Facts) {
				f.Files[machine.RecordPath] = host.FileState{
					Content: `{"cluster_id": "ff", "cluster_name": "other", "name": "cp9"}`,
				}
			},
			asked: []string{"", "", ""}, foreign: `replica "cp9" of cluster "other"`,
		},
		"a record that cannot be read": {
			change: func(f *host.Facts) { f.Files[machine.RecordPath] = host.FileState{Content: `{`} },
			asked:  []string{"", "", ""}, foreign: "read " + machine.RecordPath,
		},
		"a bare machine": {
			change: func(f *host.Facts) { *f = bare().Facts },
			asked:  []string{"", "", ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			facts := converged(t, wanted).Facts
			if c.change != nil {
				c.change(&facts)
			}
			got := healthOf(component.Replica{Address: wanted.Address, Bundle: wanted.Bundle}, machine.Interpret(facts), c.asked)
			if got.Name != c.name || !strings.HasPrefix(got.Foreign, c.foreign) || (got.Foreign == "") != (c.foreign == "") {
				t.Fatalf("%+v, want %q or %q", got, c.name, c.foreign)
			}
			var health []string
			whole := len(c.health) > 0
			for i, part := range got.Components {
				health = append(health, part.Health)
				if part.Healthy != (c.health[i] == healthy) || part.Version != wanted.Version || part.CertificateExpiry.IsZero() {
					t.Errorf("%+v", part)
				}
				whole = whole && part.Healthy
			}
			if !slices.Equal(health, c.health) || got.Healthy() != whole {
				t.Errorf("health %q, want %q; healthy: %v", health, c.health, got.Healthy())
			}
			if c.name != "" && (got.Version != wanted.Version || got.CertificateExpiry.Sub(cptest.Now) < 300*24*time.Hour) {
				t.Errorf("version %q, certificates until %s", got.Version, got.CertificateExpiry)
			}
		})
	}
}

// TestHealthQueryIsComplete: nothing is used that was not queried.
func TestHealthQueryIsComplete(t *testing.T) {
	wanted := testSpec(t)
	q := machine.HealthQuery(component.Replica{Address: wanted.Address, Bundle: wanted.Bundle})
	facts := converged(t, wanted).Facts
	for path := range facts.Files {
		if !slices.Contains(q.Contents, path) {
			delete(facts.Files, path)
		}
	}
	got := healthOf(component.Replica{Address: wanted.Address, Bundle: wanted.Bundle}, machine.Interpret(facts),
		[]string{healthy, healthy, healthy})
	want := healthOf(component.Replica{Address: wanted.Address, Bundle: wanted.Bundle}, converged(t, wanted),
		[]string{healthy, healthy, healthy})
	if a, b := fmt.Sprint(got), fmt.Sprint(want); a != b {
		t.Errorf("of what is asked for: %s\nof all: %s", a, b)
	}
	if len(got.CertificatesUnread) > 0 {
		t.Errorf("not read: %v", got.CertificatesUnread)
	}
	without := machine.Interpret(facts)
	delete(without.Facts.Files, component.APIServerCert)
	without.Kubeconfigs[component.AdminConf] = "no kubeconfig"
	delete(without.Kubeconfigs, component.SchedulerConf)
	without.Facts.Files[component.EtcdClientCert] = host.FileState{Content: "no certificate"}
	got = healthOf(component.Replica{Address: wanted.Address, Bundle: wanted.Bundle}, without,
		[]string{healthy, healthy, healthy})
	if !slices.Equal(got.CertificatesUnread, []string{
		component.APIServerCert, component.EtcdClientCert, component.SchedulerConf, component.AdminConf,
	}) || got.CertificateExpiry.IsZero() {
		t.Errorf("not read: %v; the first expires at %s", got.CertificatesUnread, got.CertificateExpiry)
	}
	for _, path := range q.Contents {
		if strings.HasSuffix(path, ".key") || strings.HasSuffix(path, ".conf") {
			t.Errorf("%s holds a private key", path)
		}
	}
}

// TestParseReview: what is queried in addition to the health does not change it.
func TestParseReview(t *testing.T) {
	wanted := testSpec(t)
	encoded := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	more := "process\tkube-apiserver.service\tinfinity\tinfinity\t" +
		encoded("/opt/kube-apiserver\x00--v=2\x00") + "\t\n" +
		"file\taudit-policy-file\t" + encoded("rules: []\n") + "\nfile\tbroken\t!\nkubelet\n"
	facts := converged(t, wanted).Facts
	plain := healthOf(component.Replica{Address: wanted.Address, Bundle: wanted.Bundle}, machine.Interpret(facts),
		[]string{healthy, healthy, healthy})
	facts.Output = more + facts.Output
	with := healthOf(component.Replica{Address: wanted.Address, Bundle: wanted.Bundle}, machine.Interpret(facts),
		[]string{healthy, healthy, healthy})
	if !reflect.DeepEqual(plain, with) {
		t.Errorf("%+v became %+v", plain, with)
	}
	got := parseReview(with, facts.Output)
	want := map[string]host.Process{release.APIServer: {Running: true, Flags: map[string]string{"v": "2"}}}
	if !reflect.DeepEqual(got.Processes, want) || !got.Kubelet ||
		!reflect.DeepEqual(got.Files, map[string]string{"audit-policy-file": "rules: []\n"}) {
		t.Errorf("%+v", got)
	}
}

func TestNodesOf(t *testing.T) {
	node := core.Node{
		Spec: core.NodeSpec{Taints: []core.Taint{{Key: "a/b", Effect: core.TaintEffectNoSchedule}}},
		Status: core.NodeStatus{
			Addresses: []core.NodeAddress{
				{Type: core.NodeHostName, Address: "cp1"}, {Type: core.NodeInternalIP, Address: "10.0.0.11"},
			},
		},
	}
	node.Name, node.Labels = "cp1", map[string]string{"node-role.kubernetes.io/control-plane": ""}
	want := []Node{{
		Name: "cp1", Addresses: []string{"cp1", "10.0.0.11"}, Taints: []string{"a/b:NoSchedule"}, ControlPlane: true,
	}}
	if got := nodesOf([]core.Node{node}); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
