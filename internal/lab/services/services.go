// Package services runs on lab machines what others run beside a control plane, so that each kind of endpoint
// can be tried: name servers, routers, balancers, and kube-vip. All programs but kube-vip are Debian's.
package services

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
)

// run runs a script on a machine. Its error has what the script wrote.
func run(ctx context.Context, m *lab.Machine, script string) (string, error) {
	out, err := m.Run(ctx, "set -e\n"+script)
	if err != nil {
		return out, fmt.Errorf("%s: %w\n%s", m.Name, err, strings.TrimSpace(out))
	}
	return out, nil
}

// awaitTimeout limits the wait for the addresses that a service has.
const awaitTimeout = time.Minute

// await returns how long it took until read returned exactly the wanted addresses, in any order.
func await(
	ctx context.Context, want []string, interval time.Duration, read func(context.Context) ([]string, error),
) (time.Duration, error) {
	want = slices.Sorted(slices.Values(want))
	begun := time.Now()
	for {
		got, err := read(ctx)
		if err != nil {
			return 0, err
		}
		slices.Sort(got)
		if slices.Equal(got, want) {
			return time.Since(begun), nil
		}
		if time.Since(begun) > awaitTimeout {
			return 0, fmt.Errorf("after %s, the addresses are %v, want %v", awaitTimeout, got, want)
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(interval):
		}
	}
}
