package soak

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/lab/services"
)

// nodeBuild is kubeadm and kubelet of the newest release.
const nodeBuild = "kubernetes-1.36-node"

// Runtimes, as the provider calls them.
const (
	bySystemd   = "systemd"
	byStaticPod = "static_pod"
)

// installNodes makes machines anew that have what runs a control plane of the newest release as static pods. unit is
// that of services.Node.
func installNodes(ctx context.Context, machines fleet, unit string) error {
	components, err := build.Components(ctx, nodeBuild)
	if err != nil {
		return err
	}
	release, err := build.Version(nodeBuild)
	if err != nil {
		return err
	}
	etcd, kubernetes, err := newest.Versions()
	if err != nil {
		return err
	}
	n := services.Node{
		Components: components, Release: release, Kubernetes: []string{kubernetes}, Etcd: etcd, Unit: unit,
	}
	for _, m := range machines {
		if err := services.InstallNode(ctx, m, n); err != nil {
			return err
		}
	}
	return nil
}

// installKubelets does it with kubelets that are no nodes of a cluster, and starts them.
func installKubelets(ctx context.Context, machines fleet) error {
	if err := installNodes(ctx, machines, ""); err != nil {
		return err
	}
	_, err := machines.each(ctx, "systemctl start kubelet")
	return err
}

// createByKubeadm creates a control plane on machines that it makes anew, behind a balancer on another machine, and
// returns the variables of examples/control-plane with the files "adoption". Hooks configure the balancer, or it checks
// the API servers itself.
func createByKubeadm(ctx context.Context, e *Env, machines fleet, hooks bool) (map[string]any, error) {
	if err := installNodes(ctx, machines, services.Kubelet); err != nil {
		return nil, err
	}
	if err := e.Lab.Add(ctx, servicesMachine); err != nil {
		return nil, err
	}
	server := e.Lab.Machine(servicesMachine)
	if err := services.InstallBalancers(ctx, server); err != nil {
		return nil, err
	}
	variables, err := newest.Variables()
	if err != nil {
		return nil, err
	}
	maps.Copy(variables, map[string]any{
		"endpoint_address": server.Address.String(), "cluster_name": "kubernetes", "key_algorithm": "RSA-2048",
	})
	balancer, path := services.HAProxy, "/readyz"
	if hooks {
		balancer, path = services.HAProxyByHooks, ""
		if err := services.InstallServers(ctx, server); err != nil {
			return nil, err
		}
		variables["hooks"] = services.PoolHooks(e.Lab, server)
	}
	// Without checks, it sends requests to the others as soon as it knows them.
	if err := balancer.Start(ctx, server, machines[:1].targets(), path); err != nil {
		return nil, err
	}
	etcd, kubernetes, err := newest.Versions()
	if err != nil {
		return nil, err
	}
	k := services.Kubeadm{Etcd: etcd, Kubernetes: kubernetes, Settings: "endpoint=" + server.Address.String()}
	if err := k.Create(ctx, machines, e.Log); err != nil {
		return nil, err
	}
	return variables, balancer.Start(ctx, server, machines.targets(), path)
}

// controlPlaneComponents are what runs on a machine of a stacked control plane.
var controlPlaneComponents = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}

// runBy waits until exactly the components run on machines, by that runtime.
func (f fleet) runBy(ctx context.Context, runtime string) error {
	return eventually(ctx, cleanupTimeout, 300*time.Millisecond, func(ctx context.Context) error {
		printed, err := f.each(ctx, runsScript)
		if err != nil {
			return err
		}
		for _, m := range f {
			if err := ranBy(printed[m.Name], runtime); err != nil {
				return fmt.Errorf("%s: %w", m.Name, err)
			}
		}
		return nil
	})
}

// ranBy returns how what runsScript prints differs from the components by that runtime, or nil. Of units, no manifest
// is left, and of static pods, nothing but manifests is where the kubelet reads them.
func ranBy(out, runtime string) error {
	all := func(suffix string) string { return strings.Join(controlPlaneComponents, suffix+" ") + suffix + "\n" }
	want := all(".service") + "\n\n"
	if runtime == byStaticPod {
		want = "\n" + all("") + all(".yaml")
	}
	if out != want {
		return fmt.Errorf("units, containers and manifests are %q, want %q", out, want)
	}
	return nil
}
