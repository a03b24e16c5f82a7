package services

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"strings"

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
	//go:embed kubeadm_upgrade.sh
	kubeadmUpgrade string
)

// KubeadmTicket prints what KubeadmJoin needs, on the machine of KubeadmInit: a token, the digest of the authority's
// key, and the key of the uploaded certificates.
const KubeadmTicket = `kubeadm token create --ttl 30m 2>/dev/null
openssl x509 -in /etc/kubernetes/pki/ca.crt -noout -pubkey | openssl pkey -pubin -outform DER | sha256sum |
  cut -d ' ' -f 1
kubeadm init phase upload-certs --upload-certs --config /root/kubeadm.yaml 2>/dev/null | tail -n 1`

// Kubeadm is what kubeadm creates a control plane of, on machines with a kubelet.
type Kubeadm struct {
	Kubernetes, Etcd string // versions
	Settings         string // of KubeadmInit and KubeadmJoin that all machines have
	// Joined is called after each machine but the first; nil: nothing is.
	Joined func(ctx context.Context, m *lab.Machine) error
}

// Create creates the control plane on the first machine, and lets the others join. What kubeadm prints goes to log.
func (k Kubeadm) Create(ctx context.Context, machines []*lab.Machine, log io.Writer) error {
	first := machines[0]
	out, err := run(ctx, first, fmt.Sprintf("version=%s etcd=%s name=%s address=%s %s\n%s", k.Kubernetes, k.Etcd,
		first.Name, first.Address, k.Settings, KubeadmInit))
	if err != nil {
		return err
	}
	fmt.Fprintln(log, out)
	if len(machines) == 1 {
		return nil
	}
	return k.Join(ctx, first, machines[1:], log)
}

// Join lets machines join, one after the other. first is the machine of KubeadmInit. What kubeadm prints goes to log.
func (k Kubeadm) Join(ctx context.Context, first *lab.Machine, machines []*lab.Machine, log io.Writer) error {
	out, err := run(ctx, first, KubeadmTicket)
	if err != nil {
		return err
	}
	ticket := strings.Fields(out)
	if len(ticket) != 3 {
		return fmt.Errorf("kubeadm on %s prints %q", first.Name, ticket)
	}
	for _, m := range machines {
		out, err := run(ctx, m, fmt.Sprintf("name=%s address=%s %s token=%s hash=%s key=%s\n%s", m.Name, m.Address,
			k.Settings, ticket[0], ticket[1], ticket[2], KubeadmJoin))
		if err != nil {
			return err
		}
		fmt.Fprintln(log, out)
		if k.Joined == nil {
			continue
		}
		if err := k.Joined(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// Upgrade upgrades machines to a version, one after the other, with the kubeadm that is on them. What kubeadm prints
// goes to log.
func (k Kubeadm) Upgrade(ctx context.Context, machines []*lab.Machine, version string, log io.Writer) error {
	first := "yes"
	for _, m := range machines {
		out, err := run(ctx, m, fmt.Sprintf("version=%s first=%s\n%s", version, first, kubeadmUpgrade))
		if err != nil {
			return err
		}
		fmt.Fprintln(log, out)
		first = "no"
	}
	return nil
}
