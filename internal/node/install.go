package node

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/packages"
	"github.com/kubequorum/terraform-provider-kube/internal/poll"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
	"github.com/kubequorum/terraform-provider-kube/internal/staticpod"
)

// Machine is what Install needs of a machine.
type Machine interface {
	staticpod.Machine
	Observer
	Apply(ctx context.Context, c host.Change) (host.Applied, error)
}

const (
	startTimeout = time.Minute
	steady       = 3 * time.Second
)

var errKubelet = errors.New("the kubelet does not stay up")

// Install installs containerd and the kubelet, unless the machine has a kubelet that this package has not begun to
// install. It can be repeated after it was cut off anywhere.
func Install(ctx context.Context, m Machine, src host.Source, w Wanted) error {
	s, err := Observe(ctx, m)
	if err != nil || !s.Lacks() {
		return err
	}
	began := s.began(w)
	began.Complete = false
	if err := write(ctx, m, began); err != nil {
		return err
	}
	if missing := packages.Node().Missing(s.facts); len(missing) > 0 {
		problem.Progress(ctx, "installing %v", missing)
		if _, err := m.Run(ctx, packages.Node().Install(s.facts)); err != nil {
			return fmt.Errorf("install packages: %w", err)
		}
	}
	problem.Progress(ctx, "installing the kubelet %s", w.Version)
	if _, err := m.Install(ctx, src, []host.Artifact{Artifact(w.Version)}); err != nil {
		return err //nolint:wrapcheck // it names the program and the machine
	}
	if began.Containerd {
		file := containerdSettings(w, s.facts)
		if err := apply(ctx, m, "containerd", "systemctl restart "+containerdUnit+"\n", file); err != nil {
			return err
		}
	}
	if _, err := m.Run(ctx, host.Command{Script: startContainerd}); err != nil {
		return fmt.Errorf("start containerd: %w", err)
	}
	image := staticpod.Image{Reference: w.sandboxImage(), Archive: sandboxArchive(w.Version)}
	if began.Containerd || src.Has(image.Archive) {
		if err := staticpod.Provide(ctx, m, src, []staticpod.Image{image}); err != nil {
			return fmt.Errorf("get the image of sandboxes, %s: %w", image.Reference, err)
		}
	}
	files := []host.File{kubeletService(w.Version), ProgramFile(w.Version)}
	if began.Config {
		files = append(files, kubeletConfig(s.facts))
	}
	if err := apply(ctx, m, "the kubelet", startKubelet, files...); err != nil {
		return err
	}
	if _, err := m.Run(ctx, host.Command{Script: keepKubelet}); err != nil {
		return fmt.Errorf("start the kubelet: %w", err)
	}
	if err := await(ctx, m); err != nil {
		return err
	}
	began.Complete = true
	return write(ctx, m, began)
}

// Observer is what Observe needs of a machine.
type Observer interface {
	Observe(ctx context.Context, q host.Query) (host.Facts, error)
}

// Observe asks the machine.
func Observe(ctx context.Context, m Observer) (State, error) {
	var q host.Query
	AddTo(&q)
	facts, err := m.Observe(ctx, q)
	if err != nil {
		return State{}, fmt.Errorf("look for a kubelet: %w", err)
	}
	return Read(facts), nil
}

func write(ctx context.Context, m Machine, r record) error {
	return apply(ctx, m, "the record of what is installed", "", r.file())
}

// apply writes files, and runs a script if it has changed any of them.
func apply(ctx context.Context, m Machine, what string, script host.Script, files ...host.File) error {
	change := host.Change{Dirs: dirs(files), Files: files}
	if script != "" {
		change.Script = `[ -z "$CHANGED" ] || { ` + "\n" + script + "}\n"
	}
	if _, err := m.Apply(ctx, change); err != nil {
		return fmt.Errorf("configure %s: %w", what, err)
	}
	return nil
}

// enabledDir has the links of the units that are started at boot.
const enabledDir = "/etc/systemd/system/multi-user.target.wants"

const (
	enableKubelet host.Script = "(umask 077 && mkdir -p " + staticpod.Directory + ")\n" +
		"systemctl enable --quiet " + Unit + "\n"
	startKubelet = enableKubelet + "systemctl restart " + Unit + "\n"
)

var (
	startContainerd = "systemctl enable --quiet --now " + containerdUnit + "\n" + host.Flush(enabledDir)
	// keepKubelet starts a kubelet whose files have not changed: power may have been lost after they were written and
	// before it was enabled.
	keepKubelet = enableKubelet + "systemctl start " + Unit + "\n" + host.Flush(enabledDir, staticpod.Directory,
		path.Dir(staticpod.Directory))
)

// await waits until the kubelet has run for a while.
func await(ctx context.Context, m Machine) error {
	var active string
	var since time.Time
	done, err := poll.Until(ctx, time.Second, startTimeout, func() (bool, error) {
		facts, err := m.Observe(ctx, host.Query{Units: []string{Unit}})
		if err != nil {
			return false, fmt.Errorf("wait for the kubelet: %w", err)
		}
		active = facts.Units[Unit].Active
		switch {
		case active != "active":
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		}
		return !since.IsZero() && time.Since(since) >= steady, nil
	})
	if err == nil && !done {
		return fmt.Errorf("%w: %s is %s; its log is in journalctl -u %s", errKubelet, Unit, active, Unit)
	}
	return err
}
