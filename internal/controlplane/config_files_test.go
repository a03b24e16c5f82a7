package controlplane

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/cptest"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/unit"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
)

const secretText = "token: not-for-a-log"

// withFiles returns a replica with an admission configuration, which a flag names, and the
// kubeconfig of a webhook, which the configuration names.
func withFiles(t *testing.T) Spec {
	t.Helper()
	s := testSpec(t)
	s.ExtraArgs = cptest.Args(release.APIServer, "admission-control-config-file",
		component.ConfigFilePath("admission.yaml"))
	s.ConfigFiles = map[string]component.ConfigFile{
		"admission.yaml": {Content: "path: " + component.ConfigFilePath("webhook.conf"), Mode: component.PublicMode},
		"webhook.conf":   {Content: secretText, WriteOnly: true},
	}
	return s
}

// withListing returns a machine with its files of the user listed, as configFilesQuery reads
// them.
func withListing(f machine.Observed) machine.Observed {
	for at := range f.Facts.Files {
		if dir, name := filepath.Split(at); dir == component.FilesDir+"/" {
			f.Facts.Dirs[component.FilesDir] = append(f.Facts.Dirs[component.FilesDir], name)
		}
	}
	return f
}

// digestOnly is a file as a Read knows it.
func digestOnly(s Spec) Spec {
	files := map[string]component.ConfigFile{}
	for name, file := range s.ConfigFiles {
		file.SHA256, file.Content = component.ContentDigest(file.Content), ""
		files[name] = file
	}
	s.ConfigFiles = files
	return s
}

func TestConfigFilesOnTheMachine(t *testing.T) {
	admission, webhook := component.ConfigFilePath("admission.yaml"), component.ConfigFilePath("webhook.conf")
	replace := func(name string, with component.ConfigFile) func(*Spec) {
		return func(s *Spec) { s.ConfigFiles[name] = with }
	}
	for _, c := range []struct {
		name     string
		alter    func(*Spec)
		observe  func(machine.Observed)
		removed  []string
		restarts []string
		drift    []string
	}{
		{name: "as it should be"},
		{
			name:     "another content",
			alter:    replace("admission.yaml", component.ConfigFile{Content: "x", Mode: component.PublicMode}),
			restarts: []string{release.APIServer}, drift: []string{admission + " has different content"},
		},
		{
			name:     "another secret content",
			alter:    replace("webhook.conf", component.ConfigFile{Content: "token: other", WriteOnly: true}),
			restarts: []string{release.APIServer}, drift: []string{webhook + " has different content"},
		},
		{
			name:  "another mode",
			alter: replace("webhook.conf", component.ConfigFile{Content: secretText, Mode: 0o400, WriteOnly: true}),
			drift: []string{webhook + " has mode 0600, wanted 0400"},
		},
		{
			name: "owner changed by hand", observe: func(f machine.Observed) {
				state := f.Facts.Files[webhook]
				state.Owner = "root"
				f.Facts.Files[webhook] = state
			},
			drift: []string{webhook + " belongs to root:kube-apiserver, wanted kube-apiserver:kube-apiserver"},
		},
		{
			name: "edited by hand, and read by no process", observe: func(f machine.Observed) {
				state := f.Facts.Files[webhook]
				state.SHA256 = component.ContentDigest("edited")
				f.Facts.Files[webhook] = state
			},
			drift: []string{"kube-apiserver: it was started with another " + webhook, webhook + " has different content"},
		},
		{
			name: "removed by hand", observe: func(f machine.Observed) { delete(f.Facts.Files, admission) },
			drift: []string{"kube-apiserver: it was started with another " + admission, admission + " is missing"},
		},
		{
			name: "removed from the configuration", alter: func(s *Spec) { s.ConfigFiles, s.ExtraArgs = nil, nil },
			removed: []string{admission, webhook, theDirectory}, restarts: []string{release.APIServer},
			drift: []string{admission + " exists, but is not wanted", webhook + " exists, but is not wanted"},
		},
		{
			name: "one file removed from the configuration", alter: func(s *Spec) { delete(s.ConfigFiles, "webhook.conf") },
			removed: []string{webhook}, restarts: []string{release.APIServer},
			drift: []string{webhook + " exists, but is not wanted"},
		},
		{
			name: "removed, and cut off before the list was settled", alter: func(s *Spec) {
				s.ConfigFiles["webhook.conf"] = component.ConfigFile{Content: secretText, WriteOnly: true}
			},
			observe: func(f machine.Observed) { f.Written["older"] = machine.WrittenFile{} },
			drift:   []string{machine.FilesListPath + " names older, which is not wanted"},
		},
		{
			name: "a file of somebody else", observe: func(f machine.Observed) {
				f.Facts.Dirs[component.FilesDir] = append(f.Facts.Dirs[component.FilesDir], "theirs")
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := withFiles(t)
			f := withListing(converged(t, s))
			if c.alter != nil {
				c.alter(&s)
			}
			if c.observe != nil {
				c.observe(f)
			}
			d := mustDecide(t, s, f, cptest.Now)
			if want := slices.DeleteFunc(slices.Clone(c.removed),
				func(at string) bool { return at == theDirectory }); !slices.Equal(below(d.remove, component.FilesDir+"/"), want) {
				t.Errorf("removes %q", d.remove)
			}
			if slices.Contains(d.remove, component.FilesDir) != slices.Contains(c.removed, theDirectory) {
				t.Errorf("the directory: %q", d.remove)
			}
			if settles := len(c.removed) > 0; settles != (d.filesList != nil) || settles &&
				len(d.filesList.Files) != len(s.ConfigFiles) {
				t.Errorf("the list that remains is %v", d.filesList)
			}
			if !slices.Equal(d.restart, c.restarts) {
				t.Errorf("restarts %q", d.restart)
			}
			problems := drift(digestOnly(s).Replica, f, cptest.Now)
			for _, want := range c.drift {
				if !slices.Contains(problems, s.Machine()+": "+want) {
					t.Errorf("no drift %q in %q", want, problems)
				}
			}
			if len(c.drift) == 0 && len(problems) > 0 {
				t.Errorf("drift %q", problems)
			}
			if strings.Contains(strings.Join(problems, ""), "not-for-a-log") {
				t.Errorf("a content leaks: %q", problems)
			}
			if s.ConfigDigest() != digestOnly(s).ConfigDigest() {
				t.Error("the digest depends on whether the contents are known")
			}
		})
	}
}

