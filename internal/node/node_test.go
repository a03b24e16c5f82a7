package node

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"sigs.k8s.io/yaml"

	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

// facts returns what a machine reports: the load state of its kubelet's unit, its programs, and files by path.
func facts(kubelet string, programs []string, files map[string]string) host.Facts {
	f := host.Facts{
		Units: map[string]host.UnitState{Unit: {Load: kubelet}}, Commands: map[string]string{},
		Files: map[string]host.FileState{}, Output: "cgroup\tcgroup2fs\n",
	}
	for _, name := range programs {
		f.Commands[name] = "/usr/bin/" + name
	}
	for path, content := range files {
		f.Files[path] = host.FileState{Content: content}
	}
	return f
}

// TestLacks: nothing is installed beside a kubelet of somebody else, and an interrupted installation continues.
func TestLacks(t *testing.T) {
	for name, test := range map[string]struct {
		facts host.Facts
		want  bool
	}{
		"not asked":          {host.Facts{}, false},
		"no kubelet":         {facts("not-found", nil, nil), true},
		"somebody else's":    {facts("loaded", nil, nil), false},
		"masked":             {facts("masked", nil, nil), false},
		"interrupted":        {facts("loaded", nil, map[string]string{RecordPath: `{"kubelet": "1.36.3"}`}), true},
		"a damaged record":   {facts("loaded", nil, map[string]string{RecordPath: "$(reboot)"}), true},
		"installed":          {facts("loaded", nil, map[string]string{RecordPath: `{"complete": true}`}), false},
		"installed and lost": {facts("not-found", nil, map[string]string{RecordPath: `{"complete": true}`}), false},
	} {
		if got := Read(test.facts).Lacks(); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}

// TestBegan: what was there before is not the provider's, also if the installation is interrupted and continued.
func TestBegan(t *testing.T) {
	w := Wanted{Version: "1.36.3"}
	for name, test := range map[string]struct {
		facts host.Facts
		want  record
	}{
		"bare":       {facts("not-found", nil, nil), record{"1.36.3", true, true, false}},
		"containerd": {facts("not-found", []string{"containerd"}, nil), record{"1.36.3", false, true, false}},
		"only its configuration": {
			facts("not-found", nil, map[string]string{containerdConfig: ""}), record{"1.36.3", false, true, false},
		},
		"a kubelet's configuration": {
			facts("not-found", nil, map[string]string{ConfigPath: ""}), record{"1.36.3", true, false, false},
		},
		"continued, by a later version": {
			facts("loaded", []string{"containerd"}, map[string]string{
				RecordPath: string(record{"1.36.2", true, true, false}.file().Content), containerdConfig: "", ConfigPath: "",
			}), record{"1.36.3", true, true, false},
		},
	} {
		if got := Read(test.facts).began(w); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

func TestProblems(t *testing.T) {
	for name, test := range map[string]struct {
		programs []string
		want     int
	}{
		"no package manager": {nil, 1}, "apt": {[]string{"apt-get"}, 0},
		"containerd is there": {[]string{"containerd", "ctr", "runc"}, 0},
	} {
		if got := Read(facts("not-found", test.programs, nil)).Problems(); len(got) != test.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestRendered: containerd and the kubelet agree on who manages cgroups.
func TestRendered(t *testing.T) {
	two, one := facts("not-found", nil, nil), facts("not-found", nil, nil)
	one.Output = "cgroup\ttmpfs\n"
	for _, test := range []struct {
		facts              host.Facts
		driver, containerd string
		cgroupV1           bool
	}{
		{two, "systemd", "SystemdCgroup = true\n", false}, {one, "cgroupfs", "SystemdCgroup = false\n", true},
	} {
		var config map[string]any
		text := kubeletConfig(test.facts).Content
		if err := yaml.UnmarshalStrict(text, &config); err != nil || config["cgroupDriver"] != test.driver ||
			config["staticPodPath"] != "/etc/kubernetes/manifests" || config["enableServer"] != false {
			t.Errorf("%v:\n%s", err, text)
		}
		if _, allowed := config["failCgroupV1"]; allowed != test.cgroupV1 {
			t.Errorf("cgroup v1:\n%s", text)
		}
		settings := string(containerdSettings(Wanted{SandboxImage: "registry.example.com/pause:1"}, test.facts).Content)
		if !strings.Contains(settings, test.containerd) ||
			!strings.Contains(settings, "sandbox_image = \"registry.example.com/pause:1\"\n") {
			t.Errorf("containerd:\n%s", settings)
		}
	}
	unit := string(kubeletService("1.36.3").Content)
	if want := "\nExecStart=/opt/kube/kubernetes/1.36.3/kubelet " + Arguments + "\n"; !strings.Contains(unit, want) {
		t.Errorf("the unit lacks %q:\n%s", want, unit)
	}
}

// scripted is a machine that notes what is done to it, and fails at one step. As on a real one, the script of a change
// runs only if a file has changed.
type scripted struct {
	facts host.Facts
	did   []string
	fails string
	runs  bool // the kubelet
}

var errCutOff = errors.New("cut off")

func (m *scripted) note(what string) error {
	m.did = append(m.did, what)
	if what == m.fails {
		return errCutOff
	}
	return nil
}

func (m *scripted) Observe(_ context.Context, q host.Query) (host.Facts, error) {
	if len(q.Contents) == 0 { // the wait
		active := "inactive"
		if m.runs {
			active = "active"
		}
		return host.Facts{Units: map[string]host.UnitState{Unit: {Active: active}}}, nil
	}
	return m.facts, nil
}

func (m *scripted) Install(_ context.Context, _ host.Source, a []host.Artifact) ([]host.Artifact, error) {
	return a, m.note("install " + a[0].String())
}

func (m *scripted) Run(_ context.Context, c host.Command) (string, error) {
	what := "image"
	switch {
	case c.Vars["packages"] != "":
		what = "packages " + c.Vars["packages"]
	case c.Script == startContainerd:
		what = "start containerd"
	case strings.Contains(string(c.Script), "systemctl start "+Unit):
		what, m.runs = "start kubelet", true
	}
	return "", m.note(what)
}

func (m *scripted) Apply(_ context.Context, c host.Change) (host.Applied, error) {
	err := m.note("write " + c.Files[0].Path)
	if err == nil {
		for _, file := range c.Files {
			m.runs = m.runs || file.Path == UnitPath && m.facts.Files[file.Path].Content != string(file.Content)
			m.facts.Files[file.Path] = host.FileState{Content: string(file.Content)}
		}
	}
	return host.Applied{}, err
}

// TestInstall: the record is written first and completed last, and an installation continues wherever it was cut off.
func TestInstall(t *testing.T) { synctest.Test(t, testInstall) }

func testInstall(t *testing.T) {
	steps := []string{
		"write " + RecordPath, "packages containerd", "install kubelet 1.36.3", "write " + containerdConfig,
		"start containerd", "image", "write " + UnitPath, "start kubelet", "write " + RecordPath,
	}
	w := Wanted{Version: "1.36.3"}
	for _, fails := range append([]string{""}, steps[:len(steps)-1]...) {
		m := &scripted{facts: facts("not-found", []string{"apt-get"}, nil), fails: fails}
		if err := Install(t.Context(), m, host.Source{}, w); (err != nil) != (fails != "") {
			t.Errorf("cut off at %q: %v", fails, err)
		}
		if fails == "" && !slices.Equal(m.did, steps) {
			t.Errorf("did %q, want %q", m.did, steps)
		}
		m.fails, m.did, m.runs = "", nil, m.runs && fails == "" // power was lost before the kubelet's unit was enabled
		if err := Install(t.Context(), m, host.Source{}, w); err != nil {
			t.Errorf("continued after %q: %v", fails, err)
		}
		if fails == "" && m.did != nil {
			t.Errorf("an installed machine is changed: %q", m.did)
		}
		if s := Read(m.facts); s.Lacks() || !s.record.Containerd || !s.record.Config {
			t.Errorf("continued after %q: %+v", fails, s.record)
		}
	}
}
