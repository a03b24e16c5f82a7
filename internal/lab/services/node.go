package services

import (
	"context"
	_ "embed"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
)

// Scripts of kubeadm. The first lines of each describe it.
var (
	//go:embed kubeadm_init.sh
	KubeadmInit string
	//go:embed kubeadm_join.sh
	KubeadmJoin string
	//go:embed kubeadm_balancers.sh
	KubeadmBalancers string
	//go:embed kubeadm_restart.sh
	KubeadmRestart string // sets $address before
)

// KubeadmTicket prints what KubeadmJoin needs, on the machine of KubeadmInit: a token, the digest of the authority's
// key, and the key of the uploaded certificates.
const KubeadmTicket = `kubeadm token create --ttl 30m 2>/dev/null
openssl x509 -in /etc/kubernetes/pki/ca.crt -noout -pubkey | openssl pkey -pubin -outform DER | sha256sum |
  cut -d ' ' -f 1
kubeadm init phase upload-certs --upload-certs --config /root/kubeadm.yaml 2>/dev/null | tail -n 1`

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

// Node is a machine whose kubelet can run a control plane.
type Node struct {
	Components string   // the directory of built components
	Release    string   // of kubelet and kubeadm, which must have been built
	Kubernetes []string // releases whose images the machine gets
	Etcd       string   // the same; "" for none
	Pause      string   // name of the image of the lab's Pods
	Unit       string   // of the kubelet, which is enabled and not started
}

// InstallNode makes the machine anew, with containerd, kubelet, kubeadm and images.
func InstallNode(ctx context.Context, m *lab.Machine, n Node) error {
	if err := m.RebuildForContainers(ctx, n.Pause); err != nil {
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
	enable := m.SSH(ctx, "cat >/etc/systemd/system/kubelet.service && systemctl daemon-reload && "+
		"systemctl enable --quiet kubelet")
	enable.Stdin = strings.NewReader(n.Unit)
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
	if err := build.PodImage(ctx, n.Pause, archive); err != nil {
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
