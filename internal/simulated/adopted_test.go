package simulated

import (
	"errors"
	"io"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/kubequorum/terraform-provider-kube/internal/endpoint"
	"github.com/kubequorum/terraform-provider-kube/internal/endpoint/haproxy"
)

// failAt makes the commands of a machine fail whose text contains mark.
func failAt(m *machine, mark string) {
	f := front(func(line string, channel ssh.Channel, honest func(io.Reader, io.Writer) error) error {
		if strings.Contains(line, mark) {
			return errors.New("the connection broke")
		}
		return honest(channel, channel)
	})
	m.front.Store(&f)
}

// TestAdoptedEndpoint: a Create finds its endpoint with replicas in rotation, such as after its resource was renamed,
// and fails. The resource must not be tainted, because the next apply would delete it. A new endpoint is in the state,
// so that it can be deleted.
func TestAdoptedEndpoint(t *testing.T) {
	for _, mark := range []string{"echo claimed", "reload_units"} {
		for _, used := range []bool{true, false} {
			fleet, p := bareOn(t, 1)
			if used {
				p.create(t)
			}
			failAt(fleet.clusters[0].machines[perCluster-1], mark)
			s := p.endpoint
			s.VirtualRouterID = 77
			if _, err := haproxy.Create(t.Context(), s); err == nil || errors.Is(err, endpoint.ErrAdopted) != used {
				t.Errorf("%s fails, replicas are in rotation: %t: %v", mark, used, err)
			}
		}
	}
}
