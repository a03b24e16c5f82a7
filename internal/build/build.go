// Package build builds the programs that tests, the demo and make need from source. Each is
// pinned by a go.mod in tools/. It keeps them in a cache outside the checkout: existing
// programs are not built again.
package build

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/cache"
)

// Components builds the named sets if they are missing ("etcd", "kubernetes",
// "kubernetes-1.35"; no name means one of each product) and returns the directory that contains
// them, in the layout of the provider's local artifact source.
func Components(ctx context.Context, names ...string) (string, error) {
	if len(names) == 0 {
		names = ComponentNames()
	}
	for _, name := range names {
		if _, err := Set(ctx, name); err != nil {
			return "", err
		}
	}
	dir, err := cache.Dir()
	return filepath.Join(dir, string(component)), err
}

// Terraform returns the path of an installed terraform or, if there is none, of an OpenTofu
// built here.
func Terraform(ctx context.Context) (string, error) {
	if installed, err := exec.LookPath("terraform"); err == nil {
		return installed, nil
	}
	return Tofu(ctx)
}

// RealTerraform returns the path of an installed terraform or, if there is none, of the one built here.
func RealTerraform(ctx context.Context) (string, error) {
	if installed, err := exec.LookPath("terraform"); err == nil {
		return installed, nil
	}
	return Set(ctx, "terraform")
}

// Tofu returns the path of the OpenTofu built here.
func Tofu(ctx context.Context) (string, error) { return Set(ctx, "tofu") }

// located returns a set, and the checkout whose modules pin it.
func located(name string) (s set, root string, err error) {
	if s, err = lookup(name); err != nil {
		return set{}, "", err
	}
	root, err = Checkout()
	return s, root, err
}

// Version returns the pinned version of a set, without a "v".
func Version(name string) (string, error) {
	s, root, err := located(name)
	if err != nil {
		return "", err
	}
	return s.version(root)
}

// Set builds the missing programs of one set, by any name of Names. It returns the path of the
// tool, or of the directory of the components. Callers in several processes wait for each
// other.
func Set(ctx context.Context, name string) (string, error) {
	s, root, err := located(name)
	if err != nil {
		return "", err
	}
	version, err := s.version(root)
	if err != nil {
		return "", err
	}
	cacheDir, err := cache.Dir()
	if err != nil {
		return "", err
	}
	j := job{
		set: s, version: version,
		module: s.module(root),
		dir:    s.directory(cacheDir, version),
		work:   filepath.Join(cacheDir, "build", s.product+"-v"+version),
	}
	if err := j.ensure(ctx); err != nil {
		return "", fmt.Errorf("build %s v%s: %w", s.name, version, err)
	}
	if s.kind == tool {
		return filepath.Join(j.dir, s.programs[0].name), nil
	}
	return j.dir, nil
}

// Sources returns the directory with the sources of a set's pinned release, which the module cache has once the set
// was built.
func Sources(ctx context.Context, name string) (string, error) {
	s, root, err := located(name)
	if err != nil {
		return "", err
	}
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", s.versionOf)
	list.Dir = s.module(root)
	list.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly", "GOPROXY=off")
	out, err := list.Output()
	dir := strings.TrimSpace(string(out))
	if err == nil && dir == "" {
		err = errors.New("the module cache does not have them")
	}
	if err != nil {
		return "", fmt.Errorf("find the sources of %s: %w", name, err)
	}
	return dir, nil
}

// module is the directory of the set's pinned module in a checkout.
func (s set) module(root string) string { return filepath.Join(root, "tools", s.folder) }

// version reads the set's version from its pinned module.
func (s set) version(root string) (string, error) {
	gomod, err := os.ReadFile(filepath.Join(s.module(root), "go.mod"))
	if err != nil {
		return "", fmt.Errorf("read pinned version of %s: %w", s.name, err)
	}
	version, err := requiredVersion(string(gomod), s.versionOf)
	if err != nil {
		return "", fmt.Errorf("read pinned version of %s: %w", s.name, err)
	}
	return version, nil
}

// job is the build of one set into the cache.
type job struct {
	set     set
	version string
	module  string // directory of the pinned module
	dir     string // destination of the programs
	work    string // prefix of the lock, the log and the directory built into
}

// missing returns the programs that are not in the cache yet. Programs get there only by
// rename, so existing ones are complete.
func (j job) missing() []program {
	var missing []program
	for _, p := range j.set.programs {
		info, err := os.Stat(filepath.Join(j.dir, p.name))
		if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
			missing = append(missing, p)
		}
	}
	return missing
}

// ensure builds what is missing, unless another process does so first.
func (j job) ensure(ctx context.Context) error {
	if len(j.missing()) == 0 {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(j.work), 0o755); err != nil {
		return err
	}
	show := newProgress(os.Stderr, j.set.product+" v"+j.version)
	defer show.stop()
	unlock, err := lock(ctx, j.work+".lock", show)
	if err != nil {
		return err
	}
	defer unlock()
	missing := j.missing()
	if len(missing) == 0 {
		return nil
	}
	started := time.Now()
	if err := j.build(ctx, missing, show); err != nil {
		return err
	}
	show.finish("built in %s", time.Since(started).Round(time.Second))
	return nil
}

// build compiles programs next to the cache's directory and renames them into it.
func (j job) build(ctx context.Context, programs []program, show *progress) error {
	part := j.work + ".part"
	if err := os.RemoveAll(part); err != nil { // left by a build that was interrupted
		return err
	}
	if err := compile(ctx, j, programs, part, show); err != nil {
		return err
	}
	if err := os.MkdirAll(j.dir, 0o755); err != nil {
		return err
	}
	for _, p := range programs {
		if err := os.Rename(filepath.Join(part, p.executable()), filepath.Join(j.dir, p.name)); err != nil {
			return err
		}
	}
	return os.RemoveAll(part)
}
