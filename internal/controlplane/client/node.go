package client

import (
	"context"
	"fmt"
	"slices"

	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
)

// Pod is what a drain of its node has to know of a Pod.
type Pod struct {
	Namespace, Name, UID string

	Controller string // its kind: "DaemonSet"; "" if it has none
	Mirror     bool   // of a static pod
	EmptyDir   bool   // it has data that are lost with it
	Ended      bool   // it runs no container any more
	Leaves     bool   // it is being deleted
}

// Label names the Pod.
func (p Pod) Label() string { return p.Namespace + "/" + p.Name }

// Node accesses a node and its Pods.
type Node struct {
	name string
	core typedcore.CoreV1Interface
	done func()
}

// Node connects to the API server of the replica, for the node of that name. The caller closes it.
func (c Client) Node(name string) (Node, error) {
	access, done, err := c.admin()
	if err != nil {
		return Node{}, err
	}
	api, err := typedcore.NewForConfigAndClient(access.rest, access.web)
	if err != nil {
		done()
		return Node{}, err
	}
	return Node{name: name, core: api, done: done}, nil
}

// Name returns the name of the node.
func (n Node) Name() string { return n.name }

// Close ends the connection.
func (n Node) Close() { n.done() }

// NodeState is what the API server says of a node.
type NodeState struct {
	Exists      bool
	Schedulable bool     // new Pods are scheduled on it
	Addresses   []string // of its machine, host names among them
	MachineID   string   // of its machine
}

// State returns the state of the node.
func (n Node) State(ctx context.Context) (NodeState, error) {
	node, err := n.core.Nodes().Get(ctx, n.name, meta.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return NodeState{}, nil
	case err != nil:
		return NodeState{}, fmt.Errorf("get the node %s: %w", n.name, err)
	}
	state := NodeState{
		Exists: true, Schedulable: !node.Spec.Unschedulable, MachineID: node.Status.NodeInfo.MachineID,
	}
	for _, a := range node.Status.Addresses {
		state.Addresses = append(state.Addresses, a.Address)
	}
	return state, nil
}

// SetSchedulable decides whether new Pods are scheduled on the node. One that does not exist is no error.
func (n Node) SetSchedulable(ctx context.Context, schedulable bool) error {
	patch := fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, !schedulable)
	_, err := n.core.Nodes().Patch(ctx, n.name, types.StrategicMergePatchType, patch, meta.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("change the node %s: %w", n.name, err)
	}
	return nil
}

// Pods returns the Pods of the node.
func (n Node) Pods(ctx context.Context) ([]Pod, error) {
	list, err := n.core.Pods(meta.NamespaceAll).List(ctx, meta.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", n.name).String(),
	})
	if err != nil {
		return nil, fmt.Errorf("list the Pods of the node %s: %w", n.name, err)
	}
	pods := make([]Pod, 0, len(list.Items))
	for i := range list.Items {
		if item := &list.Items[i]; item.Spec.NodeName == n.name {
			pods = append(pods, podOf(item))
		}
	}
	return pods, nil
}

func podOf(item *core.Pod) Pod {
	p := Pod{
		Namespace: item.Namespace, Name: item.Name, UID: string(item.UID),
		Ended:  item.Status.Phase == core.PodSucceeded || item.Status.Phase == core.PodFailed,
		Leaves: item.DeletionTimestamp != nil,
		EmptyDir: slices.ContainsFunc(item.Spec.Volumes, func(v core.Volume) bool {
			return v.EmptyDir != nil
		}),
	}
	_, p.Mirror = item.Annotations[core.MirrorPodAnnotationKey]
	if owner := meta.GetControllerOf(item); owner != nil {
		p.Controller = owner.Kind
	}
	return p
}

// Evict asks for the eviction of a Pod, unless another one has its name by now. blocked says that a
// PodDisruptionBudget does not allow it at the moment.
func (n Node) Evict(ctx context.Context, p Pod) (blocked bool, err error) {
	uid := types.UID(p.UID)
	err = n.core.Pods(p.Namespace).EvictV1(ctx, &policy.Eviction{
		ObjectMeta:    meta.ObjectMeta{Name: p.Name, Namespace: p.Namespace},
		DeleteOptions: &meta.DeleteOptions{Preconditions: &meta.Preconditions{UID: &uid}},
	})
	switch {
	case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return false, nil
	case apierrors.IsTooManyRequests(err):
		return true, nil
	}
	return false, fmt.Errorf("evict the Pod %s: %w", p.Label(), err)
}