// theDirectory stands for the directory of the files in TestConfigFilesOnTheMachine.
const theDirectory = component.FilesDir

func below(paths []string, prefix string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(at string) bool { return !strings.HasPrefix(at, prefix) })
}

// TestConfigFilesAreListedFirst: a change that is cut off leaves no file that nothing removes.
func TestConfigFilesAreListedFirst(t *testing.T) {
	s := withFiles(t)
	d := mustDecide(t, s, bare(), cptest.Now)
	if d.files[0].Path != machine.FilesListPath || d.files[len(d.files)-1].Path != machine.RecordPath {
		t.Errorf("the list is not first, or the record not last")
	}
	if list := machine.ReadWrittenFiles(string(d.files[0].Content)); !list["webhook.conf"].WriteOnly ||
		list["admission.yaml"].WriteOnly || len(list) != 2 {
		t.Errorf("the list is %v", list)
	}
	if strings.Contains(string(d.files[0].Content), "not-for-a-log") {
		t.Error("the list has a content")
	}
	if _, err := decide(digestOnly(s).Replica, bare(), cptest.Now); err == nil {
		t.Error("a file without content is decided")
	}
	for _, text := range []string{"{", `{"files":{"../pki/ca.key":{}}}`, `{"files":{"a b":{}}}`} {
		if list := machine.ReadWrittenFiles(text); list != nil {
			t.Errorf("%s gives %v", text, list)
		}
	}
}

// TestConfigFilesAreTakenBack: a rollback record has no content, and what it describes is
// decided without one. A file that the change added is removed.
func TestConfigFilesAreTakenBack(t *testing.T) {
	s := withFiles(t)
	f := withListing(converged(t, s))
	b := f.RollbackRecord(s.Bundle.Generations())
	if strings.Contains(string(b.File().Content), "not-for-a-log") {
		t.Error("the rollback record has a content")
	}
	read := machine.ReadRollbackRecord(string(b.File().Content))
	if read == nil || len(read.Files) != 2 || read.Files["webhook.conf"].Owner != release.APIServer ||
		read.Files["webhook.conf"].NoRestart {
		t.Fatalf("the record is read as %+v", read)
	}
	next := s
	next.ConfigFiles = map[string]component.ConfigFile{
		"admission.yaml": s.ConfigFiles["admission.yaml"], "webhook.conf": s.ConfigFiles["webhook.conf"],
		"new.yaml": {Content: "new"},
	}
	f = withListing(converged(t, next))
	old := next
	old.ConfigFiles, old.Previous = read.ConfigFiles(), &component.Previous{
		Definitions: read.Definitions, Settings: read.Settings,
	}
	d := mustDecide(t, old, f, cptest.Now)
	if removed := below(d.remove, component.FilesDir+"/"); !slices.Equal(removed,
		[]string{component.ConfigFilePath("new.yaml")}) {
		t.Errorf("removes %q", removed)
	}
	if !slices.Equal(d.restart, []string{release.APIServer}) {
		t.Errorf("restarts %q", d.restart)
	}
	bad := b
	bad.Files = map[string]machine.KeptFile{"../../passwd": {SHA256: machine.Digest(nil), Owner: "root"}}
	if machine.ReadRollbackRecord(string(bad.File().Content)) != nil {
		t.Error("a record with a foreign path is used")
	}
}

