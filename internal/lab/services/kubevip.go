package services

import (
	"context"
	"fmt"
	"os"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
)

// KubeVIPPath is where InstallKubeVIP puts the program.
const KubeVIPPath = "/usr/local/bin/kube-vip"

// InstallKubeVIP copies kube-vip onto a machine.
func InstallKubeVIP(ctx context.Context, m *lab.Machine, program string) error {
	file, err := os.Open(program)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	upload := m.SSH(ctx, "cat >"+KubeVIPPath+" && chmod 755 "+KubeVIPPath)
	upload.Stdin = file
	if out, err := upload.CombinedOutput(); err != nil {
		return fmt.Errorf("install kube-vip on %s: %w: %s", m.Name, err, out)
	}
	return nil
}
