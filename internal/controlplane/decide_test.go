package controlplane

import (
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/unit"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// rewritten returns the issued files that a decision writes again.
func rewritten(s Spec, d changes) []string {
	var out []string
	for path := range machine.NewRecord(s.Replica, nil).Issued {
		if slices.ContainsFunc(d.files, func(f host.File) bool { return f.Path == path }) {
			out = append(out, path)
		}
	}
	slices.Sort(out)
	return out
}

func mustDecide(t *testing.T, s Spec, f machine.Observed, at time.Time) changes {
	t.Helper()
	d, err := decide(s.Replica, f, at)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDecideOnABareMachine(t *testing.T) {
	s := testSpec(t)
	d := mustDecide(t, s, bare(), cptest.Now)
	if !slices.Equal(d.restart, release.Components()) {
		t.Errorf("starts %q", d.restart)
	}
	if last := d.files[len(d.files)-1].Path; last != machine.RecordPath {
		t.Errorf("%s is written last; an interrupted change would be recorded as done", last)
	}
	for _, file := range d.files {
		private := strings.Contains(string(file.Content), "PRIVATE KEY") ||
			strings.Contains(string(file.Content), "client-key-data")
		if private != (file.Mode == component.SecretMode) && file.Path != machine.RecordPath {
			t.Errorf("%s has mode %o", file.Path, file.Mode)
		}
		if strings.HasSuffix(file.Path, "super-admin.conf") || strings.HasSuffix(file.Path, "front-proxy-ca.key") ||
			strings.HasSuffix(file.Path, "etcd/ca.key") {
			t.Errorf("%s is written; nothing there needs it", file.Path)
		}
	}
}

func TestDecideOnAConvergedMachine(t *testing.T) {
	s := testSpec(t)
	d := mustDecide(t, s, converged(t, s), cptest.Now)
	if files := rewritten(s, d); len(files) > 0 || len(d.restart) > 0 || len(d.remove) > 0 {
		t.Errorf("rewrites %q, restarts %q, removes %q", files, d.restart, d.remove)
	}
}

func TestDecide(t *testing.T) {
	for _, c := range []struct {
		name    string
		alter   func(*Spec, *machine.Observed)
		at      time.Time
		reissue []string
		restart []string
	}{
		{name: "etcd URLs in another order", alter: func(s *Spec, _ *machine.Observed) { slices.Reverse(s.EtcdURLs) }},
		{
			name: "a second issuer",
			alter: func(s *Spec, _ *machine.Observed) {
				s.ExtraArgs = cptest.Args(release.APIServer, "service-account-issuer",
					component.Repeated("https://new", "https://old"))
			},
			restart: []string{release.APIServer},
		},
		{
			name:    "an extra flag",
			alter:   func(s *Spec, _ *machine.Observed) { s.ExtraArgs = cptest.Args(release.Scheduler, "v", "4") },
			restart: []string{release.Scheduler},
		},
		{
			name: "another version", alter: func(s *Spec, _ *machine.Observed) { s.Version = "1.36.4" },
			restart: release.Components(),
		},
		{
			name:    "an extra name: the API server reloads its certificate",
			alter:   func(s *Spec, _ *machine.Observed) { s.ExtraSANs = []string{"api.example"} },
			reissue: []string{component.APIServerCert, component.KeyPath(component.APIServerCert)},
		},
		{
			name: "another endpoint", alter: func(s *Spec, _ *machine.Observed) { s.EndpointHost = "10.0.0.200" },
			reissue: []string{component.AdminConf, component.APIServerCert, component.KeyPath(component.APIServerCert)},
		},
		{
			name:    "a second address of the endpoint: the API server reloads its certificate",
			alter:   func(s *Spec, _ *machine.Observed) { s.EndpointHost6 = "fd00::100" },
			reissue: []string{component.APIServerCert, component.KeyPath(component.APIServerCert)},
		},
		{
			name: "another name of the cluster", alter: func(s *Spec, _ *machine.Observed) {
				renamed := *s.Bundle
				renamed.ClusterName, s.Bundle = "renamed", &renamed
			},
			reissue: []string{component.AdminConf, component.ControllerManagerConf, component.SchedulerConf},
			restart: []string{release.ControllerManager, release.Scheduler},
		},
		{
			name: "a certificate near its end", alter: func(*Spec, *machine.Observed) {},
			at: cptest.Now.Add(340 * 24 * time.Hour), restart: []string{release.ControllerManager, release.Scheduler},
			reissue: []string{
				component.AdminConf, component.ControllerManagerConf, component.EtcdClientCert,
				component.KeyPath(component.EtcdClientCert), component.KubeletClientCert,
				component.KeyPath(component.KubeletClientCert),
				component.APIServerCert, component.KeyPath(component.APIServerCert), component.FrontProxyClientCert,
				component.KeyPath(component.FrontProxyClientCert), component.SchedulerConf,
			},
		},
		{
			name: "a key from a write that was cut off before its certificate", alter: func(_ *Spec, f *machine.Observed) {
				edit(f, component.KeyPath(component.EtcdClientCert), "another key")
			},
			reissue: []string{component.EtcdClientCert, component.KeyPath(component.EtcdClientCert)},
		},
		{
			name:    "a key that others could read",
			alter:   func(_ *Spec, f *machine.Observed) { chmod(f, component.KeyPath(component.FrontProxyClientCert), 0o640) },
			reissue: []string{component.FrontProxyClientCert, component.KeyPath(component.FrontProxyClientCert)},
		},
		{
			name:    "a kubeconfig changed by hand",
			alter:   func(_ *Spec, f *machine.Observed) { edit(f, component.SchedulerConf, "x") },
			reissue: []string{component.SchedulerConf}, restart: []string{release.Scheduler},
		},
		{
			name:  "the service-account key changed by hand",
			alter: func(_ *Spec, f *machine.Observed) { edit(f, component.SAKey, "x") },
		},
		{
			name: "files written, restart cut off", alter: func(_ *Spec, f *machine.Observed) {
				f.Facts.Files[unit.StartNotePath(release.ControllerManager)] = host.FileState{}
			},
			restart: []string{release.ControllerManager},
		},
		{
			name: "unit file changed, systemd not reloaded", alter: func(_ *Spec, f *machine.Observed) {
				alterUnit(f, release.APIServer, func(u *host.UnitState) { u.NeedReload = true })
			},
			restart: []string{release.APIServer},
		},
		{name: "unit file edited, systemd not reloaded, process of the right one", alter: func(_ *Spec, f *machine.Observed) {
			edit(f, unit.Path(release.Scheduler), "x")
			alterUnit(f, release.Scheduler, func(u *host.UnitState) { u.NeedReload = true })
		}},
		{name: "stopped", alter: func(_ *Spec, f *machine.Observed) {
			alterUnit(f, release.Scheduler, func(u *host.UnitState) { u.Active = "inactive" })
		}, restart: []string{release.Scheduler}},
		{name: "still starting", alter: func(_ *Spec, f *machine.Observed) {
			alterUnit(f, release.APIServer, func(u *host.UnitState) { u.Active, u.Sub = "activating", "start" })
		}},
		{name: "failing again and again", alter: func(_ *Spec, f *machine.Observed) {
			alterUnit(f, release.APIServer, func(u *host.UnitState) { u.Active, u.Sub = "activating", "auto-restart" })
		}, restart: release.Components()},
		{name: "a drop-in", alter: func(_ *Spec, f *machine.Observed) {
			f.Facts.Dirs[unit.DropInDir(release.APIServer)] = []string{"override.conf"}
		}, restart: []string{release.APIServer}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := testSpec(t)
			s.EtcdURLs = append(s.EtcdURLs, "https://10.0.0.12:2379")
			f := converged(t, s)
			c.alter(&s, &f)
			at := c.at
			if at.IsZero() {
				at = cptest.Now
			}
			d := mustDecide(t, s, f, at)
			slices.Sort(c.reissue)
			if files := rewritten(s, d); !slices.Equal(files, c.reissue) {
				t.Errorf("reissues %q, want %q", files, c.reissue)
			}
			if !slices.Equal(d.restart, c.restart) {
				t.Errorf("restarts %q, want %q", d.restart, c.restart)
			}
		})
	}
}

func edit(f *machine.Observed, path, content string) {
	state := f.Facts.Files[path]
	state.Content, state.SHA256 = content, machine.Digest([]byte(content))
	f.Facts.Files[path] = state
}

func chmod(f *machine.Observed, path string, mode fs.FileMode) {
	state := f.Facts.Files[path]
	state.Mode = mode
	f.Facts.Files[path] = state
}

func alterUnit(f *machine.Observed, component string, alter func(*host.UnitState)) {
	state := f.Facts.Units[unit.Name(component)]
	alter(&state)
	f.Facts.Units[unit.Name(component)] = state
}

func TestConfigDigest(t *testing.T) {
	s := testSpec(t)
	f := converged(t, s)
	if have, want := f.ConfigDigest(s.Replica), s.ConfigDigest(); have != want {
		t.Errorf("found %s, planned %s", have, want)
	}
	edit(&f, unit.Path(release.Scheduler), "x")
	if f.ConfigDigest(s.Replica) == s.ConfigDigest() {
		t.Error("an edited unit has the digest of the planned one")
	}
}

func TestDeferUnits(t *testing.T) {
	s := testSpec(t)
	f := converged(t, s)
	next := s
	next.Version = "1.37.2"
	names := func(d changes) (now, later []string) {
		for _, file := range d.files {
			if strings.HasPrefix(file.Path, unit.Dir) {
				now = append(now, strings.TrimSuffix(strings.TrimPrefix(file.Path, unit.Dir+"/"), ".service"))
			}
		}
		return now, slices.Sorted(maps.Keys(d.deferredUnits))
	}
	for _, c := range []struct {
		name       string
		spec       Spec
		got        machine.Observed
		now, later []string
	}{
		{"an upgrade", next, f, []string{release.APIServer}, []string{release.ControllerManager, release.Scheduler}},
		{"a new one", s, bare(), release.Components(), nil},
		{
			"another flag of one", func() Spec { n := s; n.ExtraArgs = cptest.Args(release.Scheduler, "v", "4"); return n }(),
			f, release.Components(), nil,
		},
	} {
		d, err := decide(c.spec.Replica, c.got, cptest.Now)
		if err != nil {
			t.Fatal(err)
		}
		d.deferUnits(c.got)
		for name, file := range d.deferredUnits {
			if file.Path != unit.Path(name) {
				t.Errorf("%s: %s is written as the unit of %s", c.name, file.Path, name)
			}
		}
		if at, later := names(d); !slices.Equal(at, c.now) || !slices.Equal(later, c.later) {
			t.Errorf("%s: %q at once and %q later, want %q and %q", c.name, at, later, c.now, c.later)
		}
	}
}

// TestDecideRemoves: what a component must not read is removed: its drop-ins, and the record of
// a Create that was interrupted just before its end.
func TestDecideRemoves(t *testing.T) {
	dropIns := unit.DropInDir(release.Scheduler)
	for _, c := range []struct {
		name  string
		alter func(*machine.Observed)
		want  []string
	}{
		{"a drop-in", func(f *machine.Observed) {
			f.Facts.Dirs[dropIns] = []string{"override.conf"}
		}, []string{dropIns + "/override.conf", dropIns}},
		{"an interrupted create", func(f *machine.Observed) {
			f.Facts.Files[machine.CreatingPath] = host.FileState{}
		}, []string{machine.CreatingPath}},
		{"a create that is not done", func(f *machine.Observed) {
			f.Facts.Files[machine.CreatingPath] = host.FileState{}
			f.Record.ClusterID = ""
		}, nil},
	} {
		s := testSpec(t)
		f := converged(t, s)
		c.alter(&f)
		if d := mustDecide(t, s, f, cptest.Now); !slices.Equal(d.remove, c.want) {
			t.Errorf("%s: removes %q, want %q", c.name, d.remove, c.want)
		}
	}
}

// TestDecideWithoutAnAuthority: if a certificate cannot be issued, nothing is decided.
func TestDecideWithoutAnAuthority(t *testing.T) {
	s := testSpec(t)
	f := converged(t, s)
	edit(&f, component.SchedulerConf, "x")
	broken := *s.Bundle
	broken.CA.PrivateKey, s.Bundle = "x", &broken
	for name, f := range map[string]machine.Observed{"certificates": bare(), "a kubeconfig": f} {
		if d, err := decide(s.Replica, f, cptest.Now); err == nil {
			t.Errorf("%s: %d files", name, len(d.files))
		}
	}
}

func TestWrites(t *testing.T) {
	d := changes{files: []host.File{{Path: "/a"}, {Path: "/b"}}}
	if !d.writes("/a") || !d.writes("/b") || d.writes("/c") || (changes{}).writes("/a") {
		t.Error("a file counts that is not written, or the reverse")
	}
}
