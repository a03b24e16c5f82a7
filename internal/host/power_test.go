package host

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/lab"
)

// powerMachine is a machine whose power can be cut.
type powerMachine struct {
	*testing.T
	machine *lab.Machine
	host    *Host
}

// newPowerMachine rebuilds a machine of the lab on an image.
func newPowerMachine(t *testing.T) powerMachine {
	t.Helper()
	labConfig(t) // there is a lab
	m := machines.lab.Machine("m2")
	must(t, m.RebuildOnImage(t.Context()))
	p := powerMachine{t, m, labHost(t, labConfig(t), "m2")}
	p.run("sync")
	return p
}

func (p powerMachine) run(script string) string {
	p.Helper()
	out, err := p.machine.Run(p.Context(), script)
	if err != nil {
		p.Fatal(err)
	}
	return out
}

// keeps cuts the power, and fails if anything below /etc, /opt and /srv is not as it was.
func (p powerMachine) keeps(after string) {
	p.Helper()
	differences, err := p.machine.LosePower(p.Context(), "/etc", "/opt", "/srv")
	if err != nil {
		p.Fatal(err)
	}
	differences = slices.DeleteFunc(differences, func(line string) bool {
		return strings.HasPrefix(line, "lost: /srv/unflushed ")
	})
	if len(differences) > 0 {
		p.Errorf("after %s and a power cut:\n%s", after, strings.Join(differences, "\n"))
	}
	if _, err := p.host.Observe(p.Context(), Query{}); err != nil { // reconnects
		p.Fatal(err)
	}
}

// TestPowerCut: what Apply, Install and scripts with Flush have changed is on the disk when
// they return.
func TestPowerCut(t *testing.T) {
	p := newPowerMachine(t)
	ctx := t.Context()
	p.run("echo lost >/srv/unflushed")
	p.keeps("nothing")
	if out := p.run("cat /srv/unflushed 2>/dev/null || true"); out != "" {
		t.Fatalf("the power cut keeps what was not flushed: %q", out)
	}

	change := Change{
		Dirs: []Dir{
			{Path: "/etc/power/a/b", Mode: 0o700},
			{Path: "/opt/power", Mode: 0o755, Owner: "games", Group: "games"},
		},
		Files: []File{
			{Path: "/etc/power/a/b/key", Content: []byte("key\n"), Mode: 0o600, Owner: "games"},
			{Path: "/etc/systemd/system/power.service", Content: []byte("[Service]\nExecStart=/bin/true\n"), Mode: 0o644},
			{Path: "/etc/power/a/empty", Mode: 0o644},
		},
	}
	steps := []struct {
		name   string
		change Change
	}{
		{"directories and files", change},
		{"files with another content", Change{Files: []File{
			{Path: "/etc/power/a/b/key", Content: []byte("another\n"), Mode: 0o640},
			{Path: "/opt/power/program", Content: make([]byte, 1<<20), Mode: 0o755},
		}}},
		{"a directory with another mode", Change{Dirs: []Dir{{Path: "/etc/power/a/b", Mode: 0o755, Owner: "games"}}}},
		{"a link", Change{Links: []Link{{Path: "/etc/power/link", Target: "a"}}}},
		{"a link with another target", Change{Links: []Link{{Path: "/etc/power/link", Target: "a/b"}}}},
		{"a removed file and link", Change{Remove: []string{"/etc/power/a/empty", "/etc/power/link"}}},
		{"a removed directory", Change{Remove: []string{"/opt/power/program", "/opt/power"}}},
		{"a user", Change{Users: []User{{Name: "power", Groups: []string{"current"}}}}},
		{"a user in another group", Change{Users: []User{{Name: "power", Groups: []string{"extra"}}}}},
		{"a script", Change{Script: "mkdir -p /srv/a/b\necho data >/srv/a/b/file\n" +
			Flush("/srv/a/b/file", "/srv/a/b", "/srv/a", "/srv")}},
		{"a script that removes", Change{Script: "rm -r /srv/a\n" + Flush("/srv/a/b/file")}},
	}
	for _, step := range steps {
		apply(t, p.host, step.change)
		p.keeps(step.name)
	}
	p.repeated(ctx)
	p.installs(ctx)
}

// repeated: a change that was interrupted after the rename and before the flush is flushed
// when it is applied again.
func (p powerMachine) repeated(ctx context.Context) {
	p.Helper()
	change := Change{Files: []File{{Path: "/etc/power/again", Content: []byte("text\n"), Mode: 0o644}}}
	p.run("mkdir -p " + alteredDir + "; : >" + AlteredMark("/etc/power/again") +
		"; umask 022; echo text >/etc/power/again")
	wantChanged(p.T, apply(p.T, p.host, change), "/etc/power/again")
	p.keeps("a change that was interrupted before")
}

// installs: an uploaded program and its record are on the disk.
func (p powerMachine) installs(ctx context.Context) {
	p.Helper()
	source := p.TempDir()
	artifact := Artifact{Product: "etcd", Version: "3.6.1", Name: "etcd"}
	local := Source{Directory: source}.localPath(artifact)
	must(p.T, os.MkdirAll(local[:strings.LastIndex(local, "/")], 0o755))
	must(p.T, os.WriteFile(local, make([]byte, 20<<20), 0o755))
	if _, err := p.host.Install(ctx, Source{Directory: source}, []Artifact{artifact}); err != nil {
		p.Fatal(err)
	}
	p.keeps("an installation")
	again, err := p.host.Install(ctx, Source{Directory: source}, []Artifact{artifact})
	if err != nil || len(again) > 0 {
		p.Errorf("after a power cut, installed again: %v, %v", again, err)
	}
}
