package client

import (
	"slices"
	"testing"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"
)

// TestNode uses client-go's fake clientset, which stands for the API server.
func TestNode(t *testing.T) {
	yes := true
	pod := func(name, node string, alter func(*core.Pod)) *core.Pod {
		p := &core.Pod{
			ObjectMeta: meta.ObjectMeta{Namespace: "default", Name: name, UID: "1"}, Spec: core.PodSpec{NodeName: node},
		}
		alter(p)
		return p
	}
	api := fake.NewClientset(
		&core.Node{ObjectMeta: meta.ObjectMeta{Name: "cp1"}, Status: core.NodeStatus{Addresses: []core.NodeAddress{
			{Type: core.NodeInternalIP, Address: "10.0.0.11"}, {Type: core.NodeHostName, Address: "cp1"},
		}}},
		pod("web", "cp1", func(p *core.Pod) {
			p.OwnerReferences = []meta.OwnerReference{{Kind: "ReplicaSet", Name: "web", Controller: &yes}}
			p.Spec.Volumes = []core.Volume{{VolumeSource: core.VolumeSource{EmptyDir: &core.EmptyDirVolumeSource{}}}}
		}),
		pod("etcd-cp1", "cp1", func(p *core.Pod) { p.Annotations = map[string]string{core.MirrorPodAnnotationKey: "x"} }),
		pod("elsewhere", "cp2", func(*core.Pod) {}),
	)
	n := Node{name: "cp1", core: api.CoreV1()}
	pods, err := n.Pods(t.Context())
	want := []Pod{
		{Namespace: "default", Name: "etcd-cp1", UID: "1", Mirror: true},
		{Namespace: "default", Name: "web", UID: "1", Controller: "ReplicaSet", EmptyDir: true},
	}
	if err != nil || len(pods) != 2 || pods[0] != want[0] || pods[1] != want[1] {
		t.Errorf("the Pods are %+v, %v", pods, err)
	}
	for _, schedulable := range []bool{false, true} {
		if err := n.SetSchedulable(t.Context(), schedulable); err != nil {
			t.Fatal(err)
		}
		got, err := n.State(t.Context())
		if got.Schedulable != schedulable || !got.Exists || err != nil ||
			!slices.Equal(got.Addresses, []string{"10.0.0.11", "cp1"}) {
			t.Errorf("%+v, %v", got, err)
		}
	}
	none := Node{name: "cp9", core: api.CoreV1()}
	if got, err := none.State(t.Context()); got.Exists || err != nil {
		t.Errorf("a node that does not exist: %+v, %v", got, err)
	}
	if err := none.SetSchedulable(t.Context(), true); err != nil {
		t.Error(err)
	}
	answer := error(apierrors.NewTooManyRequests("budget", 1))
	api.PrependReactor("create", "pods", func(action kubetesting.Action) (bool, runtime.Object, error) {
		return action.GetSubresource() == "eviction", nil, answer
	})
	if blocked, err := n.Evict(t.Context(), want[1]); !blocked || err != nil {
		t.Errorf("with a budget: blocked %v, %v", blocked, err)
	}
	answer = apierrors.NewNotFound(core.Resource("pods"), "web")
	if blocked, err := n.Evict(t.Context(), want[1]); blocked || err != nil {
		t.Errorf("one that has left: blocked %v, %v", blocked, err)
	}
	answer = apierrors.NewForbidden(core.Resource("pods"), "web", nil)
	if _, err := n.Evict(t.Context(), want[1]); err == nil {
		t.Error("a refusal is no error")
	}
}
