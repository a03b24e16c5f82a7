package controlplane

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

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

// How often the Pods of a node are listed that have to leave it, and how often an eviction is tried again that a
// PodDisruptionBudget does not allow: as kubectl drain does.
const (
	evictionInterval = time.Second
	blockedInterval  = 5 * time.Second
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

// checkNode returns an error if it is not known which node of the cluster, if any, the machine is: the kubelet's
// certificate does not name it, and the node of the replica's name is missing, or another machine. Otherwise it reports
// whether there is a node to be drained: a kubelet with a certificate that names it may have none any more.
func checkNode(s Spec, f machine.Observed, state client.NodeState) (drains bool, err error) {
	if kubelet.ReadCredentials(f.Facts.Output).NodeIn(s.Bundle) != "" || state.Exists && isMachine(state, s, f) {
		return state.Exists, nil
	}
	which := "no node has the name of the replica, " + s.Name
	if state.Exists {
		which = fmt.Sprintf("the node with the name of the replica, %s, is not this machine: its addresses are %s", s.Name,
			problem.Quote(strings.Join(state.Addresses, ", ")))
	}
	return false, &problem.Problem{
		Summary: "Kubelet not changed to " + s.Version, Host: s.Machine(), Attribute: "manage_kubelet",
		Cause: which + ", and /etc/kubernetes/kubelet.conf does not name the kubelet's certificate as kubeadm does, so it " +
			"is not known which Pods have to leave the machine",
		Unchanged: "the kubelet; the components are at " + s.Version + ".",
		Next: "let kubelet.conf name /var/lib/kubelet/pki/kubelet-client-current.pem as client-certificate, restart the " +
			"kubelet, then apply again.",
	}
}

// isMachine reports whether a node that has the name of the replica is its machine: it may have another address there.
func isMachine(state client.NodeState, s Spec, f machine.Observed) bool {
	return isAt(state.Addresses, s.Address) || state.MachineID != "" && state.MachineID == f.Facts.MachineID
}

// isAt reports whether an IP address is one of those of a node.
func isAt(addresses []string, address string) bool {
	want, err := netip.ParseAddr(address)
	return err == nil && slices.ContainsFunc(addresses, func(text string) bool {
		have, err := netip.ParseAddr(text)
		return err == nil && have.Unmap() == want.Unmap()
	})
}

// drainNode makes the node of the machine accept no Pods, and returns when those that can run elsewhere have left it. A
// node that an administrator has cordoned stays so. What it changes is marked on the machine before, so that an apply
// that is cut off is completed by the next one (uncordon). A kubelet without a kubeconfig has no node, whatever one of
// the replica's name is.
func drainNode(ctx context.Context, s Spec, f machine.Observed) error {
	if len(kubelet.Read(f.Facts.Output).Servers) == 0 {
		return nil
	}
	node, err := s.client().Node(nodeOf(s, f))
	if err != nil {
		return err
	}
	defer node.Close()
	return emptyNode(ctx, s, f, node)
}

// drainedNode is what a drain does with a node and its Pods; see client.Node.
type drainedNode interface {
	nodePods
	State(ctx context.Context) (client.NodeState, error)
	SetSchedulable(ctx context.Context, schedulable bool) error
}

// nodePods is what a drain does with the Pods of a node.
type nodePods interface {
	Name() string
	Pods(ctx context.Context) ([]client.Pod, error)
	Evict(ctx context.Context, p client.Pod) (blocked bool, err error)
}

func emptyNode(ctx context.Context, s Spec, f machine.Observed, node drainedNode) error {
	state, err := node.State(ctx)
	if err != nil {
		return err
	}
	if drains, err := checkNode(s, f, state); err != nil || !drains {
		return err
	}
	if _, err := leavingPods(ctx, s, node, problem.Nothing); err != nil {
		return err
	}
	if state.Schedulable {
		if _, err := s.Host.Run(ctx, host.Command{Script: kubelet.Cordoned(node.Name())}); err != nil {
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
	end, blocked := time.Now().Add(evictionTimeout), map[string]time.Time{}
	for {
		left, err := evictOnce(ctx, node, all, blocked)
		if err != nil || len(left) == 0 {
			return err
		}
		if !time.Now().Before(end) {
			return notDrained(s, node, fmt.Sprintf("these Pods are still there after %s", evictionTimeout), left,
				partlyDrained)
		}
		select {
		case <-time.After(evictionInterval):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// evictOnce evicts those Pods of a list that have not left the node, and describes them. blocked says when an eviction
// was not allowed, by UID.
func evictOnce(
	ctx context.Context, node nodePods, all []client.Pod, blocked map[string]time.Time,
) (left []string, err error) {
	pods, err := node.Pods(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range remaining(all, pods) {
		refused, before := blocked[p.UID]
		if !p.Leaves && (!before || time.Since(refused) >= blockedInterval) {
			if before, err = node.Evict(ctx, p); err != nil {
				return nil, err
			}
			delete(blocked, p.UID)
			if before {
				blocked[p.UID] = time.Now()
			}
		}
		why := "is terminating"
		if before && !p.Leaves {
			why = "is needed by a PodDisruptionBudget"
		}
		left = append(left, problem.Quote(p.Label())+" "+why)
	}
	return left, nil
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
	if err := uncordon(ctx, s); err != nil {
		why := fmt.Sprintf("a change of the kubelet on %s was cut off, and its node still accepts no Pods. If the node "+
			"stays, run: kubectl uncordon %s (%v)", s.Machine(),
			cmp.Or(kubelet.Read(f.Facts.Output).Node, nodeOf(s, f)), err)
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

// uncordon lets the node that drainNode has cordoned accept Pods again: the one that the mark names, because the
// machine may have another kubelet since. It also runs after ctx has ended.
func uncordon(ctx context.Context, s Spec) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), uncordonTimeout)
	defer cancel()
	output, err := s.Host.Run(ctx, host.Command{Script: kubelet.IsCordoned()})
	mark := kubelet.Read(output)
	if err != nil || !mark.Cordoned {
		return err
	}
	if mark.Node != "" { // otherwise it was cut off before the node was cordoned
		node, err := s.client().Node(mark.Node)
		if err != nil {
			return err
		}
		defer node.Close()
		if err := node.SetSchedulable(ctx, true); err != nil {
			return fmt.Errorf("the node of %s accepts no Pods until the next apply: %w", s.Machine(), err)
		}
	}
	_, err = s.Host.Run(ctx, host.Command{Script: kubelet.Uncordoned()})
	return err
}
