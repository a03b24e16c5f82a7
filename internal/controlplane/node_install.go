package controlplane

import (
	"context"
	"errors"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/node"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// installNode installs containerd and a kubelet on a machine that has none.
func installNode(ctx context.Context, s Spec) error {
	if s.InstallKubelet == nil || s.Runtime != component.StaticPod {
		return nil
	}
	if err := node.Install(ctx, s.Host, s.Source, *s.InstallKubelet); err != nil {
		return &problem.Problem{
			Summary: "Kubelet not installed", Host: s.Machine(), Attribute: "install_kubelet", Cause: err.Error(), Err: err,
			Unchanged: "no component was started, stopped or changed.",
			Next:      "fix this on the machine, then apply again: the installation continues.",
		}
	}
	return nil
}

// withNode returns the failure of an installation. One on a machine that has got containerd and a kubelet by then has
// changed something, which the state of a failed Create has to keep.
func withNode(err error, s component.Replica, f machine.Observed) error {
	var p *problem.Problem
	installed := f.NodeMissing || f.IsEmpty(s) && !f.IsGone(s) // by this Create, or by one that was cut off
	if installed && errors.As(err, &p) && p.Unchanged == problem.Nothing {
		p.Unchanged = "no component was started. containerd and the kubelet are installed, and are removed with the replica."
	}
	return err
}

// removeNode removes containerd and the kubelet that were installed, unless an etcd member needs them, and then the
// record of the replica, of which nothing else is left.
func removeNode(ctx context.Context, s Spec) error {
	return node.Remove(ctx, s.Host, machine.RecordPath, machine.ForgetScript())
}
