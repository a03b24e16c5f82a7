package controlplane

import (
	"encoding/base64"
	"reflect"
	"testing"

	core "k8s.io/api/core/v1"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// TestParseReview: what is queried in addition to the health does not change it.
func TestParseReview(t *testing.T) {
	wanted := testSpec(t)
	encoded := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	more := "process\tkube-apiserver.service\tinfinity\tinfinity\t" + encoded("/opt/kube-apiserver\x00--v=2\x00") + "\n" +
		"file\taudit-policy-file\t" + encoded("rules: []\n") + "\nfile\tbroken\t!\n"
	facts := converged(t, wanted).Facts
	plain := healthOf(component.Replica{Address: wanted.Address, Bundle: wanted.Bundle}, machine.Interpret(facts), []string{healthy, healthy, healthy})
	facts.Output = more + facts.Output
	with := healthOf(component.Replica{Address: wanted.Address, Bundle: wanted.Bundle}, machine.Interpret(facts), []string{healthy, healthy, healthy})
	if !reflect.DeepEqual(plain, with) {
		t.Errorf("%+v became %+v", plain, with)
	}
	got := parseReview(with, facts.Output)
	want := map[string]host.Process{release.APIServer: {Running: true, Flags: map[string]string{"v": "2"}}}
	if !reflect.DeepEqual(got.Processes, want) || !reflect.DeepEqual(got.Files, map[string]string{"audit-policy-file": "rules: []\n"}) {
		t.Errorf("%+v", got)
	}
}

func TestNodesOf(t *testing.T) {
	node := core.Node{
		Spec:   core.NodeSpec{Taints: []core.Taint{{Key: "a/b", Effect: core.TaintEffectNoSchedule}}},
		Status: core.NodeStatus{Addresses: []core.NodeAddress{{Type: core.NodeHostName, Address: "cp1"}, {Type: core.NodeInternalIP, Address: "10.0.0.11"}}},
	}
	node.Name = "cp1"
	want := []Node{{Name: "cp1", Addresses: []string{"cp1", "10.0.0.11"}, Taints: []string{"a/b:NoSchedule"}}}
	if got := nodesOf([]core.Node{node}); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
