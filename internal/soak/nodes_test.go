package soak

import (
	"slices"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
)

// TestStaticPodScenarios: static pods and adoption are measured, and interrupted. Their machines need a kubelet of the
// release that they run.
func TestStaticPodScenarios(t *testing.T) {
	for _, name := range []string{
		"adopted: flag change, renewal", "runtime: units to pods and back",
		"interrupt static pods: units to pods, pods to units", "interrupt adoption: first change",
		"interrupt adoption: import with a change",
	} {
		at := slices.IndexFunc(Scenarios(), func(s Scenario) bool { return s.Name == name })
		if at < 0 || !slices.Contains(Scenarios()[at].Builds, nodeBuild) {
			t.Errorf("%q is no scenario, or has no kubelet", name)
		}
	}
	kubelet, err := build.Version(nodeBuild)
	if err != nil {
		t.Fatal(err)
	}
	if _, kubernetes, err := newest.Versions(); err != nil || kubelet != kubernetes {
		t.Errorf("kubelet %s, Kubernetes %s, %v", kubelet, kubernetes, err)
	}
}

func TestRanBy(t *testing.T) {
	const (
		units = "etcd.service kube-apiserver.service kube-controller-manager.service kube-scheduler.service\n"
		pods  = "etcd kube-apiserver kube-controller-manager kube-scheduler\n"
		files = "etcd.yaml kube-apiserver.yaml kube-controller-manager.yaml kube-scheduler.yaml\n"
	)
	for _, c := range []struct {
		out, runtime string
		right        bool
	}{
		{units + "\n\n", bySystemd, true},
		{units + "\n\n", byStaticPod, false},
		{units + "\netcd.yaml\n", bySystemd, false},
		{units + "etcd\n\n", bySystemd, false},
		{"\n" + pods + files, byStaticPod, true},
		{"\n" + pods + files, bySystemd, false},
		{"etcd.service\n" + pods + files, byStaticPod, false},
		{"\n" + pods + ".etcd.yaml.kube " + files, byStaticPod, false},
		{"\netcd\n" + files, byStaticPod, false},
	} {
		if err := ranBy(c.out, c.runtime); (err == nil) != c.right {
			t.Errorf("%q by %s: %v", c.out, c.runtime, err)
		}
	}
}
