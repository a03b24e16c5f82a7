package etcd

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/etcd/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// TestRestoreInterrupted ends the process at each command with which a restore changes a
// machine, and restores with another process. Nothing but the restored data is ever served.
func TestRestoreInterrupted(t *testing.T) {
	onMachines(t, "etcdcut", "10.76.0.0/24", []string{newRelease}, testRestoreInterrupted)
}

func testRestoreInterrupted(t *testing.T) {
	r := newRig(t)
	r.clusters.pace.DeadAfter = 2 * time.Second
	r.all("create", r.create)
	r.ctl("cp1", "put /registry/pods/a one", "snapshot save /root/good.db")
	r.cutEverywhere("snapshot", machine.Restore{Snapshot: "/root/good.db"}, "one", everyone...)
	r.cutEverywhere("member", machine.Restore{Member: "cp3"}, "survives", "cp1", "cp2")
}

// cutEverywhere loses members again and again, and cuts each restore at the next command.
func (r *rig) cutEverywhere(kind string, from machine.Restore, value string, lost ...string) {
	r.t.Helper()
	for n := 1; ; n++ {
		before := r.revision("cp3")
		r.ctl("cp3", "put /registry/pods/a survives")
		r.lose(lost...)
		r.request(fmt.Sprintf("%s-%d", kind, n), from)
		at := r.cutAt(n)
		if at == "" {
			r.t.Logf("%s: %d points", kind, n-1)
			r.wantData(value, before)
			return
		}
		r.neverEmpty(at)
		fresh := newProcess(r.t, r.lab, r.specs["cp1"].Bundle)
		fresh.clusters.pace.DeadAfter, fresh.limit = 2*time.Second, 5*time.Minute
		fresh.request(fmt.Sprintf("%s-%d", kind, n), from)
		fresh.all(fmt.Sprintf("%s, after a cut at %d (%s)", kind, n, at), fresh.update)
		r.process()
		r.clusters.pace.DeadAfter = 2 * time.Second
		r.wantData(value, before)
		if r.t.Failed() {
			r.t.FailNow()
		}
	}
}

// cutAt runs the restore in a process that ends at its n-th changing command: an odd one
// before the machine gets it, an even one while it runs. It returns the command, or "" if
// there are fewer.
func (r *rig) cutAt(n int) (at string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 3*time.Minute)
	defer cancel()
	var mu sync.Mutex
	var pool *host.Pool
	count := 0
	die := func(summary string) {
		at = summary
		cancel()
		go func() { _ = pool.Close() }() // as if the process were gone: nothing is undone any more
	}
	p := newProcessAround(r.t, r.lab, r.specs["cp1"].Bundle, func(_, summary string) (running, ended func()) {
		mu.Lock()
		defer mu.Unlock()
		running, ended = func() {}, func() {}
		if strings.HasPrefix(summary, "observe ") || strings.HasPrefix(summary, "read ") || at != "" {
			return running, ended
		}
		if count++; count == n && n%2 == 1 {
			die(summary)
		} else if count == n {
			running = func() { mu.Lock(); defer mu.Unlock(); die(summary) }
		}
		return running, ended
	})
	p.clusters.pace.DeadAfter = 2 * time.Second
	pool = p.pool
	for name, s := range r.specs {
		own := p.specs[name]
		own.Restore = s.Restore
		p.specs[name] = own
	}
	errs := together(r.t, p.specs, func(s Spec) error { return p.update(ctx, s) }, everyone...)
	_ = pool.Close()
	mu.Lock()
	defer mu.Unlock()
	for name, err := range errs {
		if at == "" && err != nil {
			r.t.Fatalf("%s, without a cut: %v", name, err)
		}
	}
	return at
}

// neverEmpty starts every member that systemd would start after a power cut, and reads what
// each of them serves alone. It is the restored data or nothing.
func (r *rig) neverEmpty(at string) {
	r.t.Helper()
	for _, name := range everyone {
		got := r.sh(name, `if systemctl is-enabled --quiet etcd 2>/dev/null; then systemctl start --no-block etcd; fi
`+ctlFunction+`for wait in 1 2 4; do # a learner has nothing at first
  sleep $wait
  count=$(c --command-timeout=3s get /registry/pods/ --prefix --count-only --write-out=fields --consistency=s || true)
  case $count in *'"Count" : 0'*) ;; *) break ;; esac
done
echo "$count"`)
		if strings.Contains(got, `"Count" : 0`) {
			r.t.Errorf("after a cut at %s, %s serves an empty cluster", at, name)
		}
	}
}
