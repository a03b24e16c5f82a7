package connections

import (
	"context"
	_ "embed"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

//go:embed listen.sh
var listenScript host.Script

// listenLimit is how long a listener lives at most, also if this process stops. It is longer than
// a check.
const listenLimit = 20 * time.Second

// Listener accepts connections on a machine, and does nothing with them.
type Listener struct {
	// Ended is closed when nothing listens any more, or when the machine cannot listen.
	Ended <-chan struct{}
	// Release ends the listener, and returns when the ports are free again.
	Release func()
}

// Deaf is the listener of a machine that cannot listen.
func Deaf() Listener {
	ended := make(chan struct{})
	close(ended)
	return Listener{ended, func() {}}
}

// Listen listens at the addresses of a machine (IP:port). It is no error if the machine cannot: then
// nobody can tell a closed port from a firewall that rejects.
func Listen(ctx context.Context, h *host.Host, addresses []string) Listener {
	stdin, held := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, err := h.Run(ctx, host.Command{Script: listenScript, Stdin: stdin, Vars: map[string]string{
			"addresses": strings.Join(addresses, " "), "limit": strconv.Itoa(int(listenLimit.Seconds())),
		}})
		if err != nil {
			problem.Detail(ctx, "%s does not listen: %v", h.Address(), err)
		}
		_ = stdin.Close()
	}()
	return Listener{ended, func() {
		_ = held.Close()
		<-ended
	}}
}
