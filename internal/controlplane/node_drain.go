package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/client"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/kubelet"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// How long the Pods of a node may take to leave it, and how long the node may take to accept Pods again.
const (
	evictionTimeout = 5 * time.Minute
	uncordonTimeout = time.Minute
)

// evictions returns the Pods that have to leave a node before the minor of its kubelet changes, and why others cannot.
// The rules are those of "kubectl drain --ignore-daemonsets": a Pod without a controller would not come back, and what
// is in an emptyDir would be lost. Source:
// https://kubernetes.io/docs/tasks/administer-cluster/kubeadm/upgrading-linux-nodes/#drain-the-node.
func evictions(pods []client.Pod) (leaving []client.Pod, stuck []string) {
	for _, p := range pods {
		switch {
		case p.Mirror || p.Ended || p.Controller == "DaemonSet":
			continue
		case p.Leaves:
		case p.Controller == "":
			stuck = append(stuck, problem.Quote(p.Label())+" has no controller that would start it on another node")
		case p.EmptyDir:
			stuck = append(stuck, problem.Quote(p.Label())+" has an emptyDir, whose data would be lost")
		}
		leaving = append(leaving, p)
	}
	slices.Sort(stuck)
	return leaving, stuck
}

// changesMinor reports whether a kubelet of one version is of another minor than the wanted one, or may be.
func changesMinor(version, wanted string) bool {
	have, err := release.Minor(version)
	want, err2 := release.Minor(wanted)
	return err != nil || err2 != nil || have != want
}

// drainNode makes the node of the replica accept no Pods, and returns when those that can run elsewhere have left it. A
// node that an administrator has cordoned stays so. What it changes is marked on the machine before, so that an apply
// that is cut off is completed by the next one (uncordon).
func drainNode(ctx context.Context, s Spec) error {
	node, err := s.client().Node(s.Name)
	if err != nil {
		return err
	}
	defer node.Close()
	schedulable, exists, err := node.Schedulable(ctx)
	if err != nil || !exists {
		return err
	}
	pods, err := node.Pods(ctx)
	if err != nil {
		return err
	}
	leaving, stuck := evictions(pods)
	if len(stuck) > 0 {
		return notDrained(s, cannotLeave, stuck, problem.Nothing)
	}
	if schedulable {
		if _, err := s.Host.Run(ctx, host.Command{Script: kubelet.Cordoned()}); err != nil {
			return fmt.Errorf("mark the node of %s as cordoned: %w", s.Machine(), err)
		}
		if err := node.SetSchedulable(ctx, false); err != nil {
			return err
		}
	}
	if len(leaving) > 0 {
		problem.Progress(ctx, "%s: %d Pods leave the node before its kubelet changes", s.Machine(), len(leaving))
	}
	return evictAll(ctx, s, node)
}

// evictAll returns when no Pod is left that has to leave the node.
func evictAll(ctx context.Context, s Spec, node client.Node) error {
	var left []string
	err := wait.PollUntilContextTimeout(ctx, pollInterval, evictionTimeout, true, func(ctx context.Context) (bool, error) {
		pods, err := node.Pods(ctx)
		if err != nil {
			return false, err
		}
		leaving, stuck := evictions(pods)
		if len(stuck) > 0 { // they came before the node was cordoned
			return false, notDrained(s, cannotLeave, stuck, partlyDrained)
		}
		left = nil
		for _, p := range leaving {
			why := "is terminating"
			if !p.Leaves {
				blocked, err := node.Evict(ctx, p)
				if err != nil {
					return false, err
				}
				if blocked {
					why = "is needed by a PodDisruptionBudget"
				}
			}
			left = append(left, problem.Quote(p.Label())+" "+why)
		}
		return len(left) == 0, nil
	})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return notDrained(s, fmt.Sprintf("these Pods are still there after %s", evictionTimeout), left,
			partlyDrained)
	}
	return err
}

// What a drain that is given up says.
const (
	cannotLeave   = "these Pods cannot be evicted"
	partlyDrained = "the kubelet; Pods that have left run on other nodes."
)

func notDrained(s Spec, cause string, pods []string, unchanged string) error {
	return &problem.Problem{
		Summary: "Kubelet not changed to " + s.Version, Host: s.Machine(), Attribute: "manage_kubelet",
		Cause:     cause + ", and a kubelet of another minor may start the containers of its node again",
		Unchanged: unchanged,
		Next: "let them run elsewhere, or remove them (kubectl drain " + s.Name + " has options for that), then apply " +
			"again.",
		Detail: strings.Join(pods, "\n"),
	}
}

// uncordon lets the node of the replica accept Pods again, if drainNode has ended that. It also runs after ctx has
// ended.
func uncordon(ctx context.Context, s Spec) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), uncordonTimeout)
	defer cancel()
	output, err := s.Host.Run(ctx, host.Command{Script: kubelet.IsCordoned()})
	if err != nil || !kubelet.Read(output).Cordoned {
		return err
	}
	node, err := s.client().Node(s.Name)
	if err != nil {
		return err
	}
	defer node.Close()
	if err := node.SetSchedulable(ctx, true); err != nil {
		return fmt.Errorf("the node of %s accepts no Pods until the next apply: %w", s.Machine(), err)
	}
	_, err = s.Host.Run(ctx, host.Command{Script: kubelet.Uncordoned()})
	return err
}
