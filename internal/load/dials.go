package load

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"syscall"
)

// dials counts the connections that one client has tried to open.
type dials struct {
	begun   atomic.Int64
	refused atomic.Int64 // nobody listens at the address
}

// dial dials an address and counts it.
func (d *dials) dial(ctx context.Context, by Dial, network, address string) (net.Conn, error) {
	d.begun.Add(1)
	connection, err := by(ctx, network, address)
	if errors.Is(err, syscall.ECONNREFUSED) {
		d.refused.Add(1)
	}
	return connection, err
}
