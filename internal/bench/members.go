package bench

import (
	"context"
	"embed"
	"fmt"
	"io"
	"io/fs"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/kubequorum/terraform-provider-kube/internal/cache"
	"github.com/kubequorum/terraform-provider-kube/internal/lab"
	"github.com/kubequorum/terraform-provider-kube/internal/workspace"
)

//go:embed members/main.tf
var membersConfig embed.FS

// database is what the members of a measurement serve: the contents of a snapshot on the first machine.
type database struct {
	size Size
	keys string // their number
}

// snapshotFile is the snapshot on a machine.
const snapshotFile = "/root/bench.db"

// copies is how many databases there are on all machines at the same time, at most: those of three members, the copy
// and the new one of a restore, an archive, the snapshots, and what a learner receives.
const copies = 7

// renewMembers replaces all machines by empty ones, of which the first n get the programs of etcd, and makes the
// workspace of a cluster of three members.
func (b *bench) renewMembers(ctx context.Context, n int) error {
	if err := b.room(); err != nil {
		return err
	}
	if err := b.rebuild(ctx); err != nil {
		return err
	}
	if err := b.installEtcd(ctx, b.first(n)); err != nil {
		return err
	}
	config, err := fs.Sub(membersConfig, "members")
	if err != nil {
		return fmt.Errorf("read the configuration of the members: %w", err)
	}
	return b.open(ctx, "members", func(w *workspace.Workspace) error { return w.MakeFrom(ctx, config, b.log) })
}

// room returns an error if the largest database does not have enough space, instead of a cluster that runs out of it.
func (b *bench) room() error {
	dir, err := cache.Dir()
	if err != nil {
		return err
	}
	var disk syscall.Statfs_t
	if err := syscall.Statfs(dir, &disk); err != nil {
		return fmt.Errorf("ask for the free space of %s: %w", dir, err)
	}
	return enough(Size(disk.Bavail)*Size(disk.Bsize), dir, b.sizes)
}

// enough returns an error if a disk does not have enough space for databases, one after the other.
func enough(free Size, dir string, sizes []Size) error {
	for _, size := range sizes {
		if most := size*copies + gigabyte; free < most {
			return fmt.Errorf("a database of %s needs %d MB of free space in %s, which has %d", size, most/megabyte, dir,
				free/megabyte)
		}
	}
	return nil
}

func (b *bench) installEtcd(ctx context.Context, machines []*lab.Machine) error {
	version, _, err := newer.Versions()
	if err != nil {
		return err
	}
	return b.install(ctx, machines, etcdArtifacts(version))
}

// wantMembers writes Terraform's variables: three members on machines by name, their volumes, and what they are
// restored from; nil for nothing.
func (b *bench) wantMembers(machines map[string]string, volumes, restore map[string]any) error {
	version, _, err := newer.Versions()
	if err != nil {
		return err
	}
	variables := map[string]any{"machines": machines, "etcd_version": version, "restore": restore}
	if volumes != nil {
		variables["volumes"] = volumes
	}
	if b.maintenance != nil {
		variables["maintenance"] = b.maintenance
	}
	return b.work.WriteJSON("terraform.tfvars.json", variables)
}

// fill makes a snapshot of a size on the first machine.
func (b *bench) fill(ctx context.Context, size Size) (database, error) {
	fmt.Fprintf(b.log, "filling a database with %s\n", size)
	out, err := b.first(1)[0].Run(ctx, with(map[string]string{
		"bytes": strconv.FormatInt(int64(size), 10), "snapshot": snapshotFile,
	}, fillScript))
	if err != nil {
		return database{}, fmt.Errorf("fill a database: %w", err)
	}
	keys := strings.TrimSpace(out)
	if _, err := strconv.Atoi(keys); err != nil {
		return database{}, fmt.Errorf("fill a database: %w", err)
	}
	return database{size: size, keys: keys}, nil
}

// served returns nil if three voters serve the database, each on its machine.
func (b *bench) served(ctx context.Context, d database, machines []*lab.Machine) error {
	for _, m := range machines {
		if err := run(ctx, m, with(variables(m),
			with(map[string]string{"keys": d.keys}, memberScript+servedScript))); err != nil {
			return err
		}
	}
	return nil
}

// copySnapshot copies the snapshot from the first machine to others, at the same time.
func (b *bench) copySnapshot(ctx context.Context, machines []*lab.Machine) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, m := range machines {
		group.Go(func() error {
			from, to := b.first(1)[0].SSH(ctx, "cat "+snapshotFile), m.SSH(ctx, "cat >"+snapshotFile)
			if err := pipe(from, to); err != nil {
				return fmt.Errorf("copy the snapshot to %s: %w", m.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// pipe runs two programs, of which the second one reads what the first one writes.
func pipe(from, to *exec.Cmd) error {
	reader, writer := io.Pipe()
	from.Stdout, to.Stdin = writer, reader
	if err := from.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		err := from.Wait()
		_ = writer.CloseWithError(err) // never fails
		ended <- err
	}()
	err := to.Run()
	_ = reader.Close() // never fails
	if failed := <-ended; failed != nil {
		return failed
	}
	return err
}
