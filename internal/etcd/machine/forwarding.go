package machine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// AskedAt returns the addresses at which the member on the machine with an address is asked, through sshd there.
func AskedAt(address string) []string {
	return []string{net.JoinHostPort(address, "2379"), healthAddress}
}

// CheckForwarding returns host.ErrForwarding if the machine's sshd forbids connections to any of the addresses at which
// the member there is asked. Whether anybody listens does not matter. No other failure counts, because it says nothing
// about sshd.
func CheckForwarding(ctx context.Context, m Machine, addresses ...string) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	for _, address := range addresses {
		conn, err := m.Dial(ctx, "tcp", address)
		if err == nil {
			_ = conn.Close() // nothing was sent
		}
		if errors.Is(err, host.ErrForwarding) {
			return fmt.Errorf("%w; the member is asked through SSH, at %s", host.ErrForwarding, strings.Join(addresses, ", "))
		}
	}
	return nil
}
