package services

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
)

// Kubelet is the unit of the packages of Kubernetes (kubelet.service and 10-kubeadm.conf).
const Kubelet = `[Unit]
Description=kubelet
After=containerd.service cgroups-writable.service
[Service]
Environment="KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf \
  --kubeconfig=/etc/kubernetes/kubelet.conf"
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
EnvironmentFile=-/etc/default/kubelet
ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
Restart=always
RestartSec=2
[Install]
WantedBy=multi-user.target
`

// kubeletAlone is a unit and a configuration of a kubelet that runs static pods, and is no node of a cluster. It does
// not remove images when the disk is nearly full: those of components that run as units are unused.
const (
	kubeletAlone = `[Unit]
Description=kubelet
After=containerd.service cgroups-writable.service
[Service]
ExecStart=/usr/bin/kubelet --config=/var/lib/kubelet/config.yaml
Restart=always
RestartSec=2
[Install]
WantedBy=multi-user.target
`
	kubeletAloneConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
enableServer: false
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
staticPodPath: /etc/kubernetes/manifests
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 1Mi, nodefs.available: 1%, imagefs.available: 1%}
`
)

// PodImage is the lab's only image of Pods. Its program is /pod, which is also the pause of a Pod.
const PodImage = "registry.example.com/pod:1"

// Node is a machine whose kubelet can run a control plane.
type Node struct {
	Components string   // the directory of built components
	Release    string   // of kubelet and kubeadm, which must have been built
	Kubernetes []string // releases whose images the machine gets
	Etcd       string   // the same; "" for none
	Unit       string   // of the kubelet, which is enabled and not started; "": that of a kubelet that runs alone
}

// InstallNode makes the machine anew, with containerd, kubelet, kubeadm and images.
func InstallNode(ctx context.Context, m *lab.Machine, n Node) error {
	if err := m.RebuildForContainers(ctx, PodImage); err != nil {
		return err
	}
	for _, name := range []string{"kubeadm", "kubelet"} {
		if err := Install(ctx, m, filepath.Join(n.Components, "kubernetes-v"+n.Release, name), "/usr/bin/"+name); err != nil {
			return err
		}
	}
	if err := n.importImages(ctx, m); err != nil {
		return err
	}
	unit := n.Unit
	if unit == "" {
		unit = kubeletAlone
		if _, err := run(ctx, m, "mkdir -p /etc/kubernetes/manifests /var/lib/kubelet\n"+
			"cat >/var/lib/kubelet/config.yaml <<'EOF'\n"+kubeletAloneConfig+"EOF"); err != nil {
			return err
		}
	}
	enable := m.SSH(ctx, "cat >/etc/systemd/system/kubelet.service && systemctl daemon-reload && "+
		"systemctl enable --quiet kubelet")
	enable.Stdin = strings.NewReader(unit)
	if out, err := enable.CombinedOutput(); err != nil {
		return fmt.Errorf("install the kubelet on %s: %w: %s", m.Name, err, out)
	}
	return nil
}

// importImages makes images of built programs, and gives them to the machine.
func (n Node) importImages(ctx context.Context, m *lab.Machine) error {
	dir, err := os.MkdirTemp("", "images-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	archive := filepath.Join(dir, "image.tar")
	if err := build.PodImage(ctx, PodImage, archive); err != nil {
		return err
	}
	if err := importImage(ctx, m, archive); err != nil {
		return err
	}
	programs := map[string]string{}
	if n.Etcd != "" {
		programs["registry.k8s.io/etcd:"+n.Etcd+"-0"] = "etcd-v" + n.Etcd + "/etcd"
	}
	for _, version := range n.Kubernetes {
		for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
			programs["registry.k8s.io/"+name+":v"+version] = "kubernetes-v" + version + "/" + name
		}
	}
	for _, reference := range slices.Sorted(maps.Keys(programs)) {
		if err := build.ProgramImage(ctx, reference, filepath.Join(n.Components, programs[reference]), archive); err != nil {
			return err
		}
		if err := importImage(ctx, m, archive); err != nil {
			return err
		}
	}
	return nil
}

func importImage(ctx context.Context, m *lab.Machine, archive string) error {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	return m.ImportImage(ctx, file)
}
