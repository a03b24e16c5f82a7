package services

import (
	"context"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
)

// KubeVIPPath is where InstallKubeVIP puts the program.
const KubeVIPPath = "/usr/local/bin/kube-vip"

// InstallKubeVIP copies kube-vip onto a machine.
func InstallKubeVIP(ctx context.Context, m *lab.Machine, program string) error {
	return Install(ctx, m, program, KubeVIPPath)
}
