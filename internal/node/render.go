package node

import (
	"cmp"
	_ "embed"
	"fmt"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/staticpod"
)

//go:embed cgroup.sh
var cgroupQuestion host.Script

// unified reports whether a machine has cgroups v2 only.
func unified(f host.Facts) bool { return strings.Contains(f.Output, "cgroup\tcgroup2fs\n") }

// driver is what manages the cgroups of containers. systemd must, where cgroups have one tree:
// https://kubernetes.io/docs/setup/production-environment/container-runtimes/#cgroup-drivers.
func driver(f host.Facts) string {
	if unified(f) {
		return "systemd"
	}
	return "cgroupfs"
}

// kubeletConfig renders the configuration of a kubelet that runs alone: it serves nothing, and runs what is in the
// directory of manifests.
func kubeletConfig(f host.Facts) host.File {
	text := `# Written by terraform-provider-kube.
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
staticPodPath: ` + staticpod.Directory + `
containerRuntimeEndpoint: unix://` + socket + `
cgroupDriver: ` + driver(f) + `
enableServer: false
authentication: {anonymous: {enabled: false}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
failSwapOn: false
imageGCHighThresholdPercent: 100 # never: an image that came as an archive could not be pulled again
`
	if !unified(f) {
		text += "failCgroupV1: false\n"
	}
	return host.File{Path: ConfigPath, Mode: 0o644, Content: []byte(text)}
}

// kubeletService renders the unit. Its command has the arguments of the unit in Kubernetes' packages, so that the
// kubelet can follow its replica (manage_kubelet).
func kubeletService(version string) host.File {
	return host.File{Path: UnitPath, Mode: 0o644, Content: []byte(`# Written by terraform-provider-kube.
[Unit]
Description=kubelet
Documentation=https://kubernetes.io/docs/
Wants=network-online.target
After=network-online.target ` + containerdUnit + `
[Service]
Environment="KUBELET_CONFIG_ARGS=--config=` + ConfigPath + `"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
EnvironmentFile=-/etc/default/kubelet
ExecStart=` + Artifact(version).Path() + ` ` + Arguments + `
Restart=always
RestartSec=10
[Install]
WantedBy=multi-user.target
`)}
}

// ProgramFile renders the drop-in of the unit that names the program of a version.
func ProgramFile(version string) host.File {
	content := "# Written by terraform-provider-kube.\n[Service]\nExecStart=\nExecStart=" + Artifact(version).Path() +
		" " + Arguments + "\n"
	return host.File{Path: DropIn, Mode: 0o644, Content: []byte(content), Owner: "root", Group: "root"}
}

// Arguments are those of the unit in Kubernetes' packages (10-kubeadm.conf), for 1.32 to 1.36.
const Arguments = "$KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS"

// containerdSettings renders the configuration of containerd. Version 2 of the format is read by 1.x and 2.x.
func containerdSettings(w Wanted, f host.Facts) host.File {
	return host.File{Path: containerdConfig, Mode: 0o644, Content: fmt.Appendf(nil, `# Written by terraform-provider-kube.
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %q
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = %t
`, w.sandboxImage(), unified(f))}
}

func (w Wanted) sandboxImage() string { return cmp.Or(w.SandboxImage, DefaultSandboxImage) }
