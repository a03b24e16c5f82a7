package etcd

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kubequorum/terraform-provider-kube/internal/testrun"
)

const slowLine = "50mbit"

// TestSlowLineOnMachines joins a member whose gigabyte of data is transferred over a line
// of 50 Mbit/s, which takes three times as long as the stall timeout.
func TestSlowLineOnMachines(t *testing.T) {
	testrun.Long(t)
	onMachines(t, "etcdslow", "10.81.0.0/24", []string{newRelease}, func(t *testing.T) {
		r := newRig(t)
		r.edit(func(s *Spec) { s.ExtraArgs = bySnapshot }, everyone...)
		r.only([]string{"cp1", "cp2"}, "create two", r.create)
		r.gigabyte(1024)
		size := strings.TrimSpace(r.sh("cp1", "stat -c %s /var/lib/etcd/member/snap/db"))
		if err := r.lab.Machine("cp3").Shape(t.Context(), slowLine); err != nil {
			t.Fatal(err)
		}
		r.limit = 15 * time.Minute
		begin := time.Now()
		r.only([]string{"cp3"}, "join over "+slowLine, r.create)
		took := time.Since(begin)
		t.Logf("a database of %s bytes came over %s in %s", size, slowLine, took.Round(time.Second))
		if took < 2*r.clusters.pace.StallTimeout {
			t.Errorf("it took %s: that is too fast to show anything", took)
		}
		if err := r.lab.Machine("cp3").Shape(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		r.all("read", r.same)
		if started := strings.TrimSpace(r.sh("cp3", "systemctl show --property=NRestarts --value etcd")); started != "0" {
			t.Errorf("etcd was restarted %s times", started)
		}
		r.all("destroy", r.delete)
	})
}

// gigabyte writes the given number of values of one megabyte through cp1.
func (r *rig) gigabyte(megabytes int) {
	r.t.Helper()
	s := r.specs["cp1"]
	clients, err := r.clusters.of(s).connect(s)
	if err != nil {
		r.t.Fatal(err)
	}
	defer clients.Close()
	begin := time.Now()
	value := make([]byte, 1<<20)
	for i := range megabytes {
		if err := clients.Call(r.t.Context(), s.Host.Address(), time.Minute,
			func(ctx context.Context, member *clientv3.Client) error {
				_, err := member.Put(ctx, fmt.Sprintf("key%d", i), string(value))
				return err
			}); err != nil {
			r.t.Fatalf("write %d: %v", i, err)
		}
	}
	r.t.Logf("wrote %d MiB in %s", megabytes, time.Since(begin).Round(time.Second))
}

// ownDisk gives the data directory of cp1 a file system of its own.
func (r *rig) ownDisk() {
	r.t.Helper()
	r.sh("cp1", "mkdir -p /var/lib/etcd && mount -t tmpfs -o size=1g,mode=0700 tmpfs /var/lib/etcd")
}

// renamed checks that data on a file system of its own was archived by a rename, and
// removes that file system.
func (r *rig) renamed(before string) {
	r.t.Helper()
	after := r.sh("cp1", "stat -c %d:%i /var/lib/etcd/archive/cp1-*/member/snap/db")
	if before == "" || after != before {
		r.t.Errorf("the database of cp1 was copied: it was %s and is %s", before, after)
	}
	left := r.sh("cp1", "ls -A /var/lib/etcd; find /var/lib/etcd-archive /var/lib/etcd/archive -name '*.part' -o -name "+
		"'.kube-*'; stat -c %a:%U /var/lib/etcd/archive")
	if left != "archive\n700:root\n" {
		r.t.Errorf("the disk of cp1 has:\n%s", left)
	}
	r.sh("cp1", "umount /var/lib/etcd && rmdir /var/lib/etcd")
}
