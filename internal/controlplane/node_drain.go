package controlplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/client"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/kubelet"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
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

// nodeOf returns the name of the machine's node: that of its kubelet, if the certificate of that is understood, or the
// replica's. An administrator may have named a node after neither its machine nor its replica.
func nodeOf(s Spec, f machine.Observed) string {
	return cmp.Or(kubelet.ReadCredentials(f.Facts.Output).NodeIn(s.Bundle), s.Name)
}

// missingNode returns why the node of a machine cannot be drained although no node has its name; nil if there is none:
// a kubelet with a certificate that names it has no node any more, and one without a kubeconfig never had one.
func missingNode(s Spec, f machine.Observed) error {
	if len(kubelet.Read(f.Facts.Output).Servers) == 0 || kubelet.ReadCredentials(f.Facts.Output).NodeIn(s.Bundle) != "" {
		return nil
	}
	return &problem.Problem{
		Summary: "Kubelet not changed to " + s.Version, Host: s.Machine(), Attribute: "manage_kubelet",
		Cause: "no node has the name of the replica, " + s.Name + ", and /etc/kubernetes/kubelet.conf does not name the " +
			"kubelet's certificate as kubeadm does, so it is not known which Pods have to leave the machine",
		Unchanged: "the kubelet; the components are at " + s.Version + ".",
		Next: "let kubelet.conf name /var/lib/kubelet/pki/kubelet-client-current.pem as client-certificate, restart the " +
			"kubelet, then apply again.",
	}
}

// drainNode makes the node of the machine accept no Pods, and returns when those that can run elsewhere have left it. A
// node that an administrator has cordoned stays so. What it changes is marked on the machine before, so that an apply
// that is cut off is completed by the next one (uncordon).
func drainNode(ctx context.Context, s Spec, f machine.Observed) error {
	node, err := s.client().Node(nodeOf(s, f))
	if err != nil {
		return err
	}
	defer node.Close()
	schedulable, exists, err := node.Schedulable(ctx)
	if err != nil {
		return err
	}
	if !exists {
		return missingNode(s, f)
	}
	if _, err := leavingPods(ctx, s, node, problem.Nothing); err != nil {
		return err
	}
	if schedulable {
		if _, err := s.Host.Run(ctx, host.Command{Script: kubelet.Cordoned()}); err != nil {
			return fmt.Errorf("mark the node of %s as cordoned: %w", s.Machine(), err)
		}
		if err := node.SetSchedulable(ctx, false); err != nil {
			return err
		}
	}
	leaving, err := leavingPods(ctx, s, node, notEvicted)
	if err != nil {
		return err
	}
	if len(leaving) > 0 {
		problem.Progress(ctx, "%s: %d Pods leave the node before its kubelet changes", s.Machine(), len(leaving))
	}
	return evictAll(ctx, s, node, leaving)
}

// nodePods is what a drain does with the Pods of a node; see client.Node.
type nodePods interface {
	Name() string
	Pods(ctx context.Context) ([]client.Pod, error)
	Evict(ctx context.Context, p client.Pod) (blocked bool, err error)
}

// leavingPods returns the Pods that have to leave the node. It fails if one cannot.
func leavingPods(ctx context.Context, s Spec, node nodePods, unchanged string) ([]client.Pod, error) {
	pods, err := node.Pods(ctx)
	if err != nil {
		return nil, err
	}
	leaving, stuck := evictions(pods)
	if len(stuck) > 0 {
		return nil, notDrained(s, node, "these Pods cannot be evicted", stuck, unchanged)
	}
	return leaving, nil
}

// evictAll evicts Pods, and returns when none of them has to leave the node any more. A Pod that comes later is none of
// them: one that tolerates a cordoned node would be evicted for ever.
func evictAll(ctx context.Context, s Spec, node nodePods, all []client.Pod) error {
	var left []string
	err := wait.PollUntilContextTimeout(ctx, pollInterval, evictionTimeout, true, func(ctx context.Context) (bool, error) {
		pods, err := node.Pods(ctx)
		if err != nil {
			return false, err
		}
		left = nil
		for _, p := range remaining(all, pods) {
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
		return notDrained(s, node, fmt.Sprintf("these Pods are still there after %s", evictionTimeout), left,
			partlyDrained)
	}
	return err
}

// remaining returns the Pods of a list that still have to leave their node, which has the Pods now.
func remaining(all, now []client.Pod) []client.Pod {
	leaving, _ := evictions(now)
	return slices.DeleteFunc(leaving, func(p client.Pod) bool {
		return !slices.ContainsFunc(all, func(listed client.Pod) bool { return listed.UID == p.UID })
	})
}

// The Unchanged text of a drain that was given up.
const (
	notEvicted    = "the kubelet; no Pod was evicted."
	partlyDrained = "the kubelet; Pods that have left run on other nodes."
)

func notDrained(s Spec, node nodePods, cause string, pods []string, unchanged string) error {
	return &problem.Problem{
		Summary: "Kubelet not changed to " + s.Version, Host: s.Machine(), Attribute: "manage_kubelet",
		Cause:     cause + ", and a kubelet of another minor may start the containers of its node again",
		Unchanged: unchanged,
		Next: "let them run elsewhere, or remove them (kubectl drain " + node.Name() + " has options for that), then apply " +
			"again.",
		Detail: strings.Join(pods, "\n"),
	}
}

// uncordonToLeave is uncordon before the replica is deleted, with which the mark goes. The node may stay in the
// cluster, and nobody else would know that the provider has cordoned it. A replica whose API server does not answer is
// deleted all the same.
func uncordonToLeave(ctx context.Context, s Spec, o DeleteOptions, f machine.Observed) {
	if !leftCordoned(s, f) {
		return
	}
	if err := uncordon(ctx, s, f); err != nil {
		why := fmt.Sprintf("a change of the kubelet on %s was cut off, and its node still accepts no Pods. If the node "+
			"stays, run: kubectl uncordon %s (%v)", s.Machine(), nodeOf(s, f), err)
		problem.Progress(ctx, "%s", why)
		if o.Cordoned != nil {
			o.Cordoned(why)
		}
	}
}

// leftCordoned reports whether a change of the replica's kubelet has left its node cordoned.
func leftCordoned(s Spec, f machine.Observed) bool {
	mine, _, err := f.Owner(s.Replica)
	return err == nil && mine && kubelet.Read(f.Facts.Output).Cordoned
}

// uncordon lets the node of the machine accept Pods again, if drainNode has ended that. It also runs after ctx has
// ended.
func uncordon(ctx context.Context, s Spec, f machine.Observed) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), uncordonTimeout)
	defer cancel()
	output, err := s.Host.Run(ctx, host.Command{Script: kubelet.IsCordoned()})
	if err != nil || !kubelet.Read(output).Cordoned {
		return err
	}
	node, err := s.client().Node(nodeOf(s, f))
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
