package etcd

import (
	"context"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"os"
	"testing"
	"time"
)

func TestZZ(t *testing.T) {
	if os.Getenv(withinLab) == "" {
		t.Skip()
	}
	r := newRig(t)
	base := r.clusters.machine
	r.clusters.machine = func(h *host.Host) machine { return timed{base(h), t} }
	r.all("create", r.create)
	t.Log(r.sh("cp1", "journalctl -u etcd -o short-precise --no-pager | grep -e Start -e 'ready to serve' | cut -c1-100 | head -120; uptime"))
	r.all("destroy", r.delete)
}

type timed struct {
	machine
	t *testing.T
}

func (c timed) Observe(ctx context.Context, q host.Query) (host.Facts, error) {
	b := time.Now()
	defer func() {
		c.t.Logf("%s observe %s took %s", time.Now().UTC().Format("15:04:05.000"), c.Address(), time.Since(b))
	}()
	return c.machine.Observe(ctx, q)
}

func (c timed) Change(ctx context.Context, change host.Change, a action) (host.Applied, error) {
	b := time.Now()
	defer func() {
		c.t.Logf("%s change %d %s took %s", time.Now().UTC().Format("15:04:05.000"), a.Verb, c.Address(), time.Since(b))
	}()
	return c.machine.Change(ctx, change, a)
}
