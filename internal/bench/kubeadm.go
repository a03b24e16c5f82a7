package bench

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/lab/services"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

// The same by kubeadm, whose components are static pods of a kubelet.
const (
	created  = "creation of a control plane of three"
	reissued = "renewal of all certificates"
	minor    = "upgrade of Kubernetes by a minor version"
	memory   = "memory of etcd and the three components on a machine"
	overhead = "memory of kubelet, containerd and its shims on a machine"

	node = "kubernetes-1.36-node" // kubeadm and kubelet
)

// before is what is created, and newer what it is upgraded to.
var before = workspace.Release{Etcd: newer.Etcd, Kubernetes: older.Kubernetes}

// kubeadm compares the provider with kubeadm. Both find everything that they install on the machines, or packages and
// images; kubeadm finds a balancer as well, which the provider sets up. Each round measures both on new machines.
func (b *bench) kubeadm(ctx context.Context) ([]Result, error) {
	all, err := b.inRounds(rounds, func(int) (times, error) {
		took, err := b.kubeadmRound(ctx)
		if err != nil {
			return nil, err
		}
		owns, err := b.ownRound(ctx)
		took.add(owns)
		return took, err
	})
	if len(all) == 0 {
		return nil, err
	}
	const own, its = "terraform: ", "kubeadm: "
	return []Result{
		ratioTo("terraform apply, "+created+", against kubeadm init and join", all[own+created], all[its+created], "s"),
		ratioTo("terraform apply, "+reissued+", against kubeadm certs renew, and a restart of each machine",
			all[own+reissued], all[its+reissued], "s"),
		ratioTo("terraform apply, "+minor+", against kubeadm upgrade", all[own+minor], all[its+minor], "s"),
		ratioTo(memory+", units against static pods of kubeadm", all[own+memory], all[its+memory], "MiB"),
		measured(overhead+" of kubeadm", all[its+overhead], "MiB"),
	}, err
}

// kubeadmRound measures kubeadm on the first three machines, with a balancer on the fourth.
func (b *bench) kubeadmRound(ctx context.Context) (times, error) {
	k, err := b.prepareKubeadm(ctx)
	if err != nil {
		return nil, err
	}
	took, err := b.runSteps(ctx, "kubeadm", []step{{name: created, act: k.create}})
	if err != nil {
		return nil, err
	}
	for name, programs := range map[string]string{
		memory:   controlPlanePrograms,
		overhead: "kubelet containerd containerd-shim.*",
	} {
		if took[name], err = b.memoryOf(ctx, programs); err != nil {
			return nil, err
		}
	}
	steps, err := b.runSteps(ctx, "kubeadm", []step{{name: reissued, act: k.renew}, {name: minor, act: k.upgrade}})
	took.add(steps)
	return took.by("kubeadm"), err
}

// ownRound measures the provider on the first three machines.
func (b *bench) ownRound(ctx context.Context) (times, error) {
	if err := b.renew(ctx); err != nil {
		return nil, err
	}
	if err := b.prepare(ctx, b.first(few), before, newer); err != nil {
		return nil, err
	}
	apply := func(ctx context.Context) error { _, err := b.work.Apply(ctx, b.log); return err }
	want := func(r workspace.Release) func(context.Context) error {
		return func(context.Context) error { return b.wantRelease(r) }
	}
	took, err := b.runSteps(ctx, "terraform", []step{{name: created, before: want(before), act: apply, leaves: few}})
	if err != nil {
		return nil, err
	}
	took[memory], err = b.memoryOf(ctx, controlPlanePrograms)
	if err != nil {
		return nil, err
	}
	steps, err := b.runSteps(ctx, "terraform", []step{
		{name: reissued, before: b.wantRenewal, act: apply, leaves: few, after: b.endRenewal},
		{name: minor, before: want(newer), act: apply, leaves: few, after: func(ctx context.Context) error {
			return b.checkVersions(ctx, newer)
		}},
	})
	took.add(steps)
	return took.by("terraform"), err
}

// renewalFile makes every certificate due.
const renewalFile = "renewal_override.tf"

func (b *bench) wantRenewal(context.Context) error {
	return os.WriteFile(filepath.Join(b.work.Dir, renewalFile), []byte(`
resource "kube_etcd_member" "this" { early_renewal = "8759h59m" }
resource "kube_control_plane_replica" "this" { early_renewal = "8759h59m" }
`), 0o600)
}