// TestStaleConfigFile: what a process reads no longer cannot be restored.
func TestStaleConfigFile(t *testing.T) {
	s := withFiles(t)
	f := converged(t, s)
	if stale := f.StaleConfigFile(); stale != "" {
		t.Errorf("%s is stale", stale)
	}
	at := component.ConfigFilePath("webhook.conf")
	f.Facts.Files[at] = host.FileState{SHA256: machine.Digest(nil)}
	if stale := f.StaleConfigFile(); stale != at {
		t.Errorf("%q is stale", stale)
	}
	if err := machine.StaleProcess(f, release.Components()); err != nil {
		t.Errorf("evidence of a rotation: %v", err)
	}
}

// TestUnitNotesConfigFiles: the unit records the files at its start, and nothing of another
// component's.
func TestUnitNotesConfigFiles(t *testing.T) {
	s := withFiles(t)
	for _, c := range component.Of(s.Replica) {
		text := string(unit.File(c).Content)
		if has := strings.Contains(text, " "+component.ConfigFilePath("webhook.conf")+
			" "); has != (c.Name == release.APIServer) {
			t.Errorf("%s: %t", c.Name, has)
		}
	}
}

// TestTouchesConfigFiles: a change of a file of the user, and nothing else, needs a copy for the
// rollback.
func TestTouchesConfigFiles(t *testing.T) {
	at := component.ConfigFilePath("a")
	file := host.File{Path: at, Content: []byte("x"), Mode: 0o600, Owner: "kube-apiserver"}
	same := host.FileState{SHA256: machine.Digest([]byte("x")), Mode: 0o600, Owner: "kube-apiserver"}
	edited := func(edit func(*host.FileState)) map[string]host.FileState {
		state := same
		edit(&state)
		return map[string]host.FileState{at: state}
	}
	for _, c := range []struct {
		name  string
		d     changes
		there map[string]host.FileState
		want  bool
	}{
		{"nothing", changes{}, nil, false},
		{"as it is", changes{files: []host.File{file}}, edited(func(*host.FileState) {}), false},
		{"a new one", changes{files: []host.File{file}}, nil, true},
		{"another content", changes{files: []host.File{file}}, edited(func(s *host.FileState) { s.SHA256 = "" }), true},
		{"another mode", changes{files: []host.File{file}}, edited(func(s *host.FileState) { s.Mode = 0o644 }), true},
		{"another owner", changes{files: []host.File{file}}, edited(func(s *host.FileState) { s.Owner = "root" }), true},
		{"one is removed", changes{remove: []string{at}}, edited(func(*host.FileState) {}), true},
		{"a file of the provider", changes{files: []host.File{{Path: component.CACert}}}, nil, false},
		{"a removed file of the provider", changes{remove: []string{component.CACert}}, nil, false},
	} {
		f := machine.Observed{Facts: host.Facts{Files: c.there}}
		if got := c.d.touchesConfigFiles(f); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// TestConfigFilesDirectory: the directory and the list exist as long as there is one file, and
// the directory is removed only if the provider has written to it.
func TestConfigFilesDirectory(t *testing.T) {
	s := testSpec(t)
	s.ConfigFiles = map[string]component.ConfigFile{"one": {Content: "x"}}
	d := mustDecide(t, s, bare(), cptest.Now)
	if d.files[0].Path != machine.FilesListPath || len(d.dirs) != 1 || d.dirs[0].Path != component.FilesDir {
		t.Errorf("one file: %s is first, directories %v", d.files[0].Path, d.dirs)
	}
	theirs := bare()
	theirs.Facts.Dirs[component.FilesDir] = []string{"theirs"}
	if d := mustDecide(t, testSpec(t), theirs, cptest.Now); len(d.remove) > 0 || len(d.dirs) > 0 {
		t.Errorf("somebody else's directory: removes %q", d.remove)
	}
	left := withListing(converged(t, s))
	delete(left.Facts.Files, component.ConfigFilePath("one"))
	delete(left.Facts.Dirs, component.FilesDir)
	left.Written = map[string]machine.WrittenFile{}
	if d := mustDecide(t, testSpec(t), left, cptest.Now); !slices.Equal(d.remove, []string{machine.FilesListPath}) {
		t.Errorf("a list of no files: removes %q", d.remove)
	}
}
