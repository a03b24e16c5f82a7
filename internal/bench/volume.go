package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
)

// A member whose data is on a volume moves to another machine, which also has the disk. The reference is -replace of
// the same member on its machine, by which it gets its data from the others.
const (
	moved   = "move of a member with its volume"
	renewed = "replace of the member"
)

const (
	movingMember = "cp3" // on the third machine or on the fourth
	volumeDevice = "/dev/etcd-volume"
	volumePlace  = "/var/lib/etcd-volume"
)

// volumes measures moves with databases of all sizes, each with a new cluster.
func (b *bench) volumes(ctx context.Context) ([]Result, error) {
	if err := b.renewMembers(ctx, few+1); err != nil {
		return nil, err
	}
	var results []Result
	for _, size := range b.sizes {
		took, err := b.volumesOf(ctx, size)
		if len(took) > 0 {
			named := database{size: size}.named
			results = append(results, ratioTo("terraform apply, "+named(moved)+", against -replace of the member",
				took[named(moved)], took[named(renewed)], "s"))
		}
		if err != nil {
			return results, fmt.Errorf("%s: %w", size, err)
		}
	}
	return results, nil
}

// volumesOf measures moves with a database of one size.
func (b *bench) volumesOf(ctx context.Context, size Size) (all times, err error) {
	machines := b.first(few + 1)
	if err := b.onEach(ctx, machines, "rm -rf /var/lib/etcd-archive"); err != nil { // of the size before
		return nil, err
	}
	if err := b.installEtcd(ctx, machines); err != nil {
		return nil, err
	}
	d, err := b.fill(ctx, size)
	if err != nil {
		return nil, err
	}
	volume, err := lab.NewVolume(ctx, filepath.Join(b.dir, "volume.img"), int64(volumeSize(size)))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, volume.Remove()) }()
	for _, m := range machines[few-1:] {
		if err := volume.Attach(ctx, m, volumeDevice); err != nil {
			return nil, err
		}
	}
	at, other := machines[few-1], machines[few]
	if err := b.wantMember(d, at); err != nil {
		return nil, err
	}
	if _, err := b.work.Apply(ctx, b.log); err != nil {
		return nil, err
	}
	fmt.Fprintf(b.log, "database of %s\n", size)
	all, err = b.inRounds(size.rounds(), func(int) (times, error) {
		steps := []step{b.renewMember(d, at), b.move(d, at, other)}
		at, other = other, at
		return b.runSteps(ctx, "terraform", steps)
	})
	if err != nil {
		return all, err
	}
	_, err = b.work.Apply(ctx, b.log, "-destroy")
	return all, err
}

// volumeSize is the size of a volume for a database: the file system has the data, and an archive or a last snapshot,
// and the provider wants 1 GiB of free space before. The file takes only what is written, and keeps what is freed.
func volumeSize(d Size) Size { return 3*d + 2*gigabyte }

// wantMember writes Terraform's variables: the member with the volume is on a machine. Its cluster is made from the
// snapshot.
func (b *bench) wantMember(d database, at *lab.Machine) error {
	on := maps.Clone(b.work.Machines(few))
	on[movingMember] = at.Address.String()
	volume := map[string]any{"device": volumeDevice, "mount_path": volumePlace}
	return b.wantMembers(on, map[string]any{movingMember: volume},
		map[string]any{"id": fmt.Sprintf("volume-%d", d.size), "snapshot": snapshotFile})
}

// renewMember returns the step with -replace.
func (b *bench) renewMember(d database, at *lab.Machine) step {
	return step{
		name:   d.named(renewed),
		before: func(ctx context.Context) error { return b.settle(ctx, at) },
		act: func(ctx context.Context) error {
			_, err := b.work.Apply(ctx, b.log, fmt.Sprintf("-replace=kube_etcd_member.this[%q]", movingMember))
			return err
		},
		after: func(ctx context.Context) error { return b.served(ctx, d, append(b.first(few-1), at)) },
	}
}

// move returns the step that moves the member. The new machine has the programs.
func (b *bench) move(d database, from, to *lab.Machine) step {
	return step{
		name: d.named(moved),
		before: func(ctx context.Context) error {
			if err := b.installEtcd(ctx, []*lab.Machine{to}); err != nil {
				return err
			}
			if err := b.settle(ctx, from); err != nil {
				return err
			}
			return b.wantMember(d, to)
		},
		act: func(ctx context.Context) error {
			_, err := b.work.Apply(ctx, b.log)
			return err
		},
		after: func(ctx context.Context) error { return b.served(ctx, d, append(b.first(few-1), to)) },
	}
}

// settle removes the archives on the volume and flushes what was written.
func (b *bench) settle(ctx context.Context, at *lab.Machine) error {
	if err := run(ctx, at, "rm -rf "+volumePlace+"/etcd-archive"); err != nil {
		return err
	}
	return b.onEach(ctx, b.first(few+1), "sync")
}