// endRenewal makes no certificate due any more.
func (b *bench) endRenewal(ctx context.Context) error {
	if err := os.Remove(filepath.Join(b.work.Dir, renewalFile)); err != nil {
		return fmt.Errorf("end the renewal: %w", err)
	}
	_, err := b.work.Apply(ctx, io.Discard)
	return err
}

// controlPlanePrograms are those of a machine of a control plane.
const controlPlanePrograms = "etcd kube-apiserver kube-controller-manager kube-scheduler"

// memoryOf returns the memory of programs on a machine, in MiB: the mean of three.
func (b *bench) memoryOf(ctx context.Context, programs string) (series, error) {
	sum := 0.0
	for _, m := range b.first(few) {
		out, err := m.Run(ctx, with(map[string]string{"names": programs}, memoryScript))
		if err != nil {
			return nil, fmt.Errorf("memory on %s: %w", m.Name, err)
		}
		kib, err := strconv.ParseFloat(strings.TrimSpace(out), 64)
		if err != nil {
			return nil, fmt.Errorf("memory on %s: %q is no number", m.Name, out)
		}
		sum += kib / 1024 / few
	}
	return series{sum}, nil
}

// kubeadmPlane is a control plane of kubeadm.
type kubeadmPlane struct {
	*bench
	balancer            *lab.Machine
	etcd, before, after string // versions
}

// prepareKubeadm makes machines with a kubelet, kubeadm, and the images, and a balancer.
func (b *bench) prepareKubeadm(ctx context.Context) (kubeadmPlane, error) {
	k := kubeadmPlane{bench: b, balancer: b.lab.Machines()[few]}
	components, err := build.Components(ctx, node)
	if err != nil {
		return k, err
	}
	if k.etcd, k.before, err = before.Versions(); err != nil {
		return k, err
	}
	if _, k.after, err = newer.Versions(); err != nil {
		return k, err
	}
	release, err := build.Version(node)
	if err != nil {
		return k, err
	}
	group, within := errgroup.WithContext(ctx)
	for _, m := range b.first(few) {
		group.Go(func() error {
			return services.InstallNode(within, m, services.Node{
				Components: components, Release: release, Kubernetes: []string{k.before, k.after}, Etcd: k.etcd,
				Unit: services.Kubelet,
			})
		})
	}
	if err := group.Wait(); err != nil {
		return k, err
	}
	targets := map[string]string{}
	for _, m := range b.first(few) {
		targets[m.Name] = net.JoinHostPort(m.Address.String(), "6443")
	}
	if err := k.balancer.Rebuild(ctx); err != nil {
		return k, err
	}
	if err := services.InstallBalancers(ctx, k.balancer); err != nil {
		return k, err
	}
	return k, services.HAProxy.Start(ctx, k.balancer, targets, "/readyz")
}

// create creates the control plane on the first machine, and joins the others one after the other.
func (k kubeadmPlane) create(ctx context.Context) error {
	if err := k.by().Create(ctx, k.first(few), io.Discard); err != nil {
		return err
	}
	return k.serves(ctx)
}

func (k kubeadmPlane) by() services.Kubeadm {
	return services.Kubeadm{Kubernetes: k.before, Etcd: k.etcd, Settings: "endpoint=" + k.balancer.Address.String()}
}

// renew renews all certificates, and restarts what uses them, a machine at a time.
func (k kubeadmPlane) renew(ctx context.Context) error {
	for _, m := range k.first(few) {
		script := "kubeadm certs renew all >/dev/null\n" + services.KubeadmRestart
		if err := run(ctx, m, with(variables(m), script)); err != nil {
			return err
		}
	}
	return k.serves(ctx)
}

// upgrade upgrades the first machine, and then the others.
func (k kubeadmPlane) upgrade(ctx context.Context) error {
	if err := k.by().Upgrade(ctx, k.first(few), k.after, io.Discard); err != nil {
		return err
	}
	if err := k.serves(ctx); err != nil {
		return err
	}
	for _, m := range k.first(few) {
		script := `curl -ksf "https://$address:6443/version" | grep -qF '"v` + k.after + `"'`
		if err := run(ctx, m, with(variables(m), script)); err != nil {
			return fmt.Errorf("%s does not run %s: %w", m.Name, k.after, err)
		}
	}
	return nil
}

// serves waits until all components are ready.
func (k kubeadmPlane) serves(ctx context.Context) error {
	if _, err := k.waitServing(ctx); err != nil {
		return err
	}
	return k.onEach(ctx, k.first(few), othersScript)
}
