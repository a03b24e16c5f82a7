package build

import (
	"context"
	"os"

	"github.com/kubequorum/terraform-provider-kube/internal/filelock"
)

// lock takes an exclusive lock on a file. The kernel releases it even if the process is killed.
// It waits for as long as another process holds it.
func lock(ctx context.Context, name string, show *progress) (unlock func(), err error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	waiting := func() { show.step("waiting for another process to build it") }
	if err := filelock.Lock(ctx, file, waiting); err != nil {
		file.Close()
		return nil, err
	}
	return func() { file.Close() }, nil
}
